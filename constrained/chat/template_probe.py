"""Chats rendered by the chat template of a model, to see what it writes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from constrained.chat.tool_format import common_prefix
from constrained.errors import PromptError
from constrained.models import LanguageModel
from constrained.prompting.chat_template import apply_template

USER = "Probe of the template."
REPLY = "\ue000reply\ue000"
THOUGHT = "\ue000thought\ue000"
NAMES = ("probe_one", "probe_two")
IDS = ("probe0001", "probe0002")
LONG_ID = "probe0000000001"

_TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "description": "", "parameters": {"type": "object", "properties": {}}},
    }
    for name in ("known_one", "known_two")
]


@dataclass(frozen=True, eq=False)
class TemplateProbe:
    """The chat template of a model, asked for replies to one message.

    Attributes:
        tokenizer: has the template.
        special: names of its special tokens that end no sequence.
        ends: names of those that do.
    """

    tokenizer: Any
    special: tuple[str, ...]
    ends: tuple[str, ...]

    @classmethod
    def of(cls, model: LanguageModel) -> TemplateProbe | None:
        """The probe of a model; None if it has no chat template."""
        tokenizer = getattr(model, "tokenizer", None)
        if tokenizer is None or not getattr(tokenizer, "chat_template", None):
            return None
        names = model.vocabulary.special.items()
        ends = tuple(name for name, token in names if token in model.vocabulary.eos_ids)
        return cls(tokenizer, tuple(name for name, _ in names if name not in ends), ends)

    def prompt(self, *, thinking: bool = False) -> str | None:
        """What follows the message of the user in a prompt; None if the template refuses it."""
        return self._render([], add_generation_prompt=True, enable_thinking=thinking)

    def reply(self, message: Mapping[str, Any], *, thinking: bool = False) -> str | None:
        """What follows the message of the user where this reply stands; None if the template refuses it."""
        return self._render(
            [{"role": "assistant", "content": "", **message}],
            add_generation_prompt=False,
            enable_thinking=thinking,
        )

    def calls(
        self,
        *arguments: Mapping[str, Any],
        message: Mapping[str, Any] | None = None,
        thinking: bool = False,
        ids: Sequence[str] = IDS,
    ) -> str | None:
        """As `reply`, with a call for each of these arguments: of `NAMES`, with these ids."""
        calls = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": given}}
            for name, call_id, given in zip(NAMES, ids, arguments, strict=False)
        ]
        return self.reply({**(message or {}), "tool_calls": calls}, thinking=thinking)

    @cached_property
    def plain(self) -> str | None:
        """The rendering of `REPLY`."""
        return self.reply({"content": REPLY})

    def beyond_prompt(self, text: str, *, thinking: bool = False) -> str:
        """A rendered reply without what the prompt already has of it."""
        prompt = self.prompt(thinking=thinking) or ""
        return text[len(before_tag(common_prefix(prompt, text))) :]

    def up_to_end(self, text: str) -> str:
        """A text up to the first end of sequence."""
        cuts = [at for end in self.ends if (at := text.find(end)) >= 0]
        return text[: min(cuts)] if cuts else text

    def special_in(self, *texts: str) -> tuple[str, ...]:
        """Names of special tokens that stand in one of the texts."""
        return tuple(name for name in self.special if any(name in text for text in texts))

    def _render(self, reply: list[dict[str, Any]], **variables: Any) -> str | None:
        for chat in template_variants([{"role": "user", "content": USER}, *reply]):
            try:
                text = apply_template(self.tokenizer, chat, tools=_TOOLS, **variables)
            except PromptError:
                continue
            if USER in text:
                return text[text.rindex(USER) + len(USER) :]
        return None


def before_tag(text: str) -> str:
    """A text without a tag at its end that is not closed."""
    at = text.rfind("<")
    return text if at < 0 or ">" in text[at:] else text[:at]


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
