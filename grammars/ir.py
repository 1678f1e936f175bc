"""The intermediate representation between the front ends and the core: a grammar is rules over terminals.

Two algebras, kept apart on purpose:

* `Regex`: regular languages of **bytes** (text is UTF-8). A terminal is one of these. Closed under union,
  concatenation, counted repetition, intersection and complement.
* `Expr`: the body of a rule, over terminals and calls of other rules: sequence, choice, counted loop, and interleave
  (entries in any order, at most one for each slot).

The boundary between the two does not change the language, only what the core can cache: it caches by the residual of
a terminal and by the remainder of a rule. So a terminal should be a unit that recurs (a key with its colon, a string
body, a number), and structure belongs in rules.

Nodes are immutable, compare by identity and may be shared: a grammar is a graph of any depth, so functions over it must
not recurse. Build with the lower-case functions, which also simplify; the core hash-conses by content.
Must not know: tokenizers, torch, JSON Schema.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal as OneOf

from constrained.grammars.errors import ConstraintTooLarge, Problem

MAX_CODE_POINT = 0x10FFFF
MAX_REMAINDERS = 4096
"""Most remainders that a `DecimalMultiple` tells apart: each is a state for each number of digits that follow."""
MAX_COUNT = 2**31 - 2
"""Greatest lower bound of a repetition. A greater upper bound means no bound, as no string is that long."""


# ---------------------------------------------------------------- regular expressions over bytes


class Regex:
    """A regular language of byte strings."""

    __slots__ = ()


class EmptySet(Regex):
    """The empty language."""

    __slots__ = ()


class Literal(Regex):
    """Exactly these bytes; ``Literal(b"")`` is the empty string."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Chars(Regex):
    """One character out of a set of code points, written in UTF-8.

    `ranges` are inclusive, sorted, disjoint and free of surrogates; `chars` ensures that.
    """

    __slots__ = ("ranges",)

    def __init__(self, ranges: tuple[tuple[int, int], ...]) -> None:
        self.ranges = ranges


class Concat(Regex):
    """One part after the other."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Regex, ...]) -> None:
        self.parts = parts


class Union(Regex):
    """Any of the parts."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Regex, ...]) -> None:
        self.parts = parts


