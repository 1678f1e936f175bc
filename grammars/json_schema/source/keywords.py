"""One function per keyword: each writes what the keyword says into the facts of its schema object.

All have one signature. They return None when what they say is enforced, or a note when it is an annotation
here; a keyword that limits values and cannot be enforced goes through `refuse`. Values have the types that the
meta-schema demands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grammars.errors import ConstraintError, InvalidConstraint, Problem, UnsupportedConstraint
from grammars.json_schema.source import constraints as f
from grammars.json_schema.source.constraints import Facts
from grammars.json_schema.source.document import Document, Node, step
from grammars.json_schema.source.dynamic_refs import RECURSIVE, entered, first_with
from grammars.json_schema.source.synthetic import negated, together
from grammars.json_schema.text.formats import FORMATS
from grammars.json_schema.text.literals import writable
from grammars.json_schema.text.numbers import Bounds, decimal
from grammars.json_schema.text.patterns import Pattern, format_pattern, pattern

Keyword = Callable[[Facts, Any, Node, Document], "str | None"]


def refuse(facts: Facts, node: Node, keyword: str, reason: str, types: int = f.EVERY_TYPE) -> None:
    """Notes a keyword that cannot be enforced; it matters only where values of these types are possible."""
    problem = Problem(step(node.pointer, keyword), reason, node.value[keyword], keyword)
    facts.shape.problems += ((types, problem),)


def annotation(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """A keyword that limits nothing."""
    return ""


# ---------------------------------------------------------------- any value


def type_(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """The value has one of these types."""
    names = [value] if isinstance(value, str) else value
    types = 0
    for name in names:
        types |= f.TYPES[name]
    facts.shape.types &= types
    return None


def enum(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """The value equals one of these."""
    _must_be_json(value, node, "enum")
    facts.shape.values = list(value) if facts.shape.values is None else f.common(facts.shape.values, value)
    return None


def const(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """The value equals this one."""
    _must_be_json(value, node, "const")
    facts.shape.values = [value] if facts.shape.values is None else f.common(facts.shape.values, [value])
    return None


def _must_be_json(value: Any, node: Node, keyword: str) -> None:
    if not writable(value):
        raise InvalidConstraint(
            "the schema is malformed",
            Problem(
                step(node.pointer, keyword), "is not JSON (infinity, NaN, or a key that is no string)", value
            ),
        )


# ---------------------------------------------------------------- numbers


def minimum(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Numbers are at least this."""
    _limit(facts, Bounds(low=decimal(value)))
    return None


