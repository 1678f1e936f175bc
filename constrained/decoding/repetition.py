"""`RepetitionGuard`: ends a JSON value in which a model repeats itself.

A small model that has written the same piece a few times goes on with it to the token limit, and the members behind it get
nothing. The guard looks at the last tokens of a completion. Where a piece has come often enough, the value is closed: a
string by its quote, an array or object by having no further item or member, and an array whose item had to be closed, too. Nothing else is forbidden, and nothing
where the constraint does not allow that end. What decides is the completion alone, so draft tokens change nothing.

A piece with letters and a space, "-" or "_" in it (prose, and items of arrays, which have a space between them), or with letters of a
script without spaces, is a repetition after four times and `_PROSE` tokens, or after six times. Another one with a letter and three other
characters (`heroku.`) is one after eight times. The rest, such as the digits of a number or the rows of a matrix, are repeated in values that
people wrote, too: for them it is four times and `_CODE` tokens. With these numbers the guard finds
nothing in the 8,199 valid values of MaskBench's development half, in the tokens of SmolLM2. Copies of the prompt are left alone.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.protocol import NO_LIMIT
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.json_reader import JsonReader
from constrained.decoding.partial_json import open_pointer, partial_json
from constrained.errors import InvalidArgument, Problem, Truncated

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.constraint import Constraint
    from constrained.vocabulary import Vocabulary

OnRepeat = Literal["close", "error"] | None
"""What to do about a value that repeats itself: close it, close it and raise `Truncated`, or nothing."""

_LONGEST = 48
"""Tokens of the longest piece."""

_FEWEST = 16
_PROSE = 46
_CODE = 90
"""Tokens that repeat, at least; see the head of the file."""

_WORD = 4
"""Different bytes of a piece that has a letter and no space."""
_UNSPACED = rb"\xe0[\xb8-\xbb]|\xe1[\x80-\x82\x9e\x9f]|\xe3[\x81-\x83\x90-\xbf]|[\xe4-\xe9][\x80-\xbf]"
"""How characters of scripts without spaces begin in UTF-8: Thai and Lao, Burmese, Khmer, kana, Chinese characters."""
_IS_PROSE = re.compile(rb"(?=.*[A-Za-z\x80-\xff])(?=.*(?:[ _-]|" + _UNSPACED + rb"))", re.DOTALL)


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
        action="bound it (max_string_length, max_items, a pattern, set[...]), ground it in the text "
        '(require_grounding=True), or pass on_repeat="close" for what was closed',
        text=text,
        value=partial_json(text),
    )


class Guard(Protocol):
    """Reads a completion and says what may follow.

    Attributes:
        repairs: what it ended.
        avoided: token ids of texts that must not come next: the model is asked before the next token is drawn how it departs
            from them, see `departure`, which empties it.
    """

    repairs: list[Repair]
    avoided: Sequence[Sequence[int]]

    def copy(self) -> Guard:
        """An independent copy."""

    def commit(self, tokens: Sequence[int]) -> None:
        """Reads the last one of the completion's tokens."""

    def wanted(self, text: str) -> str | None:
        """How a text goes on with which the completion should depart from `avoided` rather than end; None: it should not."""

    def candidates(self, automaton: Automaton, state: int, budget: int) -> AutomatonCandidates:
        """The candidates of a state with this budget of tokens."""


