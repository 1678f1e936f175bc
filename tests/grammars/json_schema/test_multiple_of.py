"""Multiples of a number are written exactly: against the arithmetic of fractions, in the core and in the judge."""

from __future__ import annotations

import contextlib
import functools
import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.automaton import TokenAutomaton, compile
from constrained.constraint import json_schema
from constrained.errors import UnsatisfiableConstraint, UnsupportedConstraint
from constrained.grammars import ir
from constrained.grammars.json_schema.text.multiple_of import (
    UnsupportedMultiples,
    multiples_of,
    numbers_beyond,
)
from constrained.grammars.json_schema.text.numbers import (
    ANY_INTEGER,
    ANY_NUMBER,
    UNBOUNDED,
    Bounds,
    exclude_numbers,
)
from tests.support.examples import examples
from tests.support.finite import byte_vocabulary
from tests.support.judge import ReferenceRecognizer
from tests.support.matching import matches

_steps = st.builds(
    lambda n, p: Decimal(n) / 10**p,
    st.sampled_from([1, 2, 3, 5, 6, 7, 10, 12, 13, 25, 30, 125, 1000, 1500]),
    st.integers(0, 3),
)
_limits = st.one_of(
    st.none(), st.builds(lambda n, d: Decimal(n) / d, st.integers(-300, 3000), st.sampled_from([1, 4, 8, 10]))
)
_bounds = st.builds(Bounds, _limits, st.booleans(), _limits, st.booleans())
_places = st.one_of(st.none(), st.integers(3, 5))
_excluded = st.lists(_steps, max_size=3)
_values = st.one_of(
    st.builds(lambda n, p: Fraction(n, 10**p), st.integers(-3000, 3000), st.integers(0, 4)),
    st.integers(-40, 400).map(Fraction),
)


@functools.cache
def vocabulary() -> Any:
    return byte_vocabulary("10", "25", ".5", "00", "12.")


def spellings(value: Fraction) -> list[tuple[str, bool]]:
    """Texts of a number, each with whether it has a fraction."""
    places = next(places for places in range(20) if (value * 10**places).denominator == 1)
    found = []
    for size in (places, places + 1, places + 3):
        digits = str(abs(int(value * 10**size))).rjust(size + 1, "0")
        text = f"{digits[:-size]}.{digits[-size:]}" if size else digits
        found += [
            (sign + text, size > 0) for sign in (["-"] if value < 0 else ["", "-"] if not value else [""])
        ]
    return found


def steps_along(automaton: TokenAutomaton, text: bytes) -> list[int]:
    """What the masks behind each byte took, those near the limit included."""
    mask, steps, state = automaton.new_mask(), [], automaton.start
    for byte in text:
        state = automaton.next(state, byte)
        automaton.fill_mask(state, mask)
        steps.append(automaton.last_work)
        shortest = automaton.shortest_completion(state)
        for budget in (shortest, shortest + 1, shortest + 10):
            automaton.fill_mask_within(state, mask, budget)
            steps.append(automaton.last_work)
    return steps


def walk(automaton: TokenAutomaton, text: str) -> bool:
    state = automaton.start
    for byte in text.encode():
        state = automaton.next(state, byte)
    return automaton.accepts(state)


@given(
    st.lists(_steps, min_size=1, max_size=2),
    _bounds,
    st.booleans(),
    _places,
    _excluded,
    st.lists(_values, min_size=6, max_size=6),
)
@settings(max_examples=examples(100), deadline=None)
def test_the_numbers_written_are_the_multiples_within_bounds(
    steps: list[Decimal],
    bounds: Bounds,
    whole: bool,
    places: int | None,
    excluded: list[Decimal],
    values: list[Fraction],
) -> None:
    try:
        regex = multiples_of(tuple(steps), bounds, whole, places, tuple(excluded))
    except UnsupportedMultiples:
        return
    automaton = None
    try:
        if not isinstance(regex, ir.EmptySet):
            automaton = TokenAutomaton(ir.Grammar.of(regex), vocabulary())
    except UnsatisfiableConstraint:
        pass
    near = [n * Fraction(steps[0]) for n in range(-4, 24)]
    for value in [*values, *near]:
        holds = bounds.contains_number(Decimal(value.numerator) / value.denominator)
        holds &= all((value / Fraction(step)).denominator == 1 for step in steps)
        holds &= all((value / Fraction(step)).denominator > 1 for step in excluded)
        for text, fraction in spellings(value):
            expected = holds and not (whole and fraction)
            expected &= places is None or len(text.partition(".")[2]) <= places
            assert matches(regex, text) == expected, text
            assert (automaton is not None and walk(automaton, text)) == expected, text


