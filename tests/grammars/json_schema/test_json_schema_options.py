"""What the options of a JSON Schema change: which texts are written, which objects are closed, what is refused."""

from __future__ import annotations

import functools
import json
import pickle
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
import referencing
from hypothesis import given, settings
from hypothesis import strategies as st
from referencing.jsonschema import DRAFT202012

from constrained import json_schema, python_type
from constrained.automaton import compile
from constrained.constraint import Constraint
from constrained.errors import InvalidConstraint, RejectedValue, UnsupportedConstraint
from constrained.grammars.json_schema import SCHEMA_DIALECTS, SchemaOptions, lower_schema
from tests.support.examples import examples
from tests.support.finite import byte_vocabulary
from tests.support.judge import ReferenceRecognizer

# ---------------------------------------------------------------- which texts

_texts = st.text('ab"\\/\n\x01\x7fé€😀', max_size=5)
_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-99, 99), _texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_texts, inner, max_size=3)),
    max_leaves=6,
)
SEPARATORS = [(", ", ": "), (",", ":"), (" ,\n", ":\t")]


@functools.cache
def anything(separators: tuple[str, str] | None, ensure_ascii: bool | None) -> ReferenceRecognizer:
    return ReferenceRecognizer(json_schema(True, separators=separators, ensure_ascii=ensure_ascii).grammar)


@given(_values, st.sampled_from(SEPARATORS), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_what_python_writes_with_these_options_and_nothing_else(
    value: Any, separators: Any, ensure_ascii: bool
) -> None:
    judge = anything(separators, ensure_ascii)
    text = json.dumps(value, separators=separators, ensure_ascii=ensure_ascii)
    assert judge.accepts(text.encode())
    for others in SEPARATORS:
        other = json.dumps(value, separators=others, ensure_ascii=not ensure_ascii)
        if other != text:
            # ensure_ascii leaves optional escapes of ASCII alone, and so another spelling may be right too
            wrong = others != separators and json.dumps(value, separators=others) != json.dumps(
                value, separators=separators
            )
            wrong |= (
                (not other.isascii())
                if ensure_ascii
                else other != json.dumps(value, separators=others, ensure_ascii=False)
            )
            assert judge.accepts(other.encode()) != wrong, other


@given(_texts, st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_declared_text_patterns_and_keys_follow_ensure_ascii(text: str, ensure_ascii: bool) -> None:
    schema = {
        "type": "object",
        "properties": {text: {"const": text}},
        "additionalProperties": {"type": "string", "pattern": "^[^x]*$", "minLength": len(text)},
        "required": [text],
    }
    judge = ReferenceRecognizer(json_schema(schema, ensure_ascii=ensure_ascii).grammar)
    value = {text: text, f"_{text}": text}
    assert judge.accepts(json.dumps(value, ensure_ascii=ensure_ascii).encode())
    if not text.isascii():
        assert not judge.accepts(json.dumps(value, ensure_ascii=not ensure_ascii).encode())


def test_a_half_of_a_pair_has_no_other_spelling() -> None:
    judge = ReferenceRecognizer(json_schema({"const": "\ud800é"}, ensure_ascii=False).grammar)
    assert not judge.accepts('"é"'.encode())
    assert ReferenceRecognizer(json_schema({"const": "\ud800"}, ensure_ascii=False).grammar).accepts(
        b'"\\ud800"'
    )


def test_options_of_the_lowering_are_refused_alike() -> None:
    wrong: list[dict[str, Any]] = [{"whitespace": "x"}, {"property_order": "x"}, {"unsupported": "x"}]
    for options in wrong:
        with pytest.raises(InvalidConstraint, match="'x' is not known"):
            lower_schema(True, SchemaOptions(**options))


def test_lines_and_separators() -> None:
    judge = ReferenceRecognizer(json_schema(True, whitespace="indent", separators=(",", ": ")).grammar)
    assert judge.accepts(json.dumps([1, {"a": [], "b": {}}], indent=2).encode())
    assert not judge.accepts(b"[1,2]")


@pytest.mark.parametrize("separators", [(";", ":"), (", ", "="), (",,", ":"), ("", ":")])
def test_separators_that_are_not_json(separators: tuple[str, str]) -> None:
    with pytest.raises(InvalidConstraint, match="separators"):
        _ = json_schema(True, separators=separators).grammar


def test_separators_leave_no_room_for_other_white_space() -> None:
    with pytest.raises(InvalidConstraint, match="exclude each other"):
        _ = json_schema(True, separators=(",", ":"), whitespace="any").grammar


# ---------------------------------------------------------------- which values


@pytest.mark.parametrize(
    ("schema", "open_", "closed"),
    [
        ({"properties": {"a": {}}}, ['{"b": 1}'], ['{"a": 1}', "{}"]),
        ({"properties": {"a": {}}, "additionalProperties": True}, [], ['{"a": 1, "b": 1}']),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "null"}}, [], ['{"b": null}']),
        ({"properties": {"a": {}}, "required": ["z"]}, ['{"z": 1, "b": 1}'], ['{"a": 1, "z": 1}']),
        ({"type": "object"}, [], ['{"b": 1}']),
        (
            {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
            ['{"c": 1}'],
            ['{"a": 1, "b": {"x": 1}}'],
        ),
        ({"patternProperties": {"^x": {}}}, ['{"y": 1}'], ['{"xy": 1}']),
    ],
)
def test_objects_that_say_nothing_of_other_members_can_be_closed(
    schema: Any, open_: list[str], closed: list[str]
) -> None:
    usual = ReferenceRecognizer(json_schema(schema).grammar)
    strict = ReferenceRecognizer(json_schema(schema, additional_properties_default=False).grammar)
    for text in open_:
        assert usual.accepts(text.encode())
        assert not strict.accepts(text.encode())
    for text in closed:
        assert usual.accepts(text.encode())
        assert strict.accepts(text.encode())


