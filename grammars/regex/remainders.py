"""What is left of an `ir.DecimalMultiple` or an `ir.Substring` behind the beginning of a text, one character at a time."""

from __future__ import annotations

from math import lcm
from typing import NamedTuple

from constrained.grammars import ir


class NumberRest(NamedTuple):
    """The rest of a decimal number; see `ir.DecimalMultiple`.

    Attributes:
        moduli: one that divides the number, then those that do not.
        places: None: any number of digits.
    """

    moduli: tuple[int, ...]
    residue: int
    low: int
    high: int | None
    places: int | None
    form: str
    zeros: int | None
    beyond: bool

    @classmethod
    def of(cls, node: ir.DecimalMultiple) -> NumberRest:
        """All of a number."""
        moduli = (node.modulus, *node.excluded)
        return cls(moduli, node.residue, node.low, node.high, node.places, node.form, node.zeros, node.beyond)

    @property
    def may_end(self) -> bool:
        """Whether the number may end here."""
        whole = self.residue * 10 ** (self.places or 0)
        divided = whole % self.moduli[0] == 0 and all(whole % other for other in self.moduli[1:])
        return divided and self.low == 0 and not self.beyond

    def after(self, char: str) -> NumberRest | None:
        """The rest after one more character; None: there is none."""
        if char == "." and self.form == "number" and self.low == 0:
            return self._replace(low=1, high=None, form="fraction")
        if char not in "0123456789":
            return None
        following = (self.residue * 10 + int(char)) % lcm(*self.moduli)
        if self.form != "fraction":
            fewer = max(self.low - 1, 0), _fewer(self.high)
            return None if self.high == 0 else self._replace(residue=following, low=fewer[0], high=fewer[1])
        if self.places != 0:
            return self._replace(residue=following, low=0, places=_fewer(self.places))
        if self.zeros == 0 or (char != "0" and not self.beyond):
            return None
        zeros = _fewer(self.zeros)
        if char == "0":
            return self._replace(low=0, zeros=zeros)
        return self._replace(low=0, places=zeros, zeros=0, beyond=False)  # any digits follow


def _fewer(count: int | None) -> int | None:
    return None if count is None else count - 1


Place = tuple[int, bool]
"""Position of the next symbol; and whether a text starts there or follows a run of white space spelled as one space."""


class Occurrences:
    """The occurrences of the texts of one language; time per symbol is linear in their number."""

    def __init__(self, node: ir.Substring) -> None:
        self.node = node
        self.symbols = [ord(symbol) for symbol in node.symbols]
        self.by_spelling = {data: number for number, texts in enumerate(node.spellings) for data in texts}

    def starts(self) -> frozenset[Place]:
        """The occurrences of the empty text."""
        return frozenset((at, False) for at in range(len(self.symbols) + 1) if self.may_cut(at))

    def after(self, places: frozenset[Place], symbol: int, *, first: bool) -> frozenset[Place]:
        """The occurrences after one more symbol; `first`: the text was empty before."""
        node, symbols = self.node, self.symbols
        found: set[Place] = set()
        for at, jumped in places:
            if at == len(symbols) or (jumped and symbols[at] < node.spaces):
                continue
            if symbols[at] == symbol:
                found.add((at + 1, False))
            run_starts = first or jumped or symbols[at - 1] >= node.spaces
            if symbol == node.space and symbols[at] < node.spaces and run_starts:
                end = at
                while end < len(symbols) and symbols[end] < node.spaces:
                    end += 1
                found.add((end, True))
        return frozenset(found)

    def may_end(self, places: frozenset[Place]) -> bool:
        """Whether a text may end at one of the occurrences, apart from its length."""
        return any(self.may_cut(at) for at, _ in places)

    def may_cut(self, at: int) -> bool:
        """Whether a text may start or end here."""
        if at in (0, len(self.symbols)):
            return True
        if self.node.chunk_starts is not None:
            return at in self.node.chunk_starts
        if not self.node.whole_words:
            return True
        return self.symbols[at - 1] < self.node.words or self.symbols[at] < self.node.words


class SpanRest(NamedTuple):
    """The rest of a part of a document: the occurrences and the number of its symbols so far."""

    document: Occurrences
    length: int
    places: frozenset[Place]

    @classmethod
    def of(cls, node: ir.Substring) -> SpanRest:
        """All of a part."""
        document = Occurrences(node)
        return cls(document, 0, document.starts())

    @property
    def may_end(self) -> bool:
        """Whether the part may end here."""
        return self.length >= self.document.node.least and self.document.may_end(self.places)

    def after(self, char: str) -> SpanRest | None:
        """The rest after one more character, which is one symbol; None: there is none."""
        symbol = self.document.by_spelling.get(char.encode("utf-8", "surrogatepass"))
        if symbol is None:
            return None
        places = self.document.after(self.places, symbol, first=self.length == 0)
        most = max(self.document.node.least, 1)  # more symbols make no difference
        return self._replace(length=min(self.length + 1, most), places=places) if places else None
