"""One function per keyword: each writes what the keyword says into the facts of its schema object.

All have one signature. They return None when what they say is enforced, or a note when it is an annotation
here; a keyword that limits values and cannot be enforced goes through `mark_unsupported`. Values have the types that the
meta-schema demands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grammars.errors import ConstraintError, InvalidConstraint, Problem, UnsupportedConstraint
from grammars.json_schema.source import constraints as f
from grammars.json_schema.source.constraints import ParsedSchema
from grammars.json_schema.source.document import SchemaDocument, SchemaNode, child_pointer
from grammars.json_schema.source.dynamic_refs import RECURSIVE_ANCHOR, enter_resource, resolve_dynamic_ref
from grammars.json_schema.source.synthetic import conjunction_of, negation_of
from grammars.json_schema.text.formats import FORMATS
from grammars.json_schema.text.literals import is_json_value
from grammars.json_schema.text.numbers import Bounds, decimal
from grammars.json_schema.text.patterns import StringPattern, ecma_pattern, format_pattern

KeywordHandler = Callable[[ParsedSchema, Any, SchemaNode, SchemaDocument], "str | None"]


def mark_unsupported(
    parsed: ParsedSchema, node: SchemaNode, keyword: str, reason: str, types: int = f.EVERY_TYPE
) -> None:
    """Notes a keyword that cannot be enforced; it matters only where values of these types are possible."""
    problem = Problem(child_pointer(node.pointer, keyword), reason, node.value[keyword], keyword)
    parsed.constraints.unsupported_keywords += ((types, problem),)


def annotation(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """A keyword that limits nothing."""
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
    parsed.constraints.enum_values = (
        list(value)
        if parsed.constraints.enum_values is None
        else f.intersect_enums(parsed.constraints.enum_values, value)
    )
    return None


def const(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """The value equals this one."""
    _must_be_json(value, node, "const")
    parsed.constraints.enum_values = (
        [value]
        if parsed.constraints.enum_values is None
        else f.intersect_enums(parsed.constraints.enum_values, [value])
    )
    return None


def _must_be_json(value: Any, node: SchemaNode, keyword: str) -> None:
    if not is_json_value(value):
        raise InvalidConstraint(
            "the schema is malformed",
            Problem(
                child_pointer(node.pointer, keyword),
                "is not JSON (infinity, NaN, or a key that is no string)",
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
    """Strings have at least so many code points."""
    parsed.constraints.min_length = int(value)
    return None


def max_length(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Strings have at most so many code points."""
    parsed.constraints.max_length = int(value)
    return None


