"""Where the texts of an `ir.Substring` occur in its document: a simple search, one symbol at a time."""

from __future__ import annotations

from constrained.grammars import ir

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