@given(_steps, st.booleans(), st.lists(_values, min_size=6, max_size=6))
@settings(max_examples=examples(40), deadline=None)
def test_all_other_numbers(step: Decimal, whole: bool, values: list[Fraction]) -> None:
    multiples = multiples_of((step,), UNBOUNDED, whole)
    regex = exclude_numbers(ANY_INTEGER if whole else ANY_NUMBER, [multiples])
    for value in [*values, Fraction(step), Fraction(3 * step)]:
        for text, fraction in spellings(value):
            expected = (value / Fraction(step)).denominator > 1 and not (whole and fraction)
            assert matches(regex, text) == expected, text


@pytest.mark.ci
@given(
    st.integers(0, 2),
    st.one_of(st.none(), st.integers(-30, 200)),
    st.one_of(st.none(), st.integers(-30, 200)),
    st.one_of(st.none(), st.integers(1, 4)),
)
@settings(max_examples=examples(40), deadline=None)
def test_numbers_with_further_places(
    places: int, low: int | None, high: int | None, most: int | None
) -> None:
    """A digit behind these places is not zero; each prefix is completed as the judge says."""
    first, last = (None if bound is None else Decimal(bound).scaleb(-places) for bound in (low, high))
    regex = numbers_beyond(places, Bounds(first, False, last, False), most)
    grammar = ir.Grammar.of(regex)
    judge, automaton = ReferenceRecognizer(grammar), None
    with contextlib.suppress(UnsatisfiableConstraint):
        automaton = TokenAutomaton(grammar, byte_vocabulary())
    for value in (Fraction(n, 10**size) for size in range(5) for n in range(-450, 2500, 23)):
        wanted = (value * 10**places).denominator > 1
        wanted &= (first is None or value >= first) and (last is None or value <= last)
        for text, _ in spellings(value):
            expected = wanted and (most is None or len(text.partition(".")[2]) <= most)
            assert matches(regex, text) == expected, text
            assert (automaton is not None and walk(automaton, text)) == expected, text
    if automaton is None:
        return
    for text in (b"", b"0", b"-", b"-0.", b"1", b"12.", b"0.00", b"3.05", b"19.990", b"-0.3"):
        left, state = judge.after(text), automaton.start
        for byte in text:
            state = automaton.next(state, byte)
        assert (left is None) == (state == 0), text
        assert left is None or automaton.shortest_completion(state) == len(judge.shortest(left)), text


@given(_steps, _bounds, st.booleans(), _places, _excluded)
@settings(max_examples=examples(30), deadline=None)
def test_every_prefix_has_a_completion(
    step: Decimal, bounds: Bounds, whole: bool, places: int | None, excluded: list[Decimal]
) -> None:
    """From every state that is reached, some text of at most so many bytes completes the number: as the judge says."""
    try:
        regex = multiples_of((step,), bounds, whole, places, tuple(excluded))
    except UnsupportedMultiples:
        return
    if isinstance(regex, ir.EmptySet):
        return
    grammar = ir.Grammar.of(regex)
    judge = ReferenceRecognizer(grammar)
    try:
        automaton = TokenAutomaton(grammar, byte_vocabulary())
    except UnsatisfiableConstraint:
        return
    states = [(b"", automaton.start)]
    for text, state in states:
        left = judge.after(text)
        assert left is not None
        assert automaton.shortest_completion(state) == len(judge.shortest(left)), text
        for byte in b"-.0123456789":
            after = automaton.next(state, byte)
            assert (judge.after(text + bytes((byte,))) is not None) == (after != 0), text
            if after and len(text) < 2:
                states.append((text + bytes((byte,)), after))
        if len(states) > 150:
            break


