"""Records what the published chat templates of models write, for tests; and writes the table of the documentation.

    python -m tests.tools.chat_templates --record FOLDER   renders each template FOLDER/NAME.jinja that is listed here
    python -m tests.tools.chat_templates --table           writes the table into docs/tool-formats.md

llama-cpp-python's source distribution has the templates in vendor/llama.cpp/models/templates.
"""

from __future__ import annotations

import contextlib
import copy
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from constrained import Generator, Vocabulary
from constrained.chat.detect import detect_formats
from constrained.chat.reply import Reply, reply_constraint
from constrained.chat.reply_frame_probe import detect_reply_frame
from constrained.chat.template_probe import IDS, USER, TemplateProbe
from constrained.chat.tool_format import ToolFormat
from constrained.chat.tool_format_probe import detect_tool_format
from constrained.errors import ConstrainedError, InvalidArgument
from constrained.testing import ScriptedModel
from tests.support.chat_templates import CALLS, PATH, TOOLS, TemplateSpeaker, key_of, recorded
from tests.support.paths import ROOT
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

PAGE = ROOT / "docs" / "tool-formats.md"
BEGIN, END = (
    "<!-- formats of models: written by tests/tools/chat_templates.py -->\n",
    "<!-- end of the table -->\n",
)

FAMILIES = {
    "openai-gpt-oss-120b": "gpt-oss",
    "Qwen-Qwen2.5-7B-Instruct": "Qwen 2.5",
    "Qwen-Qwen3-0.6B": "Qwen 3",
    "Qwen3-Coder": "Qwen3-Coder",
    "Qwen3.5-4B": "Qwen 3.5",
    "Qwen-QwQ-32B": "QwQ",
    "GLM-4.6": "GLM 4.6",
    "GLM-4.7-Flash": "GLM 4.7",
    "MiniMax-M1": "MiniMax M1",
    "MiniMax-M2": "MiniMax M2",
    "MiniMax-M3": "MiniMax M3",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "DeepSeek R1",
    "deepseek-ai-DeepSeek-V3.1": "DeepSeek 3.1",
    "deepseek-ai-DeepSeek-V3.2": "DeepSeek 3.2",
    "deepseek-ai-DeepSeek-V4": "DeepSeek 4",
    "moonshotai-Kimi-K2": "Kimi K2",
    "Kimi-K3": "Kimi K3",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "Cohere Command R7B",
    "Cohere2MoE": "Cohere 2 MoE",
    "ByteDance-Seed-OSS": "Seed-OSS",
    "StepFun3.5-Flash": "Step 3.5",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "Nemotron 3",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "Hermes 3",
    "meta-llama-Llama-3.3-70B-Instruct": "Llama 3.3",
    "mistralai-Mistral-Nemo-Instruct-2407": "Mistral Nemo",
    "unsloth-mistral-Devstral-Small-2507": "Devstral",
    "ibm-granite-granite-4.1": "Granite 4.1",
    "poolside-Laguna-S-2.1": "Laguna 2.1",
    "tencent-Hy3": "Hunyuan 3",
    "inclusionai-ling-3.0-flash": "Ling 3",
    "Apertus-8B-Instruct": "Apertus",
    "Apriel-1.6-15b-Thinker-fixed": "Apriel 1.6",
    "Bielik-11B-v3.0-Instruct": "Bielik 3",
    "GigaChat3.1-10B-A1.8B": "GigaChat 3.1",
    "MiMo-VL": "MiMo",
    "mistralai-Ministral-3-14B-Reasoning-2512": "Ministral 3",
    "NVIDIA-Nemotron-Nano-v2": "Nemotron Nano 2",
    "Reka-Edge": "Reka Edge",
    "Spark2.5": "Spark 2.5",
    "openbmb-MiniCPM5-1B": "MiniCPM 5",
    "google-gemma-4-31B-it": "Gemma 4",
    "google-gemma-4-31B-it-interleaved": "Gemma 4, reasoning between calls",
    "LFM2.5-8B-A1B": "LFM 2.5",
    "Mistral-Small-3.2-24B-Instruct-2506": "Mistral Small 3.2",
    "upstage-Solar-Open-100B": "Solar Open",
}
"""Templates by the names of their files, with the models."""

_ENDS = (
    "<|im_end|>", "<|eot_id|>", "<|call|>", "<|return|>", "[e~[", "<|END_OF_TURN_TOKEN|>", "<|end_of_msg|>",
    "<｜end▁of▁sentence｜>", "</s>", "<seed:eos>", "<|user|>", "<|observation|>", "<turn|>", "<|end_of_text|>",
    "</assistant>", "<|calls|>", "<|tool_response>", "<｜hy_eos:opensource｜>",
)  # fmt: skip
"""Ends of sequence of these models, as their generation configurations have them."""
_SPECIAL = re.compile(
    r"<[|｜][^<>|｜{}\s]+[|｜]>|<\|[a-z_]+>|<[a-z_]+\|>|\[/?[A-Z_]{3,}\]|</?(?:minimax|seed):\w+>|\]~b\]|\[e~\[|\]~!b\[|｜DSML｜|\]<\]minimax\[>\["
)
"""Names in templates that are special tokens of these models."""
_TAGS = (
    "</think>",
    "</seed:think>",
    "</mm:think>",
    "<|END_THINKING|>",
    "[/THINK]",
    "<channel|>",
    "reasoning_effort",
    "verbosity",
)
"""What is looked for in the text of a template: tags of reasoning, and names of variables."""


