"""Subschemas that are not plain, inside of a document that the native walk lowers (`constrained.grammars.json_schema.emit.plain`).

The walk hands them over, each with everything that applies to the same value, and `SchemaLowering` lowers them as ever. The schemas of
members and items below them go back to the walk wherever it knows them. Both name a rule after its place, so each may call the
other's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

from constrained.grammars import ir
from constrained.grammars.json_schema.emit.lowering import SchemaLowering
from constrained.grammars.json_schema.emit.objects import called_rules
from constrained.grammars.json_schema.resolve.negate import parse_schema
from constrained.grammars.json_schema.source import constraints as f
from constrained.grammars.json_schema.source.constraints import Conjunction
from constrained.grammars.json_schema.source.document import SchemaNode
from constrained.grammars.transform.productive import productive_rules

_SCALARS = ("string", "number", "integer", "boolean", "null")


class NotPlain:
    """What the native walk over a document leaves to `SchemaLowering`: scalars with constraints, and what is not plain.

    An error, or a keyword that cannot be enforced, ends the walk: then the whole document is lowered without it, and raises it. So do
    items that are compared as they are written (`ItemsAreCompared`) while objects may have a name twice.

    Args:
        general: makes the lowering.
        share: from `attach` on it takes schemas with the same text for one.
    """

    def __init__(self, general: Callable[[], SchemaLowering], share: bool) -> None:
        self._general = general
        self._share = share
        self._start: ir.Expr = ir.EMPTY_LANGUAGE

    @cached_property
    def _lowering(self) -> SchemaLowering:
        return self._general()

    def release(self) -> None:
        """Frees the lowering; see `SchemaLowering.release`."""
        if "_lowering" in vars(self):
            self._lowering.release()

    # ------------------------------------------------------------ for the walk

    def scalars(self, schema: Any) -> ir.Expr | tuple[ir.Expr, ...] | Literal[False] | None:
        """The scalars of a schema, as one expression if it allows no others; False if there are none; None if they are not plain."""
        lowering = self._lowering
        root, diagnostics = lowering.document.root, lowering.diagnostics
        conjunction = (SchemaNode(schema, "#/a scalar", root, root.base),)
        found: ir.Expr | tuple[ir.Expr, ...]
        rules, conflicts = len(lowering.rules), len(diagnostics.conflicts)
        if not parse_schema(conjunction[0]).limits:
            return None  # every value: an unknown format, for one
        constraints = lowering.expansion.constraints_of(conjunction)
        if constraints.enum_values is None and constraints.types & (f.ARRAY | f.OBJECT):
            diagnostics.note_unsupported(constraints)
            found = tuple(lowering.scalars.scalars(conjunction, constraints))
        else:
            found = lowering.conjunction_expr(conjunction)
        if (
            diagnostics.problems or len(lowering.rules) != rules
        ):  # all scalars have one place for their problems
            return None
        if found is ir.EMPTY_LANGUAGE:
            diagnostics.conflicts.clear()
            return False
        return None if len(diagnostics.conflicts) > conflicts else found

    def disjoint(self, places: Sequence[str]) -> bool:
        """Whether no two of the schemas at some places have a value in common, as far as that is proved."""
        nodes, prover = map(self._lowering.document.at, places), self._lowering.expansion.prover
        return all(prover.are_disjoint(one, other) for one, other in combinations(nodes, 2))

    def attach(self, rule_of: Callable[[Any, str], str | None], has_rule: Callable[[Any, str], bool]) -> None:
        """Sets how to ask the walk: for the one rule that a schema at a place consists of; whether it makes the rule of that place."""
        self._rule_of = rule_of
        self._has_rule = has_rule
        self._lowering.walk = self
        if self._share:
            self._lowering.document.share()

    def value(self, pointer: str) -> tuple[ir.Expr | None, str | None] | Literal[False]:
        """The values of the schema at a place: their expression (None: a call), and a rule that suffices for them to have a text.

        False: there are none.
        """
        expr = self._lowering.conjunction_expr((self._lowering.document.at(pointer),))
        if expr is ir.EMPTY_LANGUAGE:
            return False
        if pointer == "#":
            self._start = expr
        return None if isinstance(expr, ir.Call) else expr, next(iter(called_rules(expr)), None)

    def enqueue(self, pointer: str) -> bool:
        """Queues the rule of the arrays and objects of a schema; False: the walk ends."""
        lowering = self._lowering
        node = lowering.document.at(pointer)
        if not parse_schema(node).is_flat:
            return False
        lowering.enqueue(pointer, (node,), lowering.expansion.constraints_of((node,)))
        return True

    def lower_queued(self) -> bool:
        """Lowers all that is queued; False: the walk ends."""
        self._lowering.lower_queued()
        return not self._lowering.diagnostics.problems

    @property
    def rules(self) -> dict[str, ir.Expr]:
        """The rules that were lowered here."""
        return self._lowering.rules

    def has_values(self, known: list[str], needs: dict[str, list[str]], start: str) -> bool:
        """Whether the document is known to have values.

        Args:
            known: rules of the walk that derive some text.
            needs: its other rules, each with the rules that suffice for it to derive some.
            start: a rule that suffices for the document.
        """
        walked = {name: ir.sequence(*map(ir.Call, called)) for name, called in needs.items()}
        rules = {"start": self._start, **self._lowering.rules, **walked}
        return not {"start", start}.isdisjoint(productive_rules(rules, known))

    # ------------------------------------------------------------ for the lowering

    def call_of(self, node: SchemaNode) -> ir.Call | None:
        """A call of the walk's rule of all values of a schema."""
        if not self._is_here(node) or node.value.get("type") in _SCALARS:
            return None
        rule = self._rule_of(node.value, node.pointer)
        return None if rule is None else ir.Call(rule)

    def has_rule_of(self, name: str, disjunct: Conjunction) -> bool:
        """Whether the walk makes the rule of a disjunct."""
        if not disjunct:
            return self._has_rule(True, name)
        return len(disjunct) == 1 and self._is_here(disjunct[0]) and self._has_rule(disjunct[0].value, name)

    def _is_here(self, node: SchemaNode) -> bool:
        """Whether the walk reads a schema as it is: references in it are resolved in this document."""
        root = self._lowering.document.root
        return not node.is_synthetic and node.resource is root and isinstance(node.value, dict)
