"""Constraints in the places of transformers where people already are: a repository's folder, pipelines, streamers, caches."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache, StaticCache, TextIteratorStreamer, pipeline

from constrained import ConstraintLogitsProcessor, decode, regex
from constrained.errors import InvalidArgument
from constrained.models.capabilities import cache_argument
from tests.integrations.test_transformers import PROMPTS, assistant, inputs, model, processor, texts
from tests.support.paths import ROOT
from tests.support.tiny_models import llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

pytestmark = pytest.mark.contract

REPOSITORY = str(ROOT / "examples" / "transformers" / "custom_generate_repository")
PATTERN = r"[a-z]{2,8}( [a-z]{2,8}){0,6}[.!]"
WORDS = regex(PATTERN)
LIMIT: dict[str, Any] = {"max_new_tokens": 30}


def ours(prompts: list[str] = PROMPTS, **settings: Any) -> list[str]:
    """What `decode` writes."""
    batch = inputs(prompts)
    given = {"custom_generate": decode, "constraint": WORDS, "vocabulary": llama().vocabulary}
    return texts(model().generate(**batch, **given, **LIMIT, **settings), batch)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments that name the repository; its module is copied into a folder of this test."""
    import transformers.dynamic_module_utils as modules

    monkeypatch.setattr(modules, "HF_MODULES_CACHE", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    return {"custom_generate": REPOSITORY, "trust_remote_code": True}


def test_the_folder_of_a_repository_is_decode(folder: dict[str, Any]) -> None:
    batch = inputs()
    given = {"constraint": WORDS, "vocabulary": llama().vocabulary, **folder, **LIMIT}
    assert texts(model().generate(**batch, **given), batch) == ours()
    drawn = {"do_sample": True, "top_k": 0, "seed": 3, "num_return_sequences": 2}
    assert texts(model().generate(**batch, **given, **drawn), batch) == ours(**drawn)
    with pytest.raises(InvalidArgument, match="a constraint is missing"):
        model().generate(**batch, vocabulary=llama().vocabulary, **folder, **LIMIT)
    with pytest.raises(InvalidArgument, match="pass vocabulary="):
        model().generate(**batch, constraint=WORDS, **folder, **LIMIT)


def held(cache: Any) -> dict[str, Any]:
    """A cache as the argument of `generate` that takes one: its name depends on the version of transformers."""
    name = cache_argument(model())
    assert name is not None
    return {name: cache}


def test_caches_that_the_caller_chose_change_nothing() -> None:
    batch = inputs(PROMPTS[:1])
    expected = ours(PROMPTS[:1])
    for name in ("static", "dynamic"):
        assert ours(PROMPTS[:1], cache_implementation=name) == expected
        used = processor(WORDS, max_tokens=30)
        found = model().generate(**batch, logits_processor=[used], cache_implementation=name, **LIMIT)
        assert texts(found, batch) == expected
    for cache in (DynamicCache, lambda: StaticCache(config=model().config, max_cache_len=64)):
        used = processor(WORDS, max_tokens=30)
        found = model().generate(**batch, logits_processor=[used], **held(cache()), **LIMIT)
        assert texts(found, batch) == ours(PROMPTS[:1], **held(cache())) == expected


def test_a_quantised_cache_changes_logits_but_no_constraint() -> None:
    """Texts of the masked loop satisfy the constraint; `decode` has caches of its own, so its texts stay."""
    pytest.importorskip("optimum.quanto", reason="optimum-quanto is not installed: it is in no extra")
    batch = inputs(PROMPTS[:1])
    chosen: dict[str, Any] = {
        "cache_implementation": "quantized",
        "cache_config": {"backend": "quanto", "nbits": 2, "residual_length": 4, "q_group_size": 8},
    }
    used = processor(WORDS, max_tokens=30)
    (text,) = texts(model().generate(**batch, logits_processor=[used], **chosen, **LIMIT), batch)
    assert re.fullmatch(PATTERN, text)
    assert ours(PROMPTS[:1], **chosen) == ours(PROMPTS[:1])


class RoundedCache(DynamicCache):
    """Stands in for a quantised cache where none is installed: keys and values are rounded when they are stored."""

    def update(self, keys: torch.Tensor, values: torch.Tensor, *rest: Any, **more: Any) -> Any:
        rounded = ((part * 2).round() / 2 for part in (keys, values))
        return super().update(*rounded, *rest, **more)


def test_a_cache_that_loses_digits() -> None:
    batch = inputs(PROMPTS)
    used = processor(WORDS, max_tokens=30)
    found = model().generate(**batch, logits_processor=[used], **held(RoundedCache()), **LIMIT)
    written = texts(found, batch)
    assert all(re.fullmatch(PATTERN, text) for text in written)
    assert written != ours(), "the cache did lose something"
    assert ours(**held(RoundedCache())) == ours()


def test_an_assistant_changes_no_text_of_decode() -> None:
    assert ours(PROMPTS[:1], assistant_model=assistant()) == ours(PROMPTS[:1])


@pytest.mark.slow
@pytest.mark.parametrize("way", ["module", "forward", "in place"])
@pytest.mark.filterwarnings("default")
def test_compiled_models(way: str) -> None:
    """The three ways in which models are compiled; Dynamo traces them, and its `eager` backend needs no compiler."""
    batch, expected = inputs(PROMPTS[:2]), ours(PROMPTS[:2])
    made = copy.deepcopy(model())
    settings: dict[str, Any] = {"backend": "eager", "dynamic": True}
    if way == "forward":
        made.forward = torch.compile(made.forward, **settings)
    elif way == "in place":
        made.compile(**settings)
    compiled = torch.compile(made, **settings) if way == "module" else made
    used = processor(WORDS, max_tokens=30)
    masked = compiled.generate(**batch, logits_processor=[used], **LIMIT)
    given = {"custom_generate": decode, "constraint": WORDS, "vocabulary": llama().vocabulary}
    decoded = compiled.generate(**batch, **given, **LIMIT)
    torch._dynamo.reset()
    assert texts(masked, batch) == texts(decoded, batch) == expected


def test_a_pipeline_passes_both_on() -> None:
    tokenizer = small_bpe_tokenizer()
    tokenizer.pad_token_id = llama().vocabulary.eos_ids[0]
    pipe = pipeline("text-generation", model=model(), tokenizer=tokenizer)
    greedy: dict[str, Any] = {"return_full_text": False, "do_sample": False, **LIMIT}  # by default it samples
    used = ConstraintLogitsProcessor(WORDS, llama().vocabulary, max_tokens=30)
    (masked,) = pipe("the name of", logits_processor=[used], **greedy)
    given = {"custom_generate": decode, "constraint": WORDS, "vocabulary": llama().vocabulary}
    (decoded,) = pipe("the name of", **given, **greedy)
    assert masked["generated_text"] == decoded["generated_text"]
    drawn = greedy | {"do_sample": True, "num_return_sequences": 2, "batch_size": 2}
    several = pipe(["a", "the"], **given, **drawn)
    for answer in (one for row in several for one in row):
        assert re.fullmatch(PATTERN, answer["generated_text"])


def test_a_streamer_gets_the_masked_text() -> None:
    tokenizer = small_bpe_tokenizer()
    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
    batch = inputs(["the name of"])
    used = processor(WORDS, max_tokens=30)
    found = model().generate(**batch, logits_processor=[used], streamer=streamer, **LIMIT)
    assert "".join(streamer) == texts(found, batch)[0]
