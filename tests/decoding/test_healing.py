"""Token healing: a raw prompt that ends inside a token is read as its text, and the law is that of the text."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import constrained
from constrained import Generator, InvalidArgument, choice, json_schema, regex
from constrained.decoding.healing import split_prompt
from constrained.models import LanguageModel
from constrained.sampling import Local

WORDS = ["red", "reddish", "green", "blue sky"]


@cache
def model() -> LanguageModel:
    return constrained.load()


def cut(prompt: str) -> tuple[list[int], str]:
    return split_prompt(model().encode(prompt, chat=False), model().vocabulary)


@pytest.mark.parametrize("prompt", ["The colour is ", "The colour is r", "The col", "Name: É", "a  ", "x"])
def test_what_is_taken_off_and_what_is_kept_are_the_prompt(prompt: str) -> None:
    vocabulary = model().vocabulary
    kept, begin = cut(prompt)
    assert kept
    assert vocabulary.decode(kept) + begin.encode() == vocabulary.decode(model().encode(prompt, chat=False))


def test_nothing_is_taken_off_where_no_token_reaches_beyond_the_prompt() -> None:
    tokens, vocabulary = [5], model().vocabulary
    longest = max(range(vocabulary.size), key=lambda token: len(vocabulary.tokens[token]))
    assert split_prompt([*tokens, longest], vocabulary) == ([*tokens, longest], "")


@pytest.mark.ci
@pytest.mark.parametrize("sampler", ["exact", "cars"])
def test_the_law_is_that_of_texts_that_begin_with_the_end_of_the_prompt(sampler: str) -> None:
    """The judge reads the shorter prompt, and the end of the prompt is a part of each text."""
    prompt = "Its colour is "
    kept, begin = cut(prompt)
    assert begin == " "
    healed = Generator(model(), choice(WORDS), sampler=sampler, heal=True)
    judge = Generator(model(), choice([begin + word for word in WORDS]), sampler=sampler)
    for seed in range(12):
        text = healed(prompt, temperature=1.0, seed=seed)
        other = judge(kept, temperature=1.0, seed=seed)
        assert begin + text.text == other.text
        assert text.tokens == other.tokens
        assert text.logprob == pytest.approx(other.logprob)
        assert text.value == text.text


def test_every_way_of_calling_heals() -> None:
    healed = Generator(model(), regex("[a-z]{3,8}"), heal=True, max_tokens=12)
    prompt = "Its colour is "
    text = healed(prompt).text
    assert not text.startswith(" ")
    assert healed.batch([prompt, "colour"])[0].text == text
    chunks: list[Any] = list(healed.stream(prompt))
    assert "".join(chunk.delta for chunk in chunks) == text == chunks[-1].text
    assert (
        Generator(model(), regex("[a-z]{3,8}"), heal=True, speculation="auto")(prompt, max_tokens=12).text
        == text
    )
    assert all(one.text == one.value for one in healed.sample(prompt, 4, seed=0, temperature=1.0))


def test_values_are_parsed_without_what_was_taken_off() -> None:
    schema = json_schema({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
    out = Generator(model(), schema, heal=True, sampler=Local(ends="certain"))('{"b": 1}\n', max_tokens=20)
    assert isinstance(out.value["a"], int)
    assert out.text.startswith("{")


def test_messages_are_read_as_always() -> None:
    messages = [{"role": "user", "content": "A colour: "}]
    one, other = (Generator(model(), choice(WORDS), heal=heal)(messages) for heal in (True, False))
    assert one.tokens == other.tokens


def test_what_has_no_meaning_with_it_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="on_repeat and thinking"):
        Generator(model(), choice(WORDS), heal=True, on_repeat="close")
    with pytest.raises(constrained.ConstraintError):
        Generator(model(), constrained.predicate(lambda text: True), heal=True)("The ")
