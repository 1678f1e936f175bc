"""Replies of published models: the calls that their chat templates write are constrained, and read back."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import numpy as np
import pytest

from constrained import Generator
from constrained.chat.detect import detect_formats
from constrained.chat.parameters import ParameterReader
from constrained.chat.reply import Reply, reply_constraint
from constrained.chat.reply_frame_probe import detect_reply_frame
from constrained.chat.tool_format import HERMES
from constrained.chat.tool_format_probe import HARMONY, detect_tool_format
from constrained.chat.tools import Tool
from constrained.errors import InvalidArgument, UnsupportedConstraint
from constrained.grammars.json_schema import PARAMETER_STYLES
from tests.support.chat_templates import CALLS, CITY, TOOLS, TemplateSpeaker
from tests.tools import chat_templates as tool

QUICK = {
    "openai-gpt-oss-120b": True,
    "Qwen3-Coder": False,
    "GLM-4.6": True,
    "MiniMax-M2": False,
    "MiniMax-M3": True,
    "deepseek-ai-DeepSeek-V3.2": True,
    "moonshotai-Kimi-K2": False,
    "Kimi-K3": True,
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": True,
    "Mistral-Small-3.2-24B-Instruct-2506": False,
    "upstage-Solar-Open-100B": True,
    "mistralai-Ministral-3-14B-Reasoning-2512": True,
    "Apriel-1.6-15b-Thinker-fixed": True,
    "google-gemma-4-31B-it": True,
    "LFM2.5-8B-A1B": False,
}
"""One template of each kind, and whether its model thinks first."""
REFUSED = {
    "openbmb-MiniCPM5-1B": "neither in JSON nor in markup",
}


@pytest.mark.parametrize("name", QUICK)
def test_the_calls_of_a_template_are_constrained_and_read_back(name: str) -> None:
    assert tool.holds(name, "auto", thinking=QUICK[name])


@pytest.mark.parametrize("name", REFUSED)
def test_other_forms_are_refused_by_what_they_are(name: str) -> None:
    with pytest.raises(InvalidArgument, match=REFUSED[name]):
        detect_tool_format(TemplateSpeaker(name))


@pytest.mark.slow
def test_the_table_of_the_documentation_is_what_holds() -> None:
    """Every family, with and without reasoning, for each choice of tools."""
    page = tool.PAGE.read_text(encoding="utf-8")
    assert page.partition(tool.BEGIN)[2].partition(tool.END)[0] == tool.table()


def test_every_template_of_the_table_is_recorded() -> None:
    assert set(tool.FAMILIES) == set(tool.recorded())
    assert set(REFUSED) | set(QUICK) <= set(tool.FAMILIES)


# ---------------------------------------------------------------- reasoning and content


def test_reasoning_is_apart_from_content_in_every_piece() -> None:
    """Character by character, the reasoning ends where its tag does, white space around it aside."""
    model = TemplateSpeaker("Qwen-Qwen3-0.6B")
    constraint = reply_constraint(frame=detect_reply_frame(model, thinking=True))
    parser = constraint.parser()
    text = "<think>\n Is it 3 < 4?\n\n</think>\n\nYes, </think> is a tag."
    pieces = [piece for char in text for piece in parser.feed(char)] + parser.finish()
    assert "".join(piece.text for piece in pieces if piece.reasoning) == "Is it 3 < 4?"
    assert parser.reply == Reply("Yes, </think> is a tag.", reasoning="Is it 3 < 4?")
    assert constraint.parse("<think>\nand").reasoning == "and"


@pytest.mark.parametrize(
    ("name", "thinking", "frame"),
    [
        ("openai-gpt-oss-120b", True, ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant")),
        ("deepseek-ai-DeepSeek-V3.2", True, ("", "</think>")),
        ("Qwen-Qwen3-0.6B", True, ("<think>\n", "</think>\n\n")),
        ("upstage-Solar-Open-100B", True, ("<|think|>", "<|end|><|begin|>assistant")),
        ("mistralai-Ministral-3-14B-Reasoning-2512", True, ("[THINK]", "[/THINK]")),
        ("Apriel-1.6-15b-Thinker-fixed", True, ("", "[BEGIN FINAL RESPONSE]\n")),
        ("Qwen-Qwen3-0.6B", False, None),
    ],
)
def test_what_stands_around_reasoning_is_read_off_the_template(name: str, thinking: bool, frame: Any) -> None:
    assert detect_reply_frame(TemplateSpeaker(name), thinking=thinking).reasoning == frame


def test_a_block_of_reasoning_that_the_prompt_opens_is_closed_first() -> None:
    """MiniMax M2: its prompt always ends with an open block; JSON must not be written into it."""
    script = '</think>\n\n{"city": "Rome"}'
    model = TemplateSpeaker("MiniMax-M2", script)
    frame = detect_reply_frame(model)
    assert frame.lead == "</think>\n\n"
    out = Generator(model, reply_constraint(content=CITY, frame=frame))("x", max_tokens=60)
    assert (out.text, out.value.content) == (script, '{"city": "Rome"}')


def test_content_and_calls_of_gpt_oss_are_messages_of_their_own() -> None:
    told = '<|channel|>final<|message|>{"city": "Rome"}'
    model = TemplateSpeaker("openai-gpt-oss-120b", told)
    formats = detect_formats(model, tools=True)
    assert formats.frame.calls_alone
    constraint = reply_constraint(TOOLS, content=CITY, format=formats.tools, frame=formats.frame)
    out = Generator(model, constraint)("x", max_tokens=80)
    assert (out.text, out.value.content) == (told, '{"city": "Rome"}')
    for form in (' to=functions.weather<|channel|>commentary json<|message|>{"city": "R"}',
                 '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "R"}'):  # fmt: skip
        spoken = Generator(TemplateSpeaker("openai-gpt-oss-120b", form), constraint)("x", max_tokens=80)
        assert spoken.text == form
        assert [(call.name, call.arguments) for call in spoken.value.calls] == [("weather", {"city": "R"})]


@pytest.mark.parametrize("name", ["Qwen3-Coder", "tencent-Hy3"])
def test_a_model_without_reasoning_is_not_made_to_think(name: str) -> None:
    """Also where the prompt opens a block and closes it."""
    with pytest.raises(InvalidArgument, match="shows no reasoning"):
        detect_reply_frame(TemplateSpeaker(name), thinking=True)


@pytest.mark.parametrize(
    ("name", "spelled", "chosen", "wrong"),
    [
        ("Mistral-Small-3.2-24B-Instruct-2506", "[TOOL_CALLS]weather[CALL_ID]{}[ARGS]", "aB3dE6gH9", "abc-12345"),
        ("Mistral-Small-3.2-24B-Instruct-2506", "[TOOL_CALLS]weather[CALL_ID]{}[ARGS]", "000000000", "0000000000"),
        (
            "upstage-Solar-Open-100B",
            "<|tool_calls|><|tool_call:begin|>{}<|tool_call:name|>weather<|tool_call:args|>",
            "a1b2c3d4e5",
            "a" * 41,
        ),
    ],
)  # fmt: skip
def test_the_model_chooses_the_id_of_a_call(name: str, spelled: str, chosen: str, wrong: str) -> None:
    """Of nine letters and digits where the template insists on them; read character by character, too."""
    format = detect_tool_format(TemplateSpeaker(name))
    constraint = reply_constraint(TOOLS, tool_choice="weather", format=format)
    script = spelled.format(chosen) + '{"city": "Rome"}' + format.tail
    out = Generator(TemplateSpeaker(name, script), constraint)("x", max_tokens=120)
    assert (out.text, out.value.calls[0].arguments) == (script, {"city": "Rome"})
    parser = constraint.parser()
    for char in script:
        parser.feed(char)
    parser.finish()
    assert parser.reply == out.value
    refused = spelled.format(wrong) + '{"city": "Rome"}' + format.tail
    assert Generator(TemplateSpeaker(name, refused), constraint)("x", max_tokens=120).text != refused
    assert constraint.parse(refused).calls == ()
    two = format.format_calls(("weather", "{}"), ("weather_map", "{}"))
    assert [call.name for call in reply_constraint(TOOLS, format=format).parse(two).calls] == [
        "weather",
        "weather_map",
    ]


# ---------------------------------------------------------------- markup read back


class Dice(TemplateSpeaker):
    """Says anything, from a seed."""

    seed = 0

    def logits(self, prompt: list[int], tokens: list[int]) -> Any:
        return np.random.default_rng((self.seed, len(tokens))).normal(0, 3, self.vocabulary.size)


@pytest.mark.parametrize("name", ["Qwen3-Coder", "GLM-4.7-Flash", "MiniMax-M3", "Kimi-K3", "deepseek-ai-DeepSeek-V3.2", "google-gemma-4-31B-it", "LFM2.5-8B-A1B"])  # fmt: skip
def test_whatever_is_written_is_valid_when_it_is_read_back(name: str) -> None:
    """Random calls within the constraint; jsonschema judges what is read."""
    schema = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "maxLength": 8},
            "either": {"type": ["integer", "string"], "maxLength": 4, "maximum": 99},
            "list": {"type": "array", "items": {"enum": ["a", 1, None]}, "maxItems": 2},
        },
        "required": ["text", "either"],
    }
    model = Dice(name)
    formats = detect_formats(model, tools=True)
    constraint = reply_constraint(
        [{"name": "f", "parameters": schema}], tool_choice="f", format=formats.tools, frame=formats.frame
    )
    for model.seed in range(3):
        reply = Generator(model, constraint)("x", max_tokens=200).value
        assert [call.name for call in reply.calls] == ["f"]
        jsonschema.validate(reply.calls[0].arguments, schema)


def test_a_text_that_could_be_two_values_is_what_the_schema_allows() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": ["string", "null"]}},
        "required": ["a", "b"],
    }
    reader = ParameterReader(PARAMETER_STYLES["glm_xml"], Tool("f", schema).arguments)

    def read(name: str, text: str) -> Any:
        found = reader.read(f"<arg_key>{name}</arg_key><arg_value>{text}</arg_value>")
        return found and json.loads(found.text)

    assert [read("a", "3"), read("b", "3"), read("c", "null"), read("c", "nul")] == ["3", 3, None, "nul"]
    assert read("a", "NaN") == "NaN"
    assert reader.read("<arg_key>a</arg_key><arg_value>3</arg_val") is None


def test_a_schema_that_has_no_markup_names_the_tool() -> None:
    format = detect_tool_format(TemplateSpeaker("Qwen3-Coder"))
    listed = {"type": "object", "enum": [{"a": 1}]}
    constraint = reply_constraint([{"name": "f", "parameters": listed}], format=format)
    with pytest.raises(UnsupportedConstraint, match="the tool 'f'"):
        _ = constraint.grammar


def test_markup_may_not_be_closed_by_a_string() -> None:
    """Both the closing tag in letters and a special token of the markup stay out of strings."""
    script = "<tool_call>\n<function=weather>\n<parameter=city>\n</parameter> x\n</parameter>\n</function>\n</tool_call>"
    model = TemplateSpeaker("Qwen3-Coder", script)
    out = Generator(model, reply_constraint(TOOLS, format=detect_tool_format(model)))("x", max_tokens=120)
    assert "</parameter>" not in out.value.calls[0].arguments["city"]


def test_formats_by_name() -> None:
    assert detect_tool_format(TemplateSpeaker("Qwen-Qwen2.5-7B-Instruct")).begin == HERMES.begin
    assert HARMONY.single
    assert len(CALLS) == 2
