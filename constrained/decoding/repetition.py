"""`RepetitionGuard`: ends a JSON value in which a model repeats itself.

A small model that has written the same piece a few times goes on with it to the token limit, and the members behind it get
nothing. The guard looks at the last tokens of a completion. Where a piece has come often enough, the value is closed: a
string by its quote, an array or object by having no further item or member. Nothing else is forbidden, and nothing
where the constraint does not allow that end. What decides is the completion alone, so draft tokens change nothing.

A piece with letters and a space, "-" or "_" in it (prose, and items of arrays, which have a space between them) is a repetition
after four times and `_PROSE` tokens, or after six times. Others, such as the digits of a number or the rows of a
matrix, are repeated in values that people wrote, too: for them it is four times and `_CODE` tokens. With these numbers the guard finds
nothing in the 8,199 valid values of MaskBench's development half, in the tokens of SmolLM2. Copies of the prompt are left alone.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.protocol import NO_LIMIT
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.partial_json import open_pointer, partial_json
from constrained.errors import InvalidArgument, Problem, Truncated

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.vocabulary import Vocabulary

OnRepeat = Literal["close", "error"] | None
"""What to do about a value that repeats itself: close it, close it and raise `Truncated`, or nothing."""

_LONGEST = 48
"""Tokens of the longest piece."""

_FEWEST = 16
_PROSE = 46
_CODE = 90
"""Tokens that repeat, at least; see the head of the file."""

_IS_PROSE = re.compile(rb"(?=.*[A-Za-z\x80-\xff])(?=.*[ _-])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Repair:
    """A value that was closed because the model repeated itself.

    Attributes:
        pointer: JSON Pointer of the value.
        piece: what was repeated.
        position: number of tokens before the place where it was closed.
    """

    pointer: str
    piece: str
    position: int


def check_on_repeat(on_repeat: Any) -> OnRepeat:
    """The argument ``on_repeat``.

    Raises:
        InvalidArgument: it is neither ``"close"`` nor ``"error"`` nor None.
    """
    if on_repeat not in ("close", "error", None):
        raise InvalidArgument(f"on_repeat is {on_repeat!r}", action='pass "close", "error" or None')
    return on_repeat  # type: ignore[no-any-return]


def repetition_error(text: str, repair: Repair) -> Truncated:
    """The error for a completion in which the model repeated itself.

    Args:
        text: the completion, closed.
        repair: what was closed first.
    """
    return Truncated(
        f"the model repeats itself in {repair.pointer or 'the value'}",
        Problem(f"after {repair.position} tokens", "was repeated", repair.piece),
        action="bound the value (maxLength, maxItems, a pattern, set[...]), ground it in the text, or pass "
        'on_repeat="close" for what was closed',
        text=text,
        value=partial_json(text),
    )


class RepetitionGuard:
    """The guard of one completion.

    Attributes:
        repairs: what it closed.
    """

    def __init__(self, vocabulary: Vocabulary, prompt: Sequence[int]) -> None:
        """A guard that has read nothing.

        Args:
            vocabulary: of the model.
            prompt: token ids; what stands in it may be repeated.
        """
        self.repairs: list[Repair] = []
        self._vocabulary = vocabulary
        self._prompt = prompt
        self._last = np.full(_LONGEST, -1, dtype=np.int64)  # latest first
        self._runs = np.zeros(_LONGEST, dtype=np.int64)  # tokens that equal the one p before them, for each p
        self._closing: JsonPlace | None = None

    def copy(self) -> RepetitionGuard:
        """An independent copy."""
        twin = copy.copy(self)
        twin.repairs, twin._last, twin._runs = list(self.repairs), self._last.copy(), self._runs.copy()
        return twin

    def commit(self, tokens: Sequence[int]) -> None:
        """Reads the last one of the completion's tokens."""
        token = tokens[-1]
        self._runs = np.where(self._last == token, self._runs + 1, 0)
        self._last[1:] = self._last[:-1]
        self._last[0] = token
        if self._closing is not None:
            self._closing = self._closing.after(self._vocabulary.decode((token,)))
        if self._closing is None and int(self._runs.max()) >= _FEWEST // 2:
            self._look(tokens)

    def candidates(self, automaton: Automaton, state: int, budget: int) -> AutomatonCandidates:
        """The candidates of a state, without those that go on with a value that is to be closed."""
        if self._closing is None:
            return AutomatonCandidates(automaton, state, budget)
        return _ClosingCandidates(automaton, state, budget, self._closing)

    def _look(self, tokens: Sequence[int]) -> None:
        """Finds a piece that has come too often, and the value that is to be closed."""
        zones = self._runs + np.arange(1, _LONGEST + 1)
        periods = np.arange(1, _LONGEST + 1)
        enough = (self._runs > 0) & (zones >= np.maximum(_FEWEST, 4 * periods - 2))
        for index in np.flatnonzero(enough):
            period, zone = int(periods[index]), int(zones[index])
            piece = self._vocabulary.decode(tokens[-period:])
            least = min(6 * period - 2, _PROSE) if _IS_PROSE.match(piece) else _CODE
            if zone < max(least, _FEWEST):
                continue
            repeated = self._vocabulary.decode(tokens[-zone:])
            if repeated in self._read_prompt:
                continue
            text = self._vocabulary.decode(tokens)
            self._closing = open_place(text, len(text) - len(repeated))
            if self._closing is not None:
                pointer = open_pointer(text[: self._closing.start].decode("utf-8", "replace"))
                self.repairs.append(Repair(pointer, piece.decode("utf-8", "replace"), len(tokens)))
            return

    @cached_property
    def _read_prompt(self) -> bytes:
        return self._vocabulary.decode(self._prompt)