def test_formats_can_be_annotations() -> None:
    schema = {"type": "string", "format": "date"}
    constraint = json_schema(schema, formats=False)
    assert ReferenceRecognizer(constraint.grammar).accepts(b'"soon"')
    assert [entry.status for entry in constraint.report] == ["enforced", "annotation"]
    assert not ReferenceRecognizer(json_schema(schema).grammar).accepts(b'"soon"')


def test_strict_refuses_what_nobody_defines() -> None:
    schema = {
        "title": "t",
        "nullable": True,
        "properties": {"a": {"format": "odd"}, "b": {"format": "date"}},
    }
    statuses = {entry.pointer: entry.status for entry in json_schema(schema).report}
    assert statuses["#/nullable"] == statuses["#/properties/a/format"] == "unknown"
    with pytest.raises(UnsupportedConstraint) as caught:
        _ = json_schema(schema, strict=True).grammar
    assert [problem.place for problem in caught.value.problems] == ["#/nullable", "#/properties/a/format"]


def test_the_draft_can_be_named() -> None:
    schema = {"items": [{"type": "null"}]}
    assert not ReferenceRecognizer(json_schema(schema, draft="7").grammar).accepts(b"[1]")
    with pytest.raises(InvalidConstraint):
        _ = json_schema(schema).grammar


# ---------------------------------------------------------------- checked afterwards

DOUBLED = {
    "type": "object",
    "properties": {"a": {"type": "string", "pattern": r"^(a+)\1$"}, "b": {"type": "integer"}},
}


