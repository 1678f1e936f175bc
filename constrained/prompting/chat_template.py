"""Chats as the text and the token ids that a model continues, by the chat template of its tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def apply_template(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    add_generation_prompt: bool = True,
    **variables: Any,
) -> str:
    """Renders a chat with the chat template of a Hugging Face tokenizer.

    Args:
        tokenizer: has a chat template.
        messages: ``{"role", "content", ...}`` items.
        tools: tool definitions in OpenAI's format.
        add_generation_prompt: whether the text ends with the header of the assistant's next message.
        variables: more variables of the template. ``enable_thinking`` is False unless it is among them, so that
            templates with that switch open no thinking block.

    Raises:
        Exception: whatever the template raises when it refuses the chat.
    """
    if tools is not None:
        variables["tools"] = tools
    rendered = tokenizer.apply_chat_template(
        [dict(message) for message in messages],
        tokenize=False,
        add_generation_prompt=add_generation_prompt,
        **{"enable_thinking": False, **variables},
    )
    return str(rendered)


def render_chat(messages: Sequence[Mapping[str, str]], tokenizer: Any) -> str:
    """Renders a chat as the text that the model continues.

    Without a chat template the contents are joined, followed by the line ``JSON:``.

    Args:
        messages: ``{"role", "content"}`` items.
        tokenizer: a Hugging Face tokenizer.
    """
    if getattr(tokenizer, "chat_template", None):
        return apply_template(tokenizer, messages)
    return "\n\n".join(message["content"] for message in messages) + "\n\nJSON:\n"


def encode_chat(messages: Sequence[Mapping[str, str]], tokenizer: Any) -> list[int]:
    """Encodes a chat as the token ids of a prompt.

    A chat template writes its own special tokens; without a template the tokenizer adds its own, such as BOS.
    """
    templated = bool(getattr(tokenizer, "chat_template", None))
    encoded = tokenizer(render_chat(messages, tokenizer), add_special_tokens=not templated)
    return [int(token) for token in encoded["input_ids"]]
