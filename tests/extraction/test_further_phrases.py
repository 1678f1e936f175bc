"""Lists of strings are read item by item from the text, and strings without phrase are asked for behind what is known."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from constrained.extraction import Extractor
from tests.support.finite import byte_vocabulary
from tests.support.wishing_model import WishingModel


class Listing(WishingModel):
    """It likes some texts as items of the list ``things``, or as other strings, each so much."""

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        row, text = np.zeros(self.vocabulary.size), bytes(completion)
        if text.endswith((b": [", b'", ', b'": ')):
            row[ord('"')] += 12.0
        value = re.search(rb'"(\w+)": (?:\[(?:"[^"]*", )*)?"([^"]*)$', text)
        if value is None:
            row[ord("]")] += 8.0 * bool(re.search(rb'\["[^\]]*"$', text))
            row[ord("[")] += 16.0 * text.endswith(b'"things": ')
            return row
        for wish, strength in self.wishes.get(value[1].decode(), {}).items():
            said, whole = value[2], wish.encode() + b'"'
            if whole.startswith(said):
                row[whole[len(said)]] += 12.0 if said else strength
        return row


def schema(**members: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


STRING = {"type": "string"}
STRINGS = {"type": "array", "items": STRING}
TEXT = "Ada Lim brings a lamp, two ropes and a tent, but no stove."


def test_items_are_phrases_of_the_text_each_once() -> None:
    model = Listing({"things": {"lamp": 6.0, "ropes": 5.0, "tent": 4.5, "xylophone": 5.5}})
    found = Extractor(model, schema(things=STRINGS))(TEXT)
    assert found.value == {"things": ["lamp", "ropes", "tent"]}
    assert [found.decisions[f"/things/{number}"].value for number in range(3)] == ["lamp", "ropes", "tent"]


def test_the_next_item_of_an_enumeration_needs_less() -> None:
    wishes = {"things": {"lamp": 6.0, "tent": 0.5, "stove": 0.5}}
    assert Extractor(Listing(wishes), schema(things=STRINGS))(TEXT).value == {"things": ["lamp"]}
    text = "Ada Lim brings a lamp and a tent, but no stove."
    assert Extractor(Listing(wishes), schema(things=STRINGS))(text).value == {"things": ["lamp", "tent"]}


def test_a_list_does_not_take_what_another_member_has() -> None:
    model = Listing({"name": {"Ada Lim": 9.0}, "things": {"Ada Lim": 7.0, "lamp": 5.0}})
    found = Extractor(model, schema(things=STRINGS, name=STRING))(TEXT)
    assert found.value == {"things": ["lamp"], "name": "Ada Lim"}


def test_a_list_for_which_the_text_has_nothing_is_written_by_models_that_write_lists() -> None:
    model, type_ = Listing({"things": {"a saw": 9.0}}), schema(things={**STRINGS, "maxItems": 1})
    assert Extractor(model, type_)(TEXT).value == {"things": []}
    found = Extractor(model, type_, lists="whole")(TEXT)
    assert found.value == {"things": ["a saw"]}
    assert not found.decisions


class Capital(Listing):
    """Where it would begin with ``lam`` it begins with the token ``Lam``."""

    def __init__(self, wishes: dict[str, dict[str, float]]) -> None:
        super().__init__(wishes)
        self.vocabulary = byte_vocabulary("Lam")

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        written = self.vocabulary.decode(completion).replace(b"Lam", b"lam")
        row = super().logits(prompt, list(written))
        if row.argmax() == ord("l") and written.endswith(b'"'):
            row[256], row[ord("l")] = row[ord("l")], 0.0
        return row


def test_a_phrase_is_written_as_in_the_text_though_the_model_would_begin_it_with_a_capital() -> None:
    model = Capital({"things": {"lamp": 9.0}})
    assert Extractor(model, schema(things=STRINGS))(TEXT).value == {"things": ["lamp"]}


def test_items_stand_in_the_order_of_the_text() -> None:
    model = Listing({"things": {"tent": 6.0, "ropes": 5.0}})
    assert Extractor(model, schema(things=STRINGS))(TEXT).value == {"things": ["ropes", "tent"]}


def test_items_begin_with_no_article() -> None:
    model = Listing({"things": {"a tent": 9.0, "tent": 8.0, "ropes": 7.0}})
    found = Extractor(model, schema(things=STRINGS))("Ada brings a tent and ropes.")
    assert found.value == {"things": ["tent", "ropes"]}


@pytest.mark.parametrize(("bounds", "items"), [({"maxItems": 2}, 2), ({"minItems": 2, "maxItems": 3}, 3)])
def test_a_list_keeps_its_bounds(bounds: dict[str, int], items: int) -> None:
    model = Listing({"things": {"lamp": 6.0, "ropes": 5.0, "tent": 4.5}})
    found = Extractor(model, schema(things={**STRINGS, **bounds}))(TEXT)
    assert found.value == {"things": ["lamp", "ropes", "tent"][:items]}


def test_a_list_with_too_few_items_is_written() -> None:
    model = Listing({"things": {"lamp": 6.0}})
    found = Extractor(model, schema(things={**STRINGS, "minItems": 2, "maxItems": 2}), on_limit="close")(TEXT)
    assert not found.decisions
    assert len(found.value["things"]) == 2


def test_other_lists_are_written() -> None:
    numbers = {"type": "array", "items": {"type": "integer"}, "maxItems": 1}
    short = {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 1}
    for member in (numbers, short):
        assert not Extractor(Listing({"things": {"lamp": 6.0}}), schema(things=member))(TEXT).decisions


class Later(Listing):
    """It says where the city is only behind the name."""

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        row, text = super().logits(prompt, completion), bytes(completion)
        if text.endswith(b'"city": "') and b"Ada Lim" not in text:
            return np.zeros_like(row)
        return row


def test_a_string_without_phrase_is_asked_for_behind_what_is_known() -> None:
    text, members = "Ada Lim lives in Oslo.", schema(name=STRING, city=STRING)
    wishes = {"name": {"Ada Lim": 9.0}, "city": {"Oslo": 6.0}}
    found = Extractor(Later(wishes), members)(text)
    assert found.value == {"name": "Ada Lim", "city": "Oslo"}
    assert set(found.decisions) == {"/name", "/city"}
    unwanted = Extractor(Later(wishes | {"city": {"x": 12.0}}), members)(text)
    assert set(unwanted.decisions) == {"/name"}


def test_draws_of_items_can_be_repeated() -> None:
    extractor = Extractor(
        Listing({"things": {"lamp": 2.0, "ropes": 2.0, "tent": 2.0}}), schema(things=STRINGS)
    )
    drawn = [extractor(TEXT, temperature=2.0, seed=seed).value["things"] for seed in range(8)]
    assert drawn == [extractor(TEXT, temperature=2.0, seed=seed).value["things"] for seed in range(8)]
    assert len({tuple(one) for one in drawn}) > 1
