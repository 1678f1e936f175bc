"""Replies taken apart: content and calls, out of a text that is written, or is still being written.

Must not know: LangChain, servers, models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.chat.literals import LiteralReader
from constrained.chat.parameters import ParameterReader
from constrained.chat.tool_format import ID, INDEX, name_pattern
from constrained.constraint.json_text import read_value

if TYPE_CHECKING:
    from constrained.chat.reply import ReplyConstraint


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


@dataclass
class ReplyParser:
    """Parses a reply while it is written: `feed` new characters, get deltas.

    Characters that could be the prefix of a marker are held back until the next ones decide.

    Attributes:
        constraint: the constraint that the text follows.
        reply: what was read so far.
    """

    constraint: ReplyConstraint
    _reasoning: list[str] = field(default_factory=list)
    _content: list[str] = field(default_factory=list)
    _calls: list[tuple[str, list[str]]] = field(default_factory=list)
    _stop: str | None = None
    _held: str = ""
    _depth: int = 0
    _in_string: bool = False
    _escaped: bool = False

    def __post_init__(self) -> None:
        form, frame = self.constraint.format, self.constraint.frame
        able = {tool.name: tool for tool in self.constraint.callable_tools}
        begins = form.begins if able else ()
        stops = self.constraint.stop if self.constraint.content is None else ()
        ends = [frame.close] if frame.close and self.constraint.content is None else []
        self._markers = [*([] if frame.calls_alone else begins), *ends, *stops]
        self._able = able
        self._first_heads = {begin: name_pattern(form.heads(begin), able, form.id_length) for begin in begins}
        following = form.call_separator + "{name}" + form.after_name
        self._next_head = name_pattern([following], able, form.id_length)
        self._head_pattern: re.Pattern[str] | None = None
        self._read: Callable[[list[ReplyDelta]], bool] = (
            self._before if frame.reasoning is None else self._think
        )

    @property
    def reply(self) -> Reply:
        """See above."""
        calls = tuple(dict.fromkeys(self.calls))
        thought = None if self.constraint.frame.reasoning is None else "".join(self._reasoning)
        return Reply("".join(self._content), calls, self._stop, thought)

    @property
    def in_reasoning(self) -> bool:
        """Whether the reasoning has not ended yet."""
        return self._read in (self._think, self._thought)

    @property
    def in_call(self) -> bool:
        """Whether a call has begun and is not closed."""
        return self._read in (self._head, self._arguments, self._markup)

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that have begun; a reply has those alone that differ."""
        return [ToolCall(name, "".join(parts)) for name, parts in self._calls]

    def feed(self, delta: str) -> list[ReplyDelta]:
        """Reads the next characters."""
        self._held += delta
        pieces: list[ReplyDelta] = []
        while self._held and self._read(pieces):
            pass
        return pieces

    def finish(self) -> list[ReplyDelta]:
        """Ends the reply: characters that were held back are content unless they belong to a call."""
        pieces: list[ReplyDelta] = []
        if self._read == self._text or (self._read == self._begin and not self.constraint.frame.content):
            self._say(self._held, pieces)
        elif self._read == self._json:
            self._say(self._held.removesuffix(self.constraint.frame.close), pieces)
        elif self._read == self._thought:
            self._reason(self._held.rstrip(), pieces)
        self._held = ""
        return pieces

    def _say(self, text: str, pieces: list[ReplyDelta]) -> None:
        if text:
            self._content.append(text)
            pieces.append(ReplyDelta(text))

    def _reason(self, text: str, pieces: list[ReplyDelta]) -> None:
        if not self._reasoning:
            text = text.lstrip()
        if text:
            self._reasoning.append(text)
            pieces.append(ReplyDelta(text, reasoning=True))

    # ------------------------------------------------------------ reasoning

    def _think(self, pieces: list[ReplyDelta]) -> bool:
        """The text that opens the reasoning."""
        assert self.constraint.frame.reasoning is not None
        return self._skip(self.constraint.frame.reasoning[0], self._thought)

    def _thought(self, pieces: list[ReplyDelta]) -> bool:
        """The reasoning, up to its end; the white space before that is no part of it."""
        assert self.constraint.frame.reasoning is not None
        end = self.constraint.frame.reasoning[1]
        text, found, rest = self._held.partition(end)
        if found:
            self._reason(text.rstrip(), pieces)
            self._held, self._read = rest, self._before
            return True
        sure = len(self._held) - _overlap(self._held, [end])
        sure = len(self._held[:sure].rstrip())
        self._reason(self._held[:sure], pieces)
        self._held = self._held[sure:]
        return False

    def _before(self, pieces: list[ReplyDelta]) -> bool:
        """What stands before content and calls."""
        return self._skip(self.constraint.frame.lead, self._begin)

    # ------------------------------------------------------------ content

    def _begin(self, pieces: list[ReplyDelta]) -> bool:
        """The beginning of the content, or of a call."""
        frame, free = self.constraint.frame, self.constraint.content is None
        calls = [] if free and not frame.calls_alone else list(self._first_heads)
        called = max((one for one in calls if self._held.startswith(one)), key=len, default=None)
        if called is not None:
            return self._call(called)
        if any(one.startswith(self._held) for one in calls):
            return False
        return self._skip(frame.content, self._text if free else self._json)

    def _json(self, pieces: list[ReplyDelta]) -> bool:
        """Content of a constraint, in which no marker counts: what may be the text after it is held back."""
        sure = len(self._held) - len(self.constraint.frame.close)
        if sure > 0:
            self._say(self._held[:sure], pieces)
            self._held = self._held[sure:]
        return False

    def _text(self, pieces: list[ReplyDelta]) -> bool:
        """Free text, up to a marker; returns whether there may be more to read."""
        matches = [(at, marker) for marker in self._markers if (at := self._held.find(marker)) >= 0]
        if not matches:
            sure = len(self._held) - _overlap(self._held, self._markers)
            self._say(self._held[:sure], pieces)
            self._held = self._held[sure:]
            return False
        # The marker that ends first counts, as in the grammar; of two that end there, the longer one.
        at, marker = min(matches, key=lambda place: (place[0] + len(place[1]), place[0]))
        self._say(self._held[:at], pieces)
        self._held = self._held[at:]
        if marker in self._first_heads:
            return self._call(marker)
        self._read = self._over
        self._stop = marker if marker in self.constraint.stop else None
        return True

    def _over(self, pieces: list[ReplyDelta]) -> bool:
        """What follows the content is not read."""
        self._held = ""
        return False

    # ------------------------------------------------------------ calls

    def _call(self, marker: str) -> bool:
        """The marker of the first call."""
        self._held = self._held[len(marker) :]
        self._head_pattern = self._first_heads[marker]
        self._read = self._head
        return True

    def _head(self, pieces: list[ReplyDelta]) -> bool:
        """The name of a call, and what stands around it."""
        assert self._head_pattern is not None
        found = self._head_pattern.match(self._held)
        if found is None:
            return False
        name, form = found.group(found.lastindex or 0), self.constraint.format
        self._held = self._held[found.end() :]
        self._calls.append((name, []))
        pieces.append(ReplyDelta("", len(self._calls) - 1, name))
        self._depth, self._in_string, self._escaped = 0, False, False
        self._read = self._arguments
        if form.style is not None:
            literals = form.style.literals
            self._parameters: LiteralReader | ParameterReader = (
                LiteralReader(form.style)
                if literals
                else ParameterReader(form.style, self._able[name].arguments)
            )
            self._read = self._markup
        return True

    def _write(self, text: str, pieces: list[ReplyDelta]) -> None:
        self._calls[-1][1].append(text)
        pieces.append(ReplyDelta(text, len(self._calls) - 1))

    def _arguments(self, pieces: list[ReplyDelta]) -> bool:
        """The object of arguments, up to its closing brace."""
        end = len(self._held)
        for i, char in enumerate(self._held):
            if self._in_string:
                if self._escaped:
                    self._escaped = False
                elif char == "\\":
                    self._escaped = True
                elif char == '"':
                    self._in_string = False
            elif char == '"':
                self._in_string = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                if self._depth == 0:
                    end = i + 1
                    self._read = self._tail
                    break
        text, self._held = self._held[:end], self._held[end:]
        self._write(text, pieces)
        return True

    def _markup(self, pieces: list[ReplyDelta]) -> bool:
        """Arguments in markup, one by one."""
        form = self.constraint.format
        first = not self._calls[-1][1]
        if (found := self._parameters.read(self._held)) is not None:
            opening = "{" if first else ", "
            self._write(f"{opening}{json.dumps(found.name, ensure_ascii=False)}: {found.text}", pieces)
            self._held = self._held[found.end :]
            return True
        # The text after the last parameter may begin as a parameter does.
        after = [form.tail, form.call_separator] if self.constraint.allows_more_calls else [form.tail]
        fixed = [text.partition(INDEX)[0].partition(ID)[0] for text in after]
        if not any(self._held.startswith(text) for text in fixed):
            return False
        self._write("{}" if first else "}", pieces)
        self._read = self._tail
        return True

    def _tail(self, pieces: list[ReplyDelta]) -> bool:
        """From the arguments of a call to the name of the next one."""
        if not self.constraint.allows_more_calls:
            return False
        self._head_pattern = self._next_head
        return self._head(pieces)

    def _skip(self, text: str, then: Callable[[list[ReplyDelta]], bool]) -> bool:
        """Reads a fixed text."""
        if not self._held.startswith(text):
            return False
        self._held = self._held[len(text) :]
        self._read = then
        return True


def _overlap(text: str, markers: Sequence[str]) -> int:
    """The length of the longest suffix of a text that is a prefix of a marker, and not all of it."""
    longest = max(map(len, markers), default=1) - 1
    lengths = range(min(longest, len(text)), 0, -1)
    return next((n for n in lengths if any(marker.startswith(text[-n:]) for marker in markers)), 0)
