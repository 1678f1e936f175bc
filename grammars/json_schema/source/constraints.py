"""The parsed form of schemas: `ParsedSchema` for one schema object, `TypeConstraints` for its assertions, type by type.

Constraints of several schemas that apply to one value are conjoined. A keyword for one type never constrains values of
another type.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, reduce
from itertools import chain
from typing import Any

from constrained.grammars.errors import Problem
from constrained.grammars.json_schema.source.document import SchemaNode
from constrained.grammars.json_schema.text.contents import StringContent
from constrained.grammars.json_schema.text.literals import equality_key
from constrained.grammars.json_schema.text.numbers import UNBOUNDED, Bounds
from constrained.grammars.json_schema.text.patterns import StringPattern

NULL, BOOLEAN, INTEGER, NON_INTEGER, STRING, ARRAY, OBJECT = (1 << i for i in range(7))
NUMBER = INTEGER | NON_INTEGER
EVERY_TYPE = (1 << 7) - 1
TYPES: dict[str, int] = {
    "null": NULL,
    "boolean": BOOLEAN,
    "integer": INTEGER,
    "number": NUMBER,
    "string": STRING,
    "array": ARRAY,
    "object": OBJECT,
}


KEYWORD_TYPES: dict[str, int] = {
    keyword: types
    for types, keywords in (
        (STRING, "minLength maxLength pattern format"),
        (NUMBER, "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
        (ARRAY, "items prefixItems minItems maxItems uniqueItems contains unevaluatedItems"),
        (
            OBJECT,
            "properties patternProperties additionalProperties propertyNames required minProperties maxProperties",
        ),
    )
    for keyword in keywords.split()
}
"""Keyword -> the types whose values it limits."""


def type_bit_of(value: Any, whole_floats: bool) -> int:
    """The type bit of a JSON value; whether 1.0 is an integer depends on the dialect."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, str):
        return STRING
    if isinstance(value, int):
        return INTEGER
    if isinstance(value, (float, Decimal)):
        return INTEGER if whole_floats and value == int(value) else NON_INTEGER
    return ARRAY if isinstance(value, (list, tuple)) else OBJECT


Conjunction = tuple[SchemaNode, ...]
"""Schemas that one value must all satisfy; the empty conjunction allows every value."""


@dataclass(slots=True)
class MemberSchemas:
    """The schemas that one schema object applies to the members of an object, by key."""

    properties: dict[str, SchemaNode] = field(default_factory=dict)
    patterns: list[tuple[StringPattern, SchemaNode]] = field(default_factory=list)
    additional: SchemaNode | None = None

    def schemas_at(self, name: str) -> list[SchemaNode]:
        """The schemas for the value of a key."""
        nodes = [self.properties[name]] if name in self.properties else []
        nodes += [node for pattern, node in self.patterns if pattern.matches(name)]
        return nodes if nodes or self.additional is None else [self.additional]


@dataclass(slots=True)
class ItemSchemas:
    """The schemas that one schema object applies to the items of an array, by position."""

    prefix: list[SchemaNode] = field(default_factory=list)
    additional: SchemaNode | None = None

    def schemas_at(self, index: int) -> list[SchemaNode]:
        """The schemas for the item at a position."""
        if index < len(self.prefix):
            return [self.prefix[index]]
        return [] if self.additional is None else [self.additional]


def schemas_on(parts: Iterable[Any], place: Any) -> Conjunction:
    """The schemas of `MemberSchemas` for the value of a key, or of `ItemSchemas` for the item at a position, each once."""
    return tuple(dict.fromkeys(node for part in parts for node in part.schemas_at(place)))


@dataclass(slots=True)
class ContainsConstraint:
    """Bounds on the number of items that match the schema of their position; without a schema an item does not match.

    Attributes:
        items: the schemas, by position.
        min_contains, max_contains: bounds on the number of matching items (`max_contains` None: no bound).
        place: JSON Pointer of the keyword.
    """

    items: ItemSchemas
    min_contains: int
    max_contains: int | None
    place: str


@dataclass(slots=True)
class NegatedObject:
    """Object constraints at least one of which must be violated (from ``not``).

    Attributes:
        members: schemas for the values of members.
        required: required keys.
        property_names: schemas for keys.
        place: JSON Pointer of the negated schema.
    """

    members: tuple[MemberSchemas, ...]
    required: tuple[str, ...]
    property_names: tuple[SchemaNode, ...]
    place: str

    def constrains_key(self, name: str) -> bool:
        """Whether it constrains a key or its value, apart from requiring the key."""
        for members in self.members:
            if name in members.properties or members.patterns or members.additional is not None:
                return True
        return bool(self.property_names)


class EnumValues(tuple[Any, ...]):
    """Enumerated values, in their order, with their equality keys."""

    @cached_property
    def keys(self) -> tuple[Hashable, ...]:
        """The equality key of each value."""
        return tuple(map(equality_key, self))

    @cached_property
    def key_set(self) -> frozenset[Hashable]:
        """The equality keys."""
        return frozenset(self.keys)