@dataclass(frozen=True, slots=True)
class JsonPlace:
    """A place in a JSON text, and the value around it that is to be closed.

    Attributes:
        start: where the value begins, in bytes.
        depth: containers that are open inside of it; of a string None.
        in_string, escaped: whether the place is in a string, and behind a backslash.
    """

    start: int
    depth: int | None
    in_string: bool
    escaped: bool = False

    def after(self, token: bytes) -> JsonPlace | None:
        """The place behind a token; None: the value is closed."""
        return self._read(token)[0]

    def closes(self, token: bytes) -> bool:
        """Whether a token does not go on with the value: it ends the string, or begins no further item or member."""
        return token.startswith(b'"') if self.depth is None else not self._read(token)[1]

    def _read(self, token: bytes) -> tuple[JsonPlace | None, bool]:
        """The place behind a token, and whether the value goes on in it."""
        depth, in_string, escaped = self.depth, self.in_string, self.escaped
        goes_on = False
        for byte in token:
            if in_string:
                if escaped:
                    escaped = False
                elif byte == 0x5C:
                    escaped = True
                elif byte == 0x22:
                    in_string = False
                    if depth is None:
                        return None, goes_on
            elif byte == 0x22:
                in_string = True
            elif byte in b"[{":
                assert depth is not None
                depth += 1
            elif byte in b"]}":
                assert depth is not None
                if depth == 0:
                    return None, goes_on
                depth -= 1
            elif byte == 0x2C and depth == 0:
                goes_on = True
        return JsonPlace(self.start, depth, in_string, escaped), goes_on


def open_place(text: bytes, zone: int) -> JsonPlace | None:
    """The end of a JSON text, and the innermost value that was open at `zone` and still is.

    Args:
        text: a prefix of a JSON text.
        zone: bytes before what is repeated.

    Returns:
        None if no string, array or object began before `zone`.
    """
    opened: list[int] = []
    string, escaped = -1, False
    for at, byte in enumerate(text):
        if string >= 0:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                string = -1
        elif byte == 0x22:
            string = at
        elif byte in b"[{":
            opened.append(at)
        elif byte in b"]}" and opened:
            opened.pop()
    if 0 <= string <= zone:
        return JsonPlace(string, None, True, escaped)
    before = [at for at in opened if at <= zone]
    if not before:
        return None
    return JsonPlace(before[-1], len(opened) - len(before), string >= 0, escaped)


class _ClosingCandidates(AutomatonCandidates):
    """The tokens of a state that close a value; all tokens of the state where none of them does."""

    def __init__(self, automaton: Automaton, state: int, budget: int, place: JsonPlace) -> None:
        super().__init__(automaton, state, budget)
        self._place = place
        self._kept: NDArray[np.intp] | None = None

    @property
    def ids(self) -> NDArray[np.intp]:
        """All allowed ids, ascending."""
        if self._kept is None:
            vocabulary, eos = self.automaton.vocabulary, set(self.eos_ids)
            allowed = super().ids
            kept = [
                one for one in allowed.tolist() if one in eos or self._place.closes(vocabulary.decode((one,)))
            ]
            self._kept = np.asarray(kept, dtype=np.intp) if kept else allowed
        return self._kept

    def permits(self, token: int) -> bool:
        """Whether one token is allowed."""
        return super().permits(token) and bool((self.ids == token).any())

    def without_limit(self) -> AutomatonCandidates:
        """The candidates of the state without a budget."""
        return _ClosingCandidates(self.automaton, self.state, NO_LIMIT, self._place)
