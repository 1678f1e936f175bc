"""Regular languages in front ends, by Brzozowski derivatives: membership of a text, and proofs that they are disjoint.

The core decides emptiness exactly. Front ends use this before they build a grammar, to leave out combinations that
cannot occur. A search has a budget.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from constrained.grammars import ir
from constrained.grammars.regex.analysis import children
from constrained.grammars.regex.charset import CodePointRanges, contains
from constrained.grammars.regex.remainders import NumberRest, SpanRest
from constrained.grammars.visit import fold
from constrained.grammars.work import spend

MAX_STEPS = 50_000
"""Steps of work that one proof may take."""
_MOST_DERIVATIVES = 50_000
"""Derivatives that a thread keeps for the texts that come: some megabytes."""

_NOTHING, _EMPTY = 0, 1


def matches(regex: ir.Regex, text: str) -> bool:
    """Whether a text is in a language.

    Raises:
        RecursionError: the expression is nested some hundreds of levels deep.
    """
    languages = getattr(_kept, "languages", None)
    if languages is None or len(languages.derived) > _MOST_DERIVATIVES:
        languages = _kept.languages = RegularLanguages()
    language = languages.intern(regex)
    for char in text:
        language = languages.derivative(language, ord(char))
    if languages.holds_document:
        del _kept.languages
    return bool(languages.nullable[language])


_kept = threading.local()


class Undecided(Exception):
    """Whether a language has a text was not found out; the text of the exception is the reason."""


class _LanguageNode(NamedTuple):
    kind: str
    parts: tuple[int, ...] = ()
    ranges: CodePointRanges = ()
    low: int = 0
    high: int | None = None
    rest: NumberRest | SpanRest | None = None


class RegularLanguages:
    """Regular languages of characters and their derivatives by characters (Brzozowski 1964), each known by a number.

    Complements are relative to the set of all strings.

    Attributes:
        steps: of all proofs so far.
        holds_document: a language consists of parts of a document, which may be large.
    """

    def __init__(self) -> None:
        self.numbers: dict[_LanguageNode, int] = {}
        self.nodes: list[_LanguageNode] = []
        self.nullable: list[bool] = []
        self.derived: dict[tuple[int, int], int] = {}
        self.known: dict[ir.Regex, int] = {}
        self.steps = 0
        self.holds_document = False
        self.add(_LanguageNode("nothing"), False)
        self.add(_LanguageNode("empty"), True)
        self.all = self.repeat(self.add(_LanguageNode("chars", ranges=ir.ANY_CHAR.ranges), False), 0, None)

    def provably_disjoint(self, within: Sequence[ir.Regex], without: Sequence[ir.Regex] = ()) -> bool:
        """Whether it is proved that no text is in all of some languages and in none of some others."""
        try:
            return self.common_text(within, without) is None
        except Undecided:
            return False

    def common_text(self, within: Sequence[ir.Regex], without: Sequence[ir.Regex] = ()) -> str | None:
        """A shortest text that is in all of some languages and in none of some others; None: there is none.

        Raises:
            Undecided: the search takes more than `MAX_STEPS` steps, or an expression is nested too deeply.
        """
        limit = self.steps + MAX_STEPS
        try:
            parts = [self.intern(regex) for regex in within]
            start = self.intersection([*parts, *(self.complement(self.intern(regex)) for regex in without)])
            before: dict[int, tuple[int, int]] = {start: (start, 0)}
            queue = deque([start])
            while queue:
                language = queue.popleft()
                if self.nullable[language]:
                    chars = []
                    while language != start:
                        language, char = before[language]
                        chars.append(chr(char))
                    return "".join(reversed(chars))
                for char in sorted(self.class_representatives(language)):
                    if self.steps > limit:
                        raise Undecided(f"it takes more than {MAX_STEPS:,} steps to find out")
                    following = self.derivative(language, char)
                    if following != _NOTHING and following not in before:
                        before[following] = language, char
                        queue.append(following)
        except RecursionError:
            raise Undecided("it is nested too deeply") from None
        return None

    # ------------------------------------------------------------ construction

    def add(self, node: _LanguageNode, nullable: bool) -> int:
        """The number of a language in its normal form."""
        number = self.numbers.get(node)
        if number is None:
            number = self.numbers[node] = len(self.nodes)
            self.nodes.append(node)
            self.nullable.append(nullable)
        return number

    def intern(self, regex: ir.Regex) -> int:
        """The number of a language of characters."""
        return fold(regex, children, self._read, self.known)

    def _read(self, regex: ir.Regex, known: dict[ir.Regex, int]) -> int:
        parts = [known[part] for part in children(regex)]
        if isinstance(regex, ir.Literal):
            points = map(ord, regex.data.decode())
            return self.concat([self.add(_LanguageNode("chars", ranges=((p, p),)), False) for p in points])
        if isinstance(regex, ir.Chars):
            return self.add(_LanguageNode("chars", ranges=regex.ranges), False)
        if isinstance(regex, ir.Repeat):
            return self.repeat(parts[0], regex.low, regex.high)
        if isinstance(regex, ir.Complement):
            return self.complement(parts[0])
        if isinstance(regex, ir.Concat):
            return self.concat(parts)
        if isinstance(regex, ir.Intersection):
            return self.intersection(parts)
        if isinstance(regex, ir.Union | ir.EmptySet):
            return self.union(parts)
        if isinstance(regex, ir.DecimalMultiple):
            return self.remainder(NumberRest.of(regex))
        assert isinstance(regex, ir.Substring)
        self.holds_document = True
        return self.remainder(SpanRest.of(regex))

    def remainder(self, rest: NumberRest | SpanRest | None) -> int:
        """The number of a rest of a number or of a part of a document."""
        return _NOTHING if rest is None else self.add(_LanguageNode("rest", rest=rest), rest.may_end)

    def concat(self, parts: Sequence[int]) -> int:
        """Concatenation, nested to the right."""
        whole = _EMPTY
        stack = list(parts)
        while stack:
            part = stack.pop()
            if part == _NOTHING:
                return _NOTHING
            node = self.nodes[part]
            if node.kind == "concat":
                stack += node.parts
            elif whole == _EMPTY:
                whole = part
            elif part != _EMPTY:
                whole = self.add(
                    _LanguageNode("concat", (part, whole)), self.nullable[part] and self.nullable[whole]
                )
        return whole

    def union(self, parts: Iterable[int]) -> int:
        """Union."""
        flat = self._flat("union", parts) - {_NOTHING}
        if self.all in flat:
            return self.all
        if len(flat) <= 1:
            return flat.pop() if flat else _NOTHING
        return self.add(
            _LanguageNode("union", tuple(sorted(flat))), any(self.nullable[part] for part in flat)
        )

    def intersection(self, parts: Iterable[int]) -> int:
        """Intersection."""
        flat = self._flat("intersection", parts) - {self.all}
        if _NOTHING in flat:
            return _NOTHING
        if len(flat) <= 1:
            return flat.pop() if flat else self.all
        return self.add(
            _LanguageNode("intersection", tuple(sorted(flat))), all(self.nullable[part] for part in flat)
        )

    def _flat(self, kind: str, parts: Iterable[int]) -> set[int]:
        flat: set[int] = set()
        for part in parts:
            node = self.nodes[part]
            flat.update(node.parts if node.kind == kind else (part,))
        return flat

    def complement(self, part: int) -> int:
        """Complement."""
        if part == _NOTHING:
            return self.all
        if part == self.all:
            return _NOTHING
        node = self.nodes[part]
        if node.kind == "complement":
            return node.parts[0]
        return self.add(_LanguageNode("complement", (part,)), not self.nullable[part])

    def repeat(self, part: int, low: int, high: int | None) -> int:
        """Repetition."""
        if high == 0 or part == _EMPTY:
            return _EMPTY
        if part == _NOTHING:
            return _EMPTY if low == 0 else _NOTHING
        if low == high == 1:
            return part
        low = 0 if self.nullable[part] else low
        return self.add(_LanguageNode("repeat", (part,), low=low, high=high), low == 0)

    # ------------------------------------------------------------ derivatives

    def derivative(self, language: int, char: int) -> int:
        """The derivative by a character."""
        residual = self.derived.get((language, char))
        if residual is None:
            self._spend(2 + len(self.nodes[language].parts) // 4)
            residual = self.derived[language, char] = self._derive(self.nodes[language], char)
        return residual

    def _derive(self, node: _LanguageNode, char: int) -> int:
        if node.rest is not None:
            return self.remainder(node.rest.after(chr(char)))
        if node.kind == "chars":
            return _EMPTY if contains(node.ranges, char) else _NOTHING
        if node.kind == "repeat":
            less = None if node.high is None else node.high - 1
            again = self.repeat(node.parts[0], max(node.low - 1, 0), less)
            return self.concat([self.derivative(node.parts[0], char), again])
        if node.kind == "concat":
            head, tail = node.parts
            first = self.concat([self.derivative(head, char), tail])
            return self.union([first, self.derivative(tail, char)]) if self.nullable[head] else first
        if node.kind == "intersection":
            parts = []
            for part in node.parts:
                parts.append(self.derivative(part, char))
                if parts[-1] == _NOTHING:
                    return _NOTHING
            return self.intersection(parts)
        parts = [self.derivative(part, char) for part in node.parts]
        return self.complement(parts[0]) if node.kind == "complement" else self.union(parts)

    def class_representatives(self, language: int) -> set[int]:
        """One character of each class that derivatives distinguish."""
        firsts: set[int] = set()
        stack, visited = [language], 0
        while stack:
            node = self.nodes[stack.pop()]
            visited += 1
            if node.rest is not None:
                raise Undecided("numbers and parts of documents are not searched")
            for low, high in node.ranges:
                firsts.update((low, high + 1))
            if node.kind == "concat" and not self.nullable[node.parts[0]]:
                stack.append(node.parts[0])
            else:
                stack += node.parts
        self._spend(1 + visited // 4)
        if least := min(firsts, default=0x110000):
            firsts.add(min(least - 1, ord("a")))
        # Surrogates are no characters, and after the last one there is none.
        return {0xE000 if 0xD800 <= char < 0xE000 else char for char in firsts if char <= 0x10FFFF}

    def _spend(self, steps: int) -> None:
        self.steps += steps
        spend(steps)
