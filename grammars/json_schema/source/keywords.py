"""One function per keyword: each adds its keyword to the `ParsedSchema` of its schema object.

All have one signature. They return None when the keyword is enforced, or a note when it is an annotation here; a
keyword that constrains values but cannot be enforced goes through `mark_unsupported`. Values have the types that the
meta-schema requires.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from constrained.grammars.content import CONTENT_KEYWORD
from constrained.grammars.errors import ConstraintError, InvalidConstraint, Problem, UnsupportedConstraint
from constrained.grammars.json_schema.source import constraints as f
from constrained.grammars.json_schema.source.constraints import ParsedSchema
from constrained.grammars.json_schema.source.document import SchemaDocument, SchemaNode, child_pointer
from constrained.grammars.json_schema.source.dynamic_refs import (
    RECURSIVE_ANCHOR,
    enter_resource,
    resolve_dynamic_ref,
)
from constrained.grammars.json_schema.source.synthetic import conjunction_of, negation_of
from constrained.grammars.json_schema.text.formats import FORMATS
from constrained.grammars.json_schema.text.literals import is_json_value
from constrained.grammars.json_schema.text.numbers import Bounds, decimal
from constrained.grammars.json_schema.text.patterns import StringPattern, ecma_pattern, format_pattern
from constrained.grammars.json_schema.text.spans import read_span_options, span_pattern

KeywordHandler = Callable[[ParsedSchema, Any, SchemaNode, SchemaDocument], "str | None"]

SCALAR_KEYWORDS = frozenset(
    {
        "minLength", "maxLength", "pattern", "format",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    }
)  # fmt: skip
"""Keywords that constrain numbers or strings and nothing else."""


def mark_unsupported(
    parsed: ParsedSchema, node: SchemaNode, keyword: str, reason: str, types: int = f.EVERY_TYPE
) -> None:
    """Records a keyword that cannot be enforced; it is reported only where values of these types are possible."""
    problem = Problem(child_pointer(node.pointer, keyword), reason, node.value[keyword], keyword)
    parsed.constraints.unsupported_keywords += ((types, problem),)


def annotation(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """A keyword that constrains nothing."""
    return ""


# ---------------------------------------------------------------- any value


def type_(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """The value has one of these types."""
    names = [value] if isinstance(value, str) else value
    types = 0
    for name in names:
        types |= f.TYPES[name]
    parsed.constraints.types &= types
    return None


def enum(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """The value equals one of these."""
    _must_be_json(value, node, "enum")
    _enumerate(parsed, f.EnumValues(value))
    return None


def const(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """The value equals this one."""
    _must_be_json(value, node, "const")
    _enumerate(parsed, f.EnumValues((value,)))
    return None


def _enumerate(parsed: ParsedSchema, values: f.EnumValues) -> None:
    listed = parsed.constraints.enum_values
    parsed.constraints.enum_values = values if listed is None else f.intersect_enums(listed, values)


def _must_be_json(value: Any, node: SchemaNode, keyword: str) -> None:
    if not is_json_value(value):
        raise InvalidConstraint(
            "the schema is malformed",
            Problem(
                child_pointer(node.pointer, keyword),
                "is not JSON (infinity, NaN, or a key that is not a string)",
                value,
            ),
        )


# ---------------------------------------------------------------- numbers


def minimum(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Numbers are at least this."""
    _limit(parsed, Bounds(low=decimal(value)))
    return None


