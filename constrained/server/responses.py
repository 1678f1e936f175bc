"""Response bodies and stream chunks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from constrained.chat.custom_input import InputReader
from constrained.chat.reply import ReplyConstraint
from constrained.chat.reply_form import ReplyForm
from constrained.chat.reply_parser import ReplyDelta as Part
from constrained.chat.reply_parser import ReplyParser, ToolCall
from constrained.chat.tool_format import HERMES
from constrained.constraint import Constraint
from constrained.server.errors import ApiError
from constrained.server.sequence_stream import SequenceDelta, TokenLogprob

Json = dict[str, Any]


_FREE_TEXT = ReplyForm((), "none", False, (), None, HERMES)
"""A completion that is no reply of a chat: all of it is content."""


@dataclass
class ResponseChoice:
    """One choice of a response, updated while its sequence is decoded.

    Attributes:
        index: position among the choices.
        content: the completion without reasoning and tool calls.
        reasoning: what the model thought first; None if the reply has no reasoning.
        reasoning_tokens: their number.
        calls: (id, tool call) pairs.
        tokens: with their log-probabilities.
        finish: finish reason as in OpenAI's API; None while it is decoded.
        count: number of completion tokens.
        captures: parts of the content by name; None: there are none.
        names: names of tools in the response, where they are not those that the model writes.
        custom: names of the custom tools, as the model writes them.
        inputs: by the number of the call, what reads the input of a custom tool.
    """

    index: int
    reader: ReplyParser
    content: str = ""
    reasoning: str | None = None
    reasoning_tokens: int = 0
    calls: list[tuple[str, ToolCall]] = field(default_factory=list)
    tokens: list[TokenLogprob] = field(default_factory=list)
    finish: str | None = None
    count: int = 0
    captures: Json | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    custom: frozenset[str] = frozenset()
    inputs: dict[int, InputReader] = field(default_factory=dict)

    def add_delta(self, piece: SequenceDelta) -> list[Part]:
        """Parses a delta and returns its parts."""
        parts = self.reader.feed(piece.delta)
        if piece.finish is not None:
            parts += self.reader.finish()
        parts = list(map(self._custom_part, parts))
        for part in parts:
            if part.reasoning:
                self.reasoning = (self.reasoning or "") + part.text
            elif part.call is None:
                self.content += part.text
            elif part.name is not None:
                self.calls.append((f"call_{uuid.uuid4().hex[:24]}", self._called(part.name)))
            else:
                known, call = self.calls[part.call]
                self.calls[part.call] = (known, ToolCall(call.name, call.text + part.text))
        self.tokens += piece.tokens
        self.count = piece.count
        if self.reader.in_reasoning:
            self.reasoning_tokens = piece.count
        if piece.finish is not None:
            self.captures = piece.captures
            self.finish = "tool_calls" if self.calls and piece.finish == "stop" else piece.finish
        return parts

    @property
    def shown_captures(self) -> Json:
        """The field of the captures, if there are any."""
        return {} if self.captures is None else {"captures": self.captures}

    def _custom_part(self, part: Part) -> Part:
        """A part in which the text is that of a custom tool's input, if it belongs to one."""
        if part.call is None:
            return part
        if part.name in self.custom:
            self.inputs[part.call] = InputReader()
        reader = self.inputs.get(part.call)
        return part if reader is None else part._replace(text=reader.feed(part.text))

    def _called(self, name: str) -> ToolCall:
        return ToolCall(self.names.get(name, name), "")


