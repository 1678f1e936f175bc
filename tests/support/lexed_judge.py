"""The meaning of a grammar behind a lexer, in the plainest way: cut off the longest match, ask Earley, repeat.

Knows nothing of the core: no bytes, no derivatives, no sharing. Rules are lists of alternatives, each a list of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Item = tuple[str, tuple[str, ...], int, int]  # rule, alternative, how far it is read, where it began
Chart = tuple[frozenset[Item], ...]


@dataclass(frozen=True)
class Terminal:
    """A terminal: what it matches, and what the lexer prefers."""

    name: str
    pattern: str
    literal: bool = False
    width: float = float("inf")
    priority: int = 0
    size: int = 0

    @property
    def order(self) -> tuple[object, ...]:
        return (not self.literal, -self.width, -self.size, self.name)

    def longest(self, text: str, at: int) -> int:
        """Where the longest match ends; `at` if there is none."""
        ends = (
            end for end in range(len(text), at, -1) if re.fullmatch(self.pattern, text[at:end], re.DOTALL)
        )
        return next(ends, at)


@dataclass(frozen=True)
class Judge:
    """A grammar.

    Attributes:
        rules: alternatives by name; `start` is the first rule.
        terminals: by name.
        ignored: names of the terminals that the lexer drops.
        embedded: by name, patterns that are read in every way there is.
        everywhere: whether all terminals compete everywhere.
    """

    rules: Mapping[str, tuple[tuple[str, ...], ...]]
    terminals: Mapping[str, Terminal]
    ignored: frozenset[str] = frozenset()
    embedded: Mapping[str, str] | None = None
    everywhere: bool = False

    def accepts(self, text: str) -> bool:
        """Whether the lexer cuts the whole text into tokens that the rules derive.

        Text between embedded parts is cut as if it stood alone: no match reaches beyond it.
        """
        arrived: dict[int, set[Chart]] = {0: {self.begin()}}  # where something embedded ended
        for at in range(len(text) + 1):
            if at not in arrived:
                continue
            for border in range(at, len(text) + 1) if self.embedded else [len(text)]:
                way = self.cut(text[at:border], frozenset(arrived[at]))
                if border == len(text) and any(self.complete(chart) for chart in way):
                    return True
                for name, pattern in (self.embedded or {}).items():
                    after = self.advanced(way, name)
                    for end in range(border + 1, len(text) + 1) if after else ():
                        if re.fullmatch(pattern, text[border:end]):
                            arrived.setdefault(end, set()).update(after)
        return False

    def cut(self, text: str, way: frozenset[Chart]) -> frozenset[Chart]:
        """Where the parser is after the tokens of a text."""
        at = 0
        while at < len(text) and way:
            won = self.winner(text, at, set().union(*(self.expected(chart) for chart in way)))
            if won is None:
                return frozenset()
            name, at = won
            way = way if name in self.ignored else frozenset(self.advanced(way, name))
        return way

    def winner(self, text: str, at: int, expected: set[str]) -> tuple[str, int] | None:
        """The token that begins here, and where it ends."""
        names = set(self.terminals) if self.everywhere else (expected & set(self.terminals)) | self.ignored
        if not expected & set(self.terminals) and not self.ignored:
            return None
        matches = [
            (terminal.priority, end, terminal)
            for terminal in (self.terminals[name] for name in names)
            if (end := terminal.longest(text, at)) > at
        ]
        if not matches:
            return None
        highest = max(priority for priority, _, _ in matches)
        longest = max(end for priority, end, _ in matches if priority == highest)
        best = [terminal for priority, end, terminal in matches if (priority, end) == (highest, longest)]
        return min(best, key=lambda terminal: terminal.order).name, longest

    # ------------------------------------------------------------ Earley 1970

    @property
    def start(self) -> str:
        return next(iter(self.rules))

    def begin(self) -> Chart:
        return (self.closed((), {(self.start, body, 0, 0) for body in self.rules[self.start]}),)

    def closed(self, before: Chart, items: set[Item]) -> frozenset[Item]:
        """All items of a place: rules that may begin, rules that are complete, until nothing is new."""
        here = len(before)
        while True:
            new: set[Item] = set()
            for rule, body, dot, origin in items:
                if dot < len(body):
                    if body[dot] in self.rules:
                        new.update((body[dot], other, 0, here) for other in self.rules[body[dot]])
                        if any(done(item) and item[0] == body[dot] and item[3] == here for item in items):
                            new.add((rule, body, dot + 1, origin))
                else:
                    callers = items if origin == here else before[origin]
                    new.update(
                        (other, tokens, at + 1, since)
                        for other, tokens, at, since in callers
                        if at < len(tokens) and tokens[at] == rule
                    )
            if new <= items:
                return frozenset(items)
            items = items | new

    def expected(self, chart: Chart) -> set[str]:
        return {body[dot] for _, body, dot, _ in chart[-1] if dot < len(body) and body[dot] not in self.rules}

    def advanced(self, way: frozenset[Chart], name: str) -> set[Chart]:
        return {grown for chart in way for grown in self.advance(chart, name)}

    def advance(self, chart: Chart, name: str) -> Iterator[Chart]:
        items = {
            (rule, body, dot + 1, origin)
            for rule, body, dot, origin in chart[-1]
            if dot < len(body) and body[dot] == name
        }
        if items:
            yield (*chart, self.closed(chart, items))

    def complete(self, chart: Chart) -> bool:
        return any(done(item) and item[0] == self.start and item[3] == 0 for item in chart[-1])


def done(item: Item) -> bool:
    return item[2] == len(item[1])
