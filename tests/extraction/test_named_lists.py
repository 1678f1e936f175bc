"""Lists of enumerated strings and of numbers: a small model gets those that the text names, in its order."""

from __future__ import annotations

from typing import Any

import pytest

from constrained import json_schema
from constrained.extraction import Extractor, closed_members
from constrained.extraction.named_lists import closed_lists, named_lists
from tests.extraction.test_phrases import Wishing

TEXT = "The park has a pool, and two tennis courts near the picnic area."
OPTIONS = ["Tennis Court", "Picnic Area", "Pool", "Cafe"]


def schema(*, required: bool = True, **bounds: Any) -> dict[str, Any]:
    offers = {"type": "array", "items": {"enum": OPTIONS}, **bounds}
    return {
        "type": "object",
        "properties": {"offers": offers},
        "required": ["offers"] * required,
        "additionalProperties": False,
    }


def read(wanted: Any, text: str = TEXT) -> Any:
    return Extractor(Wishing({}), wanted)(text, max_tokens=200).value


def test_the_named_options_in_the_order_of_the_text() -> None:
    named = {"offers": ["Pool", "Tennis Court", "Picnic Area"]}
    assert read(schema()) == read(schema(required=False, uniqueItems=True)) == named
    nullable = schema()
    nullable["properties"]["offers"] = {"anyOf": [nullable["properties"]["offers"], {"type": "null"}]}
    assert read(nullable) == named
    referred = schema()
    referred["properties"]["offers"]["items"] = {"$ref": "#/$defs/offer"}
    assert read({**referred, "$defs": {"offer": {"enum": OPTIONS}}}) == named


@pytest.mark.parametrize(
    ("wanted", "text"), [(schema(), "It is large."), (schema(minItems=4), TEXT), (schema(maxItems=2), TEXT)]
)
def test_other_lists_are_written(wanted: Any, text: str) -> None:
    written = Extractor(Wishing({}), wanted, decisions=False)(text, max_tokens=200)
    assert read(wanted, text) == written.value


def test_models_that_write_lists_right_write_these(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Extractor(Wishing({}), schema(), decisions=False)(TEXT, max_tokens=200)
    found = Extractor(Wishing({}), schema(), lists="whole")(TEXT, max_tokens=200)
    assert found.value == written.value != read(schema())


def test_a_list_that_the_rest_contradicts_is_written() -> None:
    rule = {"properties": {"offers": {"not": {"contains": {"const": "Pool"}}}}}
    assert "Pool" not in read({**schema(), "allOf": [rule]})["offers"]


def test_its_items_are_no_phrases_of_other_members() -> None:
    wanted = schema()
    wanted["properties"]["name"] = {"type": "string"}
    model = Wishing({"name": {"pool": 9.0, "park": 8.0}})
    assert Extractor(model, wanted)(TEXT).value["name"] == "park"
    assert closed_members.named_lists({}, TEXT) == {}


def numbers(kind: str, **more: Any) -> dict[str, Any]:
    values = {"type": "array", "items": {"type": kind}}
    return {
        "type": "object",
        "properties": {"values": values, **more},
        "required": ["values", *more],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("text", "kind", "stated"),
    [
        ("Lows of 12.5, 14 and 9.5 degrees for 3 days.", "number", [12.5, 14, 9.5]),
        ("7 °C today.", "integer", [7]),
        ("Rooms 101, 102, 103.", "integer", [101, 102, 103]),
        ("5 min, 7 min and 9 min", "integer", [5, 7, 9]),
        ("-4 and 6", "number", None),  # a 4 may be meant
        ("Of 4 rooms 2 are free.", "integer", None),
        ("1, 2 or 3, then 7 and 8", "integer", None),
        ("1.5 and 2", "integer", None),
        ("1,250 and 3", "integer", None),
        ("On 3 May 2024", "integer", [2024]),
        ("None", "integer", None),
    ],
)
def test_numbers_are_those_of_the_only_enumeration(text: str, kind: str, stated: list[float] | None) -> None:
    lists = closed_lists(json_schema(numbers(kind)))
    assert named_lists(lists, text) == ({} if stated is None else {"/values": stated})
    if stated is not None:
        assert read(numbers(kind), text) == {"values": stated}


def test_of_two_lists_of_numbers_none_has_a_value() -> None:
    two = numbers("number", others={"type": "array", "items": {"type": "integer"}})
    assert named_lists(closed_lists(json_schema(two)), "1, 2 and 3") == {}
