"""JSON Schema (drafts 4, 6, 7, 2019-09, 2020-12) to the grammar of the JSON texts of its instances.

    document   which object is a schema, what a reference points at
    drafts     a table per draft: keyword -> function of `keywords`
    facts      what schemas say about one value, and how that is conjoined
    derived    schemas that follow from others: `negation`, `unevaluated` and `dynamic` say which
    cases      references, conjunctions and alternatives resolved into cases
    lowering   cases to rules; `objects`, `strings`, `numbers`, `values`, `layout` write the texts, `counted`
               those of arrays that count items, `denied` and `obliged` those of objects that must break something

Every text is the JSON of a valid instance, and every valid instance has a text, with members in the order of the
schema: see `lower`. Must not know: tokenizers, models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from grammars import ir
from grammars._core import snapshot
from grammars.errors import (
    MISSING,
    InvalidConstraint,
    Problem,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)
from grammars.json_schema.emit.lazy_rules import PutOff
from grammars.json_schema.emit.lowering import Lowering
from grammars.json_schema.source.dialects import DRAFTS, draft_of
from grammars.json_schema.source.document import Document, Node, position
from grammars.json_schema.source.metaschema import check
from grammars.json_schema.source.registry import Registry
from grammars.json_schema.source.report import Entry, Report
from grammars.json_schema.text.ensure_ascii import respelled
from grammars.json_schema.text.punctuation import Separators, Whitespace, layout
from grammars.transform.lazy_rules import made_rules
from grammars.transform.productive import productive_rules

__all__ = ["DRAFTS", "Entry", "Lowered", "PropertyOrder", "Registry", "Report", "Whitespace", "lower"]

PropertyOrder = Literal["schema", "any"]
Unsupported = Literal["refuse", "check"]

LARGE = 150
"""Schemas in a document from which on the rules of plain ones are put off: see `grammars.json_schema.emit.lazy_rules`."""
_MAX_CONFLICTS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A schema as a grammar.

    Attributes:
        grammar: of the JSON texts of its instances.
        report: every keyword, enforced or an annotation.
        unchecked: keywords that the grammar leaves out and that limit values all the same, by
            ``unsupported="check"``: whether a value satisfies them shows only when it is complete.
        draft: name of the draft that the schema was read by.
    """

    grammar: ir.Grammar
    report: Report
    unchecked: tuple[Problem, ...] = ()
    draft: str = ""


def lower(
    schema: Any,
    *,
    whitespace: Whitespace = "bounded",
    draft: str | None = None,
    property_order: PropertyOrder = "schema",
    registry: Any = None,
    separators: Separators | None = None,
    ensure_ascii: bool | None = None,
    additional_properties_default: bool = True,
    formats: bool = True,
    strict: bool = False,
    unsupported: Unsupported = "refuse",
) -> Lowered:
    r"""The grammar of the JSON texts of a schema's instances.

    Which texts of an instance: members in the order the schema declares them, then required names that it does
    not declare, then others; declared keys and listed values as `json.dumps` writes them; strings with a pattern
    or format with the escapes that `json.dumps` uses (``\uXXXX`` for non-ASCII allowed), all other strings in any
    spelling; integers without fraction and exponent, numbers with an exponent only where no bound but zero
    limits them; whitespace between tokens by the policy, none around the value. Keys that are not declared may
    come twice (readers keep the last).

    Args:
        schema: an object or a boolean, as `json.loads` gives it.
        whitespace: ``"bounded"``, ``"none"``, ``"any"`` or ``"indent"``; see `grammars.json_schema.text.punctuation`.
        draft: ``"4"``, ``"6"``, ``"7"``, ``"2019-09"`` or ``"2020-12"``; by default what ``$schema`` says, or
            else the newest.
        property_order: ``"schema"``, as above, or ``"any"``: members in every order.
        registry: schemas outside of this one that references may name: a mapping from URIs to schemas, or a
            `referencing.Registry`. The meta-schemas of the drafts are always there; the network never is.
        separators: as `json.dumps` takes them: what is written between items and after keys, exactly.
        ensure_ascii: True: characters beyond ASCII are written as escapes; False: nothing is escaped that can stand
            for itself; None: both are allowed.
        additional_properties_default: False: where members are declared and nothing is said about others, there are
            none.
        formats: False: ``format`` is an annotation, as it is in the newest drafts unless a validator is told
            otherwise.
        strict: keywords and formats that no draft knows are refused, instead of being annotations.
        unsupported: ``"check"``: a keyword that cannot be enforced is left out and listed as one to be checked, see
            `Lowered.unchecked`; ``"refuse"``: it is an error.

    Raises:
        InvalidConstraint: not a schema of that draft, a dangling reference, a malformed pattern, a circle of
            references.
        UnsupportedConstraint: lists every keyword that cannot be enforced, and when strict, every unknown one.
        UnsatisfiableConstraint: no value satisfies the schema; names what contradicts.
        ConstraintTooLarge: too many alternatives or counts; names the place.
    """
    if unsupported not in get_args(Unsupported):
        raise InvalidConstraint(f"unsupported={unsupported!r} is not known", action="use 'refuse' or 'check'")
    documents = Registry(registry)
    chosen = draft_of(schema, draft, documents)
    if not formats:
        chosen = replace(chosen, formats={})
    size = check(schema, chosen)
    if property_order not in get_args(PropertyOrder):
        raise InvalidConstraint(
            f"property_order={property_order!r} is not known", action="use 'schema' or 'any'"
        )
    spaced = layout(whitespace, separators)

    def lowering_of(schema: Any) -> Lowering:
        return Lowering(
            Document(schema, chosen, documents, check),
            spaced,
            ordered=property_order == "schema",
            closed=not additional_properties_default,
        )

    copy = snapshot(schema) if size >= LARGE and not strict and ensure_ascii is None else None
    lowering = lowering_of(schema if copy is None else copy)
    put_off = None if copy is None else PutOff(lowering.document, chosen.read_natively, spaced)
    grammar = lowering.run(put_off)
    unchecked = tuple(sorted(lowering.problems.values(), key=lambda problem: position(schema, problem.place)))

    def read() -> Iterator[tuple[Node, list[tuple[str, bool, str]]]]:
        """What each schema says, in the order in which a lowering that puts nothing off reads them."""
        whole = lowering
        if put_off is not None and put_off.lengths:
            whole = lowering_of(copy)
            whole.run()
        return whole.cases.said()

    report = Report(read, unchecked)
    if unchecked and unsupported == "refuse":
        raise _unsupported(unchecked, "remove them, rewrite them, or pass unsupported='check'")
    unknown = [
        Problem(entry.pointer, entry.note, MISSING, entry.keyword)
        for entry in (report if strict else ())
        if entry.status == "unknown"
    ]
    if unknown:
        raise _unsupported(unknown, "correct or remove them, or leave strict out")
    if grammar.start not in productive_rules(made_rules(grammar), lowering.productive()):
        conflicts = list(lowering.conflicts.values())[:_MAX_CONFLICTS]
        conflicts = conflicts or [Problem(grammar.start, "every value of it would have to contain itself")]
        raise UnsatisfiableConstraint(
            "no value satisfies the schema", conflicts, action="change one of these places"
        )
    if ensure_ascii is not None:
        grammar = respelled(grammar, ensure_ascii)
    return Lowered(grammar, report, unchecked, chosen.name)


def _unsupported(problems: Sequence[Problem], action: str) -> UnsupportedConstraint:
    count = len(problems)
    return UnsupportedConstraint(
        f"{count} keyword{'s' if count > 1 else ''} cannot be enforced", problems, action=action
    )
