"""JSON Schema (drafts 4, 6, 7, 2019-09, 2020-12) to the grammar of the JSON texts of its instances.

    document   which object is a schema, what a reference points at
    drafts     a table per draft: keyword -> function of `keywords`
    facts      what schemas say about one value, and how that is conjoined
    cases      references, conjunctions and alternatives resolved into cases
    lowering   cases to rules; `objects`, `strings`, `numbers`, `values`, `layout` write the texts

Every text is the JSON of a valid instance, and every valid instance has a text, with members in the order of the
schema: see `lower`. Must not know: tokenizers, models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grammars import ir
from grammars.errors import Problem, UnsatisfiableConstraint, UnsupportedConstraint
from grammars.json_schema.document import Document
from grammars.json_schema.drafts import DRAFTS, draft_of
from grammars.json_schema.layout import Whitespace, layout
from grammars.json_schema.lowering import Lowering
from grammars.json_schema.metaschema import check
from grammars.json_schema.report import Entry, Report
from grammars.productive import pruned

__all__ = ["DRAFTS", "Entry", "Lowered", "Report", "Whitespace", "lower"]

_MAX_CONFLICTS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A schema as a grammar.

    Attributes:
        grammar: of the JSON texts of its instances.
        report: every keyword, enforced or an annotation.
    """

    grammar: ir.Grammar
    report: Report


def lower(schema: Any, *, whitespace: Whitespace = "bounded", draft: str | None = None) -> Lowered:
    r"""The grammar of the JSON texts of a schema's instances.

    Which texts of an instance: members in the order the schema declares them, then required names that it does
    not declare, then others; declared keys and listed values as `json.dumps` writes them; strings with a pattern
    or format with the escapes that `json.dumps` uses (``\uXXXX`` for non-ASCII allowed), all other strings in any
    spelling; integers without fraction and exponent, numbers with an exponent only where no bound but zero
    limits them; whitespace between tokens by the policy, none around the value. Keys that are not declared may
    come twice (readers keep the last).

    Args:
        schema: an object or a boolean, as `json.loads` gives it.
        whitespace: ``"bounded"``, ``"none"``, ``"any"`` or ``"indent"``; see `grammars.json_schema.layout`.
        draft: ``"4"``, ``"6"``, ``"7"``, ``"2019-09"`` or ``"2020-12"``; by default what ``$schema`` says, or
            else the newest.

    Raises:
        InvalidConstraint: not a schema of that draft, a dangling reference, a malformed pattern, a circle of
            references.
        UnsupportedConstraint: lists every keyword that cannot be enforced.
        UnsatisfiableConstraint: no value satisfies the schema; names what contradicts.
        ConstraintTooLarge: too many alternatives or counts; names the place.
    """
    chosen = draft_of(schema, draft)
    check(schema, chosen)
    lowering = Lowering(Document(schema, chosen), layout(whitespace))
    grammar = lowering.run()
    if lowering.problems:
        count = len(lowering.problems)
        raise UnsupportedConstraint(
            f"{count} keyword{'s' if count > 1 else ''} cannot be enforced",
            lowering.problems.values(),
            action="remove them, or rewrite them with keywords that are supported",
        )
    whole = pruned(grammar, lowering.productive())
    if whole is None:
        conflicts = list(lowering.conflicts.values())[:_MAX_CONFLICTS]
        conflicts = conflicts or [Problem(grammar.start, "every value of it would have to contain itself")]
        raise UnsatisfiableConstraint(
            "no value satisfies the schema", conflicts, action="change one of these places"
        )
    return Lowered(whole, Report(tuple(lowering.cases.read_nodes), lowering.cases.entries))
