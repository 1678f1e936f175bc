"""Strings whose content is another constraint: a text is allowed if and only if its JSON value is a text of it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import constrained
from constrained import choice, gbnf, json_schema, lark, predicate, regex, substring_of
from constrained.automaton import compile
from constrained.errors import ConstraintTooLarge, UnsatisfiableConstraint, UnsupportedConstraint
from constrained.grammars import ir
from constrained.grammars.json_schema.text.contents import json_string_body
from tests.support.finite import byte_vocabulary
from tests.support.judge import ReferenceRecognizer

TEXT = 'He said "hi\\there",\n\té\u007f 😀 twice: hi.'
NESTED = gbnf('root ::= "(" root ")" | "\\"" | [é\\n]')
STRINGS = {
    "regex": (regex('[ab"\\\\\n]{2}'), ["ab", 'a"', "\\\n"], ["a", "abc", "ac"]),
    "choice": (choice(['a"b', "c", "ö"]), ['a"b', "c", "ö"], ["", "a"]),
    "substring": (substring_of(TEXT), ['"hi\\t', "\n\té\u007f", "😀 ", TEXT], ["", "hi there", "é😀"]),
    "grammar": (NESTED, ["((é))", '"', "(\n)"], ["()", "(é", ""]),
    "json": (
        json_schema({"type": "array", "items": {"const": 'a"'}}, whitespace="none"),
        ["[]", '["a\\""]'],
        ["[", "{}"],
    ),
}


def accepted(constraint: Any, text: str) -> bool:
    automaton: Any = compile(constraint, byte_vocabulary())
    state = automaton.start
    for byte in text.encode():
        state = automaton.next(state, byte)
    return bool(state and automaton.accepts(state))


def draws(constraint: Any, count: int, seed: int = 0) -> list[str]:
    """Random walks, closed by a shortest completion after some bytes."""
    automaton: Any = compile(constraint, byte_vocabulary())
    draw, found = random.Random(seed), []
    for _ in range(count):
        state, text, target = automaton.start, bytearray(), draw.randint(2, 60)
        while not automaton.accepts(state):
            options = [b for b in range(256) if automaton.next(state, b)]
            if len(text) >= target:
                options = [
                    min(options, key=lambda b: (automaton.shortest_completion(automaton.next(state, b)), b))
                ]
            text.append(draw.choice(options))
            state = automaton.next(state, text[-1])
        found.append(text.decode())
    return found


def within(name: str) -> Any:
    schema = {"type": "object", "properties": {"v": {"type": "string", "x-content": name}}, "required": ["v"]}
    return json_schema(
        schema | {"additionalProperties": False}, whitespace="none", embed={name: STRINGS[name][0]}
    )


@pytest.mark.parametrize("name", STRINGS)
def test_a_value_is_allowed_in_each_spelling_of_json_dumps(name: str) -> None:
    _, right, wrong = STRINGS[name]
    for value in (*right, *wrong):
        for ascii_only in (True, False):
            text = json.dumps({"v": value}, ensure_ascii=ascii_only, separators=(",", ":"))
            assert accepted(within(name), text) == (value in right), text


@pytest.mark.parametrize("name", STRINGS)
def test_what_is_written_is_of_the_constraint(name: str) -> None:
    judge = ReferenceRecognizer(STRINGS[name][0].grammar)
    for text in draws(within(name), 60):
        assert judge.accepts(json.loads(text)["v"].encode()), text


def test_regular_contents_are_combined_with_other_keywords() -> None:
    schema = {"type": "string", "x-content": "code", "minLength": 3, "pattern": "^a", "not": {"const": "abb"}}
    constraint = json_schema(schema, embed={"code": regex("[ab]{1,3}")})
    assert {json.loads(text) for text in draws(constraint, 60)} == {"aaa", "aab", "aba"}


def test_several_strings_of_one_schema_share_their_rules() -> None:
    string = {"type": "string", "x-content": "s"}
    schema = {"type": "object", "properties": {"start": string, "b": {"type": "array", "items": string}}}
    constraint = json_schema(
        schema, embed={"s": NESTED}, whitespace="none", additional_properties_default=False
    )
    assert accepted(constraint, '{"start":"(\\")","b":["é","((\\n))"]}')
    assert not accepted(constraint, '{"start":"(\\")","b":["é","((\\n)"]}')
    assert accepted(
        json_schema(string, embed={"s": gbnf('root ::= start\nstart ::= "(" start ")" | "x"')}), '"((x))"'
    )


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"x-content": "s", "minLength": 2}, "minLength"),
        ({"x-content": "s", "format": "date"}, "a pattern or format"),
        ({"x-content": "s", "enum": ["("]}, "enumerated"),
        ({"x-content": "s", "not": {"const": "("}}, "not"),
        ({"not": {"type": "string", "x-content": "s"}}, "not"),
        ({"allOf": [{"x-content": "s"}, {"x-content": "t"}]}, "cannot be combined"),
        (
            {
                "type": "array",
                "items": {"type": "string", "x-content": "s"},
                "uniqueItems": True,
                "minItems": 2,
            },
            "uniqueItems",
        ),
        ({"type": "object", "propertyNames": {"x-content": "s"}}, "names of members"),
    ],
)
def test_a_grammar_stands_alone(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedConstraint, match=reason) as caught:
        _ = json_schema(
            {"type": ["string", "array", "object"], **schema}, embed={"s": NESTED, "t": substring_of("((")}
        ).grammar
    assert all(problem.place.startswith("#") for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (lark('start: "a" "b"'), "lexer"),
        (predicate(str.isdigit), "predicate"),
        (regex("a") & predicate(str.isdigit), "predicate"),
        (json_schema({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}), "uniqueItems"),
        (json_schema({"type": "array", "items": {"type": "object"}, "uniqueItems": True}), "uniqueItems"),
        (regex("(a"), "never closed"),
    ],
)
def test_what_cannot_stand_in_a_string_is_named_with_its_place(inner: Any, reason: str) -> None:
    schema = {"type": "object", "properties": {"deep": {"items": {"type": "string", "x-content": "it"}}}}
    with pytest.raises(constrained.ConstraintError, match=reason) as caught:
        _ = json_schema(schema, embed={"it": inner}).grammar
    assert caught.value.problems[0].place.startswith("#/properties/deep/items/x-content")


def test_without_embed_the_keyword_is_unknown() -> None:
    schema = {"type": "string", "x-content": "it"}
    assert [entry.status for entry in json_schema(schema).report] == ["enforced", "unknown"]
    assert [entry.status for entry in json_schema(schema, embed={"it": regex("a")}).report] == [
        "enforced"
    ] * 2
    assert [entry.status for entry in json_schema(schema, embed={}).report] == ["enforced", "unknown"]


def test_equal_names_of_other_constraints_are_other_languages() -> None:
    schema = {"type": "string", "x-content": "it"}
    one, other = (json_schema(schema, embed={"it": regex(pattern)}) for pattern in ("a", "b"))
    assert one.key != other.key
    assert one == json_schema(schema, embed={"it": regex("a")})


def test_a_document_that_is_too_long_is_named_with_its_place() -> None:
    with pytest.raises(ConstraintTooLarge, match="#/x-content"):
        _ = json_schema({"x-content": "it"}, embed={"it": substring_of("a" * 10_000_000)}).grammar
    with pytest.raises(UnsatisfiableConstraint, match="#/x-content"):
        _ = json_schema({"x-content": "it"}, embed={"it": substring_of("")}).grammar


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(UnsupportedConstraint, match="UTF-8"):
        json_string_body(ir.Grammar.of(ir.union(ir.literal("a"), ir.Literal(b"\xff"))))