def maximum(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Numbers are at most this."""
    _limit(facts, Bounds(high=decimal(value)))
    return None


def exclusive_minimum(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Numbers are above this."""
    _limit(facts, Bounds(low=decimal(value), low_strict=True))
    return None


def exclusive_maximum(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Numbers are below this."""
    _limit(facts, Bounds(high=decimal(value), high_strict=True))
    return None


def exclusive_minimum_4(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Draft 4: a switch that makes ``minimum`` exclusive."""
    if value and "minimum" in node.value:
        _limit(facts, Bounds(low=decimal(node.value["minimum"]), low_strict=True))
    return None


def exclusive_maximum_4(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Draft 4: a switch that makes ``maximum`` exclusive."""
    if value and "maximum" in node.value:
        _limit(facts, Bounds(high=decimal(node.value["maximum"]), high_strict=True))
    return None


def _limit(facts: Facts, bounds: Bounds) -> None:
    facts.shape.bounds = facts.shape.bounds.meet(bounds)


def multiple_of(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Numbers are multiples of this."""
    facts.shape.multiples += (decimal(value),)
    return None


# ---------------------------------------------------------------- strings


def min_length(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Strings have at least so many code points."""
    facts.shape.min_length = int(value)
    return None


def max_length(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Strings have at most so many code points."""
    facts.shape.max_length = int(value)
    return None


def pattern_(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Strings contain a match of this ECMA-262 pattern."""
    found = _read_pattern(facts, value, step(node.pointer, "pattern"), "pattern", f.STRING)
    if found is not None and found not in facts.shape.patterns:
        facts.shape.patterns += (found,)
    return None


def _read_pattern(facts: Facts, source: str, place: str, keyword: str, types: int) -> Pattern | None:
    """A pattern that stands in the schema; what is wrong with it is told with its place there."""
    try:
        return pattern(source)
    except ConstraintError as error:
        detail = error.problems[0]
        problem = Problem(place, f"{detail.reason} (at {detail.place})", source, keyword, detail.excerpt)
        if not isinstance(error, UnsupportedConstraint):
            raise InvalidConstraint(
                "the schema is malformed", problem, action="correct the pattern"
            ) from None
        facts.shape.problems += ((types, problem),)
        return None


def format_(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Strings have this format; a name that is not known says nothing."""
    found = node.draft.formats.get(value)
    if found is None:
        if value in FORMATS:
            return "formats are annotations here"
        return f"unknown format {value!r}"
    facts.shape.patterns += (format_pattern(found),)
    return None


# ---------------------------------------------------------------- arrays


def _items_of(facts: Facts) -> f.Items:
    if not facts.shape.items:
        facts.shape.items = (f.Items(),)
    return facts.shape.items[0]


def prefix_items(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """The first items, one by one."""
    _items_of(facts).prefix = [document.child(node, "prefixItems", i) for i in range(len(value))]
    return None


def items(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """All items after the first ones."""
    _items_of(facts).rest = document.child(node, "items")
    return None


def items_before_2020(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Up to 2019-09 a list of schemas stands here for what ``prefixItems`` is now."""
    if not isinstance(value, list):
        return items(facts, value, node, document)
    _items_of(facts).prefix = [document.child(node, "items", i) for i in range(len(value))]
    return None


def additional_items(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Items after those of a list of schemas in ``items``."""
    if not isinstance(node.value.get("items"), list):
        return "says nothing without a list of items"
    _items_of(facts).rest = document.child(node, "additionalItems")
    return None


def min_items(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Arrays have at least so many items."""
    facts.shape.min_items = int(value)
    return None


def max_items(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Arrays have at most so many items."""
    facts.shape.max_items = int(value)
    return None


def contains(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """So many items satisfy this: one at least, where nothing else is said."""
    counts = node.value if "minContains" in node.draft.table else {}
    least, most = int(counts.get("minContains", 1)), counts.get("maxContains")
    if least or most is not None:
        items, place = f.Items(rest=document.child(node, "contains")), step(node.pointer, "contains")
        facts.shape.counted = (f.Counted(items, least, None if most is None else int(most), place),)
    return None


def count_of_contains(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """How many items satisfy ``contains``: said with it."""
    return None if "contains" in node.value else "says nothing without contains"


def unique_items(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """No two items of an array are equal."""
    facts.shape.unique = bool(value)
    return None


# ---------------------------------------------------------------- objects


def _members_of(facts: Facts) -> f.Members:
    if not facts.shape.members:
        facts.shape.members = (f.Members(),)
    return facts.shape.members[0]


def properties(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Members by key."""
    _members_of(facts).properties = document.children(node, "properties", value)
    return None


def pattern_properties(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Members whose key contains a match of a pattern."""
    members = _members_of(facts)
    for source in value:
        place = step(node.pointer, "patternProperties", source)
        found = _read_pattern(facts, source, place, "patternProperties", f.OBJECT)
        if found is not None:
            members.patterns.append((found, document.child(node, "patternProperties", source)))
    return None


def additional_properties(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Members whose key is neither declared nor matched in this schema object."""
    _members_of(facts).additional = document.child(node, "additionalProperties")
    return None


def required(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Keys that must be there."""
    facts.shape.required = tuple(dict.fromkeys(value))
    return None


def property_names(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Every key, as a string."""
    facts.shape.names += (document.child(node, "propertyNames"),)
    return None


def min_properties(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Objects have at least so many members."""
    facts.shape.min_members = int(value)
    return None


def max_properties(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Objects have at most so many members."""
    facts.shape.max_members = int(value)
    return None


def dependent_required(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Keys that a key brings with it."""
    for name, needed in value.items():
        _depend(
            facts, node, document, "dependentRequired", name, {"type": "object", "required": [name, *needed]}
        )
    return None


def dependent_schemas(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """A schema for the whole object that a key brings with it."""
    for name in value:
        schema = document.child(node, "dependentSchemas", name)
        _depend(
            facts, node, document, "dependentSchemas", name, {"type": "object", "required": [name]}, schema
        )
    return None


def dependencies(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Up to draft 7: names that a name requires, or a schema that it brings."""
    for name, needed in value.items():
        if isinstance(needed, list):
            _depend(
                facts, node, document, "dependencies", name, {"type": "object", "required": [name, *needed]}
            )
        else:
            schema = document.child(node, "dependencies", name)
            _depend(
                facts, node, document, "dependencies", name, {"type": "object", "required": [name]}, schema
            )
    return None


def _depend(
    facts: Facts, node: Node, document: Document, keyword: str, name: str, present: Any, *also: Node
) -> None:
    """Either the key is absent, or it is present and brings what depends on it."""
    absent = document.made(node, f"{keyword} without {name}", {"properties": {name: False}})
    given = document.made(node, f"{keyword} with {name}", present)
    if also:
        both = document.made(node, f"{keyword} {name}", {})
        both.facts = Facts()
        both.facts.also = (given, *also)
        given = both
    facts.either += ((keyword, [absent, given]),)


# ---------------------------------------------------------------- schemas on the same value


def ref(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """The schema that this points at holds too."""
    facts.also += (entered(document, node, document.resolve(node, value)),)
    return None


def dynamic_ref(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """The first schema on the way here with the anchor that this points at; or just what it points at."""
    target = document.resolve(node, value)
    anchor = value.partition("#")[2]
    if isinstance(target.value, dict) and anchor and target.value.get("$dynamicAnchor") == anchor:
        facts.also += (first_with(document, node, anchor, target),)
    else:
        facts.also += (entered(document, node, target),)
    return None


def recursive_ref(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """2019-09: the first resource on the way here that lets itself be extended; or this one, if it does not."""
    target = document.resolve(node, value)
    if isinstance(target.value, dict) and target.value.get("$recursiveAnchor") is True:
        target = first_with(document, node, RECURSIVE, target)
    facts.also += (target,)
    return None


def all_of(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """All of these hold."""
    facts.also += tuple(document.child(node, "allOf", i) for i in range(len(value)))
    return None


def any_of(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """One of these holds, or more."""
    facts.either += (("anyOf", [document.child(node, "anyOf", i) for i in range(len(value))]),)
    return None


def one_of(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Exactly one of these holds."""
    facts.one += ([document.child(node, "oneOf", i) for i in range(len(value))],)
    return None


def not_(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """This does not hold."""
    facts.also += (negated(document.child(node, "not")),)
    return None


def if_(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Says nothing alone; chooses between ``then`` and ``else``."""
    arms = [keyword for keyword in ("then", "else") if keyword in node.value]
    given = document.child(node, "if")
    if not arms:
        facts.heard += (given,)
        return "says nothing without then and else"
    branches = [given, negated(given)]
    if "then" in arms:
        branches[0] = together(document, [given, document.child(node, "then")])
    if "else" in arms:
        branches[1] = together(document, [negated(given), document.child(node, "else")])
    facts.either += (("if", branches),)
    return None


def then(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """What holds when ``if`` does, or does not: said with it."""
    return None if "if" in node.value else "says nothing without if"


# ---------------------------------------------------------------- what other keywords leave


def unevaluated(facts: Facts, value: Any, node: Node, document: Document) -> str | None:
    """Members or items of which no subschema that holds speaks."""
    if value is not True and value != {}:
        facts.rest = node
    return None
