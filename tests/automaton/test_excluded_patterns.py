"""Patterns that a text must not hold anywhere, against Python's `re`: which texts, and which beginnings of texts."""

from __future__ import annotations

import itertools
import json
import random
import re

import pytest

from constrained.automaton import DEAD, compile
from constrained.automaton.bitmask import allows
from constrained.constraint import json_schema, regex, structural_tag
from constrained.vocabulary import Vocabulary
from tests.support.finite import byte_vocabulary

BYTES = byte_vocabulary()
LENGTH = 7


@pytest.mark.parametrize(
    "pattern",
    [
        "(?!.*a.{2}).*",
        "(?!.*a.{3}b)[abx]*",
        "(?=.*xx$)(?!.*a.{3}).*",
        "(?!.*a.{1,2}b)(?!.*b.{2}x).{3,}",
        "(?!.*a.{4}$)(?!.*x.{2}).*",
        "(?!.*(ab|x)..).*x",
    ],
)
def test_texts_and_beginnings_are_those_of_the_re_module(pattern: str) -> None:
    """A beginning is alive if one of its texts of up to `LENGTH` letters is in the language: all of these are short."""
    automaton, expected = compile(regex(pattern), BYTES), re.compile(pattern)
    texts = ["".join(t) for n in range(LENGTH + 1) for t in itertools.product("abx", repeat=n)]
    whole = {text for text in texts if expected.fullmatch(text)}
    beginnings = {text[:end] for text in whole for end in range(len(text) + 1)}
    states = {"": automaton.start}
    for text in texts[1:]:
        before = states[text[:-1]]
        states[text] = automaton.next(before, ord(text[-1])) if before != DEAD else DEAD
    assert {text for text, state in states.items() if state != DEAD and automaton.accepts(state)} == whole
    assert beginnings <= {text for text, state in states.items() if state != DEAD}
    short = {text for text in texts if len(text) <= LENGTH - 4}  # no completion is longer than four letters
    assert {text for text in short if states[text] != DEAD} == beginnings & short


@pytest.mark.parametrize("count", [20, 60])
def test_an_excluded_pattern_costs_its_first_match(count: int) -> None:
    """Of all places where the pattern may have begun the first decides, so there are few residuals."""
    automaton = compile(json_schema({"type": "string", "not": {"pattern": f"a.{{{count}}}"}}), BYTES)
    state = automaton.start
    for byte in b'"xx' + b"aba" * 6:
        state = automaton.next(state, byte)
    assert automaton.shortest_completion(state) == 1
    rest = automaton.next(state, ord('"'))
    assert automaton.accepts(rest)
    for end in (count - 17, count - 16):  # the first `a` is at 2, 18 letters were read from it on
        text = json.dumps("xx" + "aba" * 6 + "b" * end)
        read = automaton.walk(automaton.start, list(text.encode()))
        whole = re.search(f"a.{{{count}}}", json.loads(text)) is None
        assert (len(read) == len(text) and automaton.accepts(read[-1])) == whole


def test_masks_of_free_text_behind_half_of_a_marker() -> None:
    """They are made from the mask of other free text; the judge is each token, byte by byte."""
    rng = random.Random(0)
    tokens = {bytes(rng.choice(b"<call>_ ab\n") for _ in range(rng.randrange(1, 7))) for _ in range(3000)}
    tokens |= {bytes([byte]) for byte in range(256)}
    vocabulary = Vocabulary.from_bytes([*sorted(tokens), b""], [len(tokens)])
    ids = vocabulary.ids_by_bytes
    tags = [
        {"begin": begin, "content": {"type": "const_string", "value": "ab"}, "end": ">"}
        for begin in ("<call>", "<call_a>", "_b<")
    ]
    form = {"type": "triggered_tags", "triggers": ["<call", "_b<"], "tags": tags}
    for constraint in (
        structural_tag({"type": "structural_tag", "format": form}),
        regex("(?!.*<call)(?!.*<all).*"),
    ):
        automaton = compile(constraint, vocabulary)
        for text in (
            b"",
            b"<",
            b"<c",
            b"<call",
            b"a_",
            b"_b",
            b"<cal_b",
            b"<c<cal",
            b" <a",
            b"<call>ab>",
            b"\n<al",
        ):
            state = automaton.start
            for byte in text:
                state = DEAD if state == DEAD else automaton.next(state, ids[bytes([byte])])
            if state == DEAD:
                continue
            found = automaton.new_mask()
            automaton.fill_mask(state, found)
            for number, token in enumerate(sorted(tokens)):
                at = state
                for byte in token:
                    at = DEAD if at == DEAD else automaton.next(at, ids[bytes([byte])])
                assert allows(found, number) == (at != DEAD), (text, token)
