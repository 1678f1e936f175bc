"""How models write calls of tools: read off chat templates, constrained to special tokens where these are meant."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

import constrained
from constrained import Generator, Vocabulary
from constrained.chat.messages import chat_prompt
from constrained.chat.reply import reply_constraint
from constrained.chat.tool_format_probe import FORMATS, detect_tool_format
from constrained.chat.tools import HERMES, ToolFormat, parse_tools
from constrained.errors import InvalidArgument, VocabularyError
from tests.support.speaking import ARGS, FENCED, HEADED, LIST, SPECIAL, TAGGED, TOOLS, Speaker, speaker
from tests.support.tokenizers_fixtures import tekken_tokenizer

FENCED_FORMAT = ToolFormat(
    "<｜calls▁begin｜>",
    "<｜call▁begin｜>function<｜sep｜>{name}\n```json\n",
    "\n```<｜call▁end｜><｜calls▁end｜>",
    more="\n```<｜call▁end｜>\n<｜call▁begin｜>function<｜sep｜>",
    special=("<｜calls▁begin｜>", "<｜call▁begin｜>", "<｜sep｜>", "<｜call▁end｜>", "<｜calls▁end｜>"),
)


@pytest.mark.parametrize(
    ("template", "format"),
    [
        (LIST, FORMATS["mistral"]),
        (ARGS, FORMATS["mistral-args"]),
        (HEADED, FORMATS["llama3"]),
        (TAGGED, HERMES),
        (FENCED, FENCED_FORMAT),
    ],
    ids=["list", "args", "headed", "tagged", "fenced"],
)
def test_the_template_tells_the_format(template: str, format: ToolFormat) -> None:
    """What is found writes the same calls as what is known of these models."""
    found = detect_tool_format(speaker(template))
    for calls in ([("f", "{}")], [("f", '{"a": 1}'), ("g", "{}")]):
        assert found.single or found.format_calls(*calls) == format.format_calls(*calls)
    assert found.format_calls(("f", "{}")) == format.format_calls(("f", "{}"))
    assert (found.begin, found.single) == (format.begin, format.single)
    assert set(found.special) == set(format.special)


def test_tags_that_are_special_tokens_are_special_tokens() -> None:
    """One template, and two vocabularies: the tokens of the tags are text in one and not in the other."""
    tags = ("<tool_call>", "</tool_call>")
    script = HERMES.format_calls(("weather", '{"city": "Rome"}'))
    for special, plain, marks in ((SPECIAL[TAGGED], tags, ()), ((*SPECIAL[TAGGED], *tags), (), tags)):
        model = Speaker(TAGGED, script, special=special, plain=plain)
        format = detect_tool_format(model)
        assert format.special == marks
        out = Generator(model, reply_constraint(TOOLS, format=format))("x", max_tokens=200)
        assert out.text == script
        assert [call.arguments for call in out.value.calls] == [{"city": "Rome"}]
        assert model.tokenizer.convert_tokens_to_ids("<tool_call>") in out.tokens


@pytest.mark.parametrize(
    "template", [LIST, ARGS, HEADED, TAGGED, FENCED], ids=["list", "args", "headed", "tagged", "fenced"]
)
@pytest.mark.parametrize("before", ["", "I look. "])
def test_calls_are_written_and_parsed(template: str, before: str) -> None:
    format = detect_tool_format(speaker(template))
    calls = [("weather", '{"city": "Rome"}'), ("weather_map", '{"a": "}]</tool_call>"}')]
    calls = calls[: 1 if format.single else 2]
    script = before + format.format_calls(*calls)
    model = speaker(template, script)
    out = Generator(model, reply_constraint(TOOLS, format=format))("x", max_tokens=200)
    assert out.text == script
    assert out.value.content == before
    assert [(call.name, call.text) for call in out.value.calls] == calls
    for name in format.special:
        wanted = model.tokenizer.convert_tokens_to_ids(name)
        assert wanted in out.tokens or name in (format.more or "")
    # In pieces, as a stream is read.
    reader = reply_constraint(TOOLS, format=format).parser()
    for char in script:
        reader.feed(char)
    reader.finish()
    assert reader.reply == out.value


def test_a_tag_is_the_token_and_not_its_letters() -> None:
    """Letter by letter it is no tag: nothing of it may stand in free text, and no call begins behind it."""
    model = speaker(LIST)
    automaton = constrained.compile(
        reply_constraint(TOOLS, format=detect_tool_format(model)), model.vocabulary
    )
    tag = model.vocabulary.special["[TOOL_CALLS]"]
    assert automaton.next(automaton.start, tag)
    assert automaton.vocabulary.decode([tag]) == b"[TOOL_CALLS]"
    state = automaton.start
    for letter in b"[TOOL_CALLS":
        state = automaton.next(state, model.vocabulary.ids_by_bytes[bytes([letter])])
        assert state
    assert not automaton.next(state, model.vocabulary.ids_by_bytes[b"]"])
    after = automaton.next(automaton.start, tag)
    assert automaton.forced(after).decode().startswith('[{"name": "weather')
    assert not automaton.next(after, tag)
    # Special tokens that the format does not name, and bytes of no text, stay out.
    for other in (model.vocabulary.special["[INST]"], model.vocabulary.ids_by_bytes[b"\xff"]):
        assert not automaton.next(automaton.start, other)


def test_calls_that_are_required_ruled_out_or_alone() -> None:
    format = FORMATS["mistral"]
    two = format.format_calls(("weather", '{"city": "Rome"}'), ("weather", '{"city": "Oslo"}'))
    model = speaker(LIST, two)
    required = Generator(model, reply_constraint(TOOLS, tool_choice="required", format=format))(
        "x", max_tokens=200
    )
    assert len(required.value.calls) == 2
    alone = Generator(model, reply_constraint(TOOLS, parallel=False, format=format))("x", max_tokens=200)
    assert [call.arguments for call in alone.value.calls] == [{"city": "Rome"}]
    assert alone.text.endswith("}]")
    none = Generator(model, reply_constraint(TOOLS, tool_choice="none", format=format))("x", max_tokens=20)
    assert not none.value.calls
    assert "[TOOL_CALLS]" not in none.text


def test_the_history_of_a_chat_is_written_as_the_template_wants_it() -> None:
    """Ids of nine letters, arguments as text: what a template insists on, it gets."""
    call = {
        "id": "call_0123456789",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city": "Rome"}'},
    }
    chat = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0123456789", "content": "sunny"},
    ]
    for template, shown in (
        (LIST, '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Rome"}, "id": "'),
        (FENCED, None),
    ):
        model = speaker(template)
        messages = chat if shown else chat[:2]
        ids = chat_prompt(model, messages, parse_tools(TOOLS), format=detect_tool_format(model))
        text = model.tokenizer.decode(ids)
        assert (shown or '<｜sep｜>weather\n```json\n{"city": "Rome"}\n```') in text
        if shown:
            assert model.vocabulary.special["[TOOL_CALLS]"] in ids
            assert "[RESULT]sunny[/RESULT]" in text


PYTHONIC = TAGGED.replace('{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}', "{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}{% endfor %})")  # fmt: skip
SWAPPED = PYTHONIC.replace("{{ k }}={{ v | tojson }}", "{{ v | tojson }}={{ k }}")
BACKWARDS = TAGGED.replace('{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}', '{"arguments": {{ c.function.arguments | tojson }}, "name": "{{ c.function.name }}"}')  # fmt: skip
CHANNELS = TAGGED.replace("<tool_call>", "<|channel|>commentary")
NUMBERED = TAGGED.replace("</tool_call>", "</call {{ c.id }}>")
ID_FIRST = TAGGED.replace('<tool_call>\n{"name": "', '{{ c.id }} {"name": "')
CDATA = TAGGED.replace('{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}', "<call {{ c.function.name }}>{% for k, v in c.function.arguments.items() %}<arg {{ k }}>{% if v is string and '<' in v %}<![CDATA[{{ v }}]]>{% else %}{{ v }}{% endif %}</arg>{% endfor %}</call>")  # fmt: skip


@pytest.mark.parametrize(
    ("template", "what"),
    [
        (SWAPPED, "neither in JSON nor in markup"),
        (BACKWARDS, "the name of the tool after the arguments"),
        (CHANNELS, "channels"),
        (NUMBERED, "the id of the call"),
        (ID_FIRST, "starts with its name or id"),
        (CDATA, "neither in JSON nor in markup"),
    ],
)
def test_templates_whose_calls_are_not_supported_are_refused(template: str, what: str) -> None:
    with pytest.raises(InvalidArgument, match=what):
        detect_tool_format(Speaker(template))


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", None),
        ("{{ raise_exception('no') }}", None),
        (
            "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}",
            "writes no calls",
        ),
        (None, None),
    ],
)
def test_templates_that_know_no_calls_leave_them_to_be_written_as_text(template: Any, why: Any) -> None:
    model = Speaker(template)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert detect_tool_format(model) is HERMES
        assert detect_tool_format(model) is HERMES
    assert [why in str(one.message) for one in caught] == ([True] if why else [])


def test_an_answer_in_json_and_a_call_that_begins_alike_are_not_mixed() -> None:
    with pytest.raises(InvalidArgument, match="cannot be distinguished from a JSON reply"):
        reply_constraint(TOOLS, content={"type": "object"}, format=FORMATS["llama3"])


def test_special_tokens_that_there_are_not() -> None:
    model = speaker(TAGGED)
    with pytest.raises(VocabularyError, match=r"\[TOOL_CALLS\]"):
        constrained.compile(reply_constraint(TOOLS, format=FORMATS["mistral"]), model.vocabulary)
    with pytest.raises(VocabularyError, match="ends a sequence"):
        model.vocabulary.with_special_tokens(["<|im_end|>"])


@pytest.mark.ci
def test_a_real_vocabulary() -> None:
    """Mistral's Tekken, whose tags are special tokens."""
    vocabulary = Vocabulary.from_tokenizer(tekken_tokenizer())
    tag = vocabulary.special["[TOOL_CALLS]"]
    automaton = constrained.compile(reply_constraint(TOOLS, format=FORMATS["mistral"]), vocabulary)
    arguments = json.dumps({"city": "Zürich"}, ensure_ascii=False)
    ids = [*vocabulary.encode("Let me see. "), tag]
    ids += vocabulary.encode(f'[{{"name": "weather", "arguments": {arguments}}}]')
    states = automaton.walk(automaton.start, ids)
    assert len(states) == len(ids)
    assert automaton.accepts(states[-1])
    text = automaton.vocabulary.decode(ids).decode()
    assert reply_constraint(TOOLS, format=FORMATS["mistral"]).parse(text).calls[0].arguments == {
        "city": "Zürich"
    }
    assert not automaton.next(automaton.start, vocabulary.special["[INST]"])
