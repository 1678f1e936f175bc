"""The rules of schemas that many requests have in common, such as those of tools: lowered once, and used by each.

Requests of a server come with dozens of tools, of which few change. The expressions that a request gets here are those that
earlier requests got, so that the core knows their terminals too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from constrained.lru_cache import LRUCache

if TYPE_CHECKING:
    from constrained.constraint.base import Constraint
    from constrained.grammars.ir import Expr, Grammar

RULES = 5_000
"""Rules that are kept, and as many under the names that they have in a request: those of about 1,900 tools, in 12 MB."""

_lowered: LRUCache[str, Grammar] = LRUCache(RULES, size=lambda key, grammar: len(grammar.rules))
_placed: LRUCache[tuple[str, str], Grammar] = LRUCache(RULES, size=lambda key, grammar: len(grammar.rules))


def import_shared(constraint: Constraint, rules: dict[str, Expr], place: str) -> Expr:
    """Adds the rules of a constraint, and returns the call of its start.

    Args:
        constraint: any without a lexer.
        rules: where to add them.
        place: part of the names of the rules; another one for each constraint in `rules`.

    Raises:
        ConstraintError: as `Constraint.grammar`.
        UnsupportedConstraint: the grammar has a lexer.
    """
    from constrained.grammars import ir
    from constrained.grammars.transform.imports import import_rules, placed_rules

    key = constraint.shared_key
    placed = None if key is None else _placed.get((key, place))
    if placed is None:
        grammar = shared_grammar(constraint)
        # A mapping of another kind builds rules when they are needed.
        if key is None or type(grammar.rules) is not dict:
            return import_rules(grammar, rules, place=place)
        placed = placed_rules(grammar, place)
        _placed.put((key, place), placed)
    if not rules.keys().isdisjoint(placed.rules):
        return import_rules(placed, rules)
    rules.update(placed.rules)
    return ir.call(placed.start)


def shared_grammar(constraint: Constraint) -> Grammar:
    """The grammar of a constraint, the one that was made for an equal constraint if it is kept.

    Raises:
        ConstraintError: as `Constraint.grammar`.
    """
    from constrained.grammars import ir
    from constrained.grammars.packed import PackedRules

    key = constraint.shared_key
    grammar = None if key is None else _lowered.get(key)
    if grammar is None:
        grammar = constraint.grammar
        if isinstance(grammar.rules, PackedRules):  # the objects of its rules are what requests share
            grammar = ir.Grammar(grammar.rules.built, grammar.start)
        if key is not None and type(grammar.rules) is dict:
            _lowered.put(key, grammar)
    return grammar
