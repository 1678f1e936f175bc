"""Answers of Anthropic's Messages API, and their streams of events."""

from __future__ import annotations

import uuid
from typing import Any

from constrained.chat.reply_parser import ReplyDelta as Part
from constrained.server.errors import ApiError
from constrained.server.messages_api import in_messages
from constrained.server.responses import Json, ResponseBuilder
from constrained.server.sequence_stream import SequenceDelta

_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


class MessagesBuilder(ResponseBuilder):
    """Builds the message or the events of one request; arguments as for `ResponseBuilder`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.id = f"msg_{uuid.uuid4().hex}"
        self._stop: str | None = None
        self._blocks: list[Json] = []
        self._is_open = False

    def build_response(self) -> Json:
        """The message, when it is finished."""
        self._closed()
        return self._message(self._blocks, **self._ending)

    def opening_chunks(self) -> list[Json]:
        """The first event."""
        return [{"type": "message_start", "message": self._message([], stop_reason=None, stop_sequence=None)}]

    def chunks(self, piece: SequenceDelta) -> list[Json]:
        """The events for a delta of the sequence."""
        events = []
        for part in self.choices[0].add_delta(piece):
            events += self._opened_by(part)
            if part.text:
                events.append(self._grown(part))
        if piece.finish is not None:
            self._stop = piece.stop or self.choices[0].reader.reply.stop
        return events

    def closing_chunks(self) -> list[Json]:
        """The last events."""
        last = {"type": "message_delta", "delta": self._ending, "usage": self._usage_so_far}
        return [*self._closed(), last, {"type": "message_stop"}]

    def error_chunk(self, error: ApiError) -> Json:
        """The event of an error within a stream."""
        return in_messages(error).body

    def _opened_by(self, part: Part) -> list[Json]:
        """The events that open the block of a part, and close the one before, if it is another one."""
        kind = "thinking" if part.reasoning else "text" if part.call is None else "tool_use"
        if self._is_open and self._blocks[-1]["type"] == kind and part.name is None:
            return []
        events = self._closed()
        block: Json = {"type": kind}
        if part.call is not None:
            known, call = self.choices[0].calls[part.call]
            block |= {"id": known, "name": call.name, "input": {}}
        else:
            block |= {"text": ""} if kind == "text" else {"thinking": "", "signature": ""}
        self._blocks.append(block)
        self._is_open = True
        return [*events, self._of_block("content_block_start", content_block={**block})]

    def _grown(self, part: Part) -> Json:
        """The event of new characters."""
        block = self._blocks[-1]
        if block["type"] == "tool_use":
            return self._of_block(
                "content_block_delta", delta={"type": "input_json_delta", "partial_json": part.text}
            )
        block[block["type"]] += part.text
        return self._of_block(
            "content_block_delta", delta={"type": f"{block['type']}_delta", block["type"]: part.text}
        )

    def _closed(self) -> list[Json]:
        """The events that close the last block."""
        if not self._is_open:
            return []
        self._is_open, block, events = False, self._blocks[-1], []
        if block["type"] == "tool_use":
            calls = dict(self.choices[0].calls)
            block["input"] = calls[block["id"]].arguments
        elif block["type"] == "thinking":
            block["signature"] = self.id
            events = [
                self._of_block("content_block_delta", delta={"type": "signature_delta", "signature": self.id})
            ]
        return [*events, self._of_block("content_block_stop")]

    def _of_block(self, kind: str, **fields: Any) -> Json:
        return {"type": kind, "index": len(self._blocks) - 1, **fields}

    @property
    def _ending(self) -> Json:
        """Why the message has ended."""
        reason = _REASONS[self.choices[0].finish or "stop"]
        stopped = self._stop if reason == "end_turn" else None
        return {"stop_reason": reason if stopped is None else "stop_sequence", "stop_sequence": stopped}

    @property
    def _usage_so_far(self) -> Json:
        usage = self.usage
        cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        return {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"], **cached}

    def _message(self, content: list[Json], **ending: Any) -> Json:
        head = {"id": self.id, "type": "message", "role": "assistant", "model": self._model}
        return {**head, "content": content, **ending, "usage": self._usage_so_far}
