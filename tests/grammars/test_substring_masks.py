"""Masks after prefixes that stand in many places of a document, against the list of its substrings."""

from __future__ import annotations

import json
import random

import pytest

from constrained.automaton import DEAD, TokenAutomaton, compile
from constrained.automaton.bitmask import unpack_ids
from constrained.constraint import json_schema
from constrained.grammars import ir
from constrained.grammars.text.substring import substring_regex
from tests.support.finite import byte_vocabulary


@pytest.mark.parametrize("least", [0, 3])
@pytest.mark.parametrize("letters", ["ab", "ab c", "aab\x00"])
@pytest.mark.parametrize("space", ["exact", "any"])
def test_masks_of_prefixes_with_many_occurrences(space: str, letters: str, least: int) -> None:
    rng = random.Random(f"{space} {letters} {least}")
    for _ in range(4):
        text = "".join(rng.choices(letters, k=150)) + "ab" * 20
        pieces = sorted({"".join(rng.choices("abc ", k=rng.randrange(2, 6))) for _ in range(120)})
        vocabulary = byte_vocabulary(*pieces)
        schema = {"type": "string", "x-span": {"space": space} if space == "any" else True}
        if least:
            schema["minLength"] = least
        automaton = compile(json_schema(schema).bind(text), vocabulary)
        spans = {text[i:j] for i in range(len(text)) for j in range(i + 1, min(len(text), i + 16) + 1)}
        starts = {span[:n] for span in spans if len(span) >= least for n in range(len(span) + 1)}
        prefixes = [span for span in sorted(starts) if len(span) <= 5 and "\x00" not in span]
        for prefix in rng.sample(prefixes, min(40, len(prefixes))):
            state = automaton.start
            for byte in json.dumps(prefix)[:-1].encode():
                state = automaton.next(state, byte)
            mask = automaton.new_mask()
            automaton.fill_mask(state, mask)
            allowed = {vocabulary.tokens[i].decode() for i in unpack_ids(mask) if i >= 256}
            expected = {piece for piece in pieces if prefix + piece in starts}
            if space == "exact" or "  " not in text:
                assert allowed == expected
            else:  # a run of white space may be one space too
                assert allowed >= {
                    piece for piece in pieces if prefix + piece in text and len(prefix + piece) >= least
                }


TAILS = {
    "nothing": ir.literal(""),
    "a quote and a letter": ir.concat(ir.literal('"'), ir.chars([(97, 99)])),
    "any text": ir.repeat(ir.chars([(32, 126)]), 0, 6),
}


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize(
    "options", [{}, {"any_case": True}, {"any_space": True}, {"any_case": True, "any_space": True}], ids=str
)
def test_masks_are_the_tokens_that_can_be_read(options: dict[str, bool], tail: str) -> None:
    """Bytes are read one by one for `next`, and masks are looked up in the document."""
    rng = random.Random(f"{options} {tail}")
    for letters, size in (("abAB", 300), ("ab \n", 300), ("ab  c", 300), ("aab c", 4000)):
        text = "".join(rng.choices(letters, k=size))
        pieces = {"".join(rng.choices(letters + '"', k=rng.randrange(2, 6))) for _ in range(150)}
        twins = rng.sample(sorted(pieces), 10)  # other ids for the same bytes
        vocabulary = byte_vocabulary(*sorted(pieces), *twins)
        regex = ir.concat(substring_regex(text, **options), TAILS[tail])
        automaton = TokenAutomaton(ir.Grammar.of(regex), vocabulary)
        states = {automaton.start}
        for _ in range(12):
            state = automaton.start
            for byte in text[(at := rng.randrange(len(text) - 4)) : at + 4].encode():
                state = automaton.next(state, byte)
                states.add(state)
        for state in states:
            mask = automaton.new_mask()
            automaton.fill_mask(state, mask)
            texts = range(vocabulary.size - 1)
            allowed = {token for token in texts if automaton.next(state, token) != DEAD}
            assert allowed == set(unpack_ids(mask).tolist()) - set(vocabulary.eos_ids)
