"""Prompts longer than the context are refused after a part of them; all others have the ids that they always had."""

from __future__ import annotations

import random
from typing import Any

import pytest

import constrained
from constrained import PromptTooLong
from constrained.extraction import Extractor
from constrained.prompting.context_length import check_context_length
from constrained.testing import ScriptedModel
from tests.server.serving import BYTES


class Counting:
    """Four characters a token; counts how many characters it was given."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self, text: str) -> list[int]:
        self.read += len(text)
        return [0] * (len(text) // 4)


@pytest.mark.parametrize("context", [1, 100, 2048, 10_000])
def test_the_cost_of_a_refusal_depends_on_the_context_alone(context: int) -> None:
    read = []
    for size in (1 << 20, 1 << 24):
        encode = Counting()
        with pytest.raises(PromptTooLong, match=rf"of {size}: the model reads {context} in all"):
            check_context_length("x" * size, encode, context)
        read.append(encode.read)
    assert read[0] == read[1] <= 16 * max(4096, context)


def test_a_text_that_may_have_room_is_not_refused() -> None:
    encode = Counting()
    check_context_length("x" * 400, encode, 100)
    assert not encode.read  # so short that it is encoded as it is
    check_context_length("x" * (1 << 20), encode, None)
    assert not encode.read
    check_context_length("x" * 40_000, lambda part: [0] * (len(part) // 200), 1000)  # long, but of few tokens


@pytest.mark.ci
def test_what_is_refused_has_more_tokens_than_the_context() -> None:
    """The judge encodes the whole text."""
    model = constrained.load()
    tokenizer = model.tokenizer
    rng = random.Random(0)
    letters = "  \n\t" + "ab<|>{}\"'éß中😀=-0"
    refused = 0
    for _ in range(25):
        piece = "".join(rng.choice(letters) for _ in range(rng.choice((1, 1, 2, 5, 40))))
        text = (piece * 20_000)[: rng.randrange(2_000, 60_000)]
        context = rng.randrange(50, 4000)

        def encode(part: str) -> list[int]:
            found: list[int] = tokenizer(part, add_special_tokens=False)["input_ids"]
            return found

        whole = len(encode(text))
        try:
            check_context_length(text, encode, context)
        except PromptTooLong as error:
            refused += 1
            assert whole > context, (piece, len(text))
            claimed = int(str(error).split("more than ")[1].split()[0])
            seen = int(str(error).split("first ")[1].split()[0])
            assert len(encode(text[:seen])) >= claimed
        else:
            cuts = 64 * (2 + len(text) // max(4096, context))
            assert whole <= context + cuts or len(text) <= 4 * context, (piece, len(text))
    assert 15 < refused < 60


def test_the_refusal_is_all_that_is_said() -> None:
    """Transformers' tokenizers warn once of a text over the context, and note that they have."""
    model = constrained.load()
    for prompt in ("x y" * 100_000, "x y" * 1200):  # refused after a part, and after all of it
        model.tokenizer.deprecation_warnings.clear()
        with pytest.raises(PromptTooLong):
            constrained.Generator(model, constrained.choice(["a"]))(prompt)
        assert not model.tokenizer.deprecation_warnings


@pytest.mark.parametrize("prompt", ["x y" * 100_000, [{"role": "user", "content": "x y" * 100_000}]])
def test_models_refuse_before_all_is_encoded(prompt: Any) -> None:
    tiny = constrained.load()
    scripted = ScriptedModel(BYTES, "1", context=1000)
    for model in (tiny, scripted):
        with pytest.raises(PromptTooLong, match=r"in its first \d+ characters"):
            model.encode(prompt)


def test_a_long_document_is_still_read_in_parts() -> None:
    text = "Ada was born in 1815. " * 200
    model = ScriptedModel(BYTES, '{"born": 1815}', context=600)
    schema = {"type": "object", "properties": {"born": {"type": "integer"}}, "required": ["born"]}
    found = Extractor(model, schema, long="split")(text)
    assert len(found.parts) > 5
    assert found.value == {"born": 1815}
    with pytest.raises(PromptTooLong, match='pass long="split"'):
        Extractor(model, schema)(text)