def test_what_cannot_be_enforced_can_be_checked_afterwards() -> None:
    with pytest.raises(UnsupportedConstraint, match="unsupported='check'"):
        _ = json_schema(DOUBLED).grammar
    constraint = json_schema(DOUBLED, unsupported="check")
    judge = ReferenceRecognizer(constraint.grammar)
    assert judge.accepts(b'{"a": "aaa", "b": 1}')
    assert not judge.accepts(b'{"a": "aa", "b": "c"}')  # the rest is enforced as ever
    assert [entry.pointer for entry in constraint.report if entry.status == "unchecked"] == [
        "#/properties/a/pattern"
    ]
    assert constraint.parse('{"a": "aaaa"}') == {"a": "aaaa"}
    with pytest.raises(RejectedValue, match="#/a") as caught:
        constraint.parse('{"a": "aaa"}')
    assert caught.value.value == {"a": "aaa"}
    assert caught.value.problems[0].keyword == "pattern"


def test_a_value_is_not_judged_again_where_everything_is_enforced() -> None:
    assert json_schema({"type": "integer"}, unsupported="check").parse("1.5") == 1.5


def test_another_word_for_unsupported() -> None:
    with pytest.raises(InvalidConstraint, match="'refuse', 'check'"):
        _ = json_schema(True, unsupported="ignore").grammar  # type: ignore[arg-type]


# ---------------------------------------------------------------- other documents

ITEM = {
    "$id": "http://example.com/item",
    "type": "object",
    "properties": {"next": {"$ref": "more#/$defs/next"}},
}
MORE = {
    "$defs": {"next": {"anyOf": [{"$ref": "item"}, {"type": "integer"}]}, "not reached": {"$ref": "no-such"}}
}
UNUSED = {"type": "null"}
GIVEN = {
    "http://example.com/item": ITEM,
    "http://example.com/more": MORE,
    "http://example.com/unused": UNUSED,
}
LIST = {"$id": "http://example.com/list", "type": "array", "items": {"$ref": "/item"}}


def given_as(kind: str) -> Any:
    if kind == "mapping":
        return GIVEN
    if kind == "retrieved":
        return referencing.Registry(retrieve=lambda uri: DRAFT202012.create_resource(GIVEN[uri]))
    resources = [(uri, DRAFT202012.create_resource(schema)) for uri, schema in GIVEN.items()]
    return referencing.Registry().with_resources(resources)


@pytest.mark.parametrize("kind", ["mapping", "registry"])
def test_references_lead_to_documents_that_are_given(kind: str) -> None:
    constraint = json_schema(LIST, registry=given_as(kind))
    accepted = judged(constraint)
    assert accepted('[{"next": {"next": 3}}, {}]')
    assert not accepted('[{"next": "x"}]')
    assert not accepted("[3]")
    validator = jsonschema.Draft202012Validator(LIST, registry=given_as("registry"))
    assert validator.is_valid([{"next": {"next": 3}}])
    assert not validator.is_valid([{"next": "x"}])


def test_a_registry_may_retrieve() -> None:
    schema = {"$ref": "http://example.com/unused"}
    assert judged(json_schema(schema, registry=given_as("retrieved")))("null")


def test_what_is_reached_belongs_to_the_constraint() -> None:
    constraint = json_schema(LIST, registry=GIVEN)
    same = json_schema(LIST, registry={uri: GIVEN[uri] for uri in sorted(GIVEN) if "unused" not in uri})
    assert constraint == same == pickle.loads(pickle.dumps(constraint))
    assert constraint != json_schema(
        LIST, registry={**GIVEN, "http://example.com/more": {"$defs": {"next": True}}}
    )


def test_a_document_that_is_not_given_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedConstraint, match="registry="):
        _ = json_schema(LIST).grammar
    with pytest.raises(InvalidConstraint, match="malformed"):
        _ = json_schema({"$ref": "http://x/y"}, registry={"http://x/y": {"type": "no such type"}}).grammar


def test_an_identifier_is_read_by_the_dialect() -> None:
    """``id`` names a schema in draft 4 alone: in 2020-12 it is an annotation and moves no base URI."""
    child = {"http://example.com/child": {"type": "null"}}
    schema = {"$id": "http://example.com/", "id": "http://elsewhere/", "$ref": "child"}
    assert judged(json_schema(schema, registry=child))("null")
    old = {"id": "http://example.com/", "$id": "http://elsewhere/", "allOf": [{"$ref": "child"}]}
    assert judged(json_schema(old, draft="4", registry=child))("null")
    assert judged(json_schema({"id": "http://elsewhere/", "$ref": "child"}, registry={"child": True}))("3")