def pattern_(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Strings contain a match of this ECMA-262 pattern."""
    found = _read_pattern(parsed, value, child_pointer(node.pointer, "pattern"), "pattern", f.STRING)
    if found is not None and found not in parsed.constraints.patterns:
        parsed.constraints.patterns += (found,)
    return None


def _read_pattern(
    parsed: ParsedSchema, source: str, place: str, keyword: str, types: int
) -> StringPattern | None:
    """A pattern that stands in the schema; what is wrong with it is told with its place there."""
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
    """Strings have this format; a name that is not known says nothing."""
    found = node.dialect.formats.get(value)
    if found is None:
        if value in FORMATS:
            return "formats are annotations here"
        return f"unknown format {value!r}"
    parsed.constraints.patterns += (format_pattern(found),)
    return None


# ---------------------------------------------------------------- arrays


def _items_of(parsed: ParsedSchema) -> f.ItemSchemas:
    if not parsed.constraints.items:
        parsed.constraints.items = (f.ItemSchemas(),)
    return parsed.constraints.items[0]


def prefix_items(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """The first items, one by one."""
    _items_of(parsed).prefix = [document.child(node, "prefixItems", i) for i in range(len(value))]
    return None


def items(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """All items after the first ones."""
    _items_of(parsed).additional = document.child(node, "items")
    return None


def items_before_2020(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Up to 2019-09 a list of schemas stands here for what ``prefixItems`` is now."""
    if not isinstance(value, list):
        return items(parsed, value, node, document)
    _items_of(parsed).prefix = [document.child(node, "items", i) for i in range(len(value))]
    return None


def additional_items(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Items after those of a list of schemas in ``items``."""
    if not isinstance(node.value.get("items"), list):
        return "says nothing without a list of items"
    _items_of(parsed).additional = document.child(node, "additionalItems")
    return None


def min_items(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Arrays have at least so many items."""
    parsed.constraints.min_items = int(value)
    return None


def max_items(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Arrays have at most so many items."""
    parsed.constraints.max_items = int(value)
    return None


def contains(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """So many items satisfy this: one at least, where nothing else is said."""
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
    """How many items satisfy ``contains``: said with it."""
    return None if "contains" in node.value else "says nothing without contains"


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
    """Members by key."""
    _members_of(parsed).properties = document.children(node, "properties", value)
    return None


def pattern_properties(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Members whose key contains a match of a pattern."""
    members = _members_of(parsed)
    for source in value:
        place = child_pointer(node.pointer, "patternProperties", source)
        found = _read_pattern(parsed, source, place, "patternProperties", f.OBJECT)
        if found is not None:
            members.patterns.append((found, document.child(node, "patternProperties", source)))
    return None


def additional_properties(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Members whose key is neither declared nor matched in this schema object."""
    _members_of(parsed).additional = document.child(node, "additionalProperties")
    return None


def required(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Keys that must be there."""
    parsed.constraints.required = tuple(dict.fromkeys(value))
    return None


def property_names(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Every key, as a string."""
    parsed.constraints.property_names += (document.child(node, "propertyNames"),)
    return None


def min_properties(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Objects have at least so many members."""
    parsed.constraints.min_properties = int(value)
    return None


def max_properties(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Objects have at most so many members."""
    parsed.constraints.max_properties = int(value)
    return None


def dependent_required(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """Keys that a key brings with it."""
    for name, needed in value.items():
        _depend(
            parsed, node, document, "dependentRequired", name, {"type": "object", "required": [name, *needed]}
        )
    return None


def dependent_schemas(
    parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument
) -> str | None:
    """A schema for the whole object that a key brings with it."""
    for name in value:
        schema = document.child(node, "dependentSchemas", name)
        _depend(
            parsed, node, document, "dependentSchemas", name, {"type": "object", "required": [name]}, schema
        )
    return None


def dependencies(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Up to draft 7: names that a name requires, or a schema that it brings."""
    for name, needed in value.items():
        if isinstance(needed, list):
            _depend(
                parsed, node, document, "dependencies", name, {"type": "object", "required": [name, *needed]}
            )
        else:
            schema = document.child(node, "dependencies", name)
            _depend(
                parsed, node, document, "dependencies", name, {"type": "object", "required": [name]}, schema
            )
    return None


def _depend(
    parsed: ParsedSchema,
    node: SchemaNode,
    document: SchemaDocument,
    keyword: str,
    name: str,
    present: Any,
    *also: SchemaNode,
) -> None:
    """Either the key is absent, or it is present and brings what depends on it."""
    absent = document.made(node, f"{keyword} without {name}", {"properties": {name: False}})
    given = document.made(node, f"{keyword} with {name}", present)
    if also:
        both = document.made(node, f"{keyword} {name}", {})
        both.parsed = ParsedSchema()
        both.parsed.all_of = (given, *also)
        given = both
    parsed.any_of += ((keyword, [absent, given]),)


# ---------------------------------------------------------------- schemas on the same value


def ref(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """The schema that this points at holds too."""
    parsed.all_of += (enter_resource(document, node, document.resolve(node, value)),)
    return None


def dynamic_ref(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """The first schema on the way here with the anchor that this points at; or just what it points at."""
    target = document.resolve(node, value)
    anchor = value.partition("#")[2]
    if isinstance(target.value, dict) and anchor and target.value.get("$dynamicAnchor") == anchor:
        parsed.all_of += (resolve_dynamic_ref(document, node, anchor, target),)
    else:
        parsed.all_of += (enter_resource(document, node, target),)
    return None


def recursive_ref(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """2019-09: the first resource on the way here that lets itself be extended; or this one, if it does not."""
    target = document.resolve(node, value)
    if isinstance(target.value, dict) and target.value.get("$recursiveAnchor") is True:
        target = resolve_dynamic_ref(document, node, RECURSIVE_ANCHOR, target)
    parsed.all_of += (target,)
    return None


def all_of(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """All of these hold."""
    parsed.all_of += tuple(document.child(node, "allOf", i) for i in range(len(value)))
    return None


def any_of(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """One of these holds, or more."""
    parsed.any_of += (("anyOf", [document.child(node, "anyOf", i) for i in range(len(value))]),)
    return None


def one_of(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Exactly one of these holds."""
    parsed.one_of += ([document.child(node, "oneOf", i) for i in range(len(value))],)
    return None


def not_(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """This does not hold."""
    parsed.all_of += (negation_of(document.child(node, "not")),)
    return None


def if_(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Says nothing alone; chooses between ``then`` and ``else``."""
    arms = [keyword for keyword in ("then", "else") if keyword in node.value]
    given = document.child(node, "if")
    if not arms:
        parsed.annotating += (given,)
        return "says nothing without then and else"
    branches = [given, negation_of(given)]
    if "then" in arms:
        branches[0] = conjunction_of(document, [given, document.child(node, "then")])
    if "else" in arms:
        branches[1] = conjunction_of(document, [negation_of(given), document.child(node, "else")])
    parsed.any_of += (("if", branches),)
    return None


def then(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """What holds when ``if`` does, or does not: said with it."""
    return None if "if" in node.value else "says nothing without if"


# ---------------------------------------------------------------- what other keywords leave


def unevaluated(parsed: ParsedSchema, value: Any, node: SchemaNode, document: SchemaDocument) -> str | None:
    """Members or items of which no subschema that holds speaks."""
    if value is not True and value != {}:
        parsed.unevaluated = node
    return None
