"""Structural tags: a trigger in free text begins one of the sections, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from constrained import (
    InvalidConstraint,
    Section,
    UnsupportedConstraint,
    compile,
    structural_tag,
)
from tests.support.structural_tags import BYTES

INTEGER = {"type": "json_schema", "json_schema": {"type": "integer"}}


def triggered(**more: Any) -> dict[str, Any]:
    form = {
        "type": "triggered_tags",
        "triggers": ["<f="],
        "tags": [
            {"begin": "<f=one>", "content": INTEGER, "end": "</f>"},
            {"begin": "<f=two>", "content": {"type": "regex", "pattern": "[ab]+"}, "end": "</f>"},
        ],
        **more,
    }
    return {"type": "structural_tag", "format": form}


OLDER = {
    "type": "structural_tag",
    "triggers": ["<f="],
    "structures": [
        {"begin": "<f=one>", "schema": {"type": "integer"}, "end": "</f>"},
        {"begin": "<f=two>", "schema": {"enum": ["a"]}, "end": "</f>"},
    ],
}


def accepts(described: dict[str, Any], text: str) -> bool:
    automaton = compile(structural_tag(described), BYTES)
    data = list(text.encode())
    states = automaton.walk(automaton.start, data)
    return len(states) == len(data) and automaton.accepts(states[-1] if states else automaton.start)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", True),
        ("free < text", True),
        ("so <f=one>12</f> and <f=two>ab</f>.", True),
        ("<f=one>12</f><f=one>3</f>", True),
        ("<f=one>x</f>", False),
        ("<f=two>12</f>", False),
        ("<f=three>", False),  # a trigger that begins no section: this is what triggers are for
        ("so <f=", False),
        ("<f", True),
    ],
)
def test_a_trigger_begins_a_section(text: str, allowed: bool) -> None:
    assert accepts(triggered(), text) == allowed


def test_the_older_form() -> None:
    assert accepts(OLDER, 'so <f=one>12</f><f=two>"a"</f>')
    assert not accepts(OLDER, "<f=three>")
    assert accepts({**OLDER, "at_least_one": False}, "free")
    assert not accepts({**OLDER, "at_least_one": True}, "free")


def test_the_older_form_without_its_type() -> None:
    """As clients of vLLM and SGLang send it."""
    untyped = {name: value for name, value in OLDER.items() if name != "type"}
    assert accepts(untyped, 'so <f=one>12</f><f=two>"a"</f>')
    assert not accepts(untyped, "<f=three>")
    with pytest.raises(InvalidConstraint):
        structural_tag({**untyped, "type": "tag"})


def test_at_least_one() -> None:
    once = triggered(at_least_one=True)
    assert not accepts(once, "free text")
    assert accepts(once, "<f=one>1</f> then <f=two>a</f>.")
    assert not accepts(once, "then <f=one>1</f>")  # as in XGrammar: the text begins with a tag


def test_stop_after_first() -> None:
    first = triggered(stop_after_first=True)
    assert accepts(first, "so <f=one>1</f>")
    assert accepts(first, "nothing")
    assert not accepts(first, "so <f=one>1</f>.")
    only = triggered(stop_after_first=True, at_least_one=True)
    assert accepts(only, "<f=one>1</f>")
    assert not accepts(only, "so <f=one>1</f>")
    assert not accepts(only, "")


@pytest.mark.parametrize(
    ("excluded", "allowed"),
    [
        ("<z>", True),
        ("<f=one>", True),
        ("</f>", True),
        ("> and", True),
        ("<f=", False),
        ("f=", False),
        ("so", False),
    ],
)
def test_free_text_and_triggers_contain_nothing_excluded(excluded: str, allowed: bool) -> None:
    assert accepts(triggered(excludes=[excluded]), "so <f=one>12</f> and <f=two>ab</f>.") == allowed
    assert accepts(triggered(excludes=["aba"]), "abab") is False
    assert accepts(triggered(excludes=["aba"]), "abba") is True


def test_the_value_is_a_list_of_what_stands_there() -> None:
    value = structural_tag(triggered()).parse("so <f=one>12</f>")
    assert value == ["so ", Section("<f=one>", 12, "12")]


def test_a_content_alone() -> None:
    alone = {"type": "structural_tag", "format": INTEGER}
    assert accepts(alone, "12")
    assert not accepts(alone, "x")
    assert accepts({"type": "structural_tag", "format": {"type": "const_string", "value": "x"}}, "x")
    assert accepts({"type": "structural_tag", "format": {"type": "grammar", "grammar": 'root ::= "y"'}}, "y")


TAG = {"begin": "<f=one>", "content": INTEGER, "end": "</f>"}


@pytest.mark.parametrize(
    ("described", "place"),
    [
        ({}, "#"),
        ({"type": "structural_tag"}, "#/format"),
        ({"type": "structural_tag", "format": 1}, "#/format"),
        (triggered(tags=[]), "#/format/tags"),
        (triggered(tags=[1]), "#/format/tags/0"),
        (triggered(tags=[{"begin": "<f="}]), "#/format/tags/0/end"),
        (triggered(tags=[{"begin": "<f=", "end": ">"}]), "#/format/tags/0/content"),
        (triggered(triggers=["<f=", ""]), "#/format/triggers/1"),
        (triggered(triggers=["<f=", "<f"]), "#/format/triggers/1"),
        (triggered(triggers=["<f=", "<g="]), "#/format/triggers/1"),
        (triggered(triggers=["<f=o"]), "#/format/triggers"),
        ({**OLDER, "triggers": "<f="}, "#/triggers"),
        ({**OLDER, "structures": [{"begin": "<f=", "end": ">"}]}, "#/structures/0/schema"),
    ],
)
def test_what_cannot_be_read_is_named(described: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidConstraint) as wrong:
        structural_tag(described)
    assert wrong.value.problems[0].place == place


def test_what_is_not_known_is_refused() -> None:
    for described, place in (
        ({"type": "structural_tag", "format": {"type": "qwen_xml"}}, "#/format/type"),
        ({"type": "structural_tag", "format": {**INTEGER, "style": "xml"}}, "#/format/style"),
        ({"type": "structural_tag", "format": INTEGER, "strict": True}, "#/strict"),
        (triggered(exclude=["x"]), "#/format/exclude"),
        (triggered(tags=[{**TAG, "any_order": True}]), "#/format/tags/0/any_order"),
        (
            triggered(tags=[{**TAG, "content": {**INTEGER, "order": "any"}}]),
            "#/format/tags/0/content/order",
        ),
        ({**OLDER, "stop_after_first": True}, "#/stop_after_first"),
    ):
        with pytest.raises(UnsupportedConstraint) as refused:
            structural_tag(described)
        assert refused.value.problems[0].place == place
