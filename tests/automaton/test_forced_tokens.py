"""The tokenizer's own tokens of forced text: whatever follows, they are how the tokenizer writes it."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest

import constrained
from constrained import Generator, json_schema, regex
from constrained.automaton import Automaton, compile
from constrained.automaton.forced_tokens import forced_token
from constrained.automaton.protocol import DEAD
from constrained.models import LanguageModel
from constrained.sampling import AWRS, Local
from constrained.vocabulary import Vocabulary

CONSTRAINTS = {
    "names": json_schema(
        {
            "type": "object",
            "properties": {
                "isPublic": {"type": "boolean"},
                "accountHolderName": {"type": "string", "maxLength": 5},
                "level": {"enum": ["LOW", "MEDIUM", "MEDIUM_HIGH", "café à la crème"]},
                "items": {"type": "array", "items": {"const": "thirteen"}, "maxItems": 2},
            },
            "required": ["isPublic", "accountHolderName", "level"],
            "additionalProperties": False,
        }
    ),
    "words": regex(r"(North|Northern|East)( America| Americas|ern Europe)[!?s]?"),
    "numbers": regex(r"(1234567|12345)[0-9]{0,3} (euros?|dollars)"),
}


@cache
def bundled() -> LanguageModel:
    return constrained.load()


def random_text(automaton: Automaton, draw: random.Random) -> bytes:
    """A text of the language, byte by byte."""
    single = {token[0]: id for token, id in automaton.vocabulary.ids_by_bytes.items() if len(token) == 1}
    state, text = automaton.start, b""
    for _ in range(400):
        following = [(byte, automaton.next(state, id)) for byte, id in single.items()]
        following = [(byte, after) for byte, after in following if after != DEAD]
        if automaton.accepts(state) and (not following or draw.random() < 0.5):
            break
        byte, state = draw.choice(following)
        text += bytes([byte])
    return text


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_it_is_the_first_token_of_every_text_that_can_follow(name: str) -> None:
    vocabulary = bundled().vocabulary
    automaton = compile(CONSTRAINTS[name], vocabulary)
    found = 0
    for seed in range(60):
        text = random_text(automaton, random.Random(seed))
        tokens = vocabulary.encode(text)
        states = [automaton.start, *automaton.walk(automaton.start, tokens)]
        for i, state in enumerate(states[: len(tokens)]):
            forced = forced_token(automaton, state)
            rest = vocabulary.decode(tokens[i:])
            assert forced is None or forced == vocabulary.encode(rest)[0], (text, i)
            found += forced is not None
    assert found > 60


@pytest.mark.parametrize(
    ("tokens", "forced"), [([b"ab"], b"ab"), ([b"ab", b"abc"], None), ([b"ab", b"bc"], None)]
)
def test_a_token_that_may_be_joined_with_what_follows_is_left_open(
    tokens: list[bytes], forced: bytes | None
) -> None:
    table = [b"a", b"b", b"c", *tokens, b""]
    vocabulary = Vocabulary(table, [len(table) - 1], encoder=lambda text: [table.index(text.encode())])
    automaton = compile(regex("ab(c|b)"), vocabulary)
    found = forced_token(automaton, automaton.start)
    assert (None if found is None else table[found]) == forced


def test_a_vocabulary_without_a_tokenizer_has_none() -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"ab", b""], [3])
    automaton = compile(regex("ab"), vocabulary)
    assert forced_token(automaton, automaton.start) is None


def names_of(spelling: Any, seed: int) -> Any:
    generator = Generator(bundled(), CONSTRAINTS["names"], sampler=Local(spelling=spelling))
    return generator("An account:", max_tokens=80, temperature=2.0, seed=seed)


def test_names_are_spelled_as_the_tokenizer_writes_them_at_any_temperature() -> None:
    name = bundled().vocabulary.encode("accountHolderName")

    def spelled(out: Any) -> bool:
        return any(list(out.tokens[i : i + len(name)]) == name for i in range(len(out.tokens)))

    assert all(spelled(names_of("canonical", seed)) for seed in range(6))
    assert not all(spelled(names_of("any", seed)) for seed in range(6))


def test_a_token_limit_comes_before_the_spelling() -> None:
    """Near the limit the canonical token may be too short: the text is whole all the same."""
    generator = Generator(bundled(), CONSTRAINTS["names"])
    least = generator.automaton.shortest_completion(generator.automaton.start)
    assert CONSTRAINTS["names"].parse(generator("An account:", max_tokens=least).text)


def test_other_samplers_and_sets_have_all_spellings() -> None:
    assert Local().canonical
    assert not Local(spelling="any").canonical
    assert not Local().weighted().canonical
    assert not AWRS().canonical


def test_another_spelling_is_refused() -> None:
    with pytest.raises(constrained.InvalidArgument, match="spelling is 'exact'"):
        Local(spelling="exact")  # type: ignore[arg-type]


def test_the_name_of_a_special_token_in_a_tag_is_that_token() -> None:
    """The text of a tag is forced; the tokens that spell its characters are not those that a model was trained to write."""
    vocabulary = bundled().vocabulary
    name = next(name for name, token in vocabulary.special.items() if token not in vocabulary.eos_ids)
    content = {"type": "json_schema", "json_schema": {"type": "integer"}}
    tag = {"type": "tag", "begin": name, "content": content, "end": "\n"}
    sequence = {"type": "sequence", "elements": [{"type": "const_string", "value": "so "}, tag]}
    constraint = constrained.structural_tag({"type": "structural_tag", "format": sequence})
    automaton = compile(constraint, vocabulary)
    written, state = list[int](), automaton.start
    while (token := forced_token(automaton, state)) is not None:
        written.append(token)
        state = automaton.next(state, token)
    assert written == [*vocabulary.encode("so "), vocabulary.special[name]]


def test_each_name_of_several_is_its_token_and_text_that_may_be_no_token_is_spelled() -> None:
    vocabulary = bundled().vocabulary
    first, second = [name for name, token in vocabulary.special.items() if token not in vocabulary.eos_ids][
        :2
    ]
    content = {"type": "json_schema", "json_schema": {"const": first}}
    inner = {"type": "tag", "begin": second, "content": content, "end": "\n"}
    tag = {"type": "tag", "begin": first, "content": inner, "end": "\n"}
    automaton = compile(constrained.structural_tag({"type": "structural_tag", "format": tag}), vocabulary)
    state = automaton.start
    for name in (first, second):
        assert forced_token(automaton, state) == vocabulary.special[name]
        state = automaton.next(state, vocabulary.special[name])
    assert forced_token(automaton, state) != vocabulary.special[first], "a string has no special tokens"
