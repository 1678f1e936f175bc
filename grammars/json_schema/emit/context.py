"""What the parts of the lowering of one document have in common, and what goes wrong there, by place."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from constrained.grammars import ir
from constrained.grammars.content import CONTENT_KEYWORD
from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.json_schema.options import SchemaOptions
from constrained.grammars.json_schema.resolve.expand import DnfExpansion
from constrained.grammars.json_schema.source.constraints import EVERY_TYPE, Conjunction, TypeConstraints
from constrained.grammars.json_schema.source.document import child_pointer
from constrained.grammars.json_schema.text.excluded_substrings import ExcludedSubstrings
from constrained.grammars.json_schema.text.punctuation import JsonPunctuation
from constrained.grammars.transform.interleave import MAX_DISTINCT_ENTRIES


@dataclass(frozen=True, eq=False)
class Context:
    """One document that is being lowered.

    Attributes:
        expansion: its schemas.
        options: what is asked of the grammar.
        punctuation: terminals of the punctuation.
        excluded: substrings that strings must not contain.
        diagnostics: receives what goes wrong.
        rules: the rules so far, in order of discovery.
        conjunction_expr: the expression of the values of a conjunction.
    """

    expansion: DnfExpansion
    options: SchemaOptions
    punctuation: JsonPunctuation
    excluded: ExcludedSubstrings
    diagnostics: Diagnostics
    rules: dict[str, ir.Expr]
    conjunction_expr: Callable[[Conjunction], ir.Expr]

    def known_empty(self, conjunction: Conjunction) -> bool:
        """Whether a conjunction is proved to have no values."""
        return self.expansion.prover.is_empty(conjunction)


class Diagnostics:
    """Collects problems instead of raising at the first.

    Attributes:
        problems: keywords that cannot be enforced, by JSON Pointer.
        conflicts: places that no value satisfies, by rule name, with the reason.
    """

    def __init__(self) -> None:
        self.problems: dict[str, Problem] = {}
        self.conflicts: dict[str, Problem] = {}

    def note_unsupported(self, constraints: TypeConstraints, among: int = EVERY_TYPE) -> None:
        """Keeps the keywords that cannot be enforced and apply to a type that is still possible, and is `among` these."""
        for types, problem in constraints.unsupported_keywords:
            if types & constraints.types & among:
                self.problems.setdefault(problem.place, problem)

    def note_unique_unsupported(self, disjunct: Conjunction, reason: str) -> None:
        """Keeps that ``uniqueItems`` of an array cannot be enforced."""
        self.note_unique(keyword_pointer(disjunct, "uniqueItems"), reason)

    def note_unique(self, place: str, reason: str) -> None:
        """Keeps that a ``uniqueItems``, or its violation, cannot be enforced."""
        self.problems[place] = Problem(place, f"is not supported {reason}", True, "uniqueItems")

    def note_multiples_unsupported(self, disjunct: Conjunction, reason: str) -> None:
        """Keeps that the ``multipleOf`` of a disjunct, and those that `not` excludes there, cannot be enforced together."""
        for node in disjunct:
            for part in (node, node.negates):
                if part is not None and isinstance(part.value, dict) and "multipleOf" in part.value:
                    place = child_pointer(part.pointer, "multipleOf")
                    self.problems[place] = Problem(place, reason, part.value["multipleOf"], "multipleOf")

    def note_content_unsupported(self, disjunct: Conjunction, reason: str) -> None:
        """Keeps that the content of strings cannot be enforced."""
        place = keyword_pointer(disjunct, CONTENT_KEYWORD)
        self.problems.setdefault(place, Problem(place, reason, keyword=CONTENT_KEYWORD))

    def conflict(self, disjunct: Conjunction, reason: str) -> None:
        """Keeps why a disjunct has no values."""
        name = rule_name(disjunct)
        self.conflicts.setdefault(name, Problem(name, reason))


def rule_name(disjunct: Conjunction) -> str:
    """The name of a disjunct's rule."""
    if len(disjunct) == 1:
        return disjunct[0].pointer
    return " & ".join(node.pointer for node in disjunct) or "any value"


def keyword_pointer(disjunct: Conjunction, keyword: str) -> str:
    """JSON Pointer of the first occurrence of a keyword in a disjunct; the rule name where it does not occur."""
    nodes = [node for node in disjunct if isinstance(node.value, dict) and node.value.get(keyword)]
    return child_pointer(nodes[0].pointer, keyword) if nodes else rule_name(disjunct)


def require_few_distinct(disjunct: Conjunction, keyword: str, count: int) -> None:
    """Checks that a minimum of different items or keys is within the limit of interleaving.

    Raises:
        ConstraintTooLarge: `count` is above `MAX_DISTINCT_ENTRIES`.
    """
    if count > MAX_DISTINCT_ENTRIES:
        place = keyword_pointer(disjunct, keyword)
        reason = f"requires {count} different ones; at most {MAX_DISTINCT_ENTRIES} can be required"
        raise ConstraintTooLarge(
            "too many different items or keys are required",
            Problem(place, reason, count, keyword),
            action=f"lower {keyword}",
        )


def empty_types_reason(disjunct: Conjunction) -> str:
    """Why no type of value is left."""
    if any(node.value is False for node in disjunct):
        return "the schema false allows no value"
    types = [json.dumps(node.value["type"]) for node in disjunct if "type" in node.value]
    if len(types) > 1:
        return f"the types {' and '.join(types)} exclude each other"
    return "the schemas that apply and the schemas under `not` exclude each other"
