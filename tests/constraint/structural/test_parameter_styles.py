"""Arguments of tools in the markup of model families, by hand: raw strings, JSON for the rest, nested markup."""

from __future__ import annotations

from typing import Any

import pytest

from constrained import UnsatisfiableConstraint, UnsupportedConstraint, compile, structural_tag
from tests.support.reading import accepts
from tests.support.structural_tags import BYTES

QWEN = "<parameter={name}>{value}</parameter>"
MARKUP = {
    "qwen_xml": QWEN,
    "minimax_xml": '<parameter name="{name}">{value}</parameter>',
    "glm_xml": "<arg_key>{name}</arg_key><arg_value>{value}</arg_value>",
    "deepseek_xml": '<｜DSML｜parameter name="{name}" string="{is_string}">{value}</｜DSML｜parameter>',
    "deepseek_v4_1_xml": '<｜DSML｜ parameter name="{name}" string="{is_string}">{value}</｜DSML｜ parameter>',
    "kimi_k3_xml": '<|open|>argument key="{name}" type="{kind}"<|sep|>{value}<|close|>argument<|sep|>',
    "cohere_xml": '<cofl:value name="{name}" type="{cohere}">{value}</cofl:value>',
    "minimax_m3_xml": "]<]minimax[>[<{name}>{value}]<]minimax[>[</{name}>",
}
COHERE = {"string": "raw", "object": "dict", "array": "list"}


def parameter(style: str, name: str, kind: str, value: str) -> str:
    cohere, is_string = COHERE.get(kind, "json"), "true" if kind == "string" else "false"
    return MARKUP[style].format(name=name, kind=kind, value=value, cohere=cohere, is_string=is_string)


def judge(schema: Any, style: str = "qwen_xml", **more: Any) -> Any:
    form = {"type": "json_schema", "json_schema": schema, "style": style, **more}
    automaton = compile(structural_tag({"type": "structural_tag", "format": form}), BYTES)
    return lambda text: accepts(automaton, text)


def arguments(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required or []}


@pytest.mark.parametrize("style", MARKUP)
@pytest.mark.parametrize(
    ("schema", "kind", "good", "bad"),
    [
        ({"type": "string"}, "string", ["", "Brno", 'a "b" {', "12", "a\nb"], []),
        ({"type": "string", "minLength": 2, "maxLength": 3}, "string", ["ab", "é日x"], ["a", "abcd"]),
        ({"type": "string", "pattern": "^[ab]+$"}, "string", ["ab"], ["", "abc"]),
        ({"type": "string", "format": "date"}, "string", ["2024-02-29"], ["2024-13-01", "today"]),
        ({"type": "string", "not": {"const": "no"}}, "string", ["yes", "nothing"], ["no"]),
        ({"enum": ["C", "F"]}, "string", ["C", "F"], ["K", '"C"']),
        ({"const": "x y"}, "string", ["x y"], ["x"]),
        ({"type": "integer", "minimum": 1}, "number", ["1", "20"], ["0", "1.5", '"1"', ""]),
        ({"type": "number"}, "number", ["1.5", "-2e3"], ["a", ""]),
        ({"type": "boolean"}, "boolean", ["true", "false"], ["True", ""]),
        ({"type": "null"}, "null", ["null"], ["None"]),
        ({"const": 3}, "number", ["3"], ["4"]),
        ({"$ref": "#/$defs/s"}, "string", ["x"], []),
    ],
)
def test_values(style: str, schema: Any, kind: str, good: list[str], bad: list[str]) -> None:
    accepted = judge({**arguments(["a"], a=schema), "$defs": {"s": {"type": "string"}}}, style)
    assert [text for text in good if not accepted(parameter(style, "a", kind, text))] == []
    assert [text for text in bad if accepted(parameter(style, "a", kind, text))] == []
    assert not accepted("")
    assert not accepted(parameter(style, "b", kind, good[0]))


