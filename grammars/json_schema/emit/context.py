"""What the parts of the lowering of one document have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from constrained.grammars import ir
from constrained.grammars.json_schema.emit.diagnostics import Diagnostics
from constrained.grammars.json_schema.options import SchemaOptions
from constrained.grammars.json_schema.resolve.expand import DnfExpansion
from constrained.grammars.json_schema.source.constraints import Conjunction
from constrained.grammars.json_schema.text.excluded_substrings import ExcludedSubstrings
from constrained.grammars.json_schema.text.punctuation import JsonPunctuation


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
