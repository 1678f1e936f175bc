"""The view of a schema that prompts and readers have: references are followed as the grammar follows them."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained import Extractor
from constrained.extraction.prompt import extraction_prompt
from constrained.grammars.json_schema.view import local_view, target_of
from constrained.models import LanguageModel

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
WAYS: dict[str, tuple[Any, dict[str, Any] | None]] = {
    "another document": ({"$ref": "http://e.org/p"}, {"http://e.org/p": PERSON}),
    "through another document": (
        {"$ref": "http://e.org/a"},
        {"http://e.org/a": {"$ref": "b#/$defs/p"}, "http://e.org/b": {"$defs": {"p": PERSON}}},
    ),
    "an anchor": ({"$ref": "#person", "$defs": {"x": {"$anchor": "person", **PERSON}}}, None),
    "an identifier": ({"$ref": "p", "$defs": {"x": {"$id": "p", **PERSON}}}, None),
    "a percent-encoded pointer": ({"$ref": "#/$defs/a%20b", "$defs": {"a b": PERSON}}, None),
    "a pointer inside an identified part": (
        {"$ref": "q", "$defs": {"x": {"$id": "q", "$ref": "#/$defs/y", "$defs": {"y": PERSON}}}}, None,
    ),
    "a pointer": ({"$ref": "#/$defs/p", "$defs": {"p": PERSON}}, None),
}  # fmt: skip


@pytest.fixture(scope="module")
def bundled() -> LanguageModel:
    return constrained.load()


@pytest.mark.parametrize("way", WAYS)
def test_the_prompt_shows_the_type_and_examples_may_have_any_order(way: str, bundled: LanguageModel) -> None:
    schema, registry = WAYS[way]
    constraint = constrained.json_schema(schema, registry=registry)
    assert "{name: string, age: integer}" in extraction_prompt("Ana is 30", constraint)[0]["content"]
    made = Extractor(bundled, constraint, examples=[("Ana is 30", {"age": 30, "name": "Ana"})])
    assert '"name": "Ana", "age": 30' in str(made.prompt("Bo is 4"))


def test_what_is_plain_already_is_the_schema_itself() -> None:
    for schema in (
        WAYS["a pointer"][0],
        True,
        {"$dynamicRef": "#x"},
        {"$ref": "#/$defs/%61", "$defs": {"%61": PERSON}},
    ):
        assert local_view(schema) is schema


def test_a_reference_that_leads_nowhere_stays() -> None:
    assert local_view({"$ref": "http://e.org/gone"}) == {"$ref": "http://e.org/gone"}
    assert target_of({}, "#/x") is None
    assert target_of({}, "http://e.org/gone") is None


@given(
    st.sampled_from(sorted(WAYS)),
    st.one_of(
        st.none(),
        st.fixed_dictionaries({"name": st.text(), "age": st.integers()}),
        st.dictionaries(st.sampled_from(["name", "age", "x"]), st.integers()),
    ),
)
def test_a_view_has_the_values_of_its_schema(way: str, value: Any) -> None:
    """Also where it is validated by a library that knows nothing of the other documents."""
    schema, registry = WAYS[way]
    view = local_view(
        {"$id": "http://root.org/s", **schema} if way != "a pointer" else schema, registry=registry
    )
    valid = jsonschema.Draft202012Validator(view).is_valid(value)
    assert valid is jsonschema.Draft202012Validator(PERSON).is_valid(value)


def test_names_of_other_documents_do_not_meet() -> None:
    registry = {"http://a.org/p": PERSON, "http://b.org/p": {"type": "null"}}
    schema = {
        "prefixItems": [{"$ref": "http://a.org/p"}, {"$ref": "http://b.org/p"}],
        "$defs": {"p": {"type": "string"}},
    }
    view = local_view(schema, registry=registry)
    assert len(view["$defs"]) == 3
    targets = [target_of(view, item["$ref"]) for item in view["prefixItems"]]
    assert [target["type"] for target in targets] == ["object", "null"]
    assert json.dumps(schema["$defs"]) == '{"p": {"type": "string"}}', "the schema is not changed"
