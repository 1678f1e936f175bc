"""Schemas of vLLM's and SGLang's own tests, most of which say that a backend refuses them, and texts to judge them by.

What the schemas are taken from: vLLM's `test_backend_xgrammar.py`, `test_utils.py`; SGLang's `test_json_schema_validation.py`,
`test_xgrammar_unsupported_schema.py`, `test_xgrammar_pattern_length.py`. The texts are ours, and `jsonschema` judges them.
"""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

CASES: list[tuple[Any, list[str]]] = [
    ({"type": "number", "multipleOf": 120}, ["240", "0", "121"]),
    ({"type": "integer", "multipleOf": 120}, ["-120", "7", "120.5"]),
    ({"type": ["number"], "multipleOf": 3}, ["9", "10"]),
    ({"type": "number", "multipleOf": 0.5}, ["1.5", "1.25"]),
    ({"type": ["integer", "null"], "multipleOf": 2}, ["null", "4", "3"]),
    ({"type": "array", "items": {"multipleOf": 2}}, ["[2, 4]", "[2, 3]"]),
    ({"type": "array", "contains": {"type": "string"}}, ['["a"]', "[1]", '[1, "a"]']),
    ({"contains": {"type": "integer"}}, ["[1]", '["a"]', "{}"]),
    ({"items": {"type": "integer"}, "contains": {"const": 2}, "maxContains": 1}, ["[1, 2]", "[2, 2]"]),
    ({"type": "array", "minContains": 1}, ["[]", "[1]"]),
    ({"type": "array", "maxContains": 5}, ["[]", "[1]"]),
    (
        {"type": ["array", "null"], "items": {"type": "integer"}, "uniqueItems": True},
        ["null", "[1, 2]", "[1, 1]"],
    ),
    ({"type": "array", "prefixItems": [{"type": "string"}], "minItems": 2}, ['["a"]', '["a", 1]', "[1, 1]"]),
    ({"type": "string", "pattern": "^a+$", "maxLength": 2}, ['"a"', '"aa"', '"aaa"', '"b"']),
    ({"type": "string", "pattern": "^a+$", "minLength": 3}, ['"aa"', '"aaa"']),
    ({"type": ["string", "null"], "pattern": "^a+$", "maxLength": 2}, ["null", '"aa"', '"aaa"']),
    ({"type": "string", "pattern": "^[a-z]+$", "minLength": 5, "maxLength": 6}, ['"abcd"', '"abcde"']),
    ({"type": "string", "format": "email", "maxLength": 10}, ['"a@b.cz"', '"abcdefgh@b.cz"', '"ab"']),
    (
        {"type": "string", "format": "uuid", "pattern": "^a"},
        ['"a2345678-1234-4234-8234-123456789012"', '"b2345678-1234-4234-8234-123456789012"'],
    ),
    (
        {
            "type": "object",
            "propertyNames": {"pattern": "^grade_[0-9]$"},
            "patternProperties": {"^grade_[0-9]+$": {"type": "integer"}},
        },
        ['{"grade_1": 1}', '{"grade_12": 1}', '{"grade_1": "a"}', "{}"],
    ),
    (
        {"type": "object", "patternProperties": {"^grade_[0-9]+$": {"type": "integer"}}},
        ['{"grade_1": 5}', '{"grade_1": "five"}'],
    ),
    ({"type": ["object", "null"], "patternProperties": {"^S": {"type": "string"}}}, ["null", '{"S": 1}']),
    (
        {"type": "object", "propertyNames": {"pattern": "^a+$", "maxLength": 2}},
        ['{"a": 1}', '{"aaa": 1}', '{"b": 1}'],
    ),
    ({"propertyNames": {"pattern": "^x"}}, ['{"x1": 1}', '{"y": 1}', "1"]),
    (
        {"type": "object", "propertyNames": {"enum": ["good"]}, "properties": {"Bad": {"type": "integer"}}},
        ['{"good": 1}', '{"Bad": 1}', "{}"],
    ),
    (
        {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "unevaluatedProperties": False},
        ["{}", '{"a": 1}'],
    ),
    (
        {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "unevaluatedProperties": {"type": "integer"}},
        ['{"a": 1}', '{"a": "b"}', '{"A": 1}'],
    ),
    (
        {"type": "object", "propertyNames": {"pattern": "^[a-z_]+$"}, "additionalProperties": {"type": "integer"}},
        ['{"score": 5}', '{"Score": 5}', '{"score": "seven"}'],
    ),
    (
        {
            "type": "object",
            "patternProperties": {"^x$": {"type": "integer"}},
            "properties": {"x": {"type": "string"}},
        },
        ['{"x": 1}', '{"x": "a"}', '{"y": 1}', "{}"],
    ),
    (
        {
            "type": "object",
            "patternProperties": {"^a[a-z]*$": {"type": "string"}, "^[a-z]*z$": {"type": "integer"}},
        },
        ['{"ab": "c"}', '{"ab": 1}', '{"az": 1}', '{"bz": 1}'],
    ),
    ({"allOf": [{"type": "string"}, {"enum": ["yes", "no"]}]}, ['"yes"', '"maybe"', "1"]),
    ({"allOf": [{"type": "string"}, {"minLength": 2}, {"maxLength": 10}]}, ['"a"', '"ab"', "1"]),
    ({"allOf": [{"type": "integer"}, {"minimum": 0}]}, ["1", "-1", "1.5"]),
    (
        {"type": "object", "properties": {"answer": {"allOf": [{"type": "string"}, {"enum": ["yes", "no"]}]}}},
        ['{"answer": "yes"}', '{"answer": "x"}'],
    ),
    (
        {
            "$defs": {
                "Base": {
                    "type": "object",
                    "properties": {"x": {"type": "integer", "minimum": 10}},
                    "required": ["x"],
                }
            },
            "allOf": [
                {"$ref": "#/$defs/Base"},
                {"type": "object", "properties": {"y": {"type": "string"}}, "required": ["y"]},
            ],
        },
        ['{"x": 10, "y": "a"}', '{"x": 9, "y": "a"}', '{"x": 10}'],
    ),
    (
        {
            "type": "object",
            "properties": {"modifier": {"enum": ["", "dark"]}},
            "anyOf": [{"required": ["modifier"]}],
            "additionalProperties": False,
        },
        ['{"modifier": "dark"}', "{}", '{"modifier": "x"}'],
    ),
    (
        {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        ['{"a": 1}', '{"b": 1}', '{"a": 1, "b": 1}', "{}"],
    ),
    (
        {"type": "object", "properties": {"x": {"type": "string", "anyOf": [{"minLength": 1}]}}},
        ['{"x": ""}', '{"x": "a"}'],
    ),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, ['"a"', "1", "true"]),
    ({"oneOf": [{"type": "integer", "minimum": 0, "maximum": 100}]}, ["5", "101"]),
    ({"oneOf": [{"type": "number"}, {"minimum": 0}]}, ["5", "-5", '"a"']),
    (
        {
            "oneOf": [
                {"type": "integer", "minimum": 0, "maximum": 100},
                {"type": "string", "enum": ["auto", "none"]},
            ]
        },
        ["5", '"auto"', '"x"'],
    ),
    ({"type": "object", "properties": {"allOf": {"type": "string"}}}, ['{"allOf": "a"}', '{"allOf": 1}']),
    ({"title": "Maybe", "default": None, "anyOf": [{"type": "string"}, {"type": "null"}]}, ['"a"', "null", "1"]),
    ({"$defs": {"A": {"type": "string"}}, "oneOf": [{"$ref": "#/$defs/A"}]}, ['"a"', "1"]),
    (
        {
            "discriminator": {"propertyName": "kind"},
            "oneOf": [
                {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
                {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]},
            ],
        },
        ['{"kind": "a"}', '{"kind": "c"}', "{}"],
    ),
    (
        {"type": ["string", "null"], "anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
        ['"abc"', '"abcd"', "null"],
    ),
    ({"dependentRequired": {"a": ["b"]}}, ['{"a": 1, "b": 1}', '{"a": 1}', '{"b": 1}']),
    (
        {"properties": {"a": True}, "dependentSchemas": {"a": {"properties": {"b": {"type": "string"}}}}},
        ['{"a": 1, "b": "x"}', '{"a": 1, "b": 1}', '{"b": 1}'],
    ),
    ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "integer"}}, ['"a"', '"ab"', "1"]),
    ({"not": {"type": "string"}}, ["1", '"a"']),
    ({"const": {"multipleOf": 2}}, ['{"multipleOf": 2}', '{"multipleOf": 3}']),
]  # fmt: skip
"""Schemas that are enforced, each with texts of which some are valid."""

REFUSED: list[tuple[Any, str]] = [
    ({"type": "array", "items": {"type": "object"}, "uniqueItems": True, "minItems": 30}, "#/uniqueItems"),
    ({"type": "string", "anyOf": [{"type": "integer"}]}, "no value satisfies"),
    (
        {
            "type": "object",
            "propertyNames": {"pattern": "^[a-z]+$"},
            "properties": {"Bad": {"type": "integer"}},
            "required": ["Bad"],
        },
        "no value satisfies",
    ),
    ({"anyOf": []}, "#/anyOf"),
    ({"properties": {"name": {"type": "str"}}}, "#/properties/name/type"),
    ({"properties": {"a/b~c": {"pattern": "(a)\\1"}}}, "#/properties/a~1b~0c/pattern"),
]
"""Schemas that are refused, and what the error says."""


def valid(schema: Any, text: str) -> bool:
    """Whether a text satisfies a schema, formats included."""
    checker = Draft202012Validator.FORMAT_CHECKER
    return Draft202012Validator(schema, format_checker=checker).is_valid(json.loads(text))