@pytest.mark.parametrize("style", MARKUP)
def test_parameters(style: str) -> None:
    accepted = judge(arguments(["b"], a={"type": "string"}, b={"type": "integer"}), style)
    a, b = parameter(style, "a", "string", "x"), parameter(style, "b", "number", "1")
    assert accepted(a + b)
    assert accepted(b)
    assert accepted(f"{a}\n{b}\n")
    for text in ("", a, b + a, a + a + b, f"{a},{b}", parameter(style, "c", "number", "1") + b):
        assert not accepted(text), text
    free = judge(arguments(["b"], a={"type": "string"}, b={"type": "integer"}), style, any_order=True)
    assert free(b + a)
    assert free(a + b)
    for text in (a, a + a + b, b + b):  # required ones come, and none comes twice
        assert not free(text), text


@pytest.mark.parametrize(
    "style", [style for style in MARKUP if style not in ("cohere_xml", "minimax_m3_xml")]
)
def test_objects_and_arrays_are_json(style: str) -> None:
    accepted = judge(arguments(a={"type": "array", "items": {"type": "string"}}, b={"type": "object"}), style)
    assert accepted(parameter(style, "a", "array", '["x", "y"]'))
    assert accepted(parameter(style, "b", "object", '{"k": [1, null]}'))
    assert not accepted(parameter(style, "a", "array", "[x]"))
    close = MARKUP[style].partition("{value}")[2]
    assert not accepted(parameter(style, "a", "array", f'["{close}"]'))  # a reader would end the value there
    assert accepted(parameter(style, "a", "array", f'["{close}"]'.replace("<", "\\u003c")))


NESTED = arguments(
    to={"type": "array", "items": {"type": "string"}, "minItems": 1},
    body={**arguments(["s"], s={"type": "string"}, n={"type": "number"})},
    any={"type": "array", "items": {"type": ["integer", "null"]}},
    what={"const": {"k": ["v", 1]}},
)


def test_cohere_nests() -> None:
    accepted = judge(NESTED, "cohere_xml")

    def value(kind: str, text: str, name: str = "") -> str:
        named = f' name="{name}"' if name else ""
        return f'<cofl:value{named} type="{kind}">{text}</cofl:value>'

    assert accepted(value("list", value("raw", "x") + value("raw", ""), "to"))
    assert accepted(value("dict", value("raw", "x", "s") + value("json", "1.5", "n"), "body"))
    assert accepted(value("list", value("json", "null") + value("json", "2"), "any"))
    assert accepted(value("list", "", "any"))
    assert not accepted(value("list", "", "to"))
    assert not accepted(value("list", '["x"]', "to"))
    assert not accepted(value("dict", value("json", "1.5", "n"), "body"))
    assert not accepted(value("json", '{"s": "x"}', "body"))
    assert judge(arguments(**{'a&"': {"type": "string"}}), "cohere_xml")(value("raw", "1", "a&amp;&quot;"))


def test_minimax_m3_nests() -> None:
    accepted = judge(NESTED, "minimax_m3_xml")
    mark = "]<]minimax[>["

    def value(name: str, text: str) -> str:
        return f"{mark}<{name}>{text}{mark}</{name}>"

    assert accepted(value("to", value("item", "x") + value("item", "")))
    assert accepted(value("body", value("s", "x") + value("n", "1.5")))
    assert accepted(value("what", value("k", value("item", "v") + value("item", "1"))))
    assert not accepted(value("to", ""))
    assert not accepted(value("to", '["x"]'))
    assert not accepted(value("body", value("n", "1.5")))
    assert not accepted(f"{mark}<to>{value('item', 'x')}{mark}</body>")


