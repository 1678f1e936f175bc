"""A schema without values says why: "endlessly recursive" only where every value would contain itself."""

from __future__ import annotations

from typing import Any

import pytest

from constrained import json_schema
from constrained.errors import UnsatisfiableConstraint

NONE = {"type": "object", "minProperties": 1}
ITSELF = {"a": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/a"}}}}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({**NONE, "propertyNames": {"type": "integer"}}, "at least 1 properties are required, and at most 0 are possible"),
        ({**NONE, "propertyNames": False}, "at most 0 are possible"),
        ({**NONE, "properties": {"a": False}, "additionalProperties": False}, "at most 0 are possible"),
        ({**NONE, "minProperties": 2, "properties": {"a": {}}, "additionalProperties": False}, "at most 1 are possible"),
        ({**NONE, "maxProperties": 0, "not": {"required": ["a"], "properties": {"a": {"type": "integer"}}}}, "exclude each other"),
        ({"$ref": "#/$defs/a", "$defs": ITSELF}, "endlessly recursive"),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "endlessly recursive"),
        ({"type": "array", "enum": ["a", "b"]}, "put the enum into items"),
        ({"type": "array", "enum": [["a"]], "minItems": 2}, "none of the enumerated values satisfies the other keywords"),
    ],
)  # fmt: skip
def test_the_reason_is_the_true_one(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsatisfiableConstraint) as caught:
        _ = json_schema(schema).grammar
    reasons = [problem.reason for problem in caught.value.problems]
    assert any(reason in said for said in reasons)
    assert any("recursive" in said for said in reasons) == ("recursive" in reason)
