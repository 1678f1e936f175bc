"""Copies of schemas in native code, against `json`: the same text and an equal value, or left to the walk in Python."""

from __future__ import annotations

import enum
import json
import math
import random
from collections import OrderedDict
from typing import Any

import pytest

from constrained.constraint.json_text import copy_schema
from constrained.grammars._core import copy_json
from tests.support.examples import examples

STRINGS = ["", "a", '"', "\\", "/", "\x00\x1f\x7f", "\b\f\n\r\t", "é\u2028\ufeff", "😀"]
NUMBERS = [0, -1, 10**30, 0.0, -0.0, 1.0, 1e16, 1e-7, 5e-324, 1.7976931348623157e308, True, False, None]


def random_value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(4) if depth else rng.randrange(2)
    if kind == 0:
        return rng.choice(NUMBERS)
    if kind == 1:
        return "".join(rng.choices(STRINGS, k=rng.randrange(4)))
    items = [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return items if kind == 2 else {f"{rng.choice(STRINGS)}{i}": item for i, item in enumerate(items)}


def containers(value: Any) -> list[int]:
    """The identities of all lists and dicts of a value."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    here = [id(value)] if isinstance(value, (dict, list)) else []
    return [*here, *(found for part in parts for found in containers(part))]


def test_random_values() -> None:
    for seed in range(examples(500)):
        value = random_value(random.Random(seed), 4)
        copied = copy_json(value)
        assert copied is not None
        copy, text = copied
        assert text == json.dumps(value, ensure_ascii=False)
        assert json.dumps(copy, ensure_ascii=False) == text
        assert set(containers(copy)).isdisjoint(containers(value))
        assert copy_schema(value) == (copy, text)


def test_a_part_that_stands_twice_is_copied_twice() -> None:
    part = {"type": "string"}
    copied = copy_json({"a": part, "b": [part, part]})
    assert copied is not None
    assert len(set(containers(copied[0]))) == 5


class _Kind(str, enum.Enum):
    A = "a"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        (1,), {1: 2}, {_Kind.A: 1}, _Kind.A, OrderedDict(a=1), "\ud800", {"\ud800": 1}, math.nan, -math.inf, b"a",
        10**5000, nested(201), {"a": {1}},
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_not_plain_json_is_left_alone(value: Any) -> None:
    assert copy_json(value) is None
    assert copy_json([{"a": value}]) is None


def test_a_value_that_contains_itself_is_left_alone() -> None:
    value: list[Any] = []
    value.append({"a": value})
    assert copy_json(value) is None


def test_the_deepest_copy() -> None:
    assert copy_json(nested(200)) == (nested(200), json.dumps(nested(200)))
