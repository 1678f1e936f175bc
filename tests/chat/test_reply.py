"""A chat's answer: free text, or calls that follow their schemas exactly; and its text, read back piece by piece."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained import DoesNotFit, Generator, compile
from constrained.chat.reply import Reply, ReplyConstraint, ReplyDelta, ToolCall, reply_constraint
from constrained.chat.tools import ToolFormat, parse_tools
from constrained.errors import InvalidArgument, InvalidConstraint, UnsupportedConstraint
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "What the weather is like.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 30},
                "days": {"type": "integer", "minimum": 1, "maximum": 7},
            },
            "required": ["city"],
        },
    },
}
ADD: dict[str, Any] = {
    "name": "add",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
NOW = {"type": "function", "function": {"name": "now"}}
VOCABULARY = byte_vocabulary("<tool_call>", "</tool_call>", '{"name": "', '", "arguments": {')


def call(name: str, **arguments: Any) -> str:
    """A call as Hermes writes it."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def generate_reply(script: str, constraint: ReplyConstraint, **settings: Any) -> Any:
    """What a model that wants to say the script comes to say."""
    return Generator(ScriptedModel(VOCABULARY, script), constraint)("hi", **settings)


def calls_of(reply: Reply) -> list[tuple[str, Any]]:
    return [(one.name, one.arguments) for one in reply.calls]


# ---------------------------------------------------------------- which replies are allowed


def test_a_model_may_answer_in_words_or_call_a_tool_or_both():
    both = reply_constraint([WEATHER, ADD])
    assert generate_reply("It is 5 < 6.", both).value == Reply("It is 5 < 6.")
    assert calls_of(generate_reply(call("add", a=1, b=-2), both).value) == [("add", {"a": 1, "b": -2})]
    mixed = generate_reply("Let me see. " + call("weather", city="Łódź 😀"), both).value
    assert mixed.content == "Let me see. "
    assert calls_of(mixed) == [("weather", {"city": "Łódź 😀"})]


def test_several_calls_or_one():
    script = call("weather", city="Oslo") + "\n" + call("add", a=1, b=2)
    assert [one.name for one in generate_reply(script, reply_constraint([WEATHER, ADD])).value.calls] == [
        "weather",
        "add",
    ]
    single = generate_reply(script, reply_constraint([WEATHER, ADD], parallel=False))
    assert [one.name for one in single.value.calls] == ["weather"]
    assert single.finish == "complete"  # only the end can follow, so the model does not draw it


def test_a_call_may_hold_its_own_markers_in_strings():
    city = '</tool_call> } "<tool_call>'
    out = generate_reply(call("weather", city=city), reply_constraint([WEATHER]))
    assert calls_of(out.value) == [("weather", {"city": city})]


def test_a_model_that_calls_wrongly_is_put_right():
    wrong = '<tool_call>\n{"name": "wether", "arguments": {"town": "Oslo", "days": 99}}\n</tool_call>'
    out = generate_reply(wrong, reply_constraint([WEATHER]), max_tokens=120)
    ((name, arguments),) = calls_of(out.value)
    assert name == "weather"
    jsonschema.validate(arguments, WEATHER["function"]["parameters"])


def test_a_tool_without_parameters_takes_none():
    assert calls_of(generate_reply(call("now"), reply_constraint([NOW])).value) == [("now", {})]


@pytest.mark.parametrize("limit", [20, 33, 46, 47, 48, 59, 90])
def test_a_model_that_never_closes_a_call_is_closed_in_time(limit):
    babble = '<tool_call>\n{"name": "weather", "arguments": {"city": "' + "a" * 500
    out = generate_reply(babble, reply_constraint([WEATHER]), max_tokens=limit)
    assert len(out.tokens) <= limit
    for one in out.value.calls:
        jsonschema.validate(one.arguments, WEATHER["function"]["parameters"])
    assert not re.search("<tool_call>(?!.*</tool_call>)", out.text, re.DOTALL)


