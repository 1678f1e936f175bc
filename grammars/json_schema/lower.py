"""From a schema to its grammar: by the native walk, or by the lowering that knows everything, which also says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from constrained.grammars import ir
from constrained.grammars.errors import MISSING, Problem, UnsatisfiableConstraint, UnsupportedConstraint
from constrained.grammars.garbage import rare_collections
from constrained.grammars.json_schema.emit.arrays import ItemsAreCompared
from constrained.grammars.json_schema.emit.lowering import SchemaLowering
from constrained.grammars.json_schema.emit.plain import lower_plain
from constrained.grammars.json_schema.options import SchemaOptions
from constrained.grammars.json_schema.parameters.lowering import ParameterLowering
from constrained.grammars.json_schema.parameters.styles import parameter_style
from constrained.grammars.json_schema.source.contents import ContentTable
from constrained.grammars.json_schema.source.dialects import select_dialect
from constrained.grammars.json_schema.source.document import SchemaDocument, SchemaNode, document_order
from constrained.grammars.json_schema.source.grounded import grounded_schema
from constrained.grammars.json_schema.source.metaschema import require_valid_schema
from constrained.grammars.json_schema.source.registry import SchemaRegistry
from constrained.grammars.json_schema.source.report import KeywordReport, noting_bounds
from constrained.grammars.json_schema.text.excluded_substrings import ExcludedSubstrings, restrict_escapes
from constrained.grammars.json_schema.text.python import KINDS
from constrained.grammars.transform.productive import productive_rules
from constrained.grammars.visit import calls, drop_unreachable, strongly_connected_components
from constrained.grammars.work import counted_work

_SHARED_FROM = 150
"""Number of subschemas from which on those with the same text are lowered once."""
_MAX_CONFLICTS = 5
_DEFAULTS = SchemaOptions()
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
def lower_schema(schema: Any, options: SchemaOptions = _DEFAULTS) -> LoweredSchema:
    r"""The grammar of the JSON texts of a schema's instances.

    Which texts of an instance: members in the order the schema declares them, then required names that it does
    not declare, then others; declared keys and listed values as `json.dumps` writes them; strings with a pattern
    or format with the escapes that `json.dumps` uses (``\uXXXX`` for non-ASCII allowed), all other strings in any
    spelling; integers without fraction and exponent, numbers with an exponent only where no bound but zero
    limits them; whitespace between tokens by the policy, none around the value. Keys that are not declared may
    come twice (readers keep the last), unless ``distinct_names`` is set or items are compared somewhere.

    Args:
        schema: an object or a boolean, as `json.loads` gives it.
        options: see there.

    Raises:
        InvalidConstraint: a malformed schema, a dangling or circular reference, a malformed pattern, or an
            unknown option.
        UnsupportedConstraint: lists every keyword that cannot be enforced, and with ``strict`` every unknown one.
        UnsatisfiableConstraint: no value satisfies the schema; names the contradictions.
        ConstraintTooLarge: too many alternatives, counts or rules; names the place.
    """
    if options.require_grounding and options.source_text:
        schema = grounded_schema(schema, options.source_text)
    task = _Task(schema, options)
    try:
        return task.lowered()
    except ItemsAreCompared:
        task.options = replace(options, distinct_names=True)
        return task.lowered()


class _Task:
    """A valid schema and how it is to be lowered: once for its grammar, and again whenever its report is read.

    Raises:
        InvalidConstraint: the schema or an option is malformed.
    """

    def __init__(self, schema: Any, options: SchemaOptions) -> None:
        self.options = options
        self.registry = SchemaRegistry(options.registry)
        dialect = select_dialect(schema, options.draft, self.registry)
        self.dialect = dialect if options.formats else dialect.without_formats
        self.is_large = require_valid_schema(schema, self.dialect) >= _SHARED_FROM
        self.schema = schema
        self.markup = parameter_style(options.style)

    def lowered(self) -> LoweredSchema:
        """The result.

        Raises:
            ItemsAreCompared: it is to be lowered again, with `distinct_names`.
        """
        grammar, lowering = self.walk(), None
        unchecked: tuple[Problem, ...] = ()
        if grammar is None:
            lowering, grammar = self.lower_whole()
            problems = lowering.diagnostics.problems.values()
            unchecked = tuple(sorted(problems, key=lambda one: document_order(self.schema, one.place)))
        if unchecked and self.options.unsupported == "refuse":
            raise _unsupported(unchecked, "remove or rewrite them, or in Python pass unsupported='check'")
        if lowering is not None:
            if self.options.strict:
                _require_known(KeywordReport(partial(self.rows, lowering), unchecked))
            _require_values(lowering, grammar)
            lowering.release()
        if self.options.ensure_ascii is not None:
            grammar = restrict_escapes(grammar, self.options.ensure_ascii)
        return LoweredSchema(grammar, KeywordReport(self.rows, unchecked), unchecked, self.dialect.name)

    def walk(self) -> ir.Grammar | None:
        """The grammar by the native walk; None if it cannot make it, or something is wrong."""
        options = self.options
        bounded = options.max_string_length is not None or options.max_items is not None
        if options.strict or options.excludes or bounded or self.markup is not None:
            return None
        return lower_plain(self.schema, self.dialect, options, self.lowering)

    def lowering(self) -> SchemaLowering:
        """What lowers any schema."""
        schema, options = self.schema, self.options
        json_text = partial(_json_text, schema, self.dialect.name, options)
        table = ContentTable(schema, options.contents, KINDS, json_text)
        ending = [self.markup.excluded] if self.markup is not None and self.markup.excluded else []
        excluded = ExcludedSubstrings((*ending, *options.excludes))
        document = SchemaDocument(
            schema, self.dialect, self.registry, require_valid_schema, table, options.source_text
        )
        return SchemaLowering(document, options, excluded, shares=self.is_large)

    def lower_whole(self) -> tuple[SchemaLowering, ir.Grammar]:
        """The grammar without the walk, and what has made it."""
        lowering = self.lowering()
        try:
            if self.markup is None:
                return lowering, lowering.run()
            return lowering, ParameterLowering(lowering, self.markup).run()
        except ItemsAreCompared:
            lowering.release()
            raise

    def rows(
        self, lowering: SchemaLowering | None = None
    ) -> Iterator[tuple[SchemaNode, list[tuple[str, bool, str]]]]:
        """The keywords of each schema, in the order of its lowering."""
        lowering = lowering or self.lower_whole()[0]
        bounds = {
            name: getattr(self.options, name) for name in ("max_digits", "max_string_length", "max_items")
        }
        keyword_rows, nodes = lowering.expansion.keyword_rows, tuple(lowering.document.parsed_nodes)
        return noting_bounds(((node, keyword_rows(node)) for node in nodes), **bounds)


def _json_text(schema: Any, draft: str, options: SchemaOptions, inner: Any) -> ir.Grammar:
    """The grammar of the JSON of a schema inside a string of another one.

    Args:
        schema: the outer schema.
        draft: its draft.
        options: its options.
        inner: the schema inside; its references may name definitions of the outer one.
    """
    whole = {**inner, "$defs": schema.get("$defs", {})} if isinstance(inner, dict) else inner
    text = json.dumps(inner)
    outer = _JSON_TEXTS.get()
    if text in outer:
        raise UnsupportedConstraint(
            "JSON inside a JSON string cannot be enforced",
            Problem("json", "contains itself, and each time its quotes are escaped once more"),
            action="make it an object instead of a string of JSON",
        )
    inner_options = SchemaOptions(
        whitespace="any" if options.whitespace == "any" else "bounded",
        draft=draft,
        property_order=options.property_order,
        formats=options.formats,
        contents=options.contents,
        max_digits=options.max_digits,
        max_string_length=options.max_string_length,
        max_items=options.max_items,
        source_text=options.source_text,
    )
    token = _JSON_TEXTS.set((*outer, text))
    try:
        return lower_schema(whole, inner_options).grammar
    finally:
        _JSON_TEXTS.reset(token)


def _require_known(report: KeywordReport) -> None:
    """Checks that the dialect defines every keyword and format."""
    unknown = [
        Problem(entry.pointer, entry.note, MISSING, entry.keyword)
        for entry in report
        if entry.status == "unknown"
    ]
    if unknown:
        raise _unsupported(unknown, "correct or remove them, or leave strict out")


def _require_values(lowering: SchemaLowering, grammar: ir.Grammar) -> None:
    """Checks that some value satisfies the schema."""
    productive = productive_rules(grammar.rules)
    if grammar.start in productive:
        return
    conflicts = list(lowering.diagnostics.conflicts.values())[:_MAX_CONFLICTS]
    rules = drop_unreachable(grammar).rules
    within = {name: calls(rules[name]).keys() - productive for name in rules if name not in productive}
    endless = any(
        len(group) > 1 or group[0] in within[group[0]] for group in strongly_connected_components(within)
    )
    reason = "every value would have to contain itself: the schema is endlessly recursive"
    reason = reason if endless else "its keywords exclude each other"
    raise UnsatisfiableConstraint(
        "no value satisfies the schema",
        conflicts or [Problem(grammar.start, reason)],
        action="change one of these places",
    )


def _unsupported(problems: Sequence[Problem], action: str) -> UnsupportedConstraint:
    count = len(problems)
    return UnsupportedConstraint(
        f"{count} keyword{'s' if count > 1 else ''} cannot be enforced", problems, action=action
    )
