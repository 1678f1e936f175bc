"""A number that is allowed satisfies the schema as the float that `json.loads` makes of it, and every float that does has a text."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from constrained import json_schema
from tests.grammars.json_schema.test_contents import accepted, draws
from tests.support.examples import examples

NUMBER: dict[str, Any] = {"type": "number"}
LIST: dict[str, Any] = {"type": "array", "uniqueItems": True, "items": NUMBER}
LITTLE = f"0.{'0' * 330}1"

# Schema, texts whose floats satisfy it, texts whose floats do not.
CASES: list[tuple[dict[str, Any], list[str], list[str]]] = [
    (
        {**NUMBER, "exclusiveMaximum": 1},
        ["0.9999999999999999", "0.99999999999999989", "0.30000000000000004", "-5"],
        ["0.99999999999999999999", "1.0"],
    ),
    (
        {**NUMBER, "exclusiveMinimum": 0.1, "exclusiveMaximum": 0.3},
        ["0.2", "0.10000000000000002", "0.29999999999999993"],
        ["0.1", "0.10000000000000000001", "0.29999999999999999999"],
    ),
    (
        {**NUMBER, "exclusiveMinimum": 0},
        ["5e-324", "1e-300", "2.2250738585072014e-308", "1.7976931348623157e+308", "0.00001"],
        ["1e-400", "0.0", "-1", LITTLE, f"{LITTLE}e-9", "2e-324"],
    ),
    ({**NUMBER, "exclusiveMinimum": 0, "maximum": 9}, ["0.5", "0." + "0" * 300 + "1"], [LITTLE, "0"]),
    ({**NUMBER, "exclusiveMaximum": 0}, ["-5e-324", "-0.5"], ["-1e-400", "0"]),
    ({**NUMBER, "minimum": 2**53 + 1}, ["9007199254740993", "9007199254740994.0"], ["9007199254740993.0"]),
    (
        {**NUMBER, "exclusiveMaximum": 2**53 + 2},
        ["9007199254740993", "9007199254740992.0"],
        ["9007199254740993.5"],
    ),
    ({**NUMBER, "maximum": 1e300}, ["1" + "0" * 300], ["2" + "0" * 300]),
    ({**NUMBER, "multipleOf": 3}, ["9007199254740993", "9.0", "3.000"], ["9007199254740993.0", "4"]),
    ({**NUMBER, "multipleOf": 100}, ["300.0", "99999999999999900"], ["99999999999999900.0", "50"]),
    ({**NUMBER, "multipleOf": 0.01}, ["19.99", "1234567890123.45", "9007199254740993"], ["9007199254740993.25"]),
    (
        {**NUMBER, "not": {"type": "integer"}},
        ["0.1", "0.30000000000000004", "123456789.123456789", "99999999999999.5", "0.0000001", "999.99999999999"],
        ["9007199254740993.5", "1.0", "1.00000000000000000001", "0.99999999999999999", "1.99999999999999999", LITTLE],
    ),
    ({**NUMBER, "multipleOf": 0.25, "not": {"type": "integer"}}, ["0.75", "1234567890123.25"], ["5522203678217997.75", "2"]),
    ({**NUMBER, "not": {"const": 0.5}}, ["0.5000000000000001", "0.25"], ["0.50000000000000000001", "0.49999999999999999999"]),
    ({**NUMBER, "not": {"enum": [0, 3]}}, ["0.00001", "3.0000000000000004"], ["0.0", LITTLE, "3.00000000000000000001"]),
    ({**NUMBER, "not": {"multipleOf": 3}}, ["0.5", "2.9999", "1", "9007199254740994"], ["3.00000000000000000001", "9007199254740995.0"]),
    ({**NUMBER, "not": {"multipleOf": 0.1}}, ["0.15", "0.2500001"], ["0.10000000000000000000001", "0.2"]),
    (LIST, ["[0.1,0.2]", "[1,2.5,0.000001]", "[123456789.123456,3]"], ["[0.1,0.10000000000000000001]", "[0.1,0.1]"]),
    ({**NUMBER}, ["4.481353266436462e+280", "9.630377712330875e-216", "5e-324"], []),
]  # fmt: skip


@pytest.mark.parametrize("digits", [None, 24])
@pytest.mark.parametrize(("schema", "right", "wrong"), CASES)
def test_the_float_of_a_text_satisfies_the_schema(
    schema: dict[str, Any], right: list[str], wrong: list[str], digits: int | None
) -> None:
    constraint = json_schema(schema, max_digits=digits)
    for text in right:
        assert accepted(constraint, text) or len(text) > 300, text
    for text in wrong:
        assert not accepted(constraint, text), text
    for text in draws(constraint, examples(40)):
        assert satisfied(schema, json.loads(text)), text


def satisfied(schema: dict[str, Any], value: Any) -> bool:
    """By jsonschema; it divides floats, so multiples of 0.1 and the like by the number that a float is written as."""
    step = schema.get("multipleOf") or schema.get("not", {}).get("multipleOf") or 1
    if Fraction(step) == Fraction(repr(step)):
        return bool(Draft202012Validator(schema).is_valid(value))
    return ((Fraction(repr(value)) / Fraction(repr(step))).denominator == 1) == ("multipleOf" in schema)


@settings(max_examples=examples(80))
@given(
    st.floats(-1e6, 1e6),
    st.booleans(),
    st.sampled_from(["exclusiveMinimum", "exclusiveMaximum", "minimum", "maximum"]),
    st.integers(0, 2**32),
)
def test_floats_next_to_a_bound(bound: float, near: bool, keyword: str, seed: int) -> None:
    draw = random.Random(seed)
    schema = {**NUMBER, keyword: bound}
    constraint = json_schema(schema)
    for _ in range(4):
        value = (
            bound + draw.choice([0.0, 1e-9, -1e-9, 1e-16 * abs(bound), -1e-16 * abs(bound)])
            if near
            else draw.uniform(-1e6, 1e6)
        )
        text = format(Decimal(repr(value)), "f")
        assert accepted(constraint, text) == satisfied(schema, float(text)), text
        longer = f"{text if '.' in text else text + '.'}{draw.choice(['', '00000000001', '9999999999999'])}"
        if accepted(constraint, longer):
            assert satisfied(schema, json.loads(longer)), longer