def test_calls_can_be_required_ruled_out_or_named():
    assert generate_reply(
        "I would rather talk.", reply_constraint([ADD], tool_choice="required"), max_tokens=60
    ).value.calls
    assert (
        generate_reply(
            "I would rather talk.", reply_constraint([ADD], tool_choice="any"), max_tokens=60
        ).value.content
        == ""
    )
    named = reply_constraint([WEATHER, NOW], tool_choice={"type": "function", "function": {"name": "now"}})
    assert calls_of(generate_reply(call("weather", city="Oslo"), named).value) == [("now", {})]
    assert (
        generate_reply(call("now") + "\n" + call("now"), reply_constraint([NOW], tool_choice="now")).finish
        == "complete"
    )
    none = generate_reply("Well, " + call("add", a=1, b=2), reply_constraint([ADD], tool_choice="none"))
    assert none.value.calls == ()
    assert "<tool_call>" not in none.text
    with pytest.raises(DoesNotFit):
        generate_reply("", reply_constraint([ADD], tool_choice="required"), max_tokens=3)


def test_stop_sequences_end_free_text_where_they_first_stand():
    out = generate_reply("one, two. three", reply_constraint(stop=["two.", "END"]))
    assert (out.value, out.finish) == (Reply("one, ", stop="two."), "complete")
    assert generate_reply("one", reply_constraint(stop=["two"])).value == Reply("one")
    inside = generate_reply(call("weather", city="END"), reply_constraint([WEATHER], stop=["END"]))
    assert calls_of(inside.value) == [("weather", {"city": "END"})]


def test_the_text_of_a_reply_can_be_json_of_a_schema():
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    constraint = reply_constraint([ADD], content=schema)
    assert generate_reply('{"x": 1}', constraint).value == Reply('{"x": 1}')
    assert calls_of(generate_reply(call("add", a=1, b=2), constraint).value) == [("add", {"a": 1, "b": 2})]
    assert generate_reply("words", reply_constraint(content=schema), max_tokens=60).text.startswith("{")


def test_other_formats_are_described_by_their_parts():
    llama = ToolFormat('{"name": "', '{name}", "parameters": ', "}", ";")
    text = '{"name": "add", "parameters": {"a": 1, "b": 2}}'
    assert calls_of(generate_reply(text, reply_constraint([ADD], format=llama)).value) == [
        ("add", {"a": 1, "b": 2})
    ]
    functions = ToolFormat("<function=", "{name}>", "</function>", "")
    two = '<function=add>{"a": 1, "b": 2}</function><function=now>{}</function>'
    assert [
        one.name for one in generate_reply(two, reply_constraint([ADD, NOW], format=functions)).value.calls
    ] == [
        "add",
        "now",
    ]
    for parts in [("", "{name}>", ""), ("<", "name>", ""), ("<", "{name}", ""), ("<", "{name}x", "")]:
        with pytest.raises(InvalidArgument):
            ToolFormat(*parts)


def test_equal_requests_share_a_key_and_others_do_not():
    key = reply_constraint([WEATHER]).key
    assert key == reply_constraint([dict(WEATHER)]).key
    others = [
        reply_constraint([ADD]),
        reply_constraint([WEATHER], tool_choice="any"),
        reply_constraint([WEATHER], tool_choice="none"),
        reply_constraint([WEATHER], parallel=False),
        reply_constraint([WEATHER], stop=["x"]),
        reply_constraint([WEATHER], closed=False),
        reply_constraint([WEATHER], content={}),
        reply_constraint([WEATHER], format=ToolFormat("<call>")),
        reply_constraint(),
    ]
    assert len({key, *(other.key for other in others)}) == len(others) + 1


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("tools", "place"),
    [
        ([{"name": "two words"}], "#/tools/0/name"),
        ([{"name": "größe"}], "#/tools/0/name"),
        ([{"name": "x" * 65}], "#/tools/0/name"),
        ([NOW, {"type": "function", "function": {"name": ""}}], "#/tools/1/function/name"),
        ([{"type": "function", "function": "now"}], "#/tools/0/function"),
        ([{"type": "web_search"}], "#/tools/0/type"),
        (["now"], "#/tools/0"),
        ([NOW, NOW], "#/tools/1"),
        ([{"name": "f", "parameters": {"type": "array"}}], "#/tools/0/parameters"),
        ([{"name": "f", "parameters": "none"}], "#/tools/0/parameters"),
        ([{"name": "f", "description": 3}], "#/tools/0/description"),
        (
            [
                {
                    "name": "f",
                    "parameters": {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/x"},
                }
            ],
            "#/tools/0/parameters",
        ),
    ],
)
def test_what_is_no_tool_is_refused_with_its_place(tools, place):
    with pytest.raises(InvalidConstraint) as refused:
        parse_tools(tools)
    assert [problem.place for problem in refused.value.problems] == [place]


