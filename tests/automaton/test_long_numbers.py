"""Numbers of which many remainders are told apart: masks near a limit, and what they leave behind.

No state is made between the digits of a token there, so every count is checked against the state that the token leads to, and that
against a search over texts.
"""

from __future__ import annotations

import functools
import itertools
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from constrained.automaton import TokenAutomaton, compile
from constrained.constraint import json_schema
from constrained.vocabulary import Vocabulary
from tests.support.examples import examples
from tests.support.finite import byte_vocabulary

LONG = 7606697698376886


def excluding(step: float | None, *others: float) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "number", "not": {"anyOf": [{"multipleOf": one} for one in others]}}
    return schema if step is None else schema | {"multipleOf": step}


SCHEMAS: list[dict[str, Any]] = [
    {"type": "number", "multipleOf": LONG},
    {"type": "array", "items": {"type": "number", "multipleOf": 7606.697}, "minItems": 3},
    {"type": "array", "items": excluding(16381, 2, 3, 5), "minItems": 2},
    {"type": "number", "oneOf": [{"multipleOf": 1.009}, {"multipleOf": 1.3}, {"multipleOf": 1.7}]},
    {
        "anyOf": [
            {"type": "array", "items": {"type": "number", "multipleOf": 50.21}, "minItems": 2},
            {"type": "array", "items": {"type": "number", "multipleOf": 9999.1}, "minItems": 3},
        ]
    },
    {
        "type": "object",
        "properties": {
            "a": {"type": "number", "multipleOf": 76066976.98},
            "b": {"type": "number", "multipleOf": LONG * 1000},
        },
        "required": ["a", "b"],
    },
    {"type": "number", "multipleOf": 65521, "minimum": 0, "maximum": 10**21},
    {"type": "integer", "not": {"anyOf": [{"multipleOf": n} for n in (2, 3, 5, 7, 11, 13)]}},
    {"type": "number", "multipleOf": 50.21, "maximum": 4000, "minimum": -300},
    excluding(None, 0.01, 0.0007, 7.0001),
    {"type": "array", "items": excluding(None, 2, 3, 5, 7, 11, 13) | {"minimum": -7.5}, "minItems": 3},
    {"anyOf": [{"type": "number", "multipleOf": LONG}, {"type": "string"}, {"const": 12}]},
]


TAILS = {
    "type": "array",
    "items": {"type": "number", "not": {"oneOf": [{"multipleOf": 30}, {"not": {"multipleOf": 9.7}}]}},
    "minItems": 2,
}
"""Where one of the numbers ends, zeros of its terminal follow: such a place costs a state, and some tokens are left out for that."""


@functools.cache
def vocabulary() -> Vocabulary:
    digits = [f"{number:0{size}d}".encode() for size in (2, 3) for number in range(10**size)]
    others = [
        ".5",
        ".12",
        "1.5",
        "0.",
        "00.0",
        ", ",
        "],",
        ",1",
        "7,",
        "7]",
        "12]",
        "000]",
        ", 7",
        '{"a":',
        '"a": 1',
    ]
    tokens = [*(bytes([byte]) for byte in range(256)), *digits, *(text.encode() for text in others)]
    return Vocabulary.from_bytes([*tokens, b""], [len(tokens)])


def tokens_of(mask: Any) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist())


