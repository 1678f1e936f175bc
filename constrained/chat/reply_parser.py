"""Replies taken apart: content and calls, out of a text that is written, or is still being written.

Must not know: LangChain, servers, models.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.constraint.json_text import read_value

if TYPE_CHECKING:
    from constrained.chat.reply import ReplyConstraint


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asks for.

    Attributes:
        name: of the tool.
        text: the arguments' JSON, exactly as the model wrote it; a prefix of it while the call is unfinished.
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
    """

    content: str
    calls: tuple[ToolCall, ...] = ()
    stop: str | None = None


class ReplyDelta(NamedTuple):
    """New characters of a reply.

    Attributes:
        text: of the content, or of the arguments of a call.
        call: index of the call; None for content.
        name: of the tool, in the first piece of its call, which has no text.
    """

    text: str
    call: int | None = None
    name: str | None = None


@dataclass
class ReplyParser:
    """Parses a reply while it is written: `feed` new characters, get deltas.

    Characters that could be the prefix of a marker are held back until the next ones decide.

    Attributes:
        constraint: the constraint that the text follows.
        reply: what was read so far.
    """

    constraint: ReplyConstraint
    _content: list[str] = field(default_factory=list)
    _calls: list[tuple[str, list[str]]] = field(default_factory=list)
    _stop: str | None = None
    _held: str = ""
    _depth: int = 0
    _in_string: bool = False
    _escaped: bool = False

    def __post_init__(self) -> None:
        form = self.constraint.format
        calls = self.constraint.callable_tools
        free = self.constraint.content is None
        # JSON never starts with a marker, so the first character distinguishes content from calls.
        self._markers = [*([form.begin] if calls else []), *(self.constraint.stop if free else ())]
        self._heads = {form.call_head(tool.name): tool.name for tool in calls}
        self._read = self._text

    @property
    def reply(self) -> Reply:
        """See above."""
        calls = tuple(ToolCall(name, "".join(parts)) for name, parts in self._calls)
        return Reply("".join(self._content), calls, self._stop)

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
        if self._read == self._text and self._held and self._stop is None:
            self._say(self._held, pieces)
        self._held = ""
        return pieces

    def _say(self, text: str, pieces: list[ReplyDelta]) -> None:
        if text:
            self._content.append(text)
            pieces.append(ReplyDelta(text))

    def _text(self, pieces: list[ReplyDelta]) -> bool:
        """Free text, up to a marker; returns whether there may be more to read."""
        if self._stop is not None:
            self._held = ""
            return False
        matches = [(at, marker) for marker in self._markers if (at := self._held.find(marker)) >= 0]
        if self.constraint.content is not None:
            # Inside JSON a marker is ordinary text.
            matches = [(at, marker) for at, marker in matches if at == 0 and not self._content]
        if not matches:
            held_count = self._may_be_marker()
            self._say(self._held[: len(self._held) - held_count], pieces)
            self._held = self._held[len(self._held) - held_count :]
            return False
        # The marker that ends first counts, as in the grammar; of two that end there, the longer one.
        at, marker = min(matches, key=lambda place: (place[0] + len(place[1]), place[0]))
        self._say(self._held[:at], pieces)
        self._held = self._held[at + len(marker) :]
        if self.constraint.callable_tools and marker == self.constraint.format.begin:
            self._read = self._first
        else:
            self._stop = marker
        return True

    def _may_be_marker(self) -> int:
        """The length of the longest suffix of the held characters that is a prefix of a marker."""
        if self.constraint.content is not None:
            return len(self._held) if not self._content and self._begins(self._held) else 0
        longest = max((len(marker) for marker in self._markers), default=1) - 1
        lengths = range(min(longest, len(self._held)), 0, -1)
        return next((n for n in lengths if self._begins(self._held[-n:])), 0)

    def _begins(self, text: str) -> bool:
        return any(marker.startswith(text) for marker in self._markers)

    def _first(self, pieces: list[ReplyDelta]) -> bool:
        """From a marker to the name of the first call."""
        return self._skip(self.constraint.format.before_name)

    def _skip(self, text: str) -> bool:
        """Reads what stands before a name."""
        if not self._held.startswith(text):
            return False
        self._held = self._held[len(text) :]
        self._read = self._head
        return True

    def _head(self, pieces: list[ReplyDelta]) -> bool:
        """From the name of a call to its arguments."""
        for head, name in self._heads.items():
            if self._held.startswith(head):
                self._held = self._held[len(head) :]
                self._calls.append((name, []))
                pieces.append(ReplyDelta("", len(self._calls) - 1, name))
                self._depth, self._in_string, self._escaped = 0, False, False
                self._read = self._arguments
                return True
        return False

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
        self._calls[-1][1].append(text)
        pieces.append(ReplyDelta(text, len(self._calls) - 1))
        return True

    def _tail(self, pieces: list[ReplyDelta]) -> bool:
        """From the arguments of a call to the name of the next one."""
        return (
            self._skip(self.constraint.format.call_separator) if self.constraint.allows_more_calls else False
        )
