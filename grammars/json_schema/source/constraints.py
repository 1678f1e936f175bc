"""What a set of schemas says about one value, type by type: a `TypeConstraints`; and how two shapes become one.

Each schema object fills its own `ParsedSchema`; several that hold at once are conjoined. A keyword for one type never
limits values of another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from grammars.errors import Problem
from grammars.json_schema.source.document import SchemaNode
from grammars.json_schema.text.literals import equality_key
from grammars.json_schema.text.numbers import UNBOUNDED, Bounds
from grammars.json_schema.text.patterns import StringPattern

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


def type_bit_of(value: Any, whole_floats: bool) -> int:
    """The type of a JSON value; whether 1.0 is an integer depends on the draft."""
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
"""Schemas that a value must satisfy together; none at all: any value."""


@dataclass(slots=True)
class MemberSchemas:
    """Which schemas one schema object lays on the members of an object, by key."""

    properties: dict[str, SchemaNode] = field(default_factory=dict)
    patterns: list[tuple[StringPattern, SchemaNode]] = field(default_factory=list)
    additional: SchemaNode | None = None

    def schemas_at(self, name: str) -> list[SchemaNode]:
        """The schemas for the value of a key."""
        found = [self.properties[name]] if name in self.properties else []
        found += [node for pattern, node in self.patterns if pattern.matches(name)]
        return found if found or self.additional is None else [self.additional]


@dataclass(slots=True)
class ItemSchemas:
    """Which schemas one schema object lays on the items of an array, by position."""

    prefix: list[SchemaNode] = field(default_factory=list)
    additional: SchemaNode | None = None

    def schemas_at(self, index: int) -> list[SchemaNode]:
        """The schemas for the item at a position."""
        if index < len(self.prefix):
            return [self.prefix[index]]
        return [] if self.additional is None else [self.additional]


@dataclass(slots=True)
class ContainsConstraint:
    """How many items of an array satisfy the schema of their position; where there is none, an item does not.

    Attributes:
        items: the schemas, by position.
        min_contains, max_contains: how many items there must be that satisfy them (`most` None: no bound).
        place: the keyword that says so.
    """

    items: ItemSchemas
    min_contains: int
    max_contains: int | None
    place: str


@dataclass(slots=True)
class NegatedObject:
    """What is said about objects, of which something at least must fail.

    Attributes:
        members: schemas for values of members, as if they had to hold.
        required: keys, as if they had to be there.
        property_names: schemas for keys, as if they had to hold.
        place: the schema that is denied.
    """

    members: tuple[MemberSchemas, ...]
    required: tuple[str, ...]
    property_names: tuple[SchemaNode, ...]
    place: str

    def constrains_key(self, name: str) -> bool:
        """Whether anything is said of a key or its value, but that it has to be there."""
        for members in self.members:
            if name in members.properties or members.patterns or members.additional is not None:
                return True
        return bool(self.property_names)


class TypeConstraints:
    """What must hold of a value, type by type. An instance holds what is said; the class, what holds otherwise."""

    types: int = EVERY_TYPE
    enum_values: list[Any] | None = None
    excluded_values: tuple[Any, ...] = ()
    """Scalars that the value does not equal."""
    bounds: Bounds = UNBOUNDED
    divisors: tuple[Decimal, ...] = ()
    non_divisors: tuple[Decimal, ...] = ()
    """Steps that numbers are no multiples of."""
    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[StringPattern, ...] = ()
    items: tuple[ItemSchemas, ...] = ()
    contains_constraints: tuple[ContainsConstraint, ...] = ()
    min_items: int = 0
    max_items: int | None = None
    unique_items: bool = False
    members: tuple[MemberSchemas, ...] = ()
    negated_objects: tuple[NegatedObject, ...] = ()
    required: tuple[str, ...] = ()
    property_names: tuple[SchemaNode, ...] = ()
    min_properties: int = 0
    max_properties: int | None = None
    unsupported_keywords: tuple[tuple[int, Problem], ...] = ()
    """Keywords that cannot be enforced, each with the types that it limits."""

    def __init__(self, **said: Any) -> None:
        if said:
            self.__dict__.update(said)

    def limits(self) -> bool:
        """Whether it limits anything at all."""
        return any(value != getattr(TypeConstraints, name) for name, value in self.__dict__.items())

    def conjoin(self, *others: TypeConstraints) -> TypeConstraints:
        """What must hold when all must."""
        met = TypeConstraints(**self.__dict__)
        said = met.__dict__
        for other in others:
            for name, value in other.__dict__.items():
                if name in said:
                    both = _CONJOIN.get(name)
                    said[name] = said[name] + value if both is None else both(said[name], value)
                else:
                    said[name] = value
        return met


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def intersect_enums(a: list[Any] | None, b: list[Any] | None) -> list[Any] | None:
    """Values listed by both (None: not listed at all)."""
    if a is None or b is None:
        return b if a is None else a
    if set(map(type, a)) == {str}:
        names = {value for value in b if isinstance(value, str)}
        return [value for value in a if value in names]
    keys = {equality_key(value) for value in b}
    return [value for value in a if equality_key(value) in keys]


_CONJOIN: dict[str, Callable[[Any, Any], Any]] = {
    "types": lambda a, b: a & b,
    "enum_values": intersect_enums,
    "bounds": lambda a, b: a.intersect_bounds(b),
    "min_length": max,
    "max_length": _least,
    "patterns": lambda a, b: a + tuple(pattern for pattern in b if pattern not in a),
    "min_items": max,
    "max_items": _least,
    "unique_items": lambda a, b: a or b,
    "required": lambda a, b: tuple(dict.fromkeys(a + b)),
    "min_properties": max,
    "max_properties": _least,
}
"""How two statements about one attribute of a `TypeConstraints` become one; what is not here is listed one after the other."""


class ParsedSchema:
    """What one schema object says.

    Attributes:
        constraints: what its own keywords say about the value.
        all_of: schemas that hold of the same value (``$ref``, ``allOf``).
        any_of: for each disjunction, the keyword and the schemas of which one must hold.
        one_of: likewise, exactly one must hold.
        none_or_many: likewise, none or more than one must hold.
        annotating: schemas that limit nothing, and speak of members and items where they hold.
        unevaluated: the schema itself, if it says something about what its subschemas leave unevaluated.
        violated_unevaluated: a schema of which just that fails.
        limits: whether `shape` limits anything at all.
    """

    all_of: tuple[SchemaNode, ...] = ()
    any_of: tuple[tuple[str, Sequence[SchemaNode]], ...] = ()
    one_of: tuple[Sequence[SchemaNode], ...] = ()
    none_or_many: tuple[Sequence[SchemaNode], ...] = ()
    annotating: tuple[SchemaNode, ...] = ()
    unevaluated: SchemaNode | None = None
    violated_unevaluated: SchemaNode | None = None
    limits: bool = False

    def __init__(self) -> None:
        self.constraints = TypeConstraints()

    @property
    def is_flat(self) -> bool:
        """Whether `shape` is all it says."""
        if self.all_of or self.any_of or self.one_of:
            return False
        return not (self.none_or_many or self.unevaluated or self.violated_unevaluated)


def _alone(types: int) -> ParsedSchema:
    parsed = ParsedSchema()
    parsed.constraints.types = types
    parsed.limits = True
    return parsed


SINGLE_TYPE = {name: _alone(types) for name, types in TYPES.items()}
"""What a schema says that says one type and nothing else."""
