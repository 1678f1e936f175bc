"""One function per keyword: each adds its keyword to the `ParsedSchema` of its schema object.

All have one signature. They return None when the keyword is enforced, or a note when it is an annotation here; a
keyword that constrains values but cannot be enforced is one of `unsupported_keywords`. Values have the types that the
meta-schema requires.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from constrained.grammars.content import CONTENT_KEYWORD
from constrained.grammars.errors import ConstraintError, InvalidConstraint, Problem, UnsupportedConstraint
from constrained.grammars.json_schema.source import constraints as f
from constrained.grammars.json_schema.source.constraints import ParsedSchema
from constrained.grammars.json_schema.source.document import SchemaNode, child_pointer
from constrained.grammars.json_schema.source.synthetic import (
    RECURSIVE_ANCHOR,
    conjunction_of,
    constraint_schema,
    enter_resource,
    negation_of,
    resolve_dynamic_ref,
)
from constrained.grammars.json_schema.text.literals import is_json_value
from constrained.grammars.json_schema.text.numbers import Bounds, decimal
from constrained.grammars.json_schema.text.patterns import (
    FORMATS,
    StringPattern,
    ecma_pattern,
    format_pattern,
    read_span_options,
    span_pattern,
)

KeywordHandler = Callable[[ParsedSchema, Any, SchemaNode], "str | None"]

SCALAR_KEYWORDS = frozenset(
    {
        "minLength", "maxLength", "pattern", "format",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    }
)  # fmt: skip
"""Keywords that constrain numbers or strings and nothing else."""


def annotation(parsed: ParsedSchema, value: Any, node: SchemaNode) -> str | None:
    """A keyword that constrains nothing."""
    return ""


def count(attribute: str) -> KeywordHandler:
    """A count that is an attribute of `TypeConstraints`: of characters, items or members."""

    def limit(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
        setattr(parsed.constraints, attribute, int(value))

    return limit


# ---------------------------------------------------------------- any value


def type_(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """The value has one of these types."""
    names = [value] if isinstance(value, str) else value
    types = 0
    for name in names:
        types |= f.TYPES[name]
    parsed.constraints.types &= types


def enum(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """The value equals one of these."""
    _enumerate(parsed, value, node, "enum")


def const(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """The value equals this one."""
    _enumerate(parsed, [value], node, "const")


def _enumerate(parsed: ParsedSchema, listed: list[Any], node: SchemaNode, keyword: str) -> None:
    if not is_json_value(listed):
        reason = "is not JSON (infinity, NaN, or a key that is not a string)"
        problem = Problem(child_pointer(node.pointer, keyword), reason, node.value[keyword])
        raise InvalidConstraint("the schema is malformed", problem)
    values, before = f.EnumValues(listed), parsed.constraints.enum_values
    parsed.constraints.enum_values = values if before is None else f.intersect_enums(before, values)


# ---------------------------------------------------------------- numbers


def bound(side: str, *, exclusive: bool = False, switch_of: str = "") -> KeywordHandler:
    """Numbers are on one side of this value.

    Args:
        side: ``"low"``: they are above it; ``"high"``.
        exclusive: the value itself is excluded.
        switch_of: in draft 4 the value says whether that of this keyword is excluded.
    """

    def limit(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
        if switch_of:
            if not value or switch_of not in node.value:
                return
            value = node.value[switch_of]
        end = decimal(value)
        limits = Bounds(end, exclusive) if side == "low" else Bounds(high=end, high_exclusive=exclusive)
        parsed.constraints.bounds = parsed.constraints.bounds.intersect_bounds(limits)

    return limit


def multiple_of(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """Numbers are multiples of this."""
    parsed.constraints.divisors += (decimal(value),)


# ---------------------------------------------------------------- strings


def pattern_(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """Strings contain a match of this ECMA-262 pattern."""
    pattern = _read_pattern(parsed, value, child_pointer(node.pointer, "pattern"), "pattern", f.STRING)
    if pattern is not None and pattern not in parsed.constraints.patterns:
        parsed.constraints.patterns += (pattern,)


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


def format_(parsed: ParsedSchema, value: Any, node: SchemaNode) -> str | None:
    """Strings have this format; an unknown name is an annotation."""
    if isinstance(node.value.get(CONTENT_KEYWORD), dict) and node.document.contents is not None:
        return f"{CONTENT_KEYWORD} says what the strings are"
    format = node.dialect.formats.get(value)
    if format is None:
        if value in FORMATS:
            return "formats are annotations here"
        return f"unknown format {value!r}"
    parsed.constraints.patterns += (format_pattern(format),)
    return None


def x_span(parsed: ParsedSchema, value: Any, node: SchemaNode) -> str | None:
    """Strings are verbatim spans of the text that values are extracted from, relaxed as the keyword says."""
    if value is False:
        return ""
    options = read_span_options(value, child_pointer(node.pointer, "x-span"))
    if node.document.source_text is None:
        reason = "needs the document: use an Extractor, or constraint.bind(document)"
        problem = Problem(child_pointer(node.pointer, "x-span"), reason, value, "x-span")
        parsed.constraints.unsupported_keywords += ((f.STRING, problem),)
    elif not node.document.source_text:
        return "any string: the document is not known yet"
    else:
        parsed.constraints.patterns += (span_pattern(node.document.source_text, options),)
    return None


# ---------------------------------------------------------------- arrays


def _items_of(parsed: ParsedSchema) -> f.ItemSchemas:
    if not parsed.constraints.items:
        parsed.constraints.items = (f.ItemSchemas(),)
    return parsed.constraints.items[0]


def prefix_items(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """Schemas of the first items, by position."""
    _items_of(parsed).prefix = node.children("prefixItems")


def items(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """The schema of all items after ``prefixItems``."""
    _items_of(parsed).additional = node.child("items")


def items_before_2020(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """Up to 2019-09: one schema for all items, or a list as in ``prefixItems``."""
    if isinstance(value, list):
        _items_of(parsed).prefix = node.children("items")
    else:
        items(parsed, value, node)


def additional_items(parsed: ParsedSchema, value: Any, node: SchemaNode) -> str | None:
    """The schema of the items after a list in ``items``."""
    if not isinstance(node.value.get("items"), list):
        return "has no effect unless items is a list"
    _items_of(parsed).additional = node.child("additionalItems")
    return None


def contains(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """At least ``minContains`` items (default 1) and at most ``maxContains`` match this."""
    counts = node.value if "minContains" in node.dialect.handlers else {}
    least, most = int(counts.get("minContains", 1)), counts.get("maxContains")
    if least or most is not None:
        matching, place = (
            f.ItemSchemas(additional=node.child("contains")),
            child_pointer(node.pointer, "contains"),
        )
        counted = f.ContainsConstraint(matching, least, None if most is None else int(most), place)
        parsed.constraints.contains_constraints = (counted,)


def count_of_contains(parsed: ParsedSchema, value: Any, node: SchemaNode) -> str | None:
    """``minContains`` and ``maxContains``: read by `contains`."""
    return None if "contains" in node.value else "has no effect without contains"


def unique_items(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """No two items of an array are equal."""
    parsed.constraints.unique_items = bool(value)


# ---------------------------------------------------------------- objects


def _members_of(parsed: ParsedSchema) -> f.MemberSchemas:
    if not parsed.constraints.members:
        parsed.constraints.members = (f.MemberSchemas(),)
    return parsed.constraints.members[0]


def properties(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """Schemas of members by key."""
    _members_of(parsed).properties = node.children_by_name("properties")


def pattern_properties(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """Schemas of members whose key contains a match of a pattern."""
    members = _members_of(parsed)
    for source in value:
        place = child_pointer(node.pointer, "patternProperties", source)
        pattern = _read_pattern(parsed, source, place, "patternProperties", f.OBJECT)
        if pattern is not None:
            members.patterns.append((pattern, node.child("patternProperties", source)))


def additional_properties(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """The schema of members whose key this schema object neither declares nor matches."""
    _members_of(parsed).additional = node.child("additionalProperties")


def required(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """Keys that must be present."""
    parsed.constraints.required = tuple(dict.fromkeys(value))


def property_names(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """The schema of every key."""
    parsed.constraints.property_names += (node.child("propertyNames"),)


def dependent_required(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """Keys that must be present if a key is."""
    _depend_on_names(parsed, node, "dependentRequired", value)


def dependent_schemas(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """A schema that the whole object must satisfy if a key is present."""
    for name in value:
        _depend(parsed, node, "dependentSchemas", name, (), node.child("dependentSchemas", name))


def dependencies(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """Up to draft 7: ``dependentRequired`` and ``dependentSchemas`` in one."""
    lists = {name: needed for name, needed in value.items() if isinstance(needed, list)}
    _depend_on_names(parsed, node, "dependencies", lists)
    for name in value:
        if name not in lists:
            _depend(parsed, node, "dependencies", name, (), node.child("dependencies", name))


def _depend_on_names(
    parsed: ParsedSchema, node: SchemaNode, keyword: str, lists: Mapping[str, Sequence[str]]
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
                node.synthetic(f"{keyword}: without {key}", absent),
                node.synthetic(f"{keyword}: with {key}", present),
            ]
            parsed.any_of += ((keyword, branches),)
        else:
            for name in names:
                _depend(parsed, node, keyword, name, needed)


def _depend(
    parsed: ParsedSchema, node: SchemaNode, keyword: str, name: str, needed: Sequence[str], *also: SchemaNode
) -> None:
    """Either the key is absent, or it is present, so are the needed ones, and the schema holds."""
    absent = node.synthetic(f"{keyword} without {name}", {"properties": {name: False}})
    required = {"type": "object", "required": [name, *needed]}
    present = node.synthetic(f"{keyword} with {name}", required)
    if also:
        present = constraint_schema(node, f"{keyword} {name}", f.TypeConstraints(), (present, *also))
    parsed.any_of += ((keyword, [absent, present]),)


# ---------------------------------------------------------------- schemas on the same value


def ref(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """The target of the reference must hold too."""
    parsed.all_of += (enter_resource(node, node.document.resolve(node, value)),)


def dynamic_ref(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """The outermost schema of the dynamic scope with this anchor, if the static target declares it as dynamic."""
    target = node.document.resolve(node, value)
    anchor = value.partition("#")[2]
    if isinstance(target.value, dict) and anchor and target.value.get("$dynamicAnchor") == anchor:
        parsed.all_of += (resolve_dynamic_ref(node, anchor, target),)
    else:
        parsed.all_of += (enter_resource(node, target),)


def recursive_ref(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """2019-09: the outermost resource with ``$recursiveAnchor``, if this resource has it too."""
    target = node.document.resolve(node, value)
    if isinstance(target.value, dict) and target.value.get("$recursiveAnchor") is True:
        target = resolve_dynamic_ref(node, RECURSIVE_ANCHOR, target)
    parsed.all_of += (target,)


def all_of(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """All of these must hold."""
    parsed.all_of += tuple(node.children("allOf"))


def any_of(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """At least one of these must hold."""
    parsed.any_of += (("anyOf", node.children("anyOf")),)


def one_of(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """Exactly one of these must hold."""
    parsed.one_of += (node.children("oneOf"),)


def not_(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """This must not hold."""
    parsed.all_of += (negation_of(node.child("not")),)


def if_(parsed: ParsedSchema, value: Any, node: SchemaNode) -> str | None:
    """Selects ``then`` or ``else``."""
    arms = [keyword for keyword in ("then", "else") if keyword in node.value]
    condition = node.child("if")
    if not arms:
        parsed.annotating += (condition,)
        return "has no effect without then and else"
    branches = [condition, negation_of(condition)]
    if "then" in arms:
        branches[0] = conjunction_of([condition, node.child("then")])
    if "else" in arms:
        branches[1] = conjunction_of([negation_of(condition), node.child("else")])
    parsed.any_of += (("if", branches),)
    return None


def then(parsed: ParsedSchema, value: Any, node: SchemaNode) -> str | None:
    """``then`` and ``else``: read by `if_`."""
    return None if "if" in node.value else "has no effect without if"


# ---------------------------------------------------------------- unevaluated members and items


def unevaluated(parsed: ParsedSchema, value: Any, node: SchemaNode) -> None:
    """The schema of members or items that no subschema evaluates."""
    if value is not True and value != {}:
        parsed.unevaluated = node
