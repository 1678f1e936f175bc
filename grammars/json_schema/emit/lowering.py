"""The work queue from schemas to rules: one rule for each disjunct that may be an object or an array.

Scalars stand inline, so a small schema has few rules. Bodies are lowered from a queue, never by recursion, so schemas
may be nested to any depth.

The native walk over a document (`constrained.grammars.json_schema.emit.plain`) hands subschemas over that it does not know, each with everything that
applies to the same value. The schemas of members and items below them go back to the walk wherever it knows them. Both name a rule
after its place, so each may call the other's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Literal

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.json_schema.emit.arrays import ArrayLowering
from constrained.grammars.json_schema.emit.context import Context, Diagnostics, empty_types_reason, rule_name
from constrained.grammars.json_schema.emit.negated_objects.obligations import SchemaOracle
from constrained.grammars.json_schema.emit.objects import ObjectLowering
from constrained.grammars.json_schema.emit.scalars import (
    BOOLEAN,
    NULL,
    ScalarLowering,
)
from constrained.grammars.json_schema.options import SchemaOptions
from constrained.grammars.json_schema.resolve.disjoint import EmptinessProver
from constrained.grammars.json_schema.resolve.expand import DnfExpansion
from constrained.grammars.json_schema.resolve.negate import parse_schema
from constrained.grammars.json_schema.source import constraints as f
from constrained.grammars.json_schema.source.constraints import Conjunction, TypeConstraints
from constrained.grammars.json_schema.source.document import SchemaDocument, SchemaNode
from constrained.grammars.json_schema.text.excluded_substrings import ExcludedSubstrings
from constrained.grammars.transform.productive import productive_rules

MAX_RULES = 200_000
"""Most rules of one grammar."""


_SCALARS = ("string", "number", "integer", "boolean", "null")


class SchemaLowering:
    """Lowers one document.

    Args:
        document: the schema document.
        options: what is asked of the grammar.
        excluded: substrings that strings must not contain.
        shares: from `attach` on, schemas with the same text are one.

    Attributes:
        context: what the parts of the lowering have in common.
        diagnostics: keywords that cannot be enforced, and contradictions.
        rules: the rules so far, in order of discovery.
    """

    def __init__(
        self,
        document: SchemaDocument,
        options: SchemaOptions,
        excluded: ExcludedSubstrings,
        *,
        shares: bool,
    ) -> None:
        self.document = document
        self.diagnostics = Diagnostics()
        self.expansion = DnfExpansion(document, EmptinessProver)
        self.rules: dict[str, ir.Expr] = {}
        self.context = context = Context(
            self.expansion,
            options,
            options.punctuation,
            excluded,
            self.diagnostics,
            self.rules,
            self.conjunction_expr,
        )
        self.scalars = scalars = ScalarLowering(context)
        self.oracle = SchemaOracle(
            self.conjunction_expr, context.known_empty, scalars.key_allowed, scalars.allowed_keys
        )
        self.objects = ObjectLowering(self.oracle, context)
        self.arrays = ArrayLowering(context, scalars)
        self.queue: deque[tuple[str, Conjunction, TypeConstraints]] = deque()
        self.conjunction_exprs: dict[SchemaNode | frozenset[SchemaNode], ir.Expr] = {}
        self.disjunct_exprs: dict[SchemaNode | frozenset[SchemaNode], ir.Expr] = {}
        self.shares = shares
        self._rule_of: Callable[[Any, str], str | None] | None = None
        self._start: ir.Expr = ir.EMPTY_LANGUAGE

    def run(self) -> ir.Grammar:
        """The grammar of the document's root; it may still contain unproductive branches."""
        start = self.conjunction_expr((self.document.root,))
        self.lower_queued()
        rules, name = self.rules, start.rule if isinstance(start, ir.Call) else "start"
        if not isinstance(start, ir.Call):
            rules = {"start": start, **rules}
        return ir.Grammar(rules, name)

    def release(self) -> None:
        """Frees all that this has made, except what others hold; it can lower nothing afterwards. May be called again.

        Its parts and the nodes refer to each other. Left alone they would be many objects of which only a collection of the
        garbage collector finds that nobody needs them, often in the next mask.
        """
        if "document" in vars(self):
            self.document.release()
            for part in (self.expansion, self.scalars, self):
                vars(part).clear()

    def lower_queued(self) -> bool:
        """Lowers until the queue is empty. Returns whether all keywords so far can be enforced."""
        while self.queue:
            name, disjunct, constraints = self.queue.popleft()
            self.rules[name] = self.containers(disjunct, constraints)
        return not self.diagnostics.problems

    def conjunction_expr(self, conjunction: Conjunction) -> ir.Expr:
        """The expression of the values of a conjunction."""
        key: SchemaNode | frozenset[SchemaNode]
        if len(conjunction) == 1:
            key = conjunction[0]
            expr = self.conjunction_exprs.get(key)
            if expr is not None:
                return expr
            if key.parsed is None and (call := self._walked(key)) is not None:
                self.conjunction_exprs[key] = call
                return call
            parsed = parse_schema(key)
            if parsed.is_flat:
                expr = self.conjunction_exprs[key] = self.disjunct_expr(conjunction if parsed.limits else ())
                return expr
        elif not conjunction:
            return self.disjunct_expr(())
        else:
            key = frozenset(conjunction)
        expr = self.conjunction_exprs.get(key) or self.scalars.scalar_term(conjunction)
        if expr is None:
            cases = self.expansion.expand(conjunction)
            expr = (
                self.disjunct_expr(cases[0])
                if len(cases) == 1
                else ir.choice(*map(self.disjunct_expr, cases))
            )
            if not cases:
                self.diagnostics.conflict(
                    conjunction, "schemas that apply to the same value exclude each other"
                )
        self.conjunction_exprs[key] = expr
        return expr

    def disjunct_expr(self, disjunct: Conjunction) -> ir.Expr:
        """The expression of the values of a disjunct: scalars inline, a call of its rule for objects and arrays."""
        key = disjunct[0] if len(disjunct) == 1 else frozenset(disjunct)
        expr = self.disjunct_exprs.get(key)
        if expr is None:
            expr = self.disjunct_exprs[key] = self._disjunct_expr(
                disjunct, self.expansion.constraints_of(disjunct)
            )
        return expr

    def _disjunct_expr(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        self.diagnostics.note_unsupported(constraints)
        if not constraints.types:
            self.diagnostics.conflict(disjunct, empty_types_reason(disjunct))
            return ir.EMPTY_LANGUAGE
        if constraints.enum_values is not None:
            return self.scalars.enum_expr(disjunct, constraints)
        parts = (
            self.scalars.scalars(disjunct, constraints)
            if disjunct
            else [NULL, BOOLEAN, self.scalars.any_number, self.scalars.bounded_string]
        )
        if constraints.types & (f.ARRAY | f.OBJECT):
            name = rule_name(disjunct)
            if not self._is_walked(name, disjunct):
                self.enqueue(name, disjunct, constraints)
            parts.append(ir.Call(name))
        return parts[0] if len(parts) == 1 else ir.choice(*parts)

    def enqueue(self, name: str, disjunct: Conjunction, constraints: TypeConstraints) -> None:
        """Queues a rule, whose body is lowered later."""
        self.rules[name] = ir.EMPTY_LANGUAGE  # keeps the order of discovery; the body comes from the queue
        self.queue.append((name, disjunct, constraints))
        if constraints.negated_objects and constraints.types & f.OBJECT:
            self.objects.count_negated_object(disjunct[0].pointer)
        if len(self.rules) > MAX_RULES:
            raise ConstraintTooLarge(
                "the schema needs too many rules",
                Problem(name, f"more than {MAX_RULES} rules by the time this place is reached"),
                action="split the schema",
            )

    def containers(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        """The objects and arrays of a disjunct."""
        parts: list[ir.Expr] = []
        if constraints.types & f.OBJECT:
            parts.append(self.objects.object(disjunct, constraints))
        if constraints.types & f.ARRAY:
            parts.append(self.arrays.array(disjunct, constraints))
        return parts[0] if len(parts) == 1 else ir.choice(*parts)

    # ------------------------------------------------------------ for the native walk

    def scalars_of(self, schema: Any) -> ir.Expr | tuple[ir.Expr, ...] | Literal[False] | None:
        """The scalars of a schema, as one expression if it allows no others; False if there are none; None if they are not plain."""
        root, diagnostics = self.document.root, self.diagnostics
        conjunction = (SchemaNode(schema, "#/a scalar", root, root.base),)
        found: ir.Expr | tuple[ir.Expr, ...]
        rules, conflicts = len(self.rules), len(diagnostics.conflicts)
        if not parse_schema(conjunction[0]).limits:
            return None  # every value: an unknown format, for one
        constraints = self.expansion.constraints_of(conjunction)
        if constraints.enum_values is None and constraints.types & (f.ARRAY | f.OBJECT):
            diagnostics.note_unsupported(constraints)
            found = tuple(self.scalars.scalars(conjunction, constraints))
        else:
            found = self.conjunction_expr(conjunction)
        if diagnostics.problems or len(self.rules) != rules:  # all scalars have one place for their problems
            return None
        if found is ir.EMPTY_LANGUAGE:
            diagnostics.conflicts.clear()
            return False
        return None if len(diagnostics.conflicts) > conflicts else found

    def disjoint(self, places: Sequence[str]) -> bool:
        """Whether no two of the schemas at some places have a value in common, as far as that is proved."""
        nodes, prover = map(self.document.at, places), self.expansion.prover
        return all(prover.are_disjoint(one, other) for one, other in combinations(nodes, 2))

    def attach(self, rule_of: Callable[[Any, str], str | None], has_rule: Callable[[Any, str], bool]) -> None:
        """Sets how to ask the walk: for the one rule that a schema at a place consists of; whether it makes the rule of that place."""
        self._rule_of, self._has_rule = rule_of, has_rule
        if self.shares:
            self.document.share()

    def value_at(self, pointer: str) -> tuple[ir.Expr | None, str | None] | Literal[False]:
        """The values of the schema at a place: their expression (None: a call), and a rule that suffices for them to have a text.

        False: there are none.
        """
        expr = self.conjunction_expr((self.document.at(pointer),))
        if expr is ir.EMPTY_LANGUAGE:
            return False
        if pointer == "#":
            self._start = expr
        return None if isinstance(expr, ir.Call) else expr, _sufficient_rule(expr)

    def enqueue_at(self, pointer: str) -> bool:
        """Queues the rule of the arrays and objects of a schema; False: the walk ends."""
        node = self.document.at(pointer)
        if not parse_schema(node).is_flat:
            return False
        self.enqueue(pointer, (node,), self.expansion.constraints_of((node,)))
        return True

    def has_values(self, known: list[str], needs: dict[str, list[str]], start: str) -> bool:
        """Whether the document is known to have values.

        Args:
            known: rules of the walk that derive some text.
            needs: its other rules, each with the rules that suffice for it to derive some.
            start: a rule that suffices for the document.
        """
        walked = {name: ir.sequence(*map(ir.Call, called)) for name, called in needs.items()}
        rules = {"start": self._start, **self.rules, **walked}
        return not {"start", start}.isdisjoint(productive_rules(rules, known))

    def _walked(self, node: SchemaNode) -> ir.Call | None:
        """A call of the walk's rule of all values of a schema."""
        if self._rule_of is None or not self._is_here(node) or node.value.get("type") in _SCALARS:
            return None
        rule = self._rule_of(node.value, node.pointer)
        return None if rule is None else ir.Call(rule)

    def _is_walked(self, name: str, disjunct: Conjunction) -> bool:
        """Whether the walk makes the rule of a disjunct."""
        if self._rule_of is None or not disjunct:
            return self._rule_of is not None and self._has_rule(True, name)
        return len(disjunct) == 1 and self._is_here(disjunct[0]) and self._has_rule(disjunct[0].value, name)

    def _is_here(self, node: SchemaNode) -> bool:
        """Whether the walk reads a schema as it is: references in it are resolved in this document."""
        return not node.is_synthetic and node.resource is self.document.root and isinstance(node.value, dict)


def _sufficient_rule(value: ir.Expr) -> str | None:
    """A rule: if it derives some text, then so does `value`."""
    while isinstance(value, ir.Choice) and not any(isinstance(part, ir.Terminal) for part in value.parts):
        value = value.parts[0]
    return value.rule if isinstance(value, ir.Call) else None
