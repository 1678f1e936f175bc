"""Replies taken apart: content and calls, out of a text that is written, or is still being written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from constrained.chat.literals import LiteralReader
from constrained.chat.parameters import ParameterReader
from constrained.chat.reply_form import ReplyForm
from constrained.chat.tool_format import ID, INDEX, name_pattern
from constrained.constraint.json_text import read_value


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asks for.

    Attributes:
        name: of the tool.
        text: the arguments' JSON, exactly as the model wrote it, or made of its markup; a prefix of it while the call is
            unfinished.
    """

    name: str
    text: str

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments.

        Raises:
            RejectedValue: the call is not finished.
        """
        value: dict[str, Any] = read_value(self.text)
        return value


@dataclass(frozen=True, slots=True)
class Reply:
    """A parsed reply.

    Attributes:
        content: the free text; of a reply with a `content` constraint its text.
        calls: in their order.
        stop: the stop sequence that ended the text; it is not part of the content.
        reasoning: what the model thought first; None if the reply has no reasoning.
    """

    content: str
    calls: tuple[ToolCall, ...] = ()
    stop: str | None = None
    reasoning: str | None = None


class ReplyDelta(NamedTuple):
    """New characters of a reply.

    Attributes:
        text: of the content, of the arguments of a call, or of the reasoning.
        call: index of the call; None for content and reasoning.
        name: of the tool, in the first piece of its call, which has no text.
        reasoning: whether it is reasoning.
    """

    text: str
    call: int | None = None
    name: str | None = None
    reasoning: bool = False


class ReplyParser:
    """Parses a reply while it is written: `feed` new characters, get deltas.

    Characters that could be the prefix of a marker are held back until the next ones decide, and a call as long as it may be one that
    was made before: a repeated call has no deltas.

    Attributes:
        in_reasoning: whether the reasoning has not ended yet.
        in_call: whether a call has begun and is not closed.
    """

    def __init__(self, constraint: ReplyForm) -> None:
        """A parser that has read nothing.

        Args:
            constraint: the constraint that the text follows.
        """
        form, frame = constraint.format, constraint.frame
        self.constraint = constraint
        self.in_reasoning = frame.reasoning is not None
        self.in_call = False
        self._able = {tool.name: tool for tool in constraint.callable_tools}
        begins = form.begins if self._able else ()
        self._first_heads = {
            begin: name_pattern(form.heads(begin), self._able, form.id_length) for begin in begins
        }
        following = form.call_separator + "{name}" + form.after_name
        self._next_head = name_pattern([following], self._able, form.id_length)
        self._reasoning: list[str] = []
        self._content: list[str] = []
        self._calls: list[tuple[str, list[str]]] = []
        self._unsure: list[ReplyDelta] = []  # of a call that may be a repeated one
        self._stop: str | None = None
        self._held = ""
        self._pieces: list[ReplyDelta] = []
        self._rest: Callable[[], None] = lambda: None  # reads what is held at the end
        self._reading = self._read()
        next(self._reading)

    @property
    def reply(self) -> Reply:
        """What was read so far."""
        calls = tuple(dict.fromkeys(self.calls))
        thought = None if self.constraint.frame.reasoning is None else "".join(self._reasoning)
        return Reply("".join(self._content), calls, self._stop, thought)

    @property
    def held(self) -> str:
        """The characters that wait for the next ones; behind a call those since its arguments."""
        return self._held

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that have begun; a reply has those alone that differ."""
        return [ToolCall(name, "".join(parts)) for name, parts in self._calls]

    def feed(self, delta: str) -> list[ReplyDelta]:
        """Reads the next characters."""
        self._held += delta
        self._pieces = []
        next(self._reading)
        return self._pieces

    def finish(self) -> list[ReplyDelta]:
        """Ends the reply: characters that were held back are content unless they belong to a call."""
        self._pieces = []
        self._rest()
        self._held = ""
        return [*self._unsure, *self._pieces]

    def _take(self, count: int) -> str:
        """The next characters, which are not held any more."""
        text, self._held = self._held[:count], self._held[count:]
        return text

    def _say(self, text: str) -> None:
        if text:
            self._content.append(text)
            self._pieces.append(ReplyDelta(text))

    def _reason(self, text: str) -> None:
        if not self._reasoning:
            text = text.lstrip()
        if text:
            self._reasoning.append(text)
            self._pieces.append(ReplyDelta(text, reasoning=True))

    def _write(self, text: str) -> None:
        if text:
            self._calls[-1][1].append(text)
            self._add_to_call(text)

    def _add_to_call(self, text: str, name: str | None = None) -> None:
        """A piece of the last call; `name` in its first one."""
        *before, call = self.calls
        self._unsure.append(ReplyDelta(text, len(set(before)), name))
        if not any(one.name == call.name and one.text.startswith(call.text) for one in before):
            self._pieces += self._unsure
            self._unsure.clear()

    # Each of these yields where it needs more characters.

    def _read(self) -> Iterator[None]:
        """The whole reply."""
        frame, content = self.constraint.frame, self.constraint.content
        if frame.reasoning is not None:
            yield from self._skip(frame.reasoning[0])
            yield from self._read_reasoning(frame.reasoning[1])
        yield from self._skip(frame.lead)
        begins = [] if content is None and not frame.calls_alone else list(self._first_heads)
        if not frame.content:
            self._rest = lambda: self._say(self._held)
        while not (called := [one for one in begins if self._held.startswith(one)]):
            if not any(one.startswith(self._held) for one in begins):
                break
            yield
        if called:
            yield from self._read_calls(max(called, key=len))
        else:
            yield from self._skip(frame.content)
            yield from self._read_text() if content is None else self._read_json()
        while True:  # what follows is not read
            self._held = ""
            yield

    def _skip(self, text: str) -> Iterator[None]:
        """A fixed text."""
        while not self._held.startswith(text):
            yield
        self._take(len(text))

    def _read_reasoning(self, end: str) -> Iterator[None]:
        """The reasoning, up to its end; the white space before that is no part of it."""
        self._rest = lambda: self._reason(self._held.rstrip())
        while end not in self._held:
            sure = len(self._held) - _overlap(self._held, [end])
            self._reason(self._take(len(self._held[:sure].rstrip())))
            yield
        self._reason(self._take(self._held.index(end)).rstrip())
        self._take(len(end))
        self.in_reasoning = False
        self._rest = lambda: None

    def _read_json(self) -> Iterator[None]:
        """Content of a constraint, in which no marker counts: what may be the text after it is held back."""
        close = self.constraint.frame.close
        self._rest = lambda: self._say(self._held.removesuffix(close))
        while True:
            self._say(self._take(max(0, len(self._held) - len(close))))
            yield

    def _read_text(self) -> Iterator[None]:
        """Free text, and calls behind it."""
        frame, stops = self.constraint.frame, self.constraint.stop
        markers = [*([] if frame.calls_alone else self._first_heads), *filter(None, [frame.close]), *stops]
        self._rest = lambda: self._say(self._held)
        while not (matches := [(at, one) for one in markers if (at := self._held.find(one)) >= 0]):
            self._say(self._take(len(self._held) - _overlap(self._held, markers)))
            yield
        # The marker that ends first counts, as in the grammar; of two that end there, the longer one.
        at, marker = min(matches, key=lambda place: (place[0] + len(place[1]), place[0]))
        self._say(self._take(at))
        if marker in self._first_heads:
            yield from self._read_calls(marker)
        self._rest = lambda: None
        self._stop = marker if marker in stops else None

    def _read_calls(self, marker: str) -> Iterator[None]:
        """Calls, from the marker of the first one on."""
        form = self.constraint.format
        self._rest = lambda: None
        self._take(len(marker))
        pattern, self.in_call = self._first_heads[marker], True
        while True:
            while (found := pattern.match(self._held)) is None:
                yield
            name = found.group(found.lastindex or 0)
            self._take(found.end())
            self._calls.append((name, []))
            self._add_to_call("", name)
            self.in_call = True
            yield from self._read_object() if form.style is None else self._read_markup(name)
            self.in_call = False
            self._unsure.clear()
            while not self.constraint.allows_more_calls:
                yield
            pattern = self._next_head

    def _read_object(self) -> Iterator[None]:
        """The object of arguments, up to its closing brace."""
        depth, in_string, escaped = 0, False, False
        while True:
            for i, char in enumerate(self._held):
                if in_string:
                    in_string, escaped = char != '"' or escaped, char == "\\" and not escaped
                elif char == '"':
                    in_string = True
                elif char in "{[":
                    depth += 1
                elif char in "}]":
                    depth -= 1
                    if depth == 0:
                        self._write(self._take(i + 1))
                        return
            self._write(self._take(len(self._held)))
            yield

    def _read_markup(self, name: str) -> Iterator[None]:
        """Arguments in markup, one by one."""
        form = self.constraint.format
        reader: LiteralReader | ParameterReader = (
            LiteralReader(form.style)
            if form.style.literals
            else ParameterReader(form.style, self._able[name].arguments)
        )
        # The text after the last parameter may begin as a parameter does.
        after = [form.tail, form.call_separator] if self.constraint.allows_more_calls else [form.tail]
        fixed = tuple(text.partition(INDEX)[0].partition(ID)[0] for text in after)
        opening = "{"
        while not self._held or (found := reader.read(self._held)) or not self._held.startswith(fixed):
            if self._held and found is not None:
                self._write(f"{opening}{json.dumps(found.name, ensure_ascii=False)}: {found.text}")
                self._take(found.end)
                opening = ", "
            else:
                yield
        self._write("{}" if opening == "{" else "}")


def _overlap(text: str, markers: Sequence[str]) -> int:
    """The length of the longest suffix of a text that is a prefix of a marker, and not all of it."""
    longest = max(map(len, markers), default=1) - 1
    lengths = range(min(longest, len(text)), 0, -1)
    return next((n for n in lengths if any(marker.startswith(text[-n:]) for marker in markers)), 0)
