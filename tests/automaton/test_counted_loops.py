"""Loops over several counts of one part, against Python's `re`: unions inside of them ask whether the loop contains the part."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.automaton import compile
from constrained.constraint import Constraint, gbnf, regex
from constrained.errors import ConstraintTooLarge
from tests.support.examples import examples
from tests.support.finite import byte_vocabulary
from tests.support.reading import accepts

BYTES = byte_vocabulary()

parts = st.sampled_from(["a", "ab", "a?b", "(?:ab|b)", "(?:(?:a|bb){2})"])
bounds = st.tuples(st.integers(0, 5), st.integers(0, 3)).map(lambda pair: (pair[0], sum(pair)))


@st.composite
def loops(draw: st.DrawFn) -> str:
    part = draw(parts)
    counted = [f"(?:{part}){{{low},{high}}}" for low, high in draw(st.lists(bounds, min_size=2, max_size=4))]
    others = draw(st.lists(parts, max_size=1))
    loop = f"(?:{'|'.join([*counted, *others])})*"
    if draw(st.booleans()):
        loop = f"(?:{loop}{draw(parts)}|{draw(parts)}{{7,8}})*"
    return loop + draw(st.sampled_from(["", "c", part]))


def matches(pattern: str, text: str) -> bool:
    return accepts(compile(regex(pattern), BYTES), text)


@given(loops(), st.lists(st.text("abc", max_size=12), min_size=6, max_size=6))
@settings(max_examples=examples(60))
def test_texts_are_those_of_the_re_module(pattern: str, texts: list[str]) -> None:
    for text in [*texts, "ab" * 4, "ab" * 6, "a" * 9, "b" * 8 + "c"]:
        assert matches(pattern, text) == (re.fullmatch(pattern, text) is not None), text


@pytest.mark.parametrize(
    "pattern", ["((ab){5,6}|(ab){1,3})*", "((ab){5,6}|(ab){0,3})*c", "((ab){4}(ab)*|(ab){2})*"]
)
def test_counts_of_the_loop_that_is_being_asked_about(pattern: str) -> None:
    """Whether the loop contains `ab` depends on unions that ask the same: this once recursed without end."""
    for count in range(9):
        for end in ("", "a", "c"):
            text = "ab" * count + end
            assert matches(pattern, text) == (re.fullmatch(pattern, text) is not None), text


def nested(depth: int) -> Constraint:
    rules = "\n".join(f"r{i} ::= (r{i + 1}{{5,6}} | r{i + 1}{{1,3}})+" for i in range(depth))
    return gbnf(f'root ::= r0\n{rules}\nr{depth} ::= "ab"')


def test_loops_inside_of_loops() -> None:
    assert accepts(compile(nested(12), BYTES), "ab" * 5)


@pytest.mark.ci
@pytest.mark.parametrize("depth", [300, 3000])
def test_very_many_of_them_are_refused(depth: int) -> None:
    with pytest.raises(ConstraintTooLarge):
        compile(nested(depth), BYTES)
