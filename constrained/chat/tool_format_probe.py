"""Detects the tool-call format of a model by rendering sample calls with its chat template.

Must not know: LangChain, servers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from constrained.chat.tools import HERMES, ToolFormat, common_prefix
from constrained.errors import InvalidArgument, Problem, PromptError
from constrained.models import LanguageModel
from constrained.prompting.chat_template import apply_template

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
}
"""Formats by name, for models whose chat template is missing or does not show the format."""

_USER = "Probe of the template."
_REPLY = "\ue000reply\ue000"
_NAMES = ("probe_one", "probe_two")
_IDS = ("probe0001", "probe0002")
_ARGUMENTS = {"probe_key": "probe value"}
_ARGUMENTS_JSON = re.compile(r'\{\s*"probe_key"\s*:\s*"probe value"\s*\}')
_ID = re.compile(rf'\s*,\s*"(?:id|call_id|tool_call_id)"\s*:\s*"(?:{"|".join(_IDS)})"')
_TAG = re.compile(r"<[^<>\s]+>|\[[A-Z_]+\]")
_CHANNEL = "<|channel|>"

_detected: WeakKeyDictionary[LanguageModel, ToolFormat] = WeakKeyDictionary()


def detect_tool_format(model: LanguageModel) -> ToolFormat:
    """The tool-call format of a model.

    The chat template renders a plain reply, one call and two calls. The text around names and arguments is the format.
    If the template does not render calls, the Hermes format is returned.

    Args:
        model: its tokenizer has the chat template. The result is cached per model.

    Raises:
        InvalidArgument: the rendered calls are not a name followed by JSON arguments; contains the rendered call.
    """
    if model not in _detected:
        _detected[model] = _detect(model)
    return _detected[model]


def is_template_format(model: LanguageModel, format: ToolFormat) -> bool:
    """Whether the format was detected from the chat template of this model."""
    return _detected.get(model) is format and format is not HERMES


def _detect(model: LanguageModel) -> ToolFormat:
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None or not getattr(tokenizer, "chat_template", None):
        return HERMES
    plain = _render(tokenizer, [{"role": "assistant", "content": _REPLY}])
    one, two = (_render(tokenizer, [_calling(_NAMES[:count])]) for count in (1, 2))
    if plain is None or one is None or _NAMES[0] not in one:
        return HERMES  # the template rejects or omits calls
    special = [
        name for name, token in model.vocabulary.special.items() if token not in model.vocabulary.eos_ids
    ]
    ends = [name for name, token in model.vocabulary.special.items() if token in model.vocabulary.eos_ids]
    call = _parts(_body(plain, one, ends), _NAMES[0])
    more = None
    if two is not None and _NAMES[1] in two:
        body = _body(plain, two, ends)
        first = _ARGUMENTS_JSON.search(body)
        second = -1 if first is None else body.find(_NAMES[1], first.end())
        if first is not None and second >= 0:
            more = _without_id(body[first.end() : second])
    begin = _opening_marker(call.before, special)
    text = "".join((call.before, call.between, call.after, more or ""))
    try:
        return ToolFormat(
            begin,
            call.before[len(begin) :] + "{name}" + call.between,
            call.after,
            more=more,
            single=more is None,
            special=tuple(name for name in special if name in text),
        )
    except InvalidArgument as error:
        raise _wrong(text, error.summary) from error


class _Parts(NamedTuple):
    """The text before the name, between name and arguments, and after the arguments."""

    before: str
    between: str
    after: str


def _parts(body: str, name: str) -> _Parts:
    arguments = _ARGUMENTS_JSON.search(body)
    if arguments is None:
        raise _wrong(body, "has no JSON arguments")
    at = body.rfind(name, 0, arguments.start())
    if at < 0:
        raise _wrong(body, "has the name of the tool after the arguments")
    parts = _Parts(
        body[:at].lstrip(),
        body[at + len(name) : arguments.start()],
        _without_id(body[arguments.end() :]).rstrip(),
    )
    if any(call_id in part for part in parts for call_id in _IDS):
        raise _wrong(body, "contains the id of the call, which the model does not choose")
    if not parts.before:
        raise _wrong(body, "starts with the name of the tool and cannot be distinguished from free text")
    return parts


def _body(plain: str, calling: str, ends: Sequence[str]) -> str:
    """The rendered calls, without the parts that the rendering of a plain reply has too."""
    if _CHANNEL in calling:
        raise _wrong(calling[-200:], "is spread over channels")
    plain, calling = (text[text.rindex(_USER) + len(_USER) :] for text in (plain, calling))
    start, stop = plain.index(_REPLY), plain.index(_REPLY) + len(_REPLY)
    shared = common_prefix(plain[:start], calling)
    if plain[len(shared) : start].strip():
        raise _wrong(calling, "does not start where a plain reply starts")
    body = calling[len(shared) :]
    close = common_prefix(plain[stop:][::-1], body[::-1])
    body = body[: len(body) - len(close)]
    cuts = [at for end in ends if (at := body.find(end)) >= 0]
    return body[: min(cuts)] if cuts else body


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


def _calling(names: Sequence[str]) -> dict[str, Any]:
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": _ARGUMENTS}}
        for name, call_id in zip(names, _IDS, strict=False)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _render(tokenizer: Any, reply: list[dict[str, Any]]) -> str | None:
    """Renders a chat with this reply; None if the template rejects it."""
    tools = [
        {
            "type": "function",
            "function": {"name": name, "description": "", "parameters": {"type": "object", "properties": {}}},
        }
        for name in ("known_one", "known_two")
    ]
    for chat in template_variants([{"role": "user", "content": _USER}, *reply]):
        try:
            text = apply_template(tokenizer, chat, tools=tools, add_generation_prompt=False)
        except PromptError:
            continue
        if _USER in text:
            return text
    return None


def template_variants(chat: Sequence[Mapping[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """A chat in the variants that templates accept: arguments as objects or as JSON text, ids as they are or short."""
    has_calls = any(message.get("tool_calls") or message.get("tool_call_id") for message in chat)
    for short, text in ((False, False), (True, False), (False, True), (True, True)):
        if has_calls or not (short or text):
            yield [_rewritten(message, short=short, text=text) for message in chat]


def _rewritten(message: Mapping[str, Any], *, short: bool, text: bool) -> dict[str, Any]:
    variant = dict(message)
    if short and "tool_call_id" in variant:
        variant["tool_call_id"] = _short(variant["tool_call_id"])
    if variant.get("tool_calls"):
        variant["tool_calls"] = [_call(call, short=short, text=text) for call in variant["tool_calls"]]
    return variant


def _call(call: Mapping[str, Any], *, short: bool, text: bool) -> dict[str, Any]:
    variant, function = dict(call), dict(call["function"])
    if text:
        function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    if short:
        variant["id"] = _short(variant.get("id") or function["name"])
    return {**variant, "function": function}


def _short(call_id: str) -> str:
    """An id of nine letters and digits; equal ids give equal short ids."""
    if re.fullmatch("[a-zA-Z0-9]{9}", call_id):
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:9]