class TypeConstraints:
    """Constraints on a value, type by type. Instances store the constraints present; class attributes are the defaults."""

    types: int = EVERY_TYPE
    enum_values: EnumValues | None = None
    excluded_values: EnumValues = EnumValues()
    """Scalars that the value must differ from."""
    bounds: Bounds = UNBOUNDED
    divisors: tuple[Decimal, ...] = ()
    non_divisors: tuple[Decimal, ...] = ()
    """Numbers that a numeric value must not be a multiple of."""
    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[StringPattern, ...] = ()
    contents: tuple[StringContent, ...] = ()
    """Languages of strings that are not known to be regular."""
    items: tuple[ItemSchemas, ...] = ()
    contains_constraints: tuple[ContainsConstraint, ...] = ()
    min_items: int = 0
    max_items: int | None = None
    unique_items: bool = False
    repeated_items: str = ""
    """JSON Pointer of a ``uniqueItems`` that two equal items must violate."""
    members: tuple[MemberSchemas, ...] = ()
    negated_objects: tuple[NegatedObject, ...] = ()
    required: tuple[str, ...] = ()
    property_names: tuple[SchemaNode, ...] = ()
    min_properties: int = 0
    max_properties: int | None = None
    unsupported_keywords: tuple[tuple[int, Problem], ...] = ()
    """Keywords that cannot be enforced, each with the types that it constrains."""

    def __init__(self, **present: Any) -> None:
        if present:
            self.__dict__.update(present)

    def limits(self) -> bool:
        """Whether it excludes any value."""
        return any(value != getattr(TypeConstraints, name) for name, value in self.__dict__.items())

    def conjoin(self, *others: TypeConstraints) -> TypeConstraints:
        """The conjunction with others."""
        values: dict[str, list[Any]] = {}
        for one in (self, *others):
            for name, value in one.__dict__.items():
                values.setdefault(name, []).append(value)
        result = TypeConstraints()
        present = result.__dict__
        for name, parts in values.items():
            if len(parts) == 1:
                present[name] = parts[0]
            elif name == "required":
                present[name] = tuple(dict.fromkeys(chain.from_iterable(parts)))
            elif name in _CONJOIN:
                present[name] = reduce(_CONJOIN[name], parts)
            else:
                present[name] = tuple(chain.from_iterable(parts))
        return result


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def intersect_enums(a: EnumValues, b: EnumValues) -> EnumValues:
    """The values of the first that the second has as well."""
    return EnumValues(value for value, key in zip(a, a.keys, strict=True) if key in b.key_set)


_CONJOIN: dict[str, Callable[[Any, Any], Any]] = {
    "types": lambda a, b: a & b,
    "enum_values": intersect_enums,
    "excluded_values": lambda a, b: EnumValues((*a, *b)),
    "bounds": lambda a, b: a.intersect_bounds(b),
    "min_length": max,
    "max_length": _least,
    "patterns": lambda a, b: a + tuple(pattern for pattern in b if pattern not in a),
    "contents": lambda a, b: a + tuple(content for content in b if content not in a),
    "min_items": max,
    "max_items": _least,
    "unique_items": lambda a, b: a or b,
    "repeated_items": lambda a, b: a or b,
    "min_properties": max,
    "max_properties": _least,
}
"""How two values of an attribute of `TypeConstraints` are conjoined; other attributes are concatenated, required names each once."""


class ParsedSchema:
    """The keywords of one schema object.

    Attributes:
        constraints: its assertions about the value.
        all_of: schemas that the value must satisfy too (``$ref``, ``allOf``).
        any_of: disjunctions: the keyword, and schemas of which at least one must hold.
        one_of: lists of schemas of which exactly one must hold.
        none_or_many: lists of schemas of which none or several must hold (negated ``oneOf``).
        annotating: schemas that constrain nothing but evaluate members and items where they hold.
        unevaluated: the schema itself, if it has an ``unevaluated*`` keyword.
        violated_unevaluated: a schema whose ``unevaluated*`` keyword must be violated.
        limits: whether `constraints` excludes any value.
    """

    all_of: tuple[SchemaNode, ...] = ()
    any_of: tuple[tuple[str, Sequence[SchemaNode]], ...] = ()
    one_of: tuple[Sequence[SchemaNode], ...] = ()
    none_or_many: tuple[Sequence[SchemaNode], ...] = ()
    annotating: tuple[SchemaNode, ...] = ()
    unevaluated: SchemaNode | None = None
    violated_unevaluated: SchemaNode | None = None
    limits: bool = False

    def __init__(self, constraints: TypeConstraints | None = None, **present: Any) -> None:
        self.constraints = constraints or TypeConstraints()
        if constraints is not None:
            self.limits = constraints.limits()
        self.__dict__.update(present)

    @cached_property
    def listed(self) -> frozenset[Hashable] | None:
        """Equality keys of the enumerated values if all are scalars, else None."""
        values = self.constraints.enum_values
        if values is None or not _SCALARS.issuperset(map(type, values)):
            return None
        return values.key_set

    @property
    def is_flat(self) -> bool:
        """Whether `constraints` is all it contains."""
        if self.all_of or self.any_of or self.one_of:
            return False
        return not (self.none_or_many or self.unevaluated or self.violated_unevaluated)


_SCALARS = frozenset((str, int, bool, type(None)))
