"""Rules whose bodies are made when somebody asks for them.

A large schema describes much that a text never comes to. Its front end knows of such a rule how long its shortest text
is, and that it has one; the body is made the first time that a text comes there. To everybody else this is a mapping of
rules like any other: what looks at all of them makes all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from grammars import ir


class LazyRules(Mapping[str, ir.Expr]):
    """Rules, some without a body yet. Threads may share it.

    Args:
        made: rules that have a body.
        min_lengths: bytes of the shortest text of every other one; `make` adds those of rules that its bodies call.
        make: the body of one of these. It begins with a terminal, and its shortest text is as long as was said.
        eager_exprs: expressions of bodies to come that may be too large, by what they are: whoever compiles the rules reads
            them at once.

    Attributes:
        min_lengths: of all rules that were ever without a body.
        eager_exprs: as it was given.
    """

    def __init__(
        self,
        made: dict[str, ir.Expr],
        lengths: dict[str, int],
        make: Callable[[str], ir.Expr],
        aside: Mapping[str, ir.Expr] | None = None,
    ) -> None:
        self.min_lengths = lengths
        self.eager_exprs = aside or {}
        self._made = made
        self._make = make
        self._lock = threading.Lock()

    def made(self) -> dict[str, ir.Expr]:
        """The rules that have a body by now."""
        with self._lock:
            return dict(self._made)

    def bodies(self, names: Iterable[str]) -> list[ir.Expr]:
        """The bodies of some rules, made if they were not.

        Raises:
            KeyError: there is no such rule.
        """
        with self._lock:
            return [self._body(name) for name in names]

    def _body(self, name: str) -> ir.Expr:
        found = self._made.get(name)
        if found is None:
            if name not in self.min_lengths:
                raise KeyError(name)
            found = self._made[name] = self._make(name)
        return found

    def build_all(self) -> dict[str, ir.Expr]:
        """All rules, with their bodies."""
        with self._lock:
            names = list(self.min_lengths)
            for name in names:
                self._body(name)
                if len(self.min_lengths) > len(names):  # new ones come last
                    names.extend(list(self.min_lengths)[len(names) :])
            return dict(self._made)

    def __getitem__(self, name: str) -> ir.Expr:
        return self.bodies([name])[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.build_all())

    def __len__(self) -> int:
        return len(self.build_all())


def rules_built_so_far(grammar: ir.Grammar) -> dict[str, ir.Expr]:
    """The rules of a grammar that have a body."""
    rules = grammar.rules
    return rules.made() if isinstance(rules, LazyRules) else dict(rules)