def test_a_schema_that_cannot_be_enforced_names_the_tool_and_the_place():
    parameters = {"type": "object", "properties": {"x": {"type": "string", "pattern": r"(a)\1"}}}
    with pytest.raises(UnsupportedConstraint, match="the tool 'twice'") as refused:
        reply_constraint([NOW, {"name": "twice", "parameters": parameters}])
    assert refused.value.problems[0].place == "#/properties/x/pattern"


@pytest.mark.parametrize("choice", ["wether", {"type": "tool"}, {"function": {}}, 3, ["now"]])
def test_a_choice_that_names_no_tool_is_refused(choice):
    with pytest.raises(InvalidArgument, match="tool_choice"):
        reply_constraint([NOW], tool_choice=choice)


def test_a_call_cannot_be_required_without_tools():
    with pytest.raises(InvalidArgument, match="tools is empty"):
        reply_constraint([], tool_choice="required")
    with pytest.raises(InvalidConstraint):
        reply_constraint({"name": "now"})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="stop"):
        reply_constraint(stop=[""])


# ---------------------------------------------------------------- reading back


@given(st.data())
def test_a_reply_does_not_depend_on_how_it_is_split(data):
    text = data.draw(st.sampled_from(["", "Well < <tool", "Two: ", "<tool_cal"]))
    cities = data.draw(st.lists(st.text(max_size=12) | st.sampled_from(["Rom", "Rome"]), max_size=4))
    text += "\n".join(call("weather", city=city) for city in cities)
    text += data.draw(st.sampled_from(["", "END and more"])) if not cities else ""
    constraint = reply_constraint([WEATHER, ADD], stop=["END"])
    reader = constraint.parser()
    pieces: list[ReplyDelta] = []
    at = 0
    while at < len(text):
        step = data.draw(st.integers(1, 30))
        pieces += reader.feed(text[at : at + step])
        at += step
    pieces += reader.finish()
    assert reader.reply == constraint.parse(text)
    assert [one.arguments["city"] for one in reader.reply.calls] == list(dict.fromkeys(cities))
    assert {piece.call for piece in pieces} - {None} == set(range(len(reader.reply.calls)))
    # The pieces, put together, are the reply: content, then each call, named once, before its arguments.
    assert "".join(piece.text for piece in pieces if piece.call is None) == reader.reply.content
    for index, one in enumerate(reader.reply.calls):
        mine = [piece for piece in pieces if piece.call == index]
        assert ToolCall(mine[0].name or "", "".join(piece.text for piece in mine)) == one
        assert [piece.name for piece in mine[1:]] == [None] * (len(mine) - 1)


def test_arguments_are_handed_over_while_they_are_written():
    reader = reply_constraint([WEATHER]).parser()
    assert reader.feed("Hm <tool") == [ReplyDelta("Hm ")]
    assert reader.feed('_call>\n{"name": "wea') == []
    assert reader.feed('ther", "arguments": {"ci') == [ReplyDelta("", 0, "weather"), ReplyDelta('{"ci', 0)]
    assert reader.feed('ty": "O') == [ReplyDelta('ty": "O', 0)]
    assert reader.reply == Reply("Hm ", (ToolCall("weather", '{"city": "O'),))


@given(st.text(max_size=40))
def test_the_grammar_and_the_reader_agree_on_free_text(text):
    text = text.encode("utf-8", "ignore").decode()
    constraint = reply_constraint([ADD], stop=["0", "aa"])
    automaton = compile(constraint, VOCABULARY)
    state = automaton.start
    for token in VOCABULARY.encode(text):
        state = automaton.next(state, token)
    reply = constraint.parse(text)
    whole = reply.content + (reply.stop or "")
    assert automaton.accepts(state) == (whole == text and not reply.calls)
