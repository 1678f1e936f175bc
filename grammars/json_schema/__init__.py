"""JSON Schema (drafts 4, 6, 7, 2019-09, 2020-12) to the grammar of the JSON texts of its instances.

    text       regular languages of JSON text: strings, numbers, formats, enumerated values, whitespace and indentation
    source     documents, ``$ref``, dialects, one handler per keyword, the parsed form of a schema
    resolve    ``allOf``, ``anyOf``, ``oneOf``, ``not``, ``if``, ``unevaluated*``: from schemas to disjuncts
    parameters objects as the parameters of a tool call, in the markup of model families
    emit       rules and terminals: scalars, objects, arrays, ``contains``, ``uniqueItems``, negated objects

Every text of the grammar is the JSON of a valid instance, and every valid instance has a text, with members in the
order of the schema: see `lower_schema`. Nothing here depends on tokenizers or models.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

from constrained.grammars import ir
from constrained.grammars._core import copy_document, equal_parts
from constrained.grammars.errors import (
    MISSING,
    InvalidConstraint,
    Problem,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)
from constrained.grammars.garbage import rare_collections
from constrained.grammars.json_schema.emit.arrays import ItemsAreCompared
from constrained.grammars.json_schema.emit.lowering import SchemaLowering
from constrained.grammars.json_schema.emit.plain import lower_plain
from constrained.grammars.json_schema.parameters.literals import ESCAPES as LITERAL_ESCAPES
from constrained.grammars.json_schema.parameters.lowering import ParameterLowering
from constrained.grammars.json_schema.parameters.styles import (
    LITERAL_NAME,
    PARAMETER_STYLES,
    ParameterStyle,
    parameter_style,
)
from constrained.grammars.json_schema.source.contents import ContentTable
from constrained.grammars.json_schema.source.dialects import SCHEMA_DIALECTS, select_dialect
from constrained.grammars.json_schema.source.document import SchemaDocument, SchemaNode, document_order
from constrained.grammars.json_schema.source.grounded import grounded_schema
from constrained.grammars.json_schema.source.metaschema import require_valid_schema
from constrained.grammars.json_schema.source.registry import SchemaRegistry
from constrained.grammars.json_schema.source.report import KeywordEntry, KeywordReport, noting_digits
from constrained.grammars.json_schema.text.ensure_ascii import restrict_escapes
from constrained.grammars.json_schema.text.excluded_substrings import NOTHING_EXCLUDED, ExcludedSubstrings
from constrained.grammars.json_schema.text.punctuation import Separators, Whitespace, gap_of, punctuation_for
from constrained.grammars.json_schema.text.python import KINDS
from constrained.grammars.transform.productive import productive_rules
from constrained.grammars.work import counted_work

__all__ = [
    "LITERAL_ESCAPES",
    "LITERAL_NAME",
    "PARAMETER_STYLES",
    "SCHEMA_DIALECTS",
    "KeywordEntry",
    "KeywordReport",
    "LoweredSchema",
    "ParameterStyle",
    "PropertyOrder",
    "SchemaRegistry",
    "Whitespace",
    "lower_schema",
    "parameter_style",
]

PropertyOrder = Literal["schema", "any"]
UnsupportedKeywordPolicy = Literal["refuse", "check"]
_ORDERS, _POLICIES = get_args(PropertyOrder), get_args(UnsupportedKeywordPolicy)

_EQUAL_PARTS_FROM = 150
"""Number of subschemas from which on those with the same text are lowered once."""
_MAX_CONFLICTS = 5
_MOST_WHITESPACE = 100
"""A greater `max_whitespace` means this one: nobody writes more."""
_JSON_TEXTS: ContextVar[tuple[str, ...]] = ContextVar("schemas of the JSON inside strings", default=())


@dataclass(frozen=True, slots=True, eq=False)
class LoweredSchema:
    """A schema as a grammar.

    Attributes:
        grammar: of the JSON texts of its instances.
        report: every keyword, with whether it is enforced.
        unchecked: with ``unsupported="check"``, keywords that constrain values but that the grammar does not enforce;
            complete values must be validated against them.
        draft: name of the schema's dialect.
    """

    grammar: ir.Grammar
    report: KeywordReport
    unchecked: tuple[Problem, ...] = ()
    draft: str = ""


@rare_collections()
@counted_work("#")
def lower_schema(
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
    unsupported: UnsupportedKeywordPolicy = "refuse",
    contents: Mapping[str, Callable[[], ir.Grammar]] | None = None,
    max_digits: int | None = None,
    source_text: str | None = None,
    require_grounding: bool = False,
    style: str | Mapping[str, Any] = "json",
    excludes: Sequence[str] = (),
    max_whitespace: int | None = None,
) -> LoweredSchema:
    r"""The grammar of the JSON texts of a schema's instances.

    Which texts of an instance: members in the order the schema declares them, then required names that it does
    not declare, then others; declared keys and listed values as `json.dumps` writes them; strings with a pattern
    or format with the escapes that `json.dumps` uses (``\uXXXX`` for non-ASCII allowed), all other strings in any
    spelling; integers without fraction and exponent, numbers with an exponent only where no bound but zero
    limits them; whitespace between tokens by the policy, none around the value. Keys that are not declared may
    come twice (readers keep the last).

    Args:
        schema: an object or a boolean, as `json.loads` gives it.
        whitespace: ``"bounded"``, ``"none"``, ``"any"`` or ``"indent"``; see `constrained.grammars.json_schema.text.punctuation`.
        draft: ``"4"``, ``"6"``, ``"7"``, ``"2019-09"`` or ``"2020-12"``; by default that of ``$schema``, or
            else the newest.
        property_order: ``"schema"``, as above, or ``"any"``: members in every order.
        registry: schemas outside of this one that references may name: a mapping from URIs to schemas, or a
            `referencing.Registry`. The meta-schemas of the drafts are always there; the network never is.
        separators: as `json.dumps` takes them: what is written between items and after keys, exactly.
        ensure_ascii: True: characters beyond ASCII are written as escapes; False: only characters that JSON requires are
            escaped; None: both are allowed.
        additional_properties_default: False: objects with declared members allow no others, unless a keyword speaks
            of them.
        formats: False: ``format`` is an annotation, as it is in the newest drafts unless a validator enables
            it.
        strict: refuse keywords and formats that the dialect does not define, instead of taking them for annotations.
        unsupported: ``"check"``: keywords that cannot be enforced are listed in `LoweredSchema.unchecked`;
            ``"refuse"``: they are an error.
        contents: grammars of strings by the names that `constrained.grammars.content.CONTENT_KEYWORD` uses, not yet escaped for
            JSON. A grammar of one terminal may be combined with other keywords for strings, any other grammar stands
            alone. None: that keyword is unknown, and so are the kinds of strings of Python types.
        max_digits: digits that a number may have before its point, and after it; exponents are then below 200. Integers
            between two bounds are not affected, and bounds and divisors with more digits raise the limit. None: no limit,
            as the specification has it.
        source_text: the text of which strings with ``x-span`` are spans; "": it is not known yet, and they are any strings.
        require_grounding: narrow the schema to strings, numbers and dates that stand in that text: see
            `constrained.grammars.json_schema.source.grounded`.
        style: ``"json"``, or as `parameter_style` takes it: objects as the parameters of a tool call.
        excludes: texts that no string without ``pattern`` and ``format`` and no name of a member contains, as it is
            written.
        max_whitespace: in place of `whitespace`, any white space of at most so many characters between two tokens.

    Raises:
        InvalidConstraint: a malformed schema, a dangling or circular reference, a malformed pattern, or an
            unknown option.
        UnsupportedConstraint: lists every keyword that cannot be enforced, and with `strict` every unknown one.
        UnsatisfiableConstraint: no value satisfies the schema; names the contradictions.
        ConstraintTooLarge: too many alternatives, counts or rules; names the place.
    """
    if unsupported not in _POLICIES:
        raise InvalidConstraint(f"unsupported={unsupported!r} is not known", action="use 'refuse' or 'check'")
    if require_grounding and source_text:
        schema = grounded_schema(schema, source_text)
    documents = SchemaRegistry(registry)
    dialect = select_dialect(schema, draft, documents)
    if not formats:
        dialect = replace(dialect, formats={})
    size = require_valid_schema(schema, dialect)
    if property_order not in _ORDERS:
        raise InvalidConstraint(
            f"property_order={property_order!r} is not known", action="use 'schema' or 'any'"
        )
    if max_whitespace is not None:
        max_whitespace = min(max_whitespace, _MOST_WHITESPACE)
    punctuation = punctuation_for(whitespace, separators, max_whitespace)
    excluded = ExcludedSubstrings(excludes) if excludes else NOTHING_EXCLUDED
    markup = parameter_style(style)

    def json_text(inner: Any) -> ir.Grammar:
        whole = {**inner, "$defs": schema.get("$defs", {})} if isinstance(inner, dict) else inner
        text = json.dumps(inner)
        outer = _JSON_TEXTS.get()
        if text in outer:
            raise UnsupportedConstraint(
                "JSON inside a JSON string cannot be enforced",
                Problem("json", "contains itself, and each time its quotes are escaped once more"),
                action="make it an object instead of a string of JSON",
            )
        token = _JSON_TEXTS.set((*outer, text))
        try:
            return lower_schema(
                whole,
                whitespace="any" if whitespace == "any" else "bounded",
                draft=dialect.name,
                property_order=property_order,
                formats=formats,
                contents=contents,
                max_digits=max_digits,
                source_text=source_text,
            ).grammar
        finally:
            _JSON_TEXTS.reset(token)

    table = None if contents is None else ContentTable(schema, contents, KINDS, json_text)

    def lowering_of(
        schema: Any, equal: Mapping[int, int] | None = None, *, distinct_names: bool = False
    ) -> SchemaLowering:
        return SchemaLowering(
            SchemaDocument(schema, dialect, documents, require_valid_schema, table, source_text, equal),
            punctuation,
            ordered=property_order == "schema",
            closed=not additional_properties_default,
            distinct_names=distinct_names,
            max_digits=max_digits,
            excluded=excluded
            if markup is None or not markup.excluded
            else ExcludedSubstrings((markup.excluded, *excludes)),
        )

    def rows_of(lowering: SchemaLowering) -> Iterator[tuple[SchemaNode, list[tuple[str, bool, str]]]]:
        """The keywords of each schema, in the order of its lowering."""
        if not lowering.rules and not lowering.expansion.visited_nodes:
            lowering.run()
        rows = lowering.expansion.report_rows()
        return rows if max_digits is None else noting_digits(rows, max_digits)

    eager = strict or ensure_ascii is not None or markup is not None or bool(excludes)
    distinct_names = False  # of all objects
    copy = None if eager or size < _EQUAL_PARTS_FROM else copy_document(schema)
    kept = schema if copy is None else copy
    if (
        table is None
        and additional_properties_default
        and not eager
        and dialect is SCHEMA_DIALECTS.get(dialect.name)
    ):
        try:
            plain = lower_plain(
                kept,
                dialect,
                punctuation,
                ordered=property_order == "schema",
                max_digits=max_digits,
                general=lambda: lowering_of(kept),
                equal=lambda: {} if copy is None else equal_parts(copy),
            )
        except ItemsAreCompared:
            plain, distinct_names = None, True
        if plain is not None:
            return LoweredSchema(
                plain, KeywordReport(lambda: rows_of(lowering_of(kept)), ()), (), dialect.name
            )

    equal = {} if copy is None else equal_parts(copy)

    def lower() -> tuple[SchemaLowering, ir.Grammar, bool]:
        """With the grammar of the schema: whether it has a text."""
        nonlocal distinct_names
        try:
            lowering, grammar = lower_once()
        except ItemsAreCompared:
            distinct_names = True
            lowering, grammar = lower_once()
        productive = productive_rules(grammar.rules, lowering.productive())
        return lowering, grammar, grammar.start in productive

    def lower_once() -> tuple[SchemaLowering, ir.Grammar]:
        lowering = lowering_of(kept, equal, distinct_names=distinct_names)
        if markup is None:
            try:
                return lowering, lowering.run()
            except ItemsAreCompared:
                lowering.release()
                raise
        parameters = ParameterLowering(
            lowering,
            markup,
            gap_of(whitespace, max_whitespace),
            excluded,
            ordered=property_order == "schema",
            closed=not additional_properties_default,
        )
        return lowering, parameters.run()

    try:
        lowering, grammar, productive = lower()
        again = bool(equal) and not (productive and not lowering.diagnostics.problems)
        if again:
            lowering.release()
    except (InvalidConstraint, UnsupportedConstraint):
        if not equal:
            raise
        again = True
    if again:  # an error names every place, not only the first of those with one text
        equal = {}
        lowering, grammar, productive = lower()
    unchecked = tuple(
        sorted(
            lowering.diagnostics.problems.values(), key=lambda problem: document_order(schema, problem.place)
        )
    )

    if unchecked and unsupported == "refuse":
        raise _unsupported(unchecked, "remove them, rewrite them, or pass unsupported='check'")
    unknown = [
        Problem(entry.pointer, entry.note, MISSING, entry.keyword)
        for entry in (KeywordReport(partial(rows_of, lowering), unchecked) if strict else ())
        if entry.status == "unknown"
    ]
    if unknown:
        raise _unsupported(unknown, "correct or remove them, or leave strict out")
    if not productive:
        conflicts = list(lowering.diagnostics.conflicts.values())[:_MAX_CONFLICTS]
        conflicts = conflicts or [
            Problem(
                grammar.start, "every value would have to contain itself: the schema is endlessly recursive"
            )
        ]
        raise UnsatisfiableConstraint(
            "no value satisfies the schema", conflicts, action="change one of these places"
        )
    if ensure_ascii is not None:
        grammar = restrict_escapes(grammar, ensure_ascii)
    if markup is not None:
        return LoweredSchema(
            grammar, KeywordReport(partial(rows_of, lowering), unchecked), unchecked, dialect.name
        )
    lowering.release()
    return LoweredSchema(
        grammar,
        KeywordReport(lambda: rows_of(lowering_of(kept, distinct_names=distinct_names)), unchecked),
        unchecked,
        dialect.name,
    )


def _unsupported(problems: Sequence[Problem], action: str) -> UnsupportedConstraint:
    count = len(problems)
    return UnsupportedConstraint(
        f"{count} keyword{'s' if count > 1 else ''} cannot be enforced", problems, action=action
    )
