"""How a model writes calls of tools: read off its chat template, by letting it write some.

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
from constrained.errors import InvalidArgument, Problem
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
"""Formats by name. Those of a model are told by its template: these are for when there is none, or it misleads."""

_USER = "Probe of the template."
_SAID = "\ue000said\ue000"
_NAMES = ("probe_one", "probe_two")
_IDS = ("probe0001", "probe0002")
_ARGUMENTS = {"probe_key": "probe value"}
_WRITTEN = re.compile(r'\{\s*"probe_key"\s*:\s*"probe value"\s*\}')
_ID = re.compile(rf'\s*,\s*"(?:id|call_id|tool_call_id)"\s*:\s*"(?:{"|".join(_IDS)})"')
_TAG = re.compile(r"<[^<>\s]+>|\[[A-Z_]+\]")
_CHANNEL = "<|channel|>"

_found: WeakKeyDictionary[LanguageModel, ToolFormat] = WeakKeyDictionary()


def detect_tool_format(model: LanguageModel) -> ToolFormat:
    """How a model writes calls.

    Its chat template writes one call and two of them, beside a plain answer; what surrounds names and arguments there is
    the format. A model whose template knows no calls is asked to write them as Hermes does.

    Args:
        model: with the tokenizer that carries the template.

    Raises:
        InvalidArgument: the template writes calls that are no name and JSON after it; says what it found.
    """
    if model not in _found:
        _found[model] = _read(model)
    return _found[model]


def is_template_format(model: LanguageModel, format: ToolFormat) -> bool:
    """Whether the format was read off the template of this model."""
    return _found.get(model) is format and format is not HERMES


def _read(model: LanguageModel) -> ToolFormat:
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None or not getattr(tokenizer, "chat_template", None):
        return HERMES
    said = _probe(tokenizer, [{"role": "assistant", "content": _SAID}])
    one, two = (_probe(tokenizer, [_calling(_NAMES[:count])]) for count in (1, 2))
    if said is None or one is None or _NAMES[0] not in one:
        return HERMES  # it refuses calls or leaves them out
    special = [
        name for name, token in model.vocabulary.special.items() if token not in model.vocabulary.eos_ids
    ]
    ends = [name for name, token in model.vocabulary.special.items() if token in model.vocabulary.eos_ids]
    call = _parts(_body(said, one, ends), _NAMES[0])
    more = None
    if two is not None and _NAMES[1] in two:
        body = _body(said, two, ends)
        first = _WRITTEN.search(body)
        second = -1 if first is None else body.find(_NAMES[1], first.end())
        if first is not None and second >= 0:
            more = _without_id(body[first.end() : second])
    begin = _begin(call.before, special)
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
    """A call around its name and arguments."""

    before: str
    between: str
    after: str


def _parts(body: str, name: str) -> _Parts:
    written = _WRITTEN.search(body)
    if written is None:
        raise _wrong(body, "holds no arguments as JSON")
    at = body.rfind(name, 0, written.start())
    if at < 0:
        raise _wrong(body, "names the tool behind its arguments, where they have been written already")
    parts = _Parts(
        body[:at].lstrip(),
        body[at + len(name) : written.start()],
        _without_id(body[written.end() :]).rstrip(),
    )
    if any(known in part for part in parts for known in _IDS):
        raise _wrong(body, "holds the call's id, which is not the model's to choose")
    if not parts.before:
        raise _wrong(body, "begins with the name of the tool: a call cannot be told from a text")
    return parts


def _body(said: str, called: str, ends: Sequence[str]) -> str:
    """What the template writes in place of a plain answer."""
    if _CHANNEL in called:
        raise _wrong(called[-200:], "is spread over channels")
    said, called = (text[text.rindex(_USER) + len(_USER) :] for text in (said, called))
    start, stop = said.index(_SAID), said.index(_SAID) + len(_SAID)
    alike = common_prefix(said[:start], called)
    if said[len(alike) : start].strip():
        raise _wrong(called, "does not begin where an answer begins")
    body = called[len(alike) :]
    close = common_prefix(said[stop:][::-1], body[::-1])
    body = body[: len(body) - len(close)]
    cuts = [at for end in ends if (at := body.find(end)) >= 0]
    return body[: min(cuts)] if cuts else body


def _begin(before: str, special: Sequence[str]) -> str:
    """The part of what stands before the first name that tells a call from a text."""
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
        {"id": known, "type": "function", "function": {"name": name, "arguments": _ARGUMENTS}}
        for name, known in zip(names, _IDS, strict=False)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _probe(tokenizer: Any, answer: list[dict[str, Any]]) -> str | None:
    """The chat with an answer, as the template writes it; None if it refuses."""
    tools = [
        {
            "type": "function",
            "function": {"name": name, "description": "", "parameters": {"type": "object", "properties": {}}},
        }
        for name in ("known_one", "known_two")
    ]
    for chat in template_variants([{"role": "user", "content": _USER}, *answer]):
        try:
            text = apply_template(tokenizer, chat, tools=tools, add_generation_prompt=False)
        except Exception:  # whatever the template raises
            continue
        if _USER in text:
            return text
    return None


def template_variants(chat: Sequence[Mapping[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """A chat in the ways in which templates want the calls of its history: arguments as objects or as text, ids short."""
    called = any(message.get("tool_calls") or message.get("tool_call_id") for message in chat)
    for short, text in ((False, False), (True, False), (False, True), (True, True)):
        if called or not (short or text):
            yield [_rewritten(message, short=short, text=text) for message in chat]


def _rewritten(message: Mapping[str, Any], *, short: bool, text: bool) -> dict[str, Any]:
    made = dict(message)
    if short and "tool_call_id" in made:
        made["tool_call_id"] = _short(made["tool_call_id"])
    if made.get("tool_calls"):
        made["tool_calls"] = [_call(call, short=short, text=text) for call in made["tool_calls"]]
    return made


def _call(call: Mapping[str, Any], *, short: bool, text: bool) -> dict[str, Any]:
    made, function = dict(call), dict(call["function"])
    if text:
        function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    if short:
        made["id"] = _short(made.get("id") or function["name"])
    return {**made, "function": function}


def _short(known: str) -> str:
    """An id of nine letters and digits, the same for the same one."""
    if re.fullmatch("[a-zA-Z0-9]{9}", known):
        return known
    return hashlib.sha256(known.encode()).hexdigest()[:9]