class RepetitionGuard:
    """The guard of one completion.

    Attributes:
        repairs: what it closed.
        avoided: nothing.
    """

    def __init__(
        self, vocabulary: Vocabulary, prompt: Sequence[int], *, distinct_items: bool = False
    ) -> None:
        """A guard that has read nothing.

        Args:
            vocabulary: of the model.
            prompt: token ids; what stands in it may be repeated.
            distinct_items: an array that has a string or an object for the second time takes no further item.
        """
        self.repairs: list[Repair] = []
        self.avoided: Sequence[Sequence[int]] = ()
        self._vocabulary = vocabulary
        self._prompt = prompt
        self._distinct_items = distinct_items
        self._last = np.full(_LONGEST, -1, dtype=np.int64)  # latest first
        self._runs = np.zeros(_LONGEST, dtype=np.int64)  # tokens that equal the one p before them, for each p
        self._reader = JsonReader()
        self._closing: int | None = None  # where the value begins that is to be closed, in bytes

    def copy(self) -> RepetitionGuard:
        """An independent copy."""
        twin = copy.copy(self)
        twin.repairs, twin._last, twin._runs = list(self.repairs), self._last.copy(), self._runs.copy()
        twin._reader = self._reader.copy()
        return twin

    def commit(self, tokens: Sequence[int]) -> None:
        """Reads the last one of the completion's tokens."""
        self.read(tokens, self._vocabulary.decode(tokens[-1:]))

    def read(self, tokens: Sequence[int], piece: bytes) -> None:
        """Reads the last one of the completion's tokens, of which only a piece may belong to the value."""
        token = tokens[-1]
        self._runs = np.where(self._last == token, self._runs + 1, 0)
        self._last[1:] = self._last[:-1]
        self._last[0] = token
        self._reader.read(piece)
        if self._closing is not None and not self._reader.is_open(self._closing):
            self._closing = self._reader.array_of_last_string(self._closing)
        if self._closing is None and self._distinct_items and self._reader.repeated_item:
            self._close(self._reader.open[-1].start, self._reader.last_item, len(tokens))
        if self._closing is None and int(self._runs.max()) >= _FEWEST // 2:
            self._look(tokens)

    def wanted(self, text: str) -> None:
        """Nothing is: see `Guard`."""

    def candidates(self, automaton: Automaton, state: int, budget: int) -> AutomatonCandidates:
        """The candidates of a state, without those that go on with a value that is to be closed."""
        closing = self._closing
        if closing is None and self._distinct_items and self._reader.repeats_item:
            closing = self._reader.open[-1].start  # if the string ends here, it is the last item
        if closing is None:
            return AutomatonCandidates(automaton, state, budget)
        return _ClosingCandidates(automaton, state, budget, self._reader.copy(), closing)

    def _look(self, tokens: Sequence[int]) -> None:
        """Finds a piece that has come too often, and the value that is to be closed."""
        periods = np.arange(1, _LONGEST + 1)
        zones = self._runs + periods
        enough = (self._runs > 0) & (zones >= np.maximum(_FEWEST, 4 * periods - 2))
        for index in np.flatnonzero(enough):
            period, zone = int(periods[index]), int(zones[index])
            piece = self._vocabulary.decode(tokens[-period:])
            is_prose = _IS_PROSE.match(piece + piece)  # it may begin inside of a character
            is_word = len(set(piece)) >= _WORD and piece.upper() != piece.lower()
            least = _CODE
            if is_prose:
                least = min(6 * period - 2, _PROSE)
            elif is_word:
                least = min(8 * period - 2, _CODE)
            if zone < max(least, _FEWEST):
                continue
            repeated = self._vocabulary.decode(tokens[-zone:])
            start = self._reader.value_around(len(repeated))
            if start is not None and repeated not in self._read_prompt:
                self._close(start, piece, len(tokens))
            return

    def _close(self, start: int, piece: bytes, position: int) -> None:
        self._closing = start
        pointer = open_pointer(self._reader.text[:start].decode("utf-8", "replace"))
        self.repairs.append(Repair(pointer, piece.decode("utf-8", "replace"), position))

    @cached_property
    def _read_prompt(self) -> bytes:
        return self._vocabulary.decode(self._vocabulary.text_ids(self._prompt))


def repetition_guard(
    constraint: Constraint, vocabulary: Vocabulary
) -> Callable[[Sequence[int]], Guard] | None:
    """Makes what ends a completion of a constraint that repeats itself, from the prompt; None where there is no such thing."""
    if constraint.is_json:
        return partial(RepetitionGuard, vocabulary, distinct_items=not constraint.repeats)
    return constraint.repetition_guard(vocabulary)


@lru_cache(maxsize=16)
def _signs(vocabulary: Vocabulary) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which tokens begin with a quote, and which have a comma."""
    pieces = [vocabulary.decode((token,)) for token in range(vocabulary.size)]
    begins_quote = np.array([piece.startswith(b'"') for piece in pieces], dtype=bool)
    return begins_quote, np.array([b"," in piece for piece in pieces], dtype=bool)


class _ClosingCandidates(AutomatonCandidates):
    """The tokens of a state that do not go on with a value; all tokens of the state where none of them does that."""

    def __init__(self, automaton: Automaton, state: int, budget: int, reader: JsonReader, start: int) -> None:
        super().__init__(automaton, state, budget)
        self._reader = reader
        self._start = start
        self._kept: NDArray[np.intp] | None = None

    @property
    def ids(self) -> NDArray[np.intp]:
        """All allowed ids, ascending."""
        if self._kept is None:
            allowed = super().ids
            begins_quote, has_comma = _signs(self.automaton.vocabulary)
            kept = (
                begins_quote[allowed] if self._start == self._reader.string else np.ones(len(allowed), bool)
            )
            for index in np.flatnonzero(kept & has_comma[allowed]):
                kept[index] = self._ends(int(allowed[index]))
            kept |= np.isin(allowed, list(self.eos_ids))
            self._kept = allowed[kept] if kept.any() else allowed
        return self._kept

    def _ends(self, token: int) -> bool:
        """Whether a token with a comma begins no further item or member of the container."""
        piece = self.automaton.vocabulary.decode((token,))
        after = self._reader.copy()
        after.read(piece)
        return not {self._start, after.array_of_last_string(self._start)} & after.went_on

    def permits(self, token: int) -> bool:
        """Whether one token is allowed."""
        return super().permits(token) and bool((self.ids == token).any())

    def without_limit(self) -> AutomatonCandidates:
        """The candidates of the state without a budget."""
        return _ClosingCandidates(self.automaton, self.state, NO_LIMIT, self._reader, self._start)
