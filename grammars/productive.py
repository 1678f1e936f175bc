"""Rules that some text can complete; branches that none can are cut off. Iterative: grammars are deep."""

from __future__ import annotations

from collections.abc import Mapping

from grammars import ir


def productive_rules(rules: Mapping[str, ir.Expr]) -> set[str]:
    """Names of the rules that derive some text, taking every terminal but `ir.NOTHING` to match something."""
    alive: set[str] = set()
    known: set[int] = set()  # ids of nodes that derive some text: only ever grows
    changed = True
    while changed:
        changed = False
        for name in reversed(tuple(rules)):
            if name not in alive and _derives(rules[name], alive, known):
                alive.add(name)
                changed = True
    return alive


def _derives(root: ir.Expr, alive: set[str], known: set[int]) -> bool:
    failed: set[int] = set()
    stack: list[tuple[ir.Expr, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in known or id(node) in failed:
            continue
        if isinstance(node, ir.Terminal):
            good = not isinstance(node.regex, ir.Nothing)
        elif isinstance(node, ir.Call):
            good = node.rule in alive
        elif isinstance(node, ir.Loop) and node.low == 0:
            good = True
        elif not ready:
            stack.append((node, True))
            parts = node.parts if isinstance(node, (ir.Sequence, ir.Choice)) else (node.part,)  # type: ignore[attr-defined]
            stack.extend((part, False) for part in parts)
            continue
        elif isinstance(node, ir.Sequence):
            good = all(id(part) in known for part in node.parts)
        elif isinstance(node, ir.Choice):
            good = any(id(part) in known for part in node.parts)
        else:
            assert isinstance(node, ir.Loop)
            good = id(node.part) in known
        (known if good else failed).add(id(node))
    return id(root) in known


def pruned(grammar: ir.Grammar) -> ir.Grammar | None:
    """The same language without rules and branches that nothing completes; None when the language is empty."""
    alive = productive_rules(grammar.rules)
    if grammar.start not in alive:
        return None
    done: dict[int, ir.Expr] = {}
    rules = {name: _rebuilt(body, alive, done) for name, body in grammar.rules.items() if name in alive}
    return ir.Grammar(rules, grammar.start)


def _rebuilt(root: ir.Expr, alive: set[str], done: dict[int, ir.Expr]) -> ir.Expr:
    stack: list[tuple[ir.Expr, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if isinstance(node, ir.Terminal):
            done[id(node)] = ir.NEVER if isinstance(node.regex, ir.Nothing) else node
        elif isinstance(node, ir.Call):
            done[id(node)] = node if node.rule in alive else ir.NEVER
        elif not ready:
            stack.append((node, True))
            parts = node.parts if isinstance(node, (ir.Sequence, ir.Choice)) else (node.part,)  # type: ignore[attr-defined]
            stack.extend((part, False) for part in parts)
        elif isinstance(node, ir.Sequence):
            done[id(node)] = _same(node, node.parts, done) or ir.sequence(
                *(done[id(part)] for part in node.parts)
            )
        elif isinstance(node, ir.Choice):
            done[id(node)] = _same(node, node.parts, done) or ir.choice(
                *(done[id(part)] for part in node.parts)
            )
        else:
            assert isinstance(node, ir.Loop)
            part = done[id(node.part)]
            done[id(node)] = node if part is node.part else ir.loop(part, node.low, node.high)
    return done[id(root)]


def _same(node: ir.Expr, parts: tuple[ir.Expr, ...], done: dict[int, ir.Expr]) -> ir.Expr | None:
    return node if all(done[id(part)] is part for part in parts) else None
