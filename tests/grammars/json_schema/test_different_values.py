"""Different values that a schema is known to have: each is one, and enough are found for what real schemas require."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import jsonschema
import pytest

from constrained.grammars.json_schema.emit.different_values import DifferentValues
from constrained.grammars.json_schema.emit.lowering import SchemaLowering
from constrained.grammars.json_schema.source.dialects import SCHEMA_DIALECTS
from constrained.grammars.json_schema.source.document import SchemaDocument
from constrained.grammars.json_schema.text.punctuation import punctuation_for

FORMATS = ("date", "date-time", "duration", "uuid", "email", "uri", "hostname", "ipv4", "ipv6")
SCHEMAS: dict[str, Any] = {
    "anything": True,
    "any object": {"type": "object"},
    "any array": {"type": "array"},
    "numbers above": {"type": "number", "exclusiveMinimum": 0},
    "numbers below": {"type": "integer", "maximum": -7, "multipleOf": 3},
    "hundredths": {"type": "number", "minimum": 0, "maximum": 1},
    "long strings": {"type": "string", "minLength": 5},
    **{name: {"type": "string", "format": name} for name in FORMATS},
    "names and numbers": {
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 1}, "n": {"type": "integer"}},
        "required": ["name"],
        "additionalProperties": False,
    },
    "nothing required": {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "additionalProperties": False,
    },
    "so many members": {"type": "object", "minProperties": 3},
    "items within": {"type": "array", "items": {"type": "object"}, "minItems": 2, "uniqueItems": True},
    "alternatives": {"oneOf": [{"type": "object", "required": ["a"]}, {"type": "array", "minItems": 1}]},
    "a reference": {
        "$ref": "#/$defs/tree",
        "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    },
}


def different(schema: Any, **options: Any) -> tuple[DifferentValues, Any]:
    document = SchemaDocument(schema, SCHEMA_DIALECTS["2020-12"])
    lowering = SchemaLowering(document, punctuation_for("none"), **options)
    return lowering.arrays.unique_items.different, (document.root,)


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_value_is_valid_and_differs_from_the_others(name: str) -> None:
    values, conjunction = different(SCHEMAS[name])
    texts = values.texts(conjunction, 12)
    assert len(texts) == 12
    assert texts == sorted(texts, key=len)
    judge = jsonschema.Draft202012Validator(SCHEMAS[name], format_checker=jsonschema.FormatChecker())
    for text in texts:
        judge.validate(json.loads(text))
    assert jsonschema.Draft202012Validator({"uniqueItems": True}).is_valid(
        [json.loads(text) for text in texts]
    )


def test_no_more_values_are_found_than_there_are() -> None:
    values, conjunction = different({"type": "array", "items": {"type": "boolean"}, "maxItems": 1})
    assert values.texts(conjunction, 5) == [b"[]", b"[true]", b"[false]"]


def test_names_that_are_not_declared_are_not_used_where_objects_are_closed() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "boolean"}}}
    values, conjunction = different(schema, closed=True)
    assert set(values.texts(conjunction, 5)) == {b"{}", b'{"n":true}', b'{"n":false}'}


def test_work_is_bounded() -> None:
    wide = {f"p{i}": {"$ref": "#"} for i in range(60)}
    schema = {"type": "object", "properties": wide, "required": [*wide]}
    values, conjunction = different(schema)
    assert values.texts(conjunction, 60) == []


@pytest.mark.parametrize("step", [1e-300, 1e-5, 7, 1e300])
def test_multiples_may_have_more_digits_than_python_computes_with_by_default(step: float) -> None:
    values, conjunction = different({"type": "number", "minimum": 10**40, "multipleOf": step})
    texts = values.texts(conjunction, 3)
    assert len({Decimal(text.decode()) for text in texts}) == 3
    assert all(Fraction(text.decode()) / Fraction(str(step)) % 1 == 0 for text in texts)
