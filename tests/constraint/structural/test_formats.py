"""Each format of a structural tag, by texts that it accepts and texts that it refuses."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from constrained import (
    ConstrainedError,
    ConstraintTooLarge,
    InvalidConstraint,
    Section,
    UnsupportedConstraint,
    Vocabulary,
    compile,
    structural_tag,
)
from tests.support.reading import accepts
from tests.support.structural_tags import BYTES, of

X = {"type": "const_string", "value": "x"}
ANY = {"type": "any_text"}
DIGITS = {"type": "regex", "pattern": r"\d+"}


def tag(begin: str, content: Any, end: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


AB = [tag("<a>", X, "</a>"), tag("<b>", DIGITS, "</b>")]
LIST = {"type": "tags_with_separator", "tags": AB, "separator": ", "}
DISPATCH = {"type": "dispatch", "rules": [["<p>", X], ["<q>", DIGITS]]}

FORMATS: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({"type": "const_string", "value": "žx"}, ["žx"], ["", "z"]),
    ({"type": "const_string", "value": ""}, [""], ["x"]),
    (DIGITS, ["0", "12"], ["", "x", "٣"]),  # digits of ECMA-262 are ASCII
    ({"type": "regex", "pattern": "^[a-c]+$", "excludes": ["ab"]}, ["ba", "aa"], ["ab", "cab"]),
    ({"type": "grammar", "grammar": 'root ::= "(" root? ")"'}, ["()", "(())"], ["", "(()"]),
    ({"type": "json_schema", "json_schema": True}, ["{}", "[1, 2]", '"x"'], ["", "x"]),
    (ANY, ["", "x\n<a>é"], []),
    ({**ANY, "excludes": ["ab", "c"]}, ["", "ba", "a"], ["ab", "xabx", "c"]),
    ({**ANY, "max_chars": 2}, ["", "é日"], ["abc"]),
    ({**ANY, "max_chars": 0, "excludes": None}, [""], ["a"]),
    ({"type": "sequence", "elements": [X, DIGITS, ANY]}, ["x1", "x12 and more"], ["x", "1"]),
    ({"type": "or", "elements": [X, DIGITS]}, ["x", "7"], ["", "x7"]),
    ({"type": "optional", "content": X}, ["", "x"], ["xx"]),
    ({"type": "plus", "content": X}, ["x", "xxx"], [""]),
    ({"type": "star", "content": X}, ["", "xxx"], ["y"]),
    ({"type": "star", "content": {"type": "optional", "content": X}}, ["", "xxx"], ["y"]),
    ({"type": "plus", "content": {**ANY, "excludes": ["y"]}}, ["", "abc"], ["y"]),
    ({"type": "repeat", "min": 2, "max": 3, "content": X}, ["xx", "xxx"], ["x", "xxxx"]),
    ({"type": "repeat", "min": 1, "max": -1, "content": X}, ["x", "xxxx"], [""]),
    ({"type": "repeat", "min": 0, "max": 0, "content": X}, [""], ["x"]),
    (tag("<a>", X, "</a>"), ["<a>x</a>"], ["<a></a>", "<a>x", "x"]),
    (tag("", ANY, "</think>"), ["</think>", "so < so</think>"], ["", "a</think>b", "a</think></think>"]),
    (tag("<a>", ANY, ["|", "||"]), ["<a>b|", "<a>||"], ["<a>b|c|", "<a>"]),
    (tag("<a>", ANY, ""), ["<a>", "<a>b"], ["b"]),
    (
        tag("<o>", tag("<a>", ANY, ""), "</o>"),
        ["<o><a>b</o>"],
        ["<o><a></o></o>"],
    ),  # the end around it counts
    (
        tag("<a>", {"type": "regex", "pattern": ".*"}, "</a>"),
        ["<a>x</a>y</a>"],
        ["<a>x"],
    ),  # patterns do not stop
    (LIST, ["", "<a>x</a>", "<b>1</b>, <a>x</a>"], ["<a>x</a>, ", "<a>x</a><a>x</a>", " "]),
    ({**LIST, "at_least_one": True}, ["<b>1</b>"], [""]),
    ({**LIST, "stop_after_first": True}, ["", "<a>x</a>"], ["<a>x</a>, <a>x</a>"]),
    ({**LIST, "separator": ""}, ["<a>x</a><b>2</b>"], ["<a>x</a>, <b>2</b>"]),
    (DISPATCH, ["", "so <p>x and <q>12.", "<"], ["<p>y", "so <p>"]),
    ({**DISPATCH, "loop": False}, ["so", "so <p>x"], ["<p>x "]),
    ({**DISPATCH, "excludes": ["<z>"]}, ["<p>x"], ["<z>", "<p>x<z>"]),
    (tag("<o>", {**DISPATCH, "excludes": ["</o>"]}, "</o>"), ["<o>so <p>x</o>"], ["<o></o></o>"]),
    (
        tag("<o>", {"type": "triggered_tags", "triggers": ["<a>"], "tags": AB[:1]}, "</o>"),
        ["<o>so <a>x</a>.</o>", "<o></o>"],
        ["<o>so <a>y</a></o>", "<o></o></o>"],
    ),
    (
        {"type": "sequence", "elements": [tag("", ANY, "</t>"), {"type": "optional", "content": LIST}]},
        ["hm</t>", "hm</t><a>x</a>"],
        ["<a>x</a>", "hm</t>so"],
    ),
]


@pytest.mark.parametrize(("form", "good", "bad"), FORMATS)
def test_a_format(form: dict[str, Any], good: list[str], bad: list[str]) -> None:
    automaton = compile(structural_tag(of(form)), BYTES)
    assert [text for text in good if not accepts(automaton, text)] == []
    assert [text for text in bad if accepts(automaton, text)] == []


@pytest.mark.parametrize(
    ("form", "place", "error"),
    [
        ({}, "#/format/type", InvalidConstraint),
        ({"type": 1}, "#/format/type", InvalidConstraint),
        ({"type": "const_string", "value": 1}, "#/format/value", InvalidConstraint),
        ({"type": "const_string", "value": "\ud800"}, "#/format/value", InvalidConstraint),
        ({"type": "regex"}, "#/format/pattern", InvalidConstraint),
        ({**ANY, "excludes": "x"}, "#/format/excludes", InvalidConstraint),
        ({**ANY, "excludes": ["x", ""]}, "#/format/excludes/1", InvalidConstraint),
        ({**ANY, "max_chars": -1}, "#/format/max_chars", InvalidConstraint),
        ({**ANY, "max_chars": True}, "#/format/max_chars", InvalidConstraint),
        ({**ANY, "max_tokens": -1}, "#/format/max_tokens", InvalidConstraint),
        ({"type": "sequence", "elements": []}, "#/format/elements", InvalidConstraint),
        ({"type": "or", "elements": [X, 1]}, "#/format/elements/1", InvalidConstraint),
        ({"type": "or", "elements": [X, {**X, "a/b": 1}]}, "#/format/elements/1/a~1b", UnsupportedConstraint),
        ({"type": "optional", "content": {**X, "n": 1}}, "#/format/content/n", UnsupportedConstraint),
        ({"type": "repeat", "min": 2, "max": 1, "content": X}, "#/format/max", InvalidConstraint),
        ({"type": "repeat", "min": -1, "max": 1, "content": X}, "#/format/min", InvalidConstraint),
        (tag("<a>", X, []), "#/format/end", InvalidConstraint),
        (tag("<a>", X, [1]), "#/format/end", InvalidConstraint),
        ({**LIST, "tags": [X]}, "#/format/tags/0/type", InvalidConstraint),
        ({**LIST, "at_least_one": 1}, "#/format/at_least_one", InvalidConstraint),
        ({**DISPATCH, "rules": [["<p>"]]}, "#/format/rules/0", InvalidConstraint),
        ({**DISPATCH, "rules": [["", X]]}, "#/format/rules/0/0", InvalidConstraint),
        ({**DISPATCH, "rules": [["<p", X], ["<p>", X]]}, "#/format/rules/0/0", InvalidConstraint),
        ({"type": "json_schema", "json_schema": 1}, "#/format/json_schema", InvalidConstraint),
        ({"type": "json_schema", "json_schema": {}, "style": "x"}, "#/format/style", UnsupportedConstraint),
    ],
)
def test_a_definition_that_is_refused(form: Any, place: str, error: type[ConstrainedError]) -> None:
    with pytest.raises(error) as refused:
        structural_tag(of(form))
    assert refused.value.problems[0].place == place
    assert refused.value.action


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (
            {"type": "json_schema", "json_schema": {"properties": {"a": {"type": "text"}}}},
            "/json_schema/properties/a",
        ),
        ({"type": "json_schema", "json_schema": {"minLength": -1}}, "/json_schema/minLength"),
        (
            {"type": "json_schema", "json_schema": {"allOf": [{"type": "string"}, {"type": "null"}]}},
            "/json_schema",
        ),
        ({"type": "json_schema", "json_schema": {"type": "string"}, "style": "glm_xml"}, "/json_schema"),
        ({"type": "regex", "pattern": "("}, "/pattern"),
        ({"type": "grammar", "grammar": "root ::= other"}, "/grammar"),
    ],
)
def test_an_error_in_a_content_names_its_place(content: dict[str, Any], place: str) -> None:
    constraint = structural_tag(of({"type": "sequence", "elements": [X, tag("<a>", content, "</a>")]}))
    with pytest.raises(ConstrainedError) as refused:
        constraint.grammar  # noqa: B018
    assert refused.value.problems[0].place.startswith(f"#/format/elements/1/content{place}")


def test_too_many_triggers() -> None:
    tags = [tag(f"<{i}>", X, "") for i in range(501)]
    form = {"type": "triggered_tags", "triggers": [one["begin"] for one in tags], "tags": tags}
    with pytest.raises(ConstraintTooLarge) as refused:
        structural_tag(of(form))
    assert refused.value.problems[0].place == "#/format/triggers"
    with pytest.raises(ConstraintTooLarge):
        structural_tag(of({"type": "dispatch", "rules": [[f"<{i}>", X] for i in range(501)]}))


def test_formats_too_deep() -> None:
    form: dict[str, Any] = X
    for _ in range(200):
        form = {"type": "optional", "content": form}
    with pytest.raises(ConstraintTooLarge):
        structural_tag(of(form))


@pytest.mark.parametrize(
    "wrong", [None, [], "x", 3, {"type": "structural_tag", "format": {1: 2}}, of({"type": X})]
)
def test_what_is_no_definition(wrong: Any) -> None:
    with pytest.raises(InvalidConstraint):
        structural_tag(wrong)


def test_values() -> None:
    assert structural_tag(of({"type": "json_schema", "json_schema": {"type": "integer"}})).parse("12") == 12
    assert structural_tag(of(LIST)).parse("<a>x</a>") == "<a>x</a>"
    triggered = {
        "type": "triggered_tags",
        "triggers": ["<"],
        "tags": [
            tag("<a>", {"type": "json_schema", "json_schema": {"type": "string"}}, ["</a>", "|"]),
            tag("<ab", {"type": "sequence", "elements": [X, DIGITS]}, ">"),
        ],
    }
    value = structural_tag(of(triggered)).parse('so <a>"</a>"| and <abx1>')
    assert value == ["so ", Section("<a>", "</a>", '"</a>"'), " and ", Section("<ab", "x1", "x1")]


def test_equal_definitions_are_equal_constraints() -> None:
    one, same, other = structural_tag(of(LIST)), structural_tag(of(LIST)), structural_tag(of(X))
    assert one == same
    assert one.key == same.key
    assert one != other
    again = pickle.loads(pickle.dumps(one))
    assert again == one
    assert accepts(compile(again, BYTES), "<a>x</a>")
    assert "structural_tag(" in repr(one)


def test_many_tools_have_rules_of_their_own() -> None:
    tags = [
        tag(
            f"<f{i}>",
            {"type": "json_schema", "json_schema": {"properties": {f"a{i}": {"type": "array"}}}},
            "</f>",
        )
        for i in range(60)
    ]
    automaton = compile(
        structural_tag(of({"type": "triggered_tags", "triggers": ["<f"], "tags": tags})), BYTES
    )
    assert accepts(automaton, 'so <f7>{"a7": [1]}</f><f59>{"a59": []}</f>')
    assert not accepts(automaton, 'so <f7>{"a8": [1]}</f>')


def test_spans_of_a_document() -> None:
    schema = {"properties": {"q": {"type": "string", "x-span": True}}, "required": ["q"], "type": "object"}
    content = {"type": "json_schema", "json_schema": schema}
    constraint = structural_tag(of(tag("<a>", content, "</a>")))
    assert constraint.needs_document
    automaton = compile(constraint.bind("Ana lives in Brno."), BYTES)
    assert accepts(automaton, '<a>{"q": "in Brno"}</a>')
    assert not accepts(automaton, '<a>{"q": "in Wien"}</a>')
    assert accepts(compile(constraint.without_document(), BYTES), '<a>{"q": "in Wien"}</a>')


def test_special_tokens_spell_the_texts_of_a_tag() -> None:
    names = {"<|call|>": 256, "<|end|>": 257, "<|open|>": 258, "<|pad|>": 259, "<|eos|>": 260}
    tokens = [*(bytes([i]) for i in range(256)), *[b""] * 5]
    vocabulary = Vocabulary(tokens, [260], special=names)
    content = {"type": "json_schema", "json_schema": {"type": "object"}, "style": "kimi_k3_xml"}
    form = {
        "type": "sequence",
        "elements": [ANY, tag("<|call|>", {"type": "optional", "content": content}, ["<|end|>", "<|eos|>"])],
    }
    constraint = structural_tag(of(form))
    automaton = compile(constraint, vocabulary)
    assert automaton.vocabulary.special_texts == {"<|call|>", "<|end|>", "<|open|>"}
    written = [*b"so ", 256, 257]
    states = automaton.walk(automaton.start, written)
    assert len(states) == len(written)
    assert automaton.accepts(states[-1])
    assert automaton.next(states[-1], 260)
    assert not automaton.next(states[2], 259)  # a special token that the tag does not name is no text
    assert not automaton.next(states[2], 260)
    assert automaton.next(states[3], 258)  # `<|open|>` is markup of the style
    plain = [*b"so <|call|>", 257]
    assert len(automaton.walk(automaton.start, plain)) == len(plain)
    assert automaton.vocabulary.decode(written) == b"so <|call|><|end|>"
    assert compile(constraint, vocabulary).vocabulary is automaton.vocabulary
    again = pickle.loads(pickle.dumps(vocabulary))
    assert again.with_special_texts(names) == vocabulary.with_special_texts(names)
    assert vocabulary.with_special_texts(["<|eos|>", "other"]) is vocabulary