class Intersection(Regex):
    """All of the parts at once."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Regex, ...]) -> None:
        self.parts = parts


class Complement(Regex):
    """Every **byte** string that is not in `part`; usually intersected with `TEXT` or the language of JSON strings."""

    __slots__ = ("part",)

    def __init__(self, part: Regex) -> None:
        self.part = part


class Repeat(Regex):
    """From `low` to `high` copies of `part` (no upper bound when `high` is None)."""

    __slots__ = ("high", "low", "part")

    def __init__(self, part: Regex, low: int, high: int | None) -> None:
        self.part = part
        self.low = low
        self.high = high


class DecimalMultiple(Regex):
    """The remaining digits of a decimal number that must be a multiple of another one, and of none of some others.

    In units of ``10 ** -places``: all digits of the number without the point, padded with zeros to `places`, form a
    multiple of `modulus`; digits after those places are zeros, at most `zeros` of them, or not all of them are zeros.

    Attributes:
        modulus: at least 1.
        residue: the digits read before as a whole number, modulo `modulus` and `excluded`: their least common multiple.
        low, high: number of digits up to the point (no upper bound when `high` is None); after the point 0 or 1, and
            None.
        places: decimal places that remain.
        form: ``"whole"`` (digits only), ``"number"`` (digits, optionally with a fraction), or ``"fraction"`` (the
            point has been read).
        zeros: None: any number of them.
        excluded: no number is a multiple of these; none divides `modulus`, and the least common multiple of all, `modulus` included,
            is at most `MAX_REMAINDERS`.
        beyond: the digits after `places` may be any, but for zeros alone; `modulus` is 1 then, and nothing is excluded.
        packed: all of these as bytes, for the core.
    """

    __slots__ = (
        "beyond",
        "excluded",
        "form",
        "high",
        "low",
        "modulus",
        "packed",
        "places",
        "residue",
        "zeros",
    )

    def __init__(
        self,
        modulus: int,
        residue: int,
        low: int,
        high: int | None,
        places: int,
        form: OneOf["whole", "number", "fraction"],
        zeros: int | None = None,
        excluded: tuple[int, ...] = (),
        *,
        beyond: bool = False,
    ) -> None:
        self.modulus = modulus
        self.residue = residue
        self.low = low
        self.high = high
        self.places = places
        self.form = form
        self.zeros = zeros
        self.excluded = excluded
        self.beyond = beyond
        most, padding = (2**32 - 1 if count is None else count for count in (high, zeros))
        code = ("whole", "number", "fraction").index(form) + 4 * beyond
        numbers = (modulus, residue, low, most, places, code, padding, *excluded)
        self.packed = struct.pack(f"<QQIIIII{len(excluded)}Q", *numbers)


class Substring(Regex):
    """The substrings of a document, each character of which has one or more spellings.

    Attributes:
        symbols: the document: the number of the spellings of each character, as a character.
        spellings: the spellings by number; no spelling is a prefix of another one.
        spaces: numbers below this are white space, and a run of it may also be spelled as `space`; 0: no such rule.
        words: numbers from this on belong to words.
        space: number of the spellings that a run of white space has.
        least: characters of the shortest text; must be 1 or less with `spaces`.
        whole_words: whether a text neither begins nor ends inside a word.
        chunk_starts: the only positions, beside both ends of the document, where a text may begin or end; None: any. Not
            with `spaces` or `whole_words`.
        packed: all of these as bytes, for the core.
    """

    __slots__ = (
        "chunk_starts",
        "least",
        "packed",
        "space",
        "spaces",
        "spellings",
        "symbols",
        "whole_words",
        "words",
    )

    def __init__(
        self,
        symbols: str,
        spellings: tuple[tuple[bytes, ...], ...],
        *,
        spaces: int = 0,
        words: int = 0,
        space: int = 0,
        least: int = 1,
        whole_words: bool = False,
        chunk_starts: frozenset[int] | None = None,
    ) -> None:
        self.symbols = symbols
        self.spellings = spellings
        self.spaces = spaces
        self.words = words
        self.space = space
        self.least = least
        self.whole_words = whole_words
        self.chunk_starts = chunk_starts
        listed = [(number, data) for number, texts in enumerate(spellings) for data in texts]
        numbers = bytearray(symbols.encode("utf-32-le", "surrogatepass"))
        if chunk_starts is not None:
            for at in range(len(symbols)):
                if at not in chunk_starts:
                    numbers[4 * at + 3] |= 0x80
        ends = int(whole_words) if chunk_starts is None else 2
        sizes = (len(symbols), len(spellings), spaces, words, space, least, ends, len(listed))
        self.packed = b"".join(
            (
                struct.pack("<8I", *sizes),
                *(struct.pack("<2I", number, len(data)) + data for number, data in listed),
                numbers,
            )
        )


EMPTY_SET = EmptySet()
EMPTY_STRING = Literal(b"")


def literal(text: str | bytes) -> Regex:
    """Exactly this string (`str` is encoded as UTF-8)."""
    return Literal(text.encode() if isinstance(text, str) else text)


def chars(ranges: Iterable[tuple[int, int]]) -> Regex:
    """One character out of inclusive code point ranges, in any order; surrogates are left out."""
    merged = merge_ranges(ranges)
    return Chars(merged) if merged else EMPTY_SET


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sorted, disjoint, non-adjacent inclusive ranges of these code points, without surrogates."""
    merged: list[tuple[int, int]] = []
    start, end = 0, -1  # the range that is not in `merged` yet
    for low, high in sorted(ranges):
        if low < 0xE000 and high > 0xD7FF:
            if low < 0xD800:
                if low > end + 1:
                    if end >= 0:
                        merged.append((start, end))
                    start = low
                end = max(end, 0xD7FF)
            low = 0xE000
            if low > high:
                continue
        if low > end + 1:
            if low > high:
                continue
            if end >= 0:
                merged.append((start, end))
            start, end = low, high
        elif high > end:
            end = high
    if end >= 0:
        merged.append((start, end))
    return tuple(merged)


