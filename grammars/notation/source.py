"""The text of a grammar: the places in it, the errors that point at them, and tokens in its rules.

Tokens are written ``<|call|>``, ``<[128]>`` and ``<[128-140,150]>``, as llguidance and llama.cpp have them. A token is no text.
Whoever compiles the grammar says which byte, that no text has, stands for each; sets that overlap are cut into parts without overlap
first, so that each token has one byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, InvalidConstraint, Problem, UnsupportedConstraint

_EXCERPT = 80
MAX_DIGITS = 20
"""Digits of a count or a code point that are read: more than any value needs, few enough that int() is fast."""

MAX_NESTING = 5_000
"""Greatest depth of brackets in brackets. Nothing recurses over them, but a parser takes seconds for a hundred thousand."""


class GrammarSource:
    """The text of a grammar in some notation.

    Attributes:
        text: the whole text.
        notation: its name in messages.
    """

    def __init__(self, text: str, notation: str) -> None:
        self.text = text
        self.notation = notation

    def problem(self, reason: str, at: int) -> Problem:
        """A problem at an offset, with the line and a caret under the place."""
        start = self.text.rfind("\n", 0, at) + 1
        line = self.text[start:].split("\n", 1)[0].rstrip("\r")
        column = at - start
        left = max(0, column - _EXCERPT // 2)
        line_text = "".join(c if c.isprintable() else " " for c in line[left : left + _EXCERPT])
        number = self.text.count("\n", 0, at) + 1
        excerpt = f"{line_text}\n{' ' * (column - left)}^"
        return Problem(f"line {number}, column {column + 1}", reason, excerpt=excerpt)

    def fail(self, reason: str, at: int, action: str | None = None) -> NoReturn:
        """Raises `InvalidConstraint` for a malformed grammar."""
        raise InvalidConstraint(
            f"the {self.notation} grammar is malformed", self.problem(reason, at), action=action
        )

    def refuse(self, reason: str, at: int, action: str | None = None) -> NoReturn:
        """Raises `UnsupportedConstraint` for what is well-formed but cannot be enforced."""
        raise UnsupportedConstraint(
            f"the {self.notation} grammar cannot be enforced", self.problem(reason, at), action=action
        )

    def too_deep(self, at: int) -> NoReturn:
        """Raises `ConstraintTooLarge` for the bracket that is one too many inside of others."""
        problem = self.problem(f"brackets are nested more than {MAX_NESTING:,} deep", at)
        raise ConstraintTooLarge(f"the {self.notation} grammar is too large", problem)

    def code_point(self, digits: str, at: int) -> str:
        """The character of a code point in hexadecimal."""
        code = int(digits[:MAX_DIGITS], 16)
        if code > ir.MAX_CODE_POINT or len(digits) > MAX_DIGITS:
            self.fail("no such character: code points end at 10FFFF", at)
        if 0xD800 <= code <= 0xDFFF:
            self.fail("half of a surrogate pair is not a character; write the code point itself", at)
        return chr(code)


MAX_SETS = 100
"""Greatest number of different sets of tokens."""
MAX_RANGES = 10_000
"""Greatest number of ranges in them together."""

_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?\Z", re.ASCII)

Ranges = tuple[tuple[int, int], ...]
"""Inclusive ranges of token ids: sorted, without overlap, not adjacent."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenReference:
    """A token in a rule.

    Attributes:
        at: its offset in the text.
        written: as it is written.
        name: of a special token, angle brackets included; None for numbers.
        ranges: the numbers.
    """

    at: int
    written: str
    name: str | None
    ranges: Ranges = ()


def read_token(source: GrammarSource, at: int, written: str) -> TokenReference:
    """Reads what stands between angle brackets, which `written` includes.

    Raises:
        InvalidConstraint: malformed numbers.
        UnsupportedConstraint: any token, or any but some: these have all texts.
    """
    if not written.startswith("<["):
        return TokenReference(at, written, written)
    if written[2] in "*^":
        source.refuse(
            f"the token {written} has any text, and what a grammar allows does not depend on where tokens end",
            at,
            "write the text that it may have, as in /(.|\\n)*/, or list the special tokens",
        )
    found: list[tuple[int, int]] = []
    for part in written[2:-2].split(","):
        match = _RANGE.match(part)
        if match is None:
            source.fail(f"a token or a range expected in {written}, as in <[128]> or <[128-140,150]>", at)
        if max(map(len, part.split("-"))) > MAX_DIGITS:
            source.fail(f"the number of a token has at most {MAX_DIGITS} digits", at)
        low = int(match[1])
        high = low if match[2] is None else int(match[2])
        if high < low:
            source.fail(f"the range {part} of tokens ends before it begins", at)
        found.append((low, high))
    return TokenReference(at, written, None, _merged(found))


def token_parts(
    source: GrammarSource, references: Iterable[TokenReference]
) -> dict[TokenReference, tuple[str, ...]]:
    """The names of the tokens, or sets of tokens without overlap, that each reference is made of.

    A set has the name that `read_token` reads.

    Raises:
        ConstraintTooLarge: more than `MAX_SETS` sets or `MAX_RANGES` ranges.
    """
    references = tuple(references)
    sets = {one.ranges: one for one in references if one.name is None}
    ranges = 0
    for count, one in enumerate(sets.values(), 1):
        ranges += len(one.ranges)
        if count > MAX_SETS or ranges > MAX_RANGES:
            raise ConstraintTooLarge(
                f"the {source.notation} grammar is too large",
                source.problem(
                    f"at most {MAX_SETS} sets of tokens, with {MAX_RANGES} ranges, can be told apart", one.at
                ),
            )
    parts: dict[frozenset[Ranges], list[tuple[int, int]]] = {}
    for low, high, members in _pieces(sets):
        parts.setdefault(members, []).append((low, high))
    names = {members: _name(_merged(pieces)) for members, pieces in parts.items()}
    return {
        one: tuple(name for members, name in names.items() if one.ranges in members)
        if one.name is None
        else (one.name,)
        for one in references
    }


def _pieces(sets: Iterable[Ranges]) -> Iterator[tuple[int, int, frozenset[Ranges]]]:
    """Ranges in which all tokens belong to the same sets, ascending, with these sets."""
    changes: dict[int, list[tuple[bool, Ranges]]] = {}
    for one in sets:
        for low, high in one:
            changes.setdefault(low, []).append((True, one))
            changes.setdefault(high + 1, []).append((False, one))
    members: set[Ranges] = set()
    low = 0
    for place in sorted(changes):
        if members:
            yield low, place - 1, frozenset(members)
        for begins, one in sorted(changes[place]):
            (members.add if begins else members.discard)(one)
        low = place


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def _name(ranges: Ranges) -> str:
    return f"<[{','.join(str(low) if low == high else f'{low}-{high}' for low, high in ranges)}]>"
