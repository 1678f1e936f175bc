"""Detects what stands around reasoning and content of a model's replies, from its chat template."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from constrained.chat.reply_form import PLAIN, ReplyFrame
from constrained.chat.template_probe import REPLY, THOUGHT, TemplateProbe, before_tag
from constrained.chat.tool_format import common_prefix
from constrained.errors import InvalidArgument
from constrained.models import LanguageModel

_TAGS = (
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought\n", "<channel|>"),
)
"""Tags of reasoning, for templates that leave it out of earlier replies."""

_Frames = dict[bool, ReplyFrame]
_detected: WeakKeyDictionary[LanguageModel, _Frames] = WeakKeyDictionary()


def detect_reply_frame(model: LanguageModel, *, thinking: bool = False) -> ReplyFrame:
    """What stands around reasoning and content in the replies of a model.

    The chat template renders a prompt, a reply, a reply with reasoning, and calls; their texts are compared.

    Args:
        model: its tokenizer has the chat template. The result is cached per model.
        thinking: the reply has reasoning. Otherwise a block of reasoning that the prompt has opened is closed at once.

    Raises:
        InvalidArgument: `thinking`, and the template shows no reasoning.
    """
    frames = _detected.setdefault(model, {})
    if thinking not in frames:
        frames[thinking] = _detect(TemplateProbe.of(model), thinking)
    return frames[thinking]


def reasoning_texts(probe: TemplateProbe) -> tuple[str, str] | None:
    """What a model writes before its reasoning, and the text that ends it, before a call too; None: it has none."""
    prompt = probe.prompt(thinking=True)
    if prompt is None:
        return None
    template = str(probe.tokenizer.chat_template)
    thought: dict[str, Any] = {"reasoning_content": THOUGHT, "thinking": THOUGHT, "reasoning": THOUGHT}
    reply = {"content": REPLY, **thought}
    if "[/THINK]" in template:  # reasoning is a part of the content
        thought = {"content": [{"type": "thinking", "thinking": THOUGHT}]}
        reply = {"content": [*thought["content"], {"type": "text", "text": REPLY}]}
    text = probe.reply(reply, thinking=True)
    if text is not None and THOUGHT in text and text.find(REPLY) > text.index(THOUGHT):
        before, _, after = text.partition(THOUGHT)
        end = after[: after.index(REPLY)]
        called = probe.calls({"probe_key": "probe value"}, message=thought, thinking=True)
        if called is not None and THOUGHT in called:
            end = before_tag(common_prefix(end, called.partition(THOUGHT)[2])) or end
        if before.startswith(prompt):
            return before[len(prompt) :], end.lstrip()
        # The prompt may have more: words that open the reasoning, and are left out in earlier replies.
        opened = prompt.startswith(before) and end.strip() not in prompt[len(before) :]
        return ("", end.lstrip()) if opened else None
    for begin, end in _TAGS:
        without, plain = probe.prompt() or "", probe.plain or ""
        if end in template and begin in without + prompt + plain:
            opened = prompt.rfind(begin) > prompt.rfind(end)
            if opened or without != prompt or begin in plain:
                return "" if opened else begin, end
    return None


def _detect(probe: TemplateProbe | None, thinking: bool) -> ReplyFrame:
    reasoning = None if probe is None else reasoning_texts(probe)
    if thinking and reasoning is None:
        raise InvalidArgument(
            "the chat template of this model shows no reasoning",
            action="use a model that reasons, or leave thinking (enable_thinking) out",
        )
    if probe is None or probe.plain is None or REPLY not in probe.plain:
        return PLAIN
    front, _, after = probe.plain.partition(REPLY)
    if not _continues(probe, front, reasoning):
        return PLAIN
    front = probe.beyond_prompt(front).lstrip()
    content = without_reasoning(front, reasoning)
    close = probe.up_to_end(after)
    several = reasoning is not None and reasoning[1].count("<") > 1
    if close == after or not close.strip() or not (content or several):
        close = ""
    lead = (
        "" if reasoning is None or thinking else _lead(probe, front[: len(front) - len(content)], reasoning)
    )
    shown = (reasoning or ()) if thinking else (lead,)
    return ReplyFrame(
        reasoning if thinking else None,
        lead,
        content,
        close,
        calls_alone=bool(content),
        special=probe.special_in(content, close, *shown),
    )


def _continues(probe: TemplateProbe, front: str, reasoning: tuple[str, str] | None) -> bool:
    """Whether a rendered reply begins with the prompt, a block of reasoning aside."""
    prompt = probe.prompt() or ""
    rest = prompt[len(before_tag(common_prefix(prompt, front))) :]
    for text in reasoning or ():
        rest = rest.replace(text.strip(), "") if text.strip() else rest
    for begin, _ in _TAGS:
        rest = rest.replace(begin, "")
    opened = reasoning is not None and not reasoning[0] and prompt.startswith(front)
    return opened or not rest.strip()


def _lead(probe: TemplateProbe, block: str, reasoning: tuple[str, str]) -> str:
    """What a model writes in place of its reasoning.

    Args:
        probe: of the model.
        block: the empty block of reasoning in a rendered reply, as far as the prompt does not have it.
        reasoning: as `reasoning_texts` returns it.
    """
    begin, end = (part.strip() for part in reasoning)
    prompt = probe.prompt() or ""
    closed = prompt.rfind(end)
    if closed >= 0 and (not begin or closed > prompt.rfind(begin)):
        return ""  # the prompt has closed it
    if begin and block.startswith(begin):
        return begin + reasoning[1]
    opened = not begin and prompt.rstrip() == (probe.prompt(thinking=True) or "").rstrip()
    return reasoning[1] if block or opened else ""


def without_reasoning(text: str, reasoning: tuple[str, str] | None) -> str:
    """What a model writes after a block of reasoning, as it stands in a rendered reply, without white space before it."""
    text = text.lstrip()
    if reasoning is not None:
        begin, end = (part.strip() for part in reasoning)
        if begin and text.startswith(begin):
            text = text[len(begin) :].lstrip()
        if text.startswith(end):
            text = text[len(end) :].lstrip()
    return text