class ResponseBuilder:
    """Builds the response or the chunks of one request.

    Args:
        model: model name in the response.
        chat: chat completions rather than text completions.
        constraint: determines how completions are parsed.
        count: number of choices.
        prompt_tokens: total number of prompt tokens.
        logprobs: include log-probabilities.
        usage: end a stream with the token usage.
        reasoning: include the reasoning.
        tool_names: as `ResponseChoice.names`.
    """

    def __init__(
        self,
        model: str,
        constraint: Constraint,
        count: int,
        prompt_tokens: int,
        *,
        chat: bool,
        logprobs: bool,
        usage: bool = False,
        reasoning: bool = True,
        tool_names: Mapping[str, str] | None = None,
    ) -> None:
        self.id = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
        self.created = int(time.time())
        self.chat = chat
        self._model = model
        self._prompt_tokens = prompt_tokens
        self._logprobs = logprobs
        self._usage = usage
        self._reasoning = reasoning
        self.reasons = isinstance(constraint, ReplyConstraint) and constraint.frame.reasoning is not None
        tools = constraint.callable_tools if isinstance(constraint, ReplyConstraint) else ()
        custom = frozenset(tool.name for tool in tools if tool.custom)
        self.choices = [
            ResponseChoice(
                i,
                ReplyParser(constraint if isinstance(constraint, ReplyConstraint) else _FREE_TEXT),
                names=tool_names or {},
                custom=custom,
            )
            for i in range(count)
        ]

    @property
    def usage(self) -> Json:
        """Token counts so far."""
        completion_tokens = sum(choice.count for choice in self.choices)
        counts: Json = {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": self._prompt_tokens + completion_tokens,
        }
        if self.reasons:
            thought = sum(choice.reasoning_tokens for choice in self.choices)
            counts["completion_tokens_details"] = {"reasoning_tokens": thought}
        return counts

    def error_chunk(self, error: ApiError) -> Json:
        """The chunk of an error within a stream."""
        return error.body

    def build_response(self) -> Json:
        """The response, when all choices are finished."""
        kind = "chat.completion" if self.chat else "text_completion"
        make = _chat_choice if self.chat else _text_choice
        choices = [make(choice, self._logprobs) for choice in self.choices]
        for choice, shown in zip(self.choices, choices, strict=True):
            if choice.reasoning is not None and self._reasoning:
                shown["message"]["reasoning_content"] = choice.reasoning
        return {**self._head(kind), "choices": choices, "usage": self.usage}

    def opening_chunks(self) -> list[Json]:
        """The first chunks of a stream."""
        if not self.chat:
            return []
        return [self._chunk(one.index, {"role": "assistant", "content": ""}) for one in self.choices]

    def chunks(self, piece: SequenceDelta) -> list[Json]:
        """Takes a delta of a sequence; its chunks, for a stream."""
        choice = self.choices[piece.index]
        offset = len(choice.content)
        parts = choice.add_delta(piece)
        if not self._reasoning:
            parts = [part for part in parts if not part.reasoning]
        deltas = [_delta(part, choice) if self.chat else {"text": part.text} for part in parts]
        if not deltas and piece.tokens:
            deltas = [{"content": ""} if self.chat else {"text": ""}]
        chunks = [self._chunk(piece.index, delta) for delta in deltas]
        if piece.tokens:
            tokens = chat_tokens(piece.tokens) if self.chat else _text_tokens(piece.tokens, offset)
            chunks[0]["choices"][0]["logprobs"] = tokens
        if choice.finish is not None:
            last = {**({} if self.chat else {"text": ""}), **choice.shown_captures}
            chunks.append(self._chunk(piece.index, last, choice.finish))
        return chunks

    def closing_chunks(self) -> list[Json]:
        """The last chunks of a stream."""
        return [{**self._head(self._kind), "choices": [], "usage": self.usage}] if self._usage else []

    @property
    def _kind(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _chunk(self, index: int, delta: Json, finish: str | None = None) -> Json:
        payload = {"delta": delta} if self.chat else delta
        choice = {"index": index, **payload, "logprobs": None, "finish_reason": finish}
        chunk = {**self._head(self._kind), "choices": [choice]}
        return {**chunk, "usage": None} if self._usage else chunk

    def _head(self, kind: str) -> Json:
        head = {"id": self.id, "object": kind, "created": self.created, "model": self._model}
        return {**head, "system_fingerprint": None}


def _delta(part: Part, choice: ResponseChoice) -> Json:
    if part.reasoning:
        return {"reasoning_content": part.text}
    if part.call is None:
        return {"content": part.text}
    kind, text = ("custom", "input") if part.call in choice.inputs else ("function", "arguments")
    if part.name is None:
        return {"tool_calls": [{"index": part.call, kind: {text: part.text}}]}
    known, call = choice.calls[part.call]
    called = {"name": call.name, text: ""}
    return {"tool_calls": [{"index": part.call, "id": known, "type": kind, kind: called}]}


def _chat_choice(choice: ResponseChoice, logprobs: bool) -> Json:
    message: Json = {"role": "assistant", "content": choice.content, "refusal": None, **choice.shown_captures}
    if choice.calls:
        message["content"] = choice.content or None
        message["tool_calls"] = [
            {"id": known, "type": "custom", "custom": {"name": call.name, "input": call.text}}
            if number in choice.inputs
            else {"id": known, "type": "function", "function": {"name": call.name, "arguments": call.text}}
            for number, (known, call) in enumerate(choice.calls)
        ]
    tokens = chat_tokens(choice.tokens) if logprobs else None
    return {
        "index": choice.index,
        "message": message,
        "logprobs": tokens,
        "finish_reason": choice.finish,
    }


def _text_choice(choice: ResponseChoice, logprobs: bool) -> Json:
    tokens = _text_tokens(choice.tokens, 0) if logprobs else None
    return {
        "index": choice.index,
        "text": choice.content,
        "logprobs": tokens,
        "finish_reason": choice.finish,
        **choice.shown_captures,
    }


def chat_tokens(tokens: Iterable[TokenLogprob]) -> Json:
    """Tokens with their log-probabilities as chat completions have them."""

    def shown(one: TokenLogprob) -> Json:
        return {
            "token": one.token.decode("utf-8", "replace"),
            "logprob": max(one.logprob, _LEAST),
            "bytes": list(one.token),
        }

    content = [{**shown(one), "top_logprobs": [shown(other) for other in one.top_logprobs]} for one in tokens]
    return {"content": content, "refusal": None}


def _text_tokens(tokens: Sequence[TokenLogprob], offset: int) -> Json:
    texts = [one.token.decode("utf-8", "replace") for one in tokens]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    return {
        "tokens": texts,
        "token_logprobs": [max(one.logprob, _LEAST) for one in tokens],
        "top_logprobs": [
            {other.token.decode("utf-8", "replace"): max(other.logprob, _LEAST) for other in one.top_logprobs}
            for one in tokens
        ],
        "text_offset": offsets,
    }


_LEAST = -9999.0
"""Replaces -inf, which JSON cannot represent, as in OpenAI's API."""