def record(template: str) -> dict[str, Any]:
    """The record of a template: what it renders for the chats that detection and the tests ask for."""
    tokenizer = copy.deepcopy(small_bpe_tokenizer())
    extra = {"<|constrain|>"} if "<|channel|>" in template else set()
    ends = [end for end in _ENDS if end in template]
    special = sorted({*_SPECIAL.findall(template), *extra} - set(ends))
    tokenizer.add_special_tokens({"additional_special_tokens": [*special, *ends]})
    tokenizer.chat_template = template
    texts: dict[str, str] = {}
    render = tokenizer.apply_chat_template

    def recording(messages: Sequence[Mapping[str, Any]], **variables: Any) -> str:
        text = str(render(messages, **variables))
        if USER in text:
            texts[key_of(messages, variables)] = text[text.rindex(USER) :]
        return text

    tokenizer.apply_chat_template = recording
    ids = [tokenizer.eos_token_id, *map(tokenizer.convert_tokens_to_ids, ends)]
    model = ScriptedModel(Vocabulary.from_tokenizer(tokenizer, eos_ids=sorted(set(ids))), "")
    model.tokenizer = tokenizer  # type: ignore[attr-defined]
    for thinking in (False, True):
        with contextlib.suppress(InvalidArgument):
            detect_reply_frame(model, thinking=thinking)
    with contextlib.suppress(InvalidArgument):
        detect_tool_format(model)
    probe = TemplateProbe.of(model)
    assert probe is not None
    for count in (1, 2):
        probe.reply({"tool_calls": history(count)})
    tags = [tag for tag in _TAGS if tag in template]
    return {"special": special, "ends": ends, "tags": tags, "texts": texts}


def history(count: int) -> list[dict[str, Any]]:
    """The first of `CALLS`, as a chat has them."""
    return [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, (name, arguments) in zip(IDS, CALLS[:count], strict=False)
    ]


def rendered_calls(model: TemplateSpeaker, format: ToolFormat, count: int) -> str:
    """The first of `CALLS` as the template writes them, from the first marker on."""
    probe = TemplateProbe.of(model)
    assert probe is not None
    text = probe.reply({"tool_calls": history(count)})
    assert text is not None
    for _, arguments in CALLS:
        for value in arguments.values():  # some templates write the history as Python does; calls are JSON
            text = text.replace(str(value), json.dumps(value)) if isinstance(value, dict) else text
    text = re.sub(r', "id": "\w+"', "", text)  # the model does not choose ids behind the arguments
    body = text[min(place for begin in format.begins if (place := text.find(begin)) >= 0) :]
    whole = probe.up_to_end(body)
    return whole[: whole.rindex(format.tail) + len(format.tail)] if format.tail else whole


CHOICES: dict[str, Any] = {
    "auto": "auto",
    "required": "required",
    "forced": {"type": "function", "function": {"name": "weather"}},
    "none": "none",
    "allowed": {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "required",
            "tools": [{"type": "function", "function": {"name": "weather"}}],
        },
    },
}
"""Choices of tools."""


def holds(name: str, choice: str, *, thinking: bool) -> bool:
    """Whether a model that writes the calls of its template is constrained and read back, for a choice of tools."""
    formats = detect_formats(TemplateSpeaker(name), tools=True, thinking=thinking)
    frame, format = formats.frame, formats.tools
    constraint = reply_constraint(TOOLS, tool_choice=CHOICES[choice], format=format, frame=frame)
    thought = "" if frame.reasoning is None else "Hm.".join(frame.reasoning)
    count = {"none": 0, "forced": 1, "allowed": 1}.get(choice, 1 if format.single else 2)
    told = (
        rendered_calls(TemplateSpeaker(name), format, count)
        if count
        else "Hello.".join((frame.content, frame.close))
    )
    script = thought + frame.lead + told
    out = Generator(TemplateSpeaker(name, script), constraint)("x", max_tokens=600)
    reply: Reply = out.value
    return (
        out.text == script
        and [(call.name, call.arguments) for call in reply.calls] == CALLS[:count]
        and reply.content == ("" if count else "Hello.")
        and reply.reasoning == ("Hm." if thinking else None)
    )


def table() -> str:
    """The table of the documentation, every cell tried."""
    names = list(CHOICES)
    lines = [
        "| model | calls | arguments | without reasoning | with reasoning |",
        "|---|---|---|---|---|",
    ]
    for name, family in FAMILIES.items():
        try:
            formats = detect_formats(TemplateSpeaker(name), tools=True)
        except ConstrainedError as error:
            lines.append(f"| {family} | refused: {error.problems[0].reason} | | | |")
            continue
        format = formats.tools
        arguments = "JSON" if format.style is None else format.style.name
        cells = []
        for thinking in (False, True):
            try:
                cells.append(
                    ", ".join(choice for choice in names if holds(name, choice, thinking=thinking)) or "-"
                )
            except InvalidArgument:
                cells.append("has none")
        shown = (format.begin + format.head).replace("\n", " ").replace("|", "\\|")
        count = ", one" if format.single else ""
        lines.append(f"| {family} | `{shown}`{count} | {arguments} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes a file."""
    if len(sys.argv) == 3 and sys.argv[1] == "--record":
        folder = Path(sys.argv[2])
        records = {name: record((folder / f"{name}.jinja").read_text(encoding="utf-8")) for name in FAMILIES}
        lines = [
            f"{json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}" for name, one in records.items()
        ]
        PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        recorded.cache_clear()
    elif sys.argv[1:] == ["--table"]:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