def test_zeros_at_the_end_of_a_step_are_no_remainders() -> None:
    step = Decimal("86400e20")
    regex = multiples_of((step,), Bounds(Decimal(5) * step, False, None, False), True)
    automaton = TokenAutomaton(ir.Grammar.of(regex), vocabulary())
    for n in (5, 6, 123_456_789):
        assert walk(automaton, str(n * int(step)))
        assert not walk(automaton, str(n * int(step) + 1))
    for n in (0, 1, 4):
        assert not walk(automaton, str(n * int(step)))


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"type": "integer", "multipleOf": 65537}, "131074", "131075"),
        ({"type": "number", "multipleOf": 1.0007}, "2.0014", "2.0015"),
        ({"type": "integer", "allOf": [{"multipleOf": n} for n in (97, 101, 103)]}, "1009091", "97"),
        ({"type": "number", "not": {"anyOf": [{"multipleOf": n} for n in (97, 101, 103)]}}, "98", "202"),
        ({"type": "number", "multipleOf": 0.01, "not": {"multipleOf": 101}}, "100.99", "202"),
        ({"type": "integer", "multipleOf": 99, "minimum": 10**300}, "99" + 300 * "0", "98" + 300 * "0"),
        ({"type": "number", "multipleOf": 10**60 + 7}, str(10**60 + 7), str(10**60)),
    ],
    ids=str,
)
def test_too_many_remainders_are_refused_or_checked_afterwards(
    schema: dict[str, Any], valid: str, invalid: str
) -> None:
    """The error names each step and the bound; with ``unsupported="check"`` the finished number is validated."""
    with pytest.raises(UnsupportedConstraint, match="remainders") as refused:
        compile(json_schema({"properties": {"n": schema}}), vocabulary())
    assert "unsupported='check'" in (refused.value.action or "")
    steps = [part.value for part in refused.value.problems]
    assert steps == _steps_in(schema)
    assert all(part.place.startswith("#/properties/n/") for part in refused.value.problems)
    checked = json_schema(schema, unsupported="check")
    assert checked.parse(valid) == json.loads(valid)
    with pytest.raises(ValueError, match=r"multipleOf|not"):
        checked.parse(invalid)


def _steps_in(schema: Any) -> list[Any]:
    if isinstance(schema, list):
        return [step for part in schema for step in _steps_in(part)]
    if not isinstance(schema, dict):
        return []
    own = [schema["multipleOf"]] if "multipleOf" in schema else []
    return own + [step for part in schema.values() for step in _steps_in(part)]


@pytest.mark.parametrize("step", ["1e-6", "0.4093", "4093", "86400", "1024"])
def test_steps_with_few_remainders_are_enforced(step: str) -> None:
    automaton = compile(json_schema(f'{{"type": "number", "multipleOf": {step}}}'), vocabulary())
    for factor in (0, 1, 3, 12_345):
        assert walk(automaton, spellings(Fraction(step) * factor)[0][0])
        assert not walk(automaton, spellings(Fraction(step) * (factor + Fraction(1, 2)))[0][0])


def test_a_vocabulary_without_some_digits() -> None:
    """What cannot be spelled is no way to complete a number."""
    from constrained.vocabulary import Vocabulary

    digits = Vocabulary.from_bytes([b"0", b"1", b"2", b""], [3])
    automaton = TokenAutomaton(ir.Grammar.of(multiples_of((Decimal(7),), UNBOUNDED, True)), digits)
    state = automaton.start
    for token in (1, 1):
        state = automaton.next(state, token)
    assert automaton.shortest_completion(state) == 1  # 112
    assert automaton.accepts(automaton.next(state, 2))


_numbers = st.sampled_from([2, 3, 4, 6, 9, 10, 12, 15, 0.5, 0.25, 1.5])
_literals = st.builds(
    lambda step, negated: {"not": {"multipleOf": step}} if negated else {"multipleOf": step},
    _numbers,
    st.booleans(),
)
_branches = st.one_of(
    _literals, st.builds(lambda both: {"allOf": both}, st.lists(_literals, min_size=2, max_size=3))
)
_alternatives = st.builds(
    lambda branches: {"anyOf": branches}, st.lists(_branches, min_size=2, max_size=3, unique_by=str)
)


def holds(schema: dict[str, Any], value: Fraction) -> bool:
    """Whether a number satisfies a schema of alternatives and steps, by fractions."""
    return (
        ("multipleOf" not in schema or (value / Fraction(str(schema["multipleOf"]))).denominator == 1)
        and all(holds(part, value) for part in schema.get("allOf", ()))
        and ("anyOf" not in schema or any(holds(part, value) for part in schema["anyOf"]))
        and not ("not" in schema and holds(schema["not"], value))
        and not (schema.get("type") == "integer" and value.denominator > 1)
    )


@given(
    st.lists(_alternatives, min_size=3, max_size=4),
    st.sampled_from(["number", "integer"]),
    st.lists(_values, min_size=12, max_size=12),
)
@settings(max_examples=examples(40), deadline=None)
def test_products_of_alternatives_with_steps(
    parts: list[dict[str, Any]], kind: str, values: list[Fraction]
) -> None:
    schema = {"type": kind, "allOf": parts}
    values += [Fraction(n, 4) for n in range(-8, 100)]
    wanted = {value for value in values if holds(schema, value)}
    try:
        automaton = compile(schema, vocabulary())
    except UnsatisfiableConstraint:
        assert not wanted
        return
    for value in values:
        text, fraction = spellings(value)[0]
        if kind == "number" or not fraction:
            assert walk(automaton, text) == (value in wanted), text