def maximum(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Numbers are at most this."""
    _limit(parsed, Bounds(high=decimal(value)))
    return None


def exclusive_minimum(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Numbers are above this."""
    _limit(parsed, Bounds(low=decimal(value), low_exclusive=True))
    return None


def exclusive_maximum(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Numbers are below this."""
    _limit(parsed, Bounds(high=decimal(value), high_exclusive=True))
    return None


def exclusive_minimum_4(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Draft 4: a switch that makes ``minimum`` exclusive."""
    if value and "minimum" in node.value:
        _limit(parsed, Bounds(low=decimal(node.value["minimum"]), low_exclusive=True))
    return None


def exclusive_maximum_4(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Draft 4: a switch that makes ``maximum`` exclusive."""
    if value and "maximum" in node.value:
        _limit(parsed, Bounds(high=decimal(node.value["maximum"]), high_exclusive=True))
    return None


def _limit(parsed: ParsedSchema, bounds: Bounds) -> None:
    parsed.constraints.bounds = parsed.constraints.bounds.intersect_bounds(bounds)


def multiple_of(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Numbers are multiples of this."""
    parsed.constraints.divisors += (decimal(value),)
    return None


# ---------------------------------------------------------------- strings


def min_length(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Strings have at least this number of code points."""
    parsed.constraints.min_length = int(value)
    return None


def max_length(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Strings have at most this number of code points."""
    parsed.constraints.max_length = int(value)
    return None


def pattern_(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Strings contain a match of this ECMA-262 pattern."""
    pattern = _read_pattern(parsed, value, child_pointer(node.pointer, "pattern"), "pattern", f.STRING)
    if pattern is not None and pattern not in parsed.constraints.patterns:
        parsed.constraints.patterns += (pattern,)
    return None


def _read_pattern(
    parsed: ParsedSchema, source: str, place: str, keyword: str, types: int
) -> StringPattern | None:
    """Parses a pattern; errors get its place in the schema."""
    try:
        return ecma_pattern(source)
    except ConstraintError as error:
        detail = error.problems[0]
        problem = Problem(place, f"{detail.reason} (at {detail.place})", source, keyword, detail.excerpt)
        if not isinstance(error, UnsupportedConstraint):
            raise InvalidConstraint(
                "the schema is malformed", problem, action="correct the pattern"
            ) from None
        parsed.constraints.unsupported_keywords += ((types, problem),)
        return None


def format_(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Strings have this format; an unknown name is an annotation."""
    if isinstance(node.value.get(CONTENT_KEYWORD), dict) and document.contents is not None:
        return f"{CONTENT_KEYWORD} says what the strings are"
    format = node.dialect.formats.get(value)
    if format is None:
        if value in FORMATS:
            return "formats are annotations here"
        return f"unknown format {value!r}"
    parsed.constraints.patterns += (format_pattern(format),)
    return None


def x_span(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Strings are verbatim spans of the text that values are extracted from, relaxed as the keyword says."""
    if value is False:
        return ""
    options = read_span_options(value, child_pointer(node.pointer, "x-span"))
    if document.source_text is None:
        reason = "needs the document: use an Extractor, or constraint.bind(document)"
        mark_unsupported(parsed, node, "x-span", reason, f.STRING)
    elif not document.source_text:
        return "any string: the document is not known yet"
    else:
        parsed.constraints.patterns += (span_pattern(document.source_text, options),)
    return None


# ---------------------------------------------------------------- arrays


def _items_of(parsed: ParsedSchema) -> f.ItemSchemas:
    if not parsed.constraints.items:
        parsed.constraints.items = (f.ItemSchemas(),)
    return parsed.constraints.items[0]


def prefix_items(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Schemas of the first items, by position."""
    _items_of(parsed).prefix = [document.child(node, "prefixItems", i) for i in range(len(value))]
    return None


def items(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """The schema of all items after ``prefixItems``."""
    _items_of(parsed).additional = document.child(node, "items")
    return None


def items_before_2020(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Up to 2019-09: one schema for all items, or a list as in ``prefixItems``."""
    if not isinstance(value, list):
        return items(parsed, value, node, document)
    _items_of(parsed).prefix = [document.child(node, "items", i) for i in range(len(value))]
    return None


def additional_items(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """The schema of the items after a list in ``items``."""
    if not isinstance(node.value.get("items"), list):
        return "has no effect unless items is a list"
    _items_of(parsed).additional = document.child(node, "additionalItems")
    return None


def min_items(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Arrays have at least this number of items."""
    parsed.constraints.min_items = int(value)
    return None


def max_items(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Arrays have at most this number of items."""
    parsed.constraints.max_items = int(value)
    return None


def contains(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """At least ``minContains`` items (default 1) and at most ``maxContains`` match this."""
    counts = node.value if "minContains" in node.dialect.handlers else {}
    least, most = int(counts.get("minContains", 1)), counts.get("maxContains")
    if least or most is not None:
        items, place = (
            f.ItemSchemas(additional=document.child(node, "contains")),
            child_pointer(node.pointer, "contains"),
        )
        parsed.constraints.contains_constraints = (
            f.ContainsConstraint(items, least, None if most is None else int(most), place),
        )
    return None


def count_of_contains(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """``minContains`` and ``maxContains``: read by `contains`."""
    return None if "contains" in node.value else "has no effect without contains"


def unique_items(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """No two items of an array are equal."""
    parsed.constraints.unique_items = bool(value)
    return None


# ---------------------------------------------------------------- objects


def _members_of(parsed: ParsedSchema) -> f.MemberSchemas:
    if not parsed.constraints.members:
        parsed.constraints.members = (f.MemberSchemas(),)
    return parsed.constraints.members[0]


def properties(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Schemas of members by key."""
    _members_of(parsed).properties = document.children(node, "properties", value)
    return None


def pattern_properties(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Schemas of members whose key contains a match of a pattern."""
    members = _members_of(parsed)
    for source in value:
        place = child_pointer(node.pointer, "patternProperties", source)
        pattern = _read_pattern(parsed, source, place, "patternProperties", f.OBJECT)
        if pattern is not None:
            members.patterns.append((pattern, document.child(node, "patternProperties", source)))
    return None


def additional_properties(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """The schema of members whose key this schema object neither declares nor matches."""
    _members_of(parsed).additional = document.child(node, "additionalProperties")
    return None


def required(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Keys that must be present."""
    parsed.constraints.required = tuple(dict.fromkeys(value))
    return None


def property_names(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """The schema of every key."""
    parsed.constraints.property_names += (document.child(node, "propertyNames"),)
    return None


def min_properties(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Objects have at least this number of members."""
    parsed.constraints.min_properties = int(value)
    return None


def max_properties(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Objects have at most this number of members."""
    parsed.constraints.max_properties = int(value)
    return None


def dependent_required(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Keys that must be present if a key is."""
    _depend_on_names(parsed, node, document, "dependentRequired", value)
    return None


def dependent_schemas(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """A schema that the whole object must satisfy if a key is present."""
    for name in value:
        schema = document.child(node, "dependentSchemas", name)
        _depend(
            parsed, node, document, "dependentSchemas", name, {"type": "object", "required": [name]}, schema
        )
    return None


def dependencies(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Up to draft 7: ``dependentRequired`` and ``dependentSchemas`` in one."""
    lists = {name: needed for name, needed in value.items() if isinstance(needed, list)}
    _depend_on_names(parsed, node, document, "dependencies", lists)
    for name in value:
        if name not in lists:
            schema = document.child(node, "dependencies", name)
            _depend(
                parsed, node, document, "dependencies", name, {"type": "object", "required": [name]}, schema
            )
    return None


def _depend_on_names(
    parsed: ParsedSchema,
    node: SchemaNode,
    document: SchemaDocument,
    keyword: str,
    lists: Mapping[str, Sequence[str]],
) -> None:
    """Where some keys are present, so are others.

    Several keys that need one and the same key are one alternative, not one each: either that key is present, or all are absent.
    """
    dependents: dict[tuple[str, ...], list[str]] = {}
    for name, needed in lists.items():
        dependents.setdefault(tuple(needed), []).append(name)
    for needed, names in dependents.items():
        if len(needed) == 1 < len(names):
            (key,) = needed
            absent = {"properties": dict.fromkeys((key, *names), False)}
            present = {"type": "object", "required": [key]}
            branches = [
                document.synthetic(node, f"{keyword}: without {key}", absent),
                document.synthetic(node, f"{keyword}: with {key}", present),
            ]
            parsed.any_of += ((keyword, branches),)
        else:
            for name in names:
                _depend(
                    parsed, node, document, keyword, name, {"type": "object", "required": [name, *needed]}
                )


def _depend(
    parsed: ParsedSchema,
    node: SchemaNode,
    document: SchemaDocument,
    keyword: str,
    name: str,
    present: Any,
    *also: SchemaNode,
) -> None:
    """Either the key is absent, or it is present and its dependency holds."""
    absent = document.synthetic(node, f"{keyword} without {name}", {"properties": {name: False}})
    present_node = document.synthetic(node, f"{keyword} with {name}", present)
    if also:
        both = document.synthetic(node, f"{keyword} {name}", {})
        both.parsed = ParsedSchema()
        both.parsed.all_of = (present_node, *also)
        present_node = both
    parsed.any_of += ((keyword, [absent, present_node]),)


# ---------------------------------------------------------------- schemas on the same value


def ref(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """The target of the reference must hold too."""
    parsed.all_of += (enter_resource(document, node, document.resolve(node, value)),)
    return None


def dynamic_ref(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """The outermost schema of the dynamic scope with this anchor, if the static target declares it as dynamic."""
    target = document.resolve(node, value)
    anchor = value.partition("#")[2]
    if isinstance(target.value, dict) and anchor and target.value.get("$dynamicAnchor") == anchor:
        parsed.all_of += (resolve_dynamic_ref(document, node, anchor, target),)
    else:
        parsed.all_of += (enter_resource(document, node, target),)
    return None


def recursive_ref(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """2019-09: the outermost resource with ``$recursiveAnchor``, if this resource has it too."""
    target = document.resolve(node, value)
    if isinstance(target.value, dict) and target.value.get("$recursiveAnchor") is True:
        target = resolve_dynamic_ref(document, node, RECURSIVE_ANCHOR, target)
    parsed.all_of += (target,)
    return None


def all_of(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """All of these must hold."""
    parsed.all_of += tuple(document.child(node, "allOf", i) for i in range(len(value)))
    return None


def any_of(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """At least one of these must hold."""
    parsed.any_of += (("anyOf", [document.child(node, "anyOf", i) for i in range(len(value))]),)
    return None


def one_of(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Exactly one of these must hold."""
    parsed.one_of += ([document.child(node, "oneOf", i) for i in range(len(value))],)
    return None


def not_(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """This must not hold."""
    parsed.all_of += (negation_of(document.child(node, "not")),)
    return None


def if_(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Selects ``then`` or ``else``."""
    arms = [keyword for keyword in ("then", "else") if keyword in node.value]
    condition = document.child(node, "if")
    if not arms:
        parsed.annotating += (condition,)
        return "has no effect without then and else"
    branches = [condition, negation_of(condition)]
    if "then" in arms:
        branches[0] = conjunction_of(document, [condition, document.child(node, "then")])
    if "else" in arms:
        branches[1] = conjunction_of(document, [negation_of(condition), document.child(node, "else")])
    parsed.any_of += (("if", branches),)
    return None


def then(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """``then`` and ``else``: read by `if_`."""
    return None if "if" in node.value else "has no effect without if"


# ---------------------------------------------------------------- unevaluated members and items


def unevaluated(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """The schema of members or items that no subschema evaluates."""
    if value is not True and value != {}:
        parsed.unevaluated = node
    return None