def invert_ranges(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The code points outside the ranges, as merged ranges."""
    rest: list[tuple[int, int]] = []
    start = 0
    for low, high in merge_ranges(ranges):
        if low > start:
            rest.append((start, low - 1))
        start = high + 1
    if start <= MAX_CODE_POINT:
        rest.append((start, MAX_CODE_POINT))
    return merge_ranges(rest)


def concat(*parts: Regex) -> Regex:
    """One part after the other; adjacent literals are merged."""
    flat: list[Regex] = []
    for part in parts:
        kind = type(part)
        if kind is EmptySet:
            return EMPTY_SET
        for piece in part.parts if kind is Concat else (part,):  # type: ignore[attr-defined]
            if type(piece) is not Literal:
                flat.append(piece)
            elif flat and type(flat[-1]) is Literal:
                flat[-1] = Literal(flat[-1].data + piece.data)
            elif piece.data:
                flat.append(piece)
    if not flat:
        return EMPTY_STRING
    return flat[0] if len(flat) == 1 else Concat(tuple(flat))


def union(*parts: Regex) -> Regex:
    """Any of the parts."""
    flat: list[Regex] = []
    for part in parts:
        kind = type(part)
        if kind is Union:
            flat.extend(part.parts)  # type: ignore[attr-defined]
        elif kind is not EmptySet:
            flat.append(part)
    if not flat:
        return EMPTY_SET
    return flat[0] if len(flat) == 1 else Union(tuple(flat))


def intersection(*parts: Regex) -> Regex:
    """All of the parts at once (at least one part)."""
    flat: list[Regex] = []
    for part in parts:
        if isinstance(part, EmptySet):
            return EMPTY_SET
        flat.extend(part.parts if isinstance(part, Intersection) else (part,))
    return flat[0] if len(flat) == 1 else Intersection(tuple(flat))


def complement(part: Regex) -> Regex:
    """Every byte string that is not in `part`."""
    return part.part if isinstance(part, Complement) else Complement(part)


def difference(part: Regex, without: Regex) -> Regex:
    """The strings of `part` that are not in `without`."""
    return part if isinstance(without, EmptySet) else intersection(part, complement(without))


def repeat(part: Regex, low: int = 0, high: int | None = None) -> Regex:
    """From `low` to `high` copies of `part` (no upper bound when `high` is None).

    Raises:
        ConstraintTooLarge: `low` exceeds `MAX_COUNT`.
    """
    low, high = count_bounds(low, high)
    if high is not None and high < low:
        return EMPTY_SET
    if high == 0 or (isinstance(part, Literal) and not part.data):
        return EMPTY_STRING
    if low == high == 1:
        return part
    if isinstance(part, EmptySet):
        return EMPTY_STRING if low == 0 else EMPTY_SET
    return Repeat(part, low, high)


def optional(part: Regex) -> Regex:
    """`part` or the empty string."""
    return repeat(part, 0, 1)


def count_bounds(low: int, high: int | None) -> tuple[int, int | None]:
    """Bounds of a number of copies; an upper bound over `MAX_COUNT` becomes None.

    Raises:
        ConstraintTooLarge: `low` exceeds `MAX_COUNT`.
    """
    if low > MAX_COUNT:
        raise ConstraintTooLarge(
            "a repetition needs more copies than any string can have",
            Problem("repetition", f"at least {low} copies; at most {MAX_COUNT} can be counted"),
        )
    return low, None if high is not None and high > MAX_COUNT else high


ANY_CHAR = Chars(((0, 0xD7FF), (0xE000, MAX_CODE_POINT)))
TEXT = Repeat(ANY_CHAR, 0, None)
"""Every valid UTF-8 string."""


# ---------------------------------------------------------------- bodies of rules


class Expr:
    """The body of a rule."""

    __slots__ = ()


class Terminal(Expr):
    """A byte string of a regular language."""

    __slots__ = ("regex",)

    def __init__(self, regex: Regex) -> None:
        self.regex = regex


class Mark(Terminal):
    """A point in the texts that stands for no text: the constants `OPEN_DISTINCT`, `NEXT_DISTINCT`, `CLOSE_DISTINCT`.

    The items of an array with marks differ as JSON values, as `uniqueItems` has it. The marks stand right after the bracket
    that opens it, each comma between its items, and the bracket that closes it; an empty array needs none. Behind a
    lexer there are no marks.

    Where the shortest text of an array has a further item, no earlier item may be equal to it.

    The regular expression is a byte that no text has; it is the core's business.
    """

    __slots__ = ()


class Call(Expr):
    """The language of the named rule."""

    __slots__ = ("rule",)

    def __init__(self, rule: str) -> None:
        self.rule = rule


class Sequence(Expr):
    """One part after the other."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Expr, ...]) -> None:
        self.parts = parts


class Choice(Expr):
    """Any of the parts."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Expr, ...]) -> None:
        self.parts = parts


class Loop(Expr):
    """From `low` to `high` copies of `part` (no upper bound when `high` is None)."""

    __slots__ = ("high", "low", "part")

    def __init__(self, part: Expr, low: int, high: int | None) -> None:
        self.part = part
        self.low = low
        self.high = high


class InterleaveEntry:
    """One alternative for the entries of an interleave: `head`, which is never empty, and then `body`.

    Attributes:
        slot: a completion has at most one entry of each slot; None: any number of them.
        discharges: bit mask of the obligations that an entry of this kind discharges.
        distinct: whether the JSON value of the head must differ from those of all other such entries of the interleave.
            The head is then a terminal of JSON scalars, numbers without an exponent, and has no slot; the languages of
            two such heads of one interleave are one object, or have no value in common.
    """

    __slots__ = ("body", "discharges", "distinct", "head", "slot")

    def __init__(
        self, head: Expr, body: Expr, slot: int | None = None, discharges: int = 0, *, distinct: bool = False
    ) -> None:
        self.head = head
        self.body = body
        self.slot = slot
        self.discharges = discharges
        self.distinct = distinct


class Interleave(Expr):
    """Entries with a separator between them, in any order; `constrained.grammars.transform.interleave.interleave` builds it.

    Attributes:
        entries: the alternatives for each entry.
        required: slots that must be filled.
        obligations: bit mask of the obligations that the entries together must discharge.
        low, high: number of entries (no upper bound when `high` is None).
        separator: between two entries.
        ordered: whether slots are filled in the order of their numbers, before the entries without a slot.
    """

    __slots__ = ("entries", "high", "low", "obligations", "ordered", "required", "separator")

    def __init__(
        self,
        entries: tuple[InterleaveEntry, ...],
        required: tuple[int, ...],
        obligations: int,
        low: int,
        high: int | None,
        separator: Expr,
        ordered: bool,
    ) -> None:
        self.entries = entries
        self.required = required
        self.obligations = obligations
        self.low = low
        self.high = high
        self.separator = separator
        self.ordered = ordered


EMPTY_LANGUAGE = Choice(())
"""The empty language."""
EPSILON = Sequence(())
"""The language of the empty string."""
OPEN_DISTINCT = Mark(Literal(b"\xf8"))
NEXT_DISTINCT = Mark(Literal(b"\xf9"))
CLOSE_DISTINCT = Mark(Literal(b"\xfa"))


def terminal(regex: Regex | str | bytes) -> Expr:
    """A terminal; a string is a literal."""
    return Terminal(regex if isinstance(regex, Regex) else literal(regex))


def call(rule: str) -> Expr:
    """The language of the named rule."""
    return Call(rule)


def sequence(*parts: Expr) -> Expr:
    """One part after the other. Parts are not flattened, so that a shared tail stays shared."""
    for part in parts:
        if part is EMPTY_LANGUAGE:
            return EMPTY_LANGUAGE
        if part is EPSILON:
            parts = tuple(part for part in parts if part is not EPSILON)
            return sequence(*parts)
    if len(parts) > 1:
        return Sequence(parts)
    return parts[0] if parts else EPSILON


def choice(*parts: Expr) -> Expr:
    """Any of the parts."""
    for part in parts:
        if part is EMPTY_LANGUAGE:
            parts = tuple(part for part in parts if part is not EMPTY_LANGUAGE)
            break
    if len(parts) > 1:
        return Choice(parts)
    return parts[0] if parts else EMPTY_LANGUAGE


def loop(part: Expr, low: int = 0, high: int | None = None) -> Expr:
    """From `low` to `high` copies of `part` (no upper bound when `high` is None).

    Raises:
        ConstraintTooLarge: `low` exceeds `MAX_COUNT`.
    """
    low, high = count_bounds(low, high)
    if high is not None and high < low:
        return EMPTY_LANGUAGE
    if high == 0 or part is EPSILON:
        return EPSILON
    if low == high == 1:
        return part
    if part is EMPTY_LANGUAGE:
        return EPSILON if low == 0 else EMPTY_LANGUAGE
    return Loop(part, low, high)


@dataclass(frozen=True, slots=True, eq=False)
class Grammar:
    """Named rules, and the name of the start rule."""

    rules: Mapping[str, Expr]
    start: str

    @classmethod
    def of(cls, body: Expr | Regex) -> Grammar:
        """A grammar of one rule."""
        return cls({"start": Terminal(body) if isinstance(body, Regex) else body}, "start")
