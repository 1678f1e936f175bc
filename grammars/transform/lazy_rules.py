"""Rules whose bodies are built on demand.

A completion reaches a small part of a large schema. For a lazy rule the front end knows only that it is productive and how
long its shortest string is; the body is built when a completion first reaches it. To other code this is a plain mapping:
iterating over it builds every rule.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from grammars import ir
from grammars.garbage import rare_collections


class LazyRules(Mapping[str, ir.Expr]):
    """A mapping of rules, some of which are not built yet. Safe to share between threads.

    Args:
        built: rules that have a body.
        min_lengths: bytes of the shortest string of every lazy rule; `build` adds the rules that the new body calls.
        build: builds the body of a lazy rule. The body begins with a terminal, and its shortest string has the length in
            `min_lengths`.
        eager_exprs: expressions of later bodies that may exceed a limit, by description: the compiler reads them at once, so
            that the error comes at compile time.

    Attributes:
        min_lengths: of all rules that are or were lazy.
        eager_exprs: see above.
    """

    def __init__(
        self,
        rules: dict[str, ir.Expr],
        min_lengths: dict[str, int],
        build: Callable[[str], ir.Expr],
        eager_exprs: Mapping[str, ir.Expr] | None = None,
    ) -> None:
        self.min_lengths = min_lengths
        self.eager_exprs = eager_exprs or {}
        self._built = rules
        self._build = build
        self._lock = threading.Lock()

    def built_rules(self) -> dict[str, ir.Expr]:
        """The rules that have a body now."""
        with self._lock:
            return dict(self._built)

    @rare_collections()
    def bodies(self, names: Iterable[str]) -> list[ir.Expr]:
        """The bodies of some rules; builds those that are missing.

        Raises:
            KeyError: unknown rule.
        """
        with self._lock:
            return [self._body(name) for name in names]

    def _body(self, name: str) -> ir.Expr:
        body = self._built.get(name)
        if body is None:
            if name not in self.min_lengths:
                raise KeyError(name)
            body = self._built[name] = self._build(name)
        return body

    @rare_collections()
    def build_all(self) -> dict[str, ir.Expr]:
        """All rules, with their bodies."""
        with self._lock:
            names = list(self.min_lengths)
            for name in names:
                self._body(name)
                if len(self.min_lengths) > len(names):  # new ones come last
                    names.extend(list(self.min_lengths)[len(names) :])
            return dict(self._built)

    def __getitem__(self, name: str) -> ir.Expr:
        return self.bodies([name])[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.build_all())

    def __len__(self) -> int:
        return len(self.build_all())


def rules_built_so_far(grammar: ir.Grammar) -> dict[str, ir.Expr]:
    """The rules of a grammar that have a body."""
    rules = grammar.rules
    return rules.built_rules() if isinstance(rules, LazyRules) else dict(rules)
