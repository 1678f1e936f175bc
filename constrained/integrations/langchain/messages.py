"""Conversion of messages: from LangChain to a chat for the model, and from replies to LangChain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk

from constrained.chat.plain_names import renamed
from constrained.chat.reply import ReplyDelta
from constrained.chat.reply import ToolCall as ReplyCall
from constrained.decoding import Output


def strip_content_blocks(message: BaseMessage) -> BaseMessage:
    """A message without the content blocks that repeat `tool_calls` or contain the model's reasoning."""
    if isinstance(message, AIMessage) and not isinstance(message.content, str):
        return message.model_copy(update={"content": str(message.text)})
    return message


def message_chunk(piece: ReplyDelta, names: Mapping[str, str]) -> AIMessageChunk:
    """New characters as a chunk of a stream; `names`: of tools, by those that the model writes."""
    if piece.reasoning:
        return AIMessageChunk(content="", additional_kwargs={"reasoning_content": piece.text})
    if piece.call is None:
        return AIMessageChunk(content=piece.text)
    begun = piece.name is not None
    chunk = tool_call_chunk(
        name=None if piece.name is None else names.get(piece.name, piece.name),
        args=piece.text,
        id=new_call_id() if begun else None,
        index=piece.call,
    )
    return AIMessageChunk(content="", tool_call_chunks=[chunk])


def call_deltas(calls: Sequence[ReplyCall]) -> list[ReplyDelta]:
    """Whole calls as pieces of a stream."""
    return [
        piece
        for number, call in enumerate(calls)
        for piece in (ReplyDelta("", number, call.name), ReplyDelta(call.text, number))
    ]


def with_plain_calls(chat: list[dict[str, Any]], plain: Mapping[str, str]) -> list[dict[str, Any]]:
    """The chat, in which calls and their results have the plain names of tools."""
    if not plain:
        return chat
    return [
        {
            key: renamed(part, plain) if key in ("tool_calls", "name") else part
            for key, part in message.items()
        }
        for message in chat
    ]


def new_call_id() -> str:
    """A fresh name for a call."""
    return f"call_{uuid4().hex[:24]}"


def token_usage(output: Output) -> UsageMetadata:
    """Tokens that were read and written."""
    input_tokens, output_tokens = output.stats.prompt_tokens, output.stats.tokens
    counts = {
        "input_tokens": input_tokens, "output_tokens": output_tokens, "total_tokens": input_tokens + output_tokens,
    }  # fmt: skip
    return cast("UsageMetadata", counts)  # its details, which are optional, are not for type checkers
