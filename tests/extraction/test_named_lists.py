"""Lists of enumerated strings: a small model gets those that the text names, in its order."""

from __future__ import annotations

from typing import Any

import pytest

from constrained.extraction import Extractor, closed_members
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
