"""Large schemas: their errors come at once, whatever the caller does to the schema afterwards changes nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from constrained.automaton import compile_grammar
from constrained.grammars.errors import ConstraintError, UnsupportedConstraint
from constrained.grammars.json_schema import lower_schema
from tests.support.finite import byte_vocabulary


def large(corner: Any = True) -> dict[str, Any]:
    """A schema of some 3,000 subschemas, one of them `corner`."""
    members = {"name": {"type": "string"}, "age": {"type": "integer"}}
    part = {"type": "object", "properties": members, "required": ["name"]}
    parts: dict[str, Any] = {f"part_{i}": copy.deepcopy(part) for i in range(1_000)}
    deep = {"type": "object", "properties": {"corner": corner}, "required": ["corner"]}
    return {"type": "object", "properties": {**parts, "far": {"type": "array", "items": deep}}}


def test_what_the_caller_does_to_the_schema_afterwards_changes_nothing() -> None:
    schema = large()
    lowered = lower_schema(schema)
    schema["properties"]["part_7"]["properties"]["name"]["type"] = "nonsense"
    schema["properties"]["part_7"]["required"].clear()
    automaton = compile_grammar(lowered.grammar, byte_vocabulary())
    assert not automaton.walk(automaton.start, list(b'{"part_7": {}'))[12:]
    assert len(automaton.walk(automaton.start, list(b'{"part_7": {"name": ""}}'))) == 24


def test_an_object_in_two_places_is_two_schemas() -> None:
    """Python objects may be shared where JSON text never is."""
    shared: dict[str, Any] = {"type": "object", "properties": {"a": {"pattern": "(a)\\1"}}}
    with pytest.raises(UnsupportedConstraint):
        lower_schema({"properties": {"a": {"type": "object", "properties": {"b": shared}}, "c": shared}})


@pytest.mark.parametrize(
    "corner",
    [
        {"pattern": "(a)\\1"},
        {"pattern": "("},
        {"$ref": "#/nowhere"},
        {"minItems": 3, "maxItems": 2, "type": "array"},
    ],
    ids=str,
)
def test_an_error_in_a_far_corner_is_raised_at_once(corner: Any) -> None:
    schema = large(corner)
    if "minItems" in corner:  # no value there, but others elsewhere
        assert lower_schema(schema).grammar
        return
    with pytest.raises(ConstraintError) as caught:
        lower_schema(schema)
    assert "#/properties/far/items/properties/corner" in str(caught.value)
