"""Productive rules, and pruning of unproductive rules and branches. Iterative, as grammars may be deep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from grammars import ir
from grammars.transform.interleave import interleave, interleave_nullable, interleave_satisfiable
from grammars.visit import children


def productive_rules(rules: Mapping[str, ir.Expr], known_productive: Iterable[str] = ()) -> set[str]:
    """Names of the productive rules, assuming that every terminal but `ir.EMPTY_SET` matches some string.

    Args:
        rules: the rules.
        known_productive: rules that are known to be productive; they need not be among `rules`.
    """
    productive = set(known_productive)
    known: set[int] = set()  # ids of productive nodes; only grows
    order = tuple(reversed(tuple(rules)))  # most rules stand before those they call
    changed = True
    while changed:
        changed = False
        for name in order:
            if name not in productive and _derives(rules[name], productive, known):
                productive.add(name)
                changed = True
        order = order[::-1]
    return productive


def _derives(root: ir.Expr, known_productive: set[str], known: set[int]) -> bool:
    """Whether an expression is productive; stops at the first derivation."""
    failed: set[int] = set()

    def seen(node: ir.Expr) -> bool | None:
        """The verdict, if it does not depend on parts that were not examined yet."""
        if isinstance(node, ir.Terminal):
            return not isinstance(node.regex, ir.EmptySet)
        if isinstance(node, ir.Call):
            return node.rule in known_productive
        if id(node) in known or (isinstance(node, ir.Loop) and node.low == 0):
            return True
        if isinstance(node, ir.Interleave) and interleave_nullable(node):
            return True
        return False if id(node) in failed else None

    def verdict(node: ir.Interleave) -> bool | ir.Expr:
        """Whether an interleave is productive, or a part of it that must be examined first."""
        known_parts: dict[ir.Expr, bool] = {}
        for part in children(node):
            result = seen(part)
            if result is None:
                return part
            known_parts[part] = result
        entries = [entry for entry in node.entries if known_parts[entry.head] and known_parts[entry.body]]
        return interleave_satisfiable(node, entries, alone=not known_parts[node.separator])

    def opened(node: ir.Expr) -> tuple[ir.Expr, Iterator[ir.Expr], bool]:
        """A node, the parts that its verdict may depend on, and the verdict of a part that decides it."""
        if isinstance(node, ir.Choice):
            if any(seen(part) for part in node.parts):
                return node, iter((ir.EPSILON,)), True
            return node, reversed(node.parts), True  # optional parts come first
        if isinstance(node, ir.Interleave):
            return node, iter(()), False
        parts = node.parts if isinstance(node, ir.Sequence) else (node.part,)  # type: ignore[attr-defined]
        return node, iter(parts), False

    result = seen(root)
    if result is not None:
        return result
    known.add(id(ir.EPSILON))
    stack = [opened(root)]
    while stack:
        node, parts, decisive = stack[-1]
        if isinstance(node, ir.Interleave):
            outcome = verdict(node)
            if isinstance(outcome, ir.Expr):
                stack.append(opened(outcome))
                result = None
                continue
            result = outcome
        elif result != decisive:  # by the part examined last
            for part in parts:
                result = seen(part)
                if result is None:
                    stack.append(opened(part))
                if result is None or result == decisive:
                    break
            else:
                result = not decisive
            if result is None:
                continue
        (known if result else failed).add(id(node))
        stack.pop()
    return bool(result)


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
