"""Detects the tool-call format of a model by rendering sample calls with its chat template."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from constrained.chat.markup_probe import CallParts, read_literals, read_markup
from constrained.chat.reply_frame_probe import detect_reply_frame, reasoning_texts, without_reasoning
from constrained.chat.template_probe import IDS, LONG_ID, NAMES, REPLY, TemplateProbe
from constrained.chat.tool_format import HERMES, ID, INDEX, ToolFormat, common_prefix
from constrained.errors import InvalidArgument, Problem
from constrained.grammars.json_schema import PARAMETER_STYLES, parameter_style
from constrained.models import LanguageModel

HARMONY = ToolFormat(
    "<|channel|>commentary to=functions.",
    "{name} <|constrain|>json<|message|>",
    "",
    single=True,
    special=("<|channel|>", "<|constrain|>", "<|message|>"),
    others=(
        ("<|channel|>commentary to=functions.", "{name}<|constrain|>json<|message|>"),
        (" to=functions.", "{name}<|channel|>commentary json<|message|>"),
        (" to=functions.", "{name}<|channel|>commentary <|constrain|>json<|message|>"),
    ),
)
"""Calls of gpt-oss: a message in the commentary channel, its recipient before or after the channel."""

FORMATS: Mapping[str, ToolFormat] = {
    "hermes": HERMES,
    "llama3": ToolFormat('{"name": "', '{name}", "parameters": ', "}", single=True),
    "mistral": ToolFormat(
        "[TOOL_CALLS]",
        '[{"name": "{name}", "arguments": ',
        "}]",
        more='}, {"name": "',
        special=("[TOOL_CALLS]",),
    ),
    "mistral-args": ToolFormat(
        "[TOOL_CALLS]", "{name}[ARGS]", "", between="", special=("[TOOL_CALLS]", "[ARGS]")
    ),
    "harmony": HARMONY,
    "granite3": ToolFormat(
        "<|tool_call|>",
        '[{"name": "{name}", "arguments": ',
        "}]",
        more='}, {"name": "',
        special=("<|tool_call|>",),
    ),
    "gemma4": ToolFormat(
        "<|tool_call>",
        "call:{name}{",
        "}<tool_call|>",
        between="",
        special=("<|tool_call>", "<tool_call|>", '<|"|>'),
        parameters={"name": "gemma"},
    ),
    "function-gemma": ToolFormat(
        "<start_function_call>",
        "call:{name}{",
        "}<end_function_call>",
        between="",
        special=("<start_function_call>", "<end_function_call>", "<escape>"),
        parameters={
            "name": "gemma",
            "types": {**PARAMETER_STYLES["gemma"].types, "string": ("<escape>",)},
            "closes": {**PARAMETER_STYLES["gemma"].closes, "string": "<escape>"},
            "excluded": "<escape>",
        },
    ),
    "lfm2": ToolFormat(
        "<|tool_call_start|>",
        "[{name}(",
        ")]<|tool_call_end|>",
        more="), ",
        special=("<|tool_call_start|>", "<|tool_call_end|>"),
        parameters={"name": "pythonic"},
    ),
    "olmo3": ToolFormat(
        "<function_calls>", "{name}(", ")</function_calls>", more=")\n", parameters={"name": "pythonic"}
    ),
    "pythonic": ToolFormat("[", "{name}(", ")]", more="), ", parameters={"name": "pythonic"}),
}
"""Formats by name, for models whose chat template is missing or does not show the format."""

_ARGUMENTS = {"probe_key": "probe value"}
_ARGUMENTS_JSON = re.compile(r'\{\s*"probe_key"\s*:\s*"probe value"\s*\}')
_ID = re.compile(rf'\s*,\s*"(?:id|call_id|tool_call_id)"\s*:\s*"(?:{"|".join(IDS)})"')
_INDEX = re.compile(r'(?<=[":])\d+(?=["<])')
_TAG = re.compile(r"<[^<>\s]+>|\[[A-Z_]+\]")
_CHANNEL = "<|channel|>"

_detected: WeakKeyDictionary[LanguageModel, ToolFormat] = WeakKeyDictionary()


def detect_tool_format(model: LanguageModel) -> ToolFormat:
    """The tool-call format of a model.

    The chat template renders a prompt, a plain reply, one call, two calls, and calls with other arguments. The text around
    names and arguments is the format. If the template does not render calls, the Hermes format is returned; with a warning if it
    reads tools.

    Args:
        model: its tokenizer has the chat template. The result is cached per model.

    Raises:
        InvalidArgument: the rendered calls are not a name followed by arguments in JSON or in markup; contains the
            rendered call.
    """
    if model not in _detected:
        _detected[model] = _detect(model)
    return _detected[model]


def is_template_format(model: LanguageModel, format: ToolFormat) -> bool:
    """Whether the format was detected from the chat template of this model."""
    return _detected.get(model) is format and format is not HERMES


def _detect(model: LanguageModel) -> ToolFormat:
    probe = TemplateProbe.of(model)
    one = None if probe is None else probe.calls(_ARGUMENTS)
    if probe is None:
        return HERMES
    if probe.plain is None or one is None or NAMES[0] not in one:
        _warn_unshown(probe)
        return HERMES
    if _CHANNEL in one:
        if "to=functions." not in one:
            raise _wrong(one[-200:], "is spread over channels")
        return replace(HARMONY, special=probe.special_in(*HARMONY.special))
    calls = _Calls(probe)
    parts = calls.as_json() or calls.as_markup()
    begin = _opening_marker(parts.before, probe.special).partition(ID)[0]
    if (close := detect_reply_frame(model).close).startswith(begin):
        at = parts.before.find(">", len(common_prefix(parts.before, close)))
        begin = parts.before[: at + 1]
    texts = (parts.before, parts.between, parts.after, parts.more or "")
    style = None if parts.parameters is None else parameter_style(parts.parameters)
    numbered = [_INDEX.search(text) for text in (parts.before, parts.between)]
    try:
        return ToolFormat(
            begin,
            _indexed(parts.before[len(begin) :]) + "{name}" + _indexed(parts.between),
            parts.after,
            more=None if parts.more is None else _indexed(parts.more),
            single=parts.more is None,
            special=probe.special_in(*texts, *(style.texts if style else ())),
            parameters=parts.parameters,
            first_index=next((int(found.group()) for found in numbered if found), 0),
            id_length=_id_length(probe) if ID in parts.before + parts.between else None,
        )
    except InvalidArgument as error:
        raise _wrong("".join(texts), error.summary) from error


def _warn_unshown(probe: TemplateProbe) -> None:
    """Warns where a chat template shows tools and no calls: the model has learned calls in a form that is not known."""
    if "tools" not in str(probe.tokenizer.chat_template):
        return  # the prompt says how to call
    name = getattr(probe.tokenizer, "name_or_path", "") or "this model"
    warnings.warn(
        f"the chat template of {name} reads tools, but writes no calls: they have the Hermes format "
        "(<tool_call>{...}</tool_call>), which the model may not have learned; pass format=... (--tool-format of the server)",
        stacklevel=4,
    )


def _id_length(probe: TemplateProbe) -> int | None:
    """The length of ids in calls; None: other lengths are written, too."""
    longer = probe.calls(_ARGUMENTS, ids=[LONG_ID])
    return None if longer is None or LONG_ID in longer else len(IDS[0])


def _indexed(text: str) -> str:
    return _INDEX.sub(INDEX, text)


class _Calls:
    """Rendered calls."""

    def __init__(self, probe: TemplateProbe) -> None:
        self._probe = probe
        self._reasoning = reasoning_texts(probe)

    def body(self, *arguments: Mapping[str, Any]) -> str | None:
        """What a model writes for calls with these arguments."""
        text = self._probe.calls(*arguments)
        if text is None or NAMES[0] not in text:
            return None
        body = without_reasoning(self._probe.beyond_prompt(text), self._reasoning)
        whole = self._probe.up_to_end(body)
        if whole == body:  # the end of a reply is no end of sequence: what a plain reply ends with, too
            after = (self._probe.plain or "").partition(REPLY)[2]
            shared = common_prefix(after[::-1], body[::-1])[::-1]
            opened = shared.find("<")
            if ">" in shared[: opened if opened >= 0 else None]:  # the end of a tag that is not shared
                shared = shared[opened:] if opened >= 0 else ""
            whole = body[: len(body) - len(shared)]
        return whole.rstrip()

    def as_json(self) -> CallParts | None:
        """Calls whose arguments are JSON; None: they are not."""
        body = self.body(_ARGUMENTS) or ""
        arguments = _ARGUMENTS_JSON.search(body)
        if arguments is None:
            return None
        at = body.rfind(NAMES[0], 0, arguments.start())
        if at < 0:
            raise _wrong(body, "has the name of the tool after the arguments")
        return _checked(
            body,
            CallParts(
                body[:at],
                body[at + len(NAMES[0]) : arguments.start()],
                _without_id(body[arguments.end() :]),
                self._more(),
            ),
        )

    def _more(self) -> str | None:
        body = self.body(_ARGUMENTS, _ARGUMENTS)
        first = None if body is None else _ARGUMENTS_JSON.search(body)
        if body is None or first is None:
            return None
        second = body.find(NAMES[1], first.end())
        return None if second < 0 else _without_id(body[first.end() : second])

    def as_markup(self) -> CallParts:
        """Calls whose arguments are markup."""
        body = self.body(_ARGUMENTS) or ""
        parts = read_markup(self.body) or read_literals(self.body)
        if parts is None:
            raise _wrong(body, "has arguments neither in JSON nor in markup that is read")
        return _checked(body, parts)


def _checked(body: str, parts: CallParts) -> CallParts:
    if IDS[0] in parts.before + parts.between:  # the model writes it, before it writes the arguments
        parts = parts._replace(
            before=parts.before.replace(IDS[0], ID),
            between=parts.between.replace(IDS[0], ID),
            more=None if parts.more is None else parts.more.replace(IDS[1], ID),
        )
    texts = (parts.before, parts.between, parts.after, parts.more or "")
    if any(name in text for text in texts for name in NAMES):
        raise _wrong(body, "has the name of the tool twice")
    if any(call_id in text for text in texts for call_id in IDS):
        raise _wrong(body, "contains the id of the call after the arguments")
    if not parts.before.partition(ID)[0]:
        raise _wrong(body, "starts with its name or id and cannot be distinguished from free text")
    return parts


def _opening_marker(before: str, special: Sequence[str]) -> str:
    """The opening marker of a call: a special token, a tag, or all text before the name."""
    for name in sorted(special, key=len, reverse=True):
        if before.startswith(name):
            return name
    tag = _TAG.match(before)
    return tag.group() if tag else before


def _without_id(text: str) -> str:
    return _ID.sub("", text)


def _wrong(body: str, what: str) -> InvalidArgument:
    return InvalidArgument(
        "the chat template does not show how this model writes tool calls",
        [Problem("the chat template", f"a call {what}", body.strip())],
        action="pass format=ToolFormat(...), or omit the tools",
    )