def test_a_value_of_several_types() -> None:
    schema = arguments(["a"], a={"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]})
    typed = judge(schema, "kimi_k3_xml")
    assert typed(parameter("kimi_k3_xml", "a", "string", "x"))
    assert typed(parameter("kimi_k3_xml", "a", "string", "12"))
    assert typed(parameter("kimi_k3_xml", "a", "number", "12"))
    assert not typed(parameter("kimi_k3_xml", "a", "number", "x"))
    assert not typed(parameter("kimi_k3_xml", "a", "null", "12"))
    flag = judge(schema, "deepseek_xml")
    assert flag(parameter("deepseek_xml", "a", "null", "null"))
    assert not flag(parameter("deepseek_xml", "a", "number", "x"))


def test_names_that_no_schema_declares() -> None:
    open_ = {**arguments(a={"type": "integer"}), "additionalProperties": {"type": "boolean"}}
    accepted = judge(open_)
    assert accepted("<parameter=a>1</parameter><parameter=b>true</parameter>")
    assert not accepted("<parameter=a>true</parameter>")  # XGrammar takes a declared name for another one
    assert not accepted("<parameter=b>1</parameter>")
    assert not accepted("<parameter=b c>true</parameter>")
    anything = judge({"type": "object"})
    assert anything("<parameter=x>so</parameter><parameter=y>[1]</parameter>")
    assert anything("")
    patterns = judge(
        {"type": "object", "patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": False}
    )
    assert patterns("<parameter=n_x>1</parameter>")
    assert not patterns("<parameter=x>1</parameter>")
    any_order = judge({**open_, "required": ["a"]}, any_order=True)
    assert any_order("<parameter=b>true</parameter><parameter=a>1</parameter>")
    assert not any_order("<parameter=b>true</parameter>")


def test_excluded_texts() -> None:
    schema = arguments(
        a={"type": "string"}, b={"type": "array", "items": {"type": "string"}}, c={"enum": ["x|y", "z"]}
    )
    accepted = judge(schema, excludes=["|"])
    assert accepted("<parameter=a>x</parameter>")
    assert not accepted("<parameter=a>x|</parameter>")
    assert accepted('<parameter=b>["x"]</parameter>')
    assert not accepted('<parameter=b>["x|"]</parameter>')
    assert accepted('<parameter=b>["x\\u007c"]</parameter>')  # as it is written
    assert accepted("<parameter=c>z</parameter>")
    assert not accepted("<parameter=c>x|y</parameter>")
    json = judge(arguments(**{"a": {"type": "string"}, "p|q": {"type": "null"}}), "json", excludes=["|"])
    assert json('{"a": "x"}')
    assert not json('{"a": "x|"}')
    assert not json('{"p|q": null}')
    pattern = judge(arguments(a={"type": "string", "pattern": "^[|]+$"}), "json", excludes=["|"])
    assert pattern('{"a": "||"}')  # a pattern decides alone
    length = judge(arguments(a={"type": "string", "minLength": 2}), "json", excludes=["|"])
    assert not length('{"a": "x"}')
    assert not length('{"a": "x|"}')
    assert length('{"a": "xy"}')


def test_white_space() -> None:
    schema = arguments(a={"type": "integer"})
    for style, text in (("qwen_xml", "<parameter=a>{}1{}</parameter>{}"), ("json", '{{"a":{}1{}}}{}')):
        two = judge(schema, style, max_whitespace_cnt=2)
        assert two(text.format("  ", "\t\n", ""))
        assert not two(text.format("   ", "", ""))
        none = judge(schema, style, max_whitespace_cnt=0)
        assert none(text.format("", "", ""))
        assert not none(text.format(" ", "", ""))
        default = judge(schema, style)
        assert default(text.format("\n    ", "\n", ""))
        assert not default(text.format("  \n" * 3, "", ""))


@pytest.mark.parametrize(
    ("schema", "style"),
    [
        ({"type": "string"}, "qwen_xml"),
        ({"const": {"a": 1}}, "qwen_xml"),
        ({"type": "object", "not": {"required": ["a"], "properties": {"a": {"type": "null"}}}}, "glm_xml"),
        ({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 3}, "qwen_xml"),
        ({"type": "object", "additionalProperties": True}, "minimax_m3_xml"),
        (arguments(a={"type": "array", "uniqueItems": True}), "cohere_xml"),
    ],
)
def test_what_has_no_markup_is_refused(schema: Any, style: str) -> None:
    with pytest.raises(UnsupportedConstraint) as refused:
        judge(schema, style)
    assert refused.value.problems[0].place.startswith("#/format/json_schema")


def test_arguments_that_cannot_be_written() -> None:
    with pytest.raises(UnsatisfiableConstraint):
        judge(arguments(["a"], a={"enum": ["</parameter>"]}))
    with pytest.raises(UnsatisfiableConstraint):
        judge(arguments(["a"], a={"enum": ["|"]}), "json", excludes=["|"])