@pytest.mark.parametrize("schema", [*SCHEMAS, TAILS], ids=str)
def test_a_mask_near_the_limit_has_the_tokens_after_which_the_rest_fits(schema: dict[str, Any]) -> None:
    """The counts of places without states are those of the states; and no token that is allowed alone is missing."""
    automaton = compile(json_schema(schema), vocabulary())
    assert isinstance(automaton, TokenAutomaton)
    (eos,) = vocabulary().eos_ids
    mask = automaton.new_mask()
    for seed in range(examples(4)):
        rng, state = random.Random(seed), automaton.start
        for _ in range(12):
            automaton.fill_mask(state, mask)
            allowed = tokens_of(mask) - {eos}
            after = {token: automaton.next(state, token) for token in range(eos)}
            assert allowed == {token for token, reached in after.items() if reached}
            left = {token: automaton.shortest_completion(after[token]) for token in allowed}
            shortest = automaton.shortest_completion(state)
            for budget in (shortest, shortest + 1, shortest + 3):
                automaton.fill_mask_within(state, mask, budget)
                fitting = {token for token, count in left.items() if count < budget}
                kept = tokens_of(mask) - {eos}
                assert kept <= fitting
                assert schema is TAILS or kept == fitting
                assert kept or automaton.accepts(state)
            if not allowed:
                break
            few = rng.choices(sorted(allowed), k=4)
            state = after[min(few, key=lambda token: left[token]) if rng.random() < 0.6 else few[0]]


@pytest.mark.parametrize(
    ("schema", "steps", "excluded"),
    [
        ({"type": "number", "multipleOf": 50.21}, ["50.21"], []),
        (excluding(0.07, 0.21, 13, 1.7), ["0.07"], ["0.21", "13", "1.7"]),
        (excluding(4.1, 2, 3), ["4.1"], ["2", "3"]),
        (excluding(61.7, 1), ["61.7"], ["1"]),
        ({"type": "number", "anyOf": [{"multipleOf": 50.21}, {"multipleOf": 99.91}]}, ["50.21", "99.91"], []),
    ],
)
def test_the_shortest_completion_is_that_of_all_texts(
    schema: dict[str, Any], steps: list[str], excluded: list[str]
) -> None:
    automaton = compile(json_schema(schema), byte_vocabulary())

    def belongs(text: str) -> bool:
        whole, point, fraction = text.partition(".")
        if not whole or (point and not fraction) or "." in fraction or (whole[0] == "0" and len(whole) > 1):
            return False
        value = Fraction(Decimal(text))
        return any((value / Fraction(step)).denominator == 1 for step in steps) and all(
            (value / Fraction(step)).denominator > 1 for step in excluded
        )

    for prefix in ("1", "12", "30", "7.", "9.4", "61.7", "100", "0.", "88.0"):
        state = functools.reduce(automaton.next, prefix.encode(), automaton.start)
        for size in range(5):
            ends = any(
                belongs(prefix + "".join(more)) for more in itertools.product(".0123456789", repeat=size)
            )
            assert ends == (state != 0 and automaton.shortest_completion(state) == size), prefix
            if ends:
                break


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize(
    "number",
    [
        {"type": "number", "multipleOf": LONG},
        excluding(None, 2, 3, 5, 7, 11, 13),
        excluding(None, 0.01, 0.0007, 7.0001),
        excluding(1.6381, 2, 3, 7),
    ],
    ids=str,
)
def test_a_list_of_long_numbers_leaves_little_behind(number: dict[str, Any], limited: bool) -> None:
    """A residual for each byte of the text, and not for each digit of each token that is looked at, or of what completes it."""
    fresh = Vocabulary.from_bytes(list(vocabulary().tokens), vocabulary().eos_ids)
    automaton = compile(json_schema({"type": "array", "items": number, "minItems": 40}), fresh)
    assert isinstance(automaton, TokenAutomaton)
    mask, rng, state, before = automaton.new_mask(), random.Random(3), automaton.start, 0
    for step in range(100):
        if step == 20:  # what is the same at every number has been read
            before = fresh.core.memory["residuals"]
            states = automaton.memory["states"]
        shortest = automaton.shortest_completion(state) if limited else 0
        for more in (0, 1, 10) if limited else ():
            automaton.fill_mask_within(state, mask, shortest + more)
            assert automaton.last_work < 200_000
        automaton.fill_mask(state, mask)
        state = automaton.next(state, rng.choice(sorted(tokens_of(mask))))
    assert fresh.core.memory["residuals"] - before < 1_000
    assert automaton.memory["states"] - states < 1_000