def test_identifiers_that_are_not_strings_name_nothing() -> None:
    """Places that no keyword of the dialect declares to be a schema are not checked against the meta-schema."""
    schema = {"$ref": "#name", "$defs": {"x": {"$id": 5}}, "definitions": {"y": {"$id": "#name"}}}
    assert judged(json_schema(schema, draft="7"))("null")


def test_the_draft_of_another_document_is_its_own() -> None:
    old = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "null"}],
        "additionalItems": False,
    }
    accepted = judged(json_schema({"type": "array", "$ref": "http://x/old"}, registry={"http://x/old": old}))
    assert accepted("[null]")
    assert not accepted("[null, null]")


def test_meta_schemas_are_always_there() -> None:
    constraint = json_schema(
        {"$ref": "http://json-schema.org/draft-07/schema#/definitions/nonNegativeInteger"}
    )
    assert judged(constraint)("3")
    assert not judged(constraint)("-3")


def judged(constraint: Constraint) -> Any:
    automaton = compile(constraint, byte_vocabulary())

    def accepts(text: str) -> bool:
        state = automaton.start
        for byte in text.encode():
            state = automaton.next(state, byte)
        return bool(automaton.accepts(state))

    return accepts


def test_python_types_take_the_options_of_texts() -> None:
    constraint = python_type(list[str], separators=(",", ":"), ensure_ascii=False)
    assert judged(constraint)('["é","a"]')
    assert not judged(constraint)('["\\u00e9"]')
    assert pickle.loads(pickle.dumps(constraint)) == constraint


# ---------------------------------------------------------------- identifiers


@pytest.mark.ci
@pytest.mark.parametrize("draft", SCHEMA_DIALECTS)
@pytest.mark.parametrize("others", [{}, {"$ref": "#/a"}])
def test_identifiers_are_those_of_the_library_of_references(draft: str, others: dict[str, Any]) -> None:
    """Which is not loaded for them."""
    dialect = SCHEMA_DIALECTS[draft]
    for keyword in ("id", "$id"):
        for name in ("http://example.com/", "item", "", "#name", "item#name"):
            schema = {keyword: name, **others}
            expected = dialect.specification.id_of(schema)
            if expected is not None and expected.startswith("#"):
                expected = None  # an anchor
            assert dialect.identifier_of(schema) == expected, schema
    code = (
        f"import sys; from constrained.grammars.json_schema import lower_schema; lower_schema({{'$schema': {dialect.uri!r}, "
        "'id': 'http://example.com/', '$id': 'http://example.com/', 'not': {'required': ['a']}}); "
        "assert 'referencing' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------- a keyword that later drafts do not have


def test_dependencies_is_no_keyword_without_a_draft_that_has_it() -> None:
    """Since 2019-09 it is `dependentRequired` and `dependentSchemas`.

    The meta-schema of 2020-12 (schema.json) says of it: '"dependencies" is no longer a keyword'.
    """
    schema: dict[str, Any] = {"type": "object", "dependencies": {"a": ["b"]}}
    old: dict[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    value = {"a": 1}
    assert ReferenceRecognizer(json_schema(schema).grammar).accepts(json.dumps(value).encode())
    assert not ReferenceRecognizer(json_schema(old).grammar).accepts(json.dumps(value).encode())
    assert jsonschema.Draft202012Validator(schema).is_valid(value)
    assert not jsonschema.Draft7Validator(old).is_valid(value)
    statuses = [
        {entry.keyword: (entry.status, entry.note) for entry in json_schema(one).report.entries}[
            "dependencies"
        ]
        for one in (schema, old)
    ]
    assert statuses[0][0] == "unknown"
    assert "dependentRequired, dependentSchemas" in statuses[0][1]
    assert statuses[1][0] == "enforced"
