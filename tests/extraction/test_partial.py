"""Streams of partial values, and of complete items."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained import Extractor
from constrained.extraction.partial import item_texts
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary


@dataclass
class Address:
    city: str


@dataclass
class Person:
    name: str
    address: Address


def saying(text: str) -> ScriptedModel:
    return ScriptedModel(byte_vocabulary(), text)


def test_a_stream_yields_the_members_so_far_and_then_the_result() -> None:
    extractor = Extractor(saying('{"name": "Ana", "address": {"city": "Oslo"}}'), Person)
    names, cities, last = [], [], None
    for partial in extractor.stream("Ana lives in Oslo."):
        names += [partial.name] if "name" in partial else []
        cities += [partial.address.city] if "address" in partial and "city" in partial.address else []
        last = partial
    assert list(dict.fromkeys(names)) == ["", "A", "An", "Ana"]
    assert list(dict.fromkeys(cities)) == ["", "O", "Os", "Osl", "Oslo"]
    assert last is not None
    assert last.result is not None
    assert last.result.value == Person("Ana", Address("Oslo"))
    with pytest.raises(AttributeError, match="there is no 'age' yet"):
        _ = last.age


def test_items_come_as_they_close() -> None:
    text = '[{"city": "Oslo"}, {"city": "a]b,\\"c"}]'
    extractor = Extractor(saying(text), list[Address], lists="whole")
    assert list(extractor.stream_items("Two cities.")) == [Address("Oslo"), Address('a]b,"c')]
    with pytest.raises(constrained.InvalidArgument, match="of an array only"):
        Extractor(saying("1"), int).stream_items("A number.")


JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(st.lists(JSON, max_size=5), st.data())
def test_item_texts_are_the_items_that_are_complete(items: list[Any], data: st.DataObject) -> None:
    text = json.dumps(items, ensure_ascii=data.draw(st.booleans()))
    assert [json.loads(item) for item in item_texts(text)] == items
    prefix = text[: data.draw(st.integers(0, len(text)))]
    found = [json.loads(item) for item in item_texts(prefix)]
    assert found == items[: len(found)]
