"""Productive rules, and pruning of unproductive rules and branches. Iterative, as grammars may be deep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from constrained.grammars import ir
from constrained.grammars.transform.interleave import interleave, interleave_nullable, interleave_satisfiable
from constrained.grammars.visit import children, fold


def productive_rules(rules: Mapping[str, ir.Expr], known_productive: Iterable[str] = ()) -> set[str]:
    """Names of the productive rules, assuming that every terminal but `ir.EMPTY_SET` matches some string.

    Args:
        rules: the rules.
        known_productive: rules that are known to be productive; they need not be among `rules`.
    """
    derivations = _Derivations(known_productive)
    for name in reversed(tuple(rules)):  # most rules stand before those they call
        if name not in derivations.productive:
            derivations.add(name, rules[name])
    derivations.finish()
    return derivations.productive


class _Derivations:
    """Which expressions and rules derive a text. Each expression is read once, and again only where a part turned out to derive one.

    Attributes:
        productive: names of rules.
    """

    def __init__(self, known_productive: Iterable[str]) -> None:
        self.productive = set(known_productive)
        self._missing: dict[ir.Expr, int] = {}  # parts that have to derive a text; 0: it derives one
        self._waiting: dict[ir.Expr, list[ir.Expr]] = {}  # for an expression: those around it
        self._calls: dict[str, list[ir.Expr]] = {}  # of a rule that is not known to derive one
        self._bodies: dict[ir.Expr, list[str]] = {}  # rules with this body
        self._interleaves: dict[ir.Interleave, None] = {}  # to be asked again: each asks all of its entries

    def add(self, name: str, body: ir.Expr) -> None:
        """Reads a rule."""
        if fold(body, _needed, self._count, self._missing):
            self._bodies.setdefault(body, []).append(name)
        else:
            self._found(self._now_productive(name))

    def finish(self) -> None:
        """Asks interleaves for as long as something is found."""
        while self._interleaves:
            asked, self._interleaves = self._interleaves, {}
            for node in asked:
                if self._missing[node] and self._satisfied(node):
                    self._missing[node] = 0
                    self._found([node])

    def _count(self, node: ir.Expr, known: dict[ir.Expr, int]) -> int:
        """The parts of an expression that are missing."""
        if isinstance(node, ir.Terminal):
            return int(isinstance(node.regex, ir.EmptySet))
        if isinstance(node, ir.Call):
            if node.rule in self.productive:
                return 0
            self._calls.setdefault(node.rule, []).append(node)
            return 1
        parts = _needed(node)
        missing = [part for part in parts if known[part]]
        count = len(missing)
        if isinstance(node, ir.Choice):
            count = int(len(missing) == len(parts))
        elif isinstance(node, ir.Interleave):
            count = int(not self._satisfied(node))
        for part in missing if count else ():
            self._waiting.setdefault(part, []).append(node)
        return count

    def _satisfied(self, node: ir.Interleave) -> bool:
        if interleave_nullable(node):
            return True
        missing = self._missing
        entries = [entry for entry in node.entries if not missing[entry.head] and not missing[entry.body]]
        return interleave_satisfiable(node, entries, alone=bool(missing[node.separator]))

    def _now_productive(self, name: str) -> list[ir.Expr]:
        """Notes a rule; the calls of it, which derive a text now."""
        self.productive.add(name)
        calls = self._calls.pop(name, [])
        for call in calls:
            self._missing[call] = 0
        return calls

    def _found(self, found: list[ir.Expr]) -> None:
        """Notes all that derives a text because these expressions do."""
        while found:
            part = found.pop()
            for name in self._bodies.pop(part, ()):
                found += self._now_productive(name)
            for node in self._waiting.pop(part, ()):
                if isinstance(node, ir.Interleave):
                    self._interleaves[node] = None
                elif self._missing[node]:
                    self._missing[node] = self._missing[node] - 1 if isinstance(node, ir.Sequence) else 0
                    if not self._missing[node]:
                        found.append(node)


def _needed(node: ir.Expr) -> tuple[ir.Expr, ...]:
    """The parts that whether a node derives a text depends on."""
    if (isinstance(node, ir.Loop) and node.low == 0) or (
        isinstance(node, ir.Interleave) and interleave_nullable(node)
    ):
        return ()
    return children(node)


def prune_unproductive(grammar: ir.Grammar, known_productive: Iterable[str] = ()) -> ir.Grammar | None:
    """An equivalent grammar without unproductive rules and branches; None if the language is empty.

    Args:
        grammar: the rules.
        known_productive: rules that are known to be productive.
    """
    productive = productive_rules(grammar.rules, known_productive)
    if grammar.start not in productive:
        return None
    if len(productive) == len(grammar.rules):
        return grammar
    done: dict[int, ir.Expr] = {}
    rules = {
        name: _rebuilt(body, productive, done) for name, body in grammar.rules.items() if name in productive
    }
    return ir.Grammar(rules, grammar.start)


def _rebuilt(root: ir.Expr, known_productive: set[str], done: dict[int, ir.Expr]) -> ir.Expr:
    stack: list[tuple[ir.Expr, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if isinstance(node, ir.Terminal):
            done[id(node)] = ir.EMPTY_LANGUAGE if isinstance(node.regex, ir.EmptySet) else node
        elif isinstance(node, ir.Call):
            done[id(node)] = node if node.rule in known_productive else ir.EMPTY_LANGUAGE
        elif not ready:
            stack.append((node, True))
            stack.extend((part, False) for part in children(node))
        elif isinstance(node, ir.Sequence):
            done[id(node)] = _same(node, node.parts, done) or ir.sequence(
                *(done[id(part)] for part in node.parts)
            )
        elif isinstance(node, ir.Choice):
            done[id(node)] = _same(node, node.parts, done) or ir.choice(
                *(done[id(part)] for part in node.parts)
            )
        elif isinstance(node, ir.Interleave):
            done[id(node)] = _pruned_interleave(node, done)
        else:
            assert isinstance(node, ir.Loop)
            part = done[id(node.part)]
            done[id(node)] = node if part is node.part else ir.loop(part, node.low, node.high)
    return done[id(root)]


def _pruned_interleave(node: ir.Interleave, done: dict[int, ir.Expr]) -> ir.Expr:
    if _same(node, children(node), done):
        return node
    entries = [
        ir.InterleaveEntry(done[id(e.head)], done[id(e.body)], e.slot, e.discharges, distinct=e.distinct)
        for e in node.entries
    ]
    return interleave(
        entries,
        required=node.required,
        obligations=node.obligations,
        low=node.low,
        high=node.high,
        separator=done[id(node.separator)],
        ordered=node.ordered,
    )


def _same(node: ir.Expr, parts: tuple[ir.Expr, ...], done: dict[int, ir.Expr]) -> ir.Expr | None:
    return node if all(done[id(part)] is part for part in parts) else None