def test_multiples_of_excluded_multiples_are_not_excluded_again() -> None:
    both = (Decimal(6), Decimal("1.5"))
    assert multiples_of(both, UNBOUNDED, False, None, (Decimal(4), Decimal(2))) is ir.EMPTY_SET


@pytest.mark.parametrize(
    ("step", "excluded"),
    [
        (0.61, [0.1]),
        (0.7, [2, 3]),
        (97, [3, 4]),
        (0.01, [1]),
        (None, [2, 3, 5, 7]),
        (None, [0.05, 0.07]),
    ],
)
def test_a_mask_of_multiples_beside_excluded_ones_needs_no_search(
    step: float | None, excluded: list[float]
) -> None:
    """The masks near a limit, too: what ends a number is arithmetic."""
    schema: dict[str, Any] = {"type": "number", "not": {"anyOf": [{"multipleOf": one} for one in excluded]}}
    if step is not None:
        schema["multipleOf"] = step
    automaton = compile(json_schema(schema), vocabulary())
    assert isinstance(automaton, TokenAutomaton)
    for factor in range(-40, 400, 7):
        value = Fraction(str(step or "0.001")) * factor
        wanted = all((value / Fraction(str(one))).denominator > 1 for one in excluded)
        assert walk(automaton, spellings(value)[0][0]) == wanted, value
    assert max(steps_along(automaton, b"156298925301")) < 200_000
    assert automaton.memory["states"] < 12_000


@given(
    st.one_of(st.none(), _steps),
    st.lists(_steps, min_size=1, max_size=3),
    st.booleans(),
    st.one_of(st.none(), st.integers(1, 6)),
    st.tuples(st.one_of(st.none(), st.integers(-30, 200)), st.one_of(st.none(), st.integers(-30, 2000))),
    st.lists(_values, min_size=12, max_size=12),
)
@settings(max_examples=examples(80), deadline=None)
def test_numbers_that_are_multiples_of_none(
    step: Decimal | None,
    excluded: list[Decimal],
    fractional: bool,
    max_digits: int | None,
    bounds: tuple[int | None, int | None],
    values: list[Fraction],
) -> None:
    others: list[dict[str, Any]] = [{"multipleOf": float(one)} for one in excluded]
    schema: dict[str, Any] = {"type": "number", "not": {"anyOf": others}}
    others += [{"type": "integer"}] if fractional else []
    schema |= {} if step is None else {"multipleOf": float(step)}
    schema |= {
        key: bound for key, bound in zip(("minimum", "maximum"), bounds, strict=True) if bound is not None
    }
    try:
        automaton: Any = compile(json_schema(schema, max_digits=max_digits), vocabulary())
    except UnsupportedConstraint:
        return
    except UnsatisfiableConstraint:
        automaton = None
    low, high = bounds
    for value in [*values, *(Fraction(n, 8) for n in range(-40, 200, 3))]:
        wanted = all((value / Fraction(one)).denominator > 1 for one in excluded)
        wanted &= step is None or (value / Fraction(step)).denominator == 1
        wanted &= not (fractional and value.denominator == 1)
        wanted &= (low is None or value >= low) and (high is None or value <= high)
        for text, _ in spellings(value):
            if automaton is None or max_digits is None:
                assert (automaton is not None and walk(automaton, text)) == wanted, text
            elif walk(automaton, text):
                assert wanted, text


def test_texts_of_integers_are_excluded() -> None:
    """In draft 4 1.0 is no integer: a number needs a point, for which it is searched."""
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "number",
        "not": {"type": "integer"},
    }
    for step in (7, 99.7):
        automaton = compile(schema | {"multipleOf": step}, vocabulary())
        assert walk(automaton, str(10 * step) if step == 99.7 else "14.0")
        assert not walk(automaton, "997" if step == 99.7 else "14")


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_a_mask_near_a_limit_takes_few_steps_also_with_many_remainders(kind: str) -> None:
    """Of a schema as a dict numbers have at most 24 digits: these are counted with the remainder, not searched for."""
    automaton = compile({"type": kind, "multipleOf": 0.997 if kind == "number" else 997}, vocabulary())
    assert isinstance(automaton, TokenAutomaton)
    assert max(steps_along(automaton, b"15629892")) < 50_000
    assert automaton.memory["states"] < 12_000
