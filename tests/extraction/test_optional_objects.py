"""What may be null is left out as what may be missing is, and an object that may be either is there if the text has half of what it needs."""

from __future__ import annotations

from typing import Any

import pytest

from constrained.decisions.questions import leaf_members
from constrained.extraction import Extractor
from constrained.extraction.optional_objects import optional_objects
from tests.extraction.test_phrases import Wishing

TEXT = "Ada Lim, who lives in Oslo, is a vet. Ada called twice."
STRING = {"type": "string"}
NULLABLE = {"type": ["string", "null"]}


def record(*required: str, **members: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": list(required),
        "additionalProperties": False,
    }


NAMED = {"name": {"Ada Lim": 8.0}, "street": {"Hill Road": 9.0}, "city": {"Oslo": 8.0}, "note": {"none": 9.0}}


@pytest.mark.parametrize("null", [NULLABLE, {"anyOf": [STRING, {"type": "null"}]}])
def test_a_required_string_that_may_be_null_is_null_where_the_text_has_no_phrase_for_it(null: Any) -> None:
    """Schemas for strict outputs require all members; the model made up what the text does not have."""
    schema = record("name", "note", "city", name=STRING, note=null, city=null)
    found = Extractor(Wishing(NAMED), schema)(TEXT)
    assert found.value == {"name": "Ada Lim", "note": None, "city": "Oslo"}
    assert found.decisions["/note"].value is None


def test_a_required_number_that_may_be_null_is_null_where_the_text_states_none() -> None:
    schema = record("name", "age", name=STRING, age={"type": ["integer", "null"]})
    assert Extractor(Wishing(NAMED), schema)(TEXT).value == {"name": "Ada Lim", "age": None}


ADDRESS = record("street", "city", street=STRING, city=STRING, note=STRING)


@pytest.mark.parametrize(
    ("address", "required", "missing"),
    [
        (ADDRESS, ("name",), {}),
        ({"anyOf": [ADDRESS, {"type": "null"}]}, ("name",), {}),
        ({"anyOf": [ADDRESS, {"type": "null"}]}, ("name", "address"), {"address": None}),
    ],
)
def test_an_object_of_which_the_text_has_nothing_is_left_out(
    address: Any, required: tuple[str, ...], missing: dict[str, None]
) -> None:
    schema = record(*required, name=STRING, address=address)
    model = Wishing({**NAMED, "city": {"Bergen": 9.0}})
    assert Extractor(model, schema)(TEXT).value == {"name": "Ada Lim", **missing}
    found = Extractor(Wishing(NAMED), schema, on_limit="close")(TEXT, max_tokens=80)
    assert found.value["address"]["city"] == "Oslo"
    assert set(found.value["address"]) == {"street", "city"}


def test_members_of_an_object_that_is_left_out_are_not_decided() -> None:
    deep = record("owner", owner=record("person", "city", person=STRING, city=STRING), note=STRING)
    schema = record("name", name=STRING, deep=deep)
    found = Extractor(Wishing({"name": {"Ada Lim": 8.0}}), schema)(TEXT)
    assert found.value == {"name": "Ada Lim"}
    assert set(found.decisions) == {"/name"}


def test_an_object_about_which_nothing_is_asked_is_left_to_the_model() -> None:
    bounded = record("code", code={"type": "string", "maxLength": 2})
    schema = record("name", "extra", name=STRING, extra={"anyOf": [bounded, {"type": "null"}]})
    found = Extractor(Wishing(NAMED), schema)(TEXT)
    assert set(found.decisions) == {"/name"}


def test_what_an_object_needs_is_what_cannot_be_left_out_inside() -> None:
    inside = record("name", "note", name=STRING, note=NULLABLE, city=STRING)
    (found,) = optional_objects(record(inside=inside))
    assert (found.pointer, found.needed) == ("/inside", {"/inside/name"})


def test_schemas_that_name_themselves_are_followed_once() -> None:
    person = record("name", name=STRING, friend={"anyOf": [{"$ref": "#/$defs/p"}, {"type": "null"}]})
    schema = {"$defs": {"p": person}, "$ref": "#/$defs/p"}
    assert [path for path, _, _ in leaf_members(schema, nullable=True)] == [("name",)]
    assert [one.pointer for one in optional_objects(schema)] == ["/friend"]
    assert Extractor(Wishing(NAMED), schema)(TEXT).value["name"] == "Ada Lim"
