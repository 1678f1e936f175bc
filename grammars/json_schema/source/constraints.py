"""What a set of schemas says about one value, type by type: a `Shape`; and how two shapes become one.

Each schema object fills its own `Facts`; several that hold at once are conjoined. A keyword for one type never
limits values of another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from grammars.errors import Problem
from grammars.json_schema.source.document import Node
from grammars.json_schema.text.literals import key_of
from grammars.json_schema.text.numbers import UNBOUNDED, Bounds
from grammars.json_schema.text.patterns import Pattern

NULL, BOOLEAN, INTEGER, FRACTION, STRING, ARRAY, OBJECT = (1 << i for i in range(7))
NUMBER = INTEGER | FRACTION
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


def type_of(value: Any, whole_floats: bool) -> int:
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
        return INTEGER if whole_floats and value == int(value) else FRACTION
    return ARRAY if isinstance(value, (list, tuple)) else OBJECT


Goal = tuple[Node, ...]
"""Schemas that a value must satisfy together; none at all: any value."""


@dataclass(slots=True)
class Members:
    """Which schemas one schema object lays on the members of an object, by key."""

    properties: dict[str, Node] = field(default_factory=dict)
    patterns: list[tuple[Pattern, Node]] = field(default_factory=list)
    additional: Node | None = None

    def on(self, name: str) -> list[Node]:
        """The schemas for the value of a key."""
        found = [self.properties[name]] if name in self.properties else []
        found += [node for pattern, node in self.patterns if pattern.matches(name)]
        return found if found or self.additional is None else [self.additional]


@dataclass(slots=True)
class Items:
    """Which schemas one schema object lays on the items of an array, by position."""

    prefix: list[Node] = field(default_factory=list)
    rest: Node | None = None

    def on(self, index: int) -> list[Node]:
        """The schemas for the item at a position."""
        if index < len(self.prefix):
            return [self.prefix[index]]
        return [] if self.rest is None else [self.rest]


@dataclass(slots=True)
class Counted:
    """How many items of an array satisfy the schema of their position; where there is none, an item does not.

    Attributes:
        items: the schemas, by position.
        least, most: how many items there must be that satisfy them (`most` None: no bound).
        place: the keyword that says so.
    """

    items: Items
    least: int
    most: int | None
    place: str


@dataclass(slots=True)
class Denied:
    """What is said about objects, of which something at least must fail.

    Attributes:
        members: schemas for values of members, as if they had to hold.
        required: keys, as if they had to be there.
        names: schemas for keys, as if they had to hold.
        place: the schema that is denied.
    """

    members: tuple[Members, ...]
    required: tuple[str, ...]
    names: tuple[Node, ...]
    place: str

    def speaks_of(self, name: str) -> bool:
        """Whether anything is said of a key or its value, but that it has to be there."""
        for members in self.members:
            if name in members.properties or members.patterns or members.additional is not None:
                return True
        return bool(self.names)


class Shape:
    """What must hold of a value, type by type. An instance holds what is said; the class, what holds otherwise."""

    types: int = EVERY_TYPE
    values: list[Any] | None = None
    excluded: tuple[Any, ...] = ()
    """Scalars that the value does not equal."""
    bounds: Bounds = UNBOUNDED
    multiples: tuple[Decimal, ...] = ()
    indivisible: tuple[Decimal, ...] = ()
    """Steps that numbers are no multiples of."""
    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[Pattern, ...] = ()
    items: tuple[Items, ...] = ()
    counted: tuple[Counted, ...] = ()
    min_items: int = 0
    max_items: int | None = None
    unique: bool = False
    members: tuple[Members, ...] = ()
    denied: tuple[Denied, ...] = ()
    required: tuple[str, ...] = ()
    names: tuple[Node, ...] = ()
    min_members: int = 0
    max_members: int | None = None
    problems: tuple[tuple[int, Problem], ...] = ()
    """Keywords that cannot be enforced, each with the types that it limits."""

    def __init__(self, **said: Any) -> None:
        if said:
            self.__dict__.update(said)

    def limits(self) -> bool:
        """Whether it limits anything at all."""
        return any(value != getattr(Shape, name) for name, value in self.__dict__.items())

    def meet(self, *others: Shape) -> Shape:
        """What must hold when all must."""
        met = Shape(**self.__dict__)
        said = met.__dict__
        for other in others:
            for name, value in other.__dict__.items():
                if name in said:
                    both = _BOTH.get(name)
                    said[name] = said[name] + value if both is None else both(said[name], value)
                else:
                    said[name] = value
        return met


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def common(a: list[Any] | None, b: list[Any] | None) -> list[Any] | None:
    """Values listed by both (None: not listed at all)."""
    if a is None or b is None:
        return b if a is None else a
    if set(map(type, a)) == {str}:
        names = {value for value in b if isinstance(value, str)}
        return [value for value in a if value in names]
    keys = {key_of(value) for value in b}
    return [value for value in a if key_of(value) in keys]


_BOTH: dict[str, Callable[[Any, Any], Any]] = {
    "types": lambda a, b: a & b,
    "values": common,
    "bounds": lambda a, b: a.meet(b),
    "min_length": max,
    "max_length": _least,
    "patterns": lambda a, b: a + tuple(pattern for pattern in b if pattern not in a),
    "min_items": max,
    "max_items": _least,
    "unique": lambda a, b: a or b,
    "required": lambda a, b: tuple(dict.fromkeys(a + b)),
    "min_members": max,
    "max_members": _least,
}
"""How two statements about one attribute of a `Shape` become one; what is not here is listed one after the other."""


class Facts:
    """What one schema object says.

    Attributes:
        shape: what its own keywords say about the value.
        also: schemas that hold of the same value (``$ref``, ``allOf``).
        either: for each disjunction, the keyword and the schemas of which one must hold.
        one: likewise, exactly one must hold.
        several: likewise, none or more than one must hold.
        heard: schemas that limit nothing, and speak of members and items where they hold.
        rest: the schema itself, if it says something about what its subschemas leave unevaluated.
        wrong_rest: a schema of which just that fails.
        limits: whether `shape` limits anything at all.
    """

    also: tuple[Node, ...] = ()
    either: tuple[tuple[str, Sequence[Node]], ...] = ()
    one: tuple[Sequence[Node], ...] = ()
    several: tuple[Sequence[Node], ...] = ()
    heard: tuple[Node, ...] = ()
    rest: Node | None = None
    wrong_rest: Node | None = None
    limits: bool = False

    def __init__(self) -> None:
        self.shape = Shape()

    @property
    def plain(self) -> bool:
        """Whether `shape` is all it says."""
        if self.also or self.either or self.one:
            return False
        return not (self.several or self.rest or self.wrong_rest)


def _alone(types: int) -> Facts:
    facts = Facts()
    facts.shape.types = types
    facts.limits = True
    return facts


TYPE_ALONE = {name: _alone(types) for name, types in TYPES.items()}
"""What a schema says that says one type and nothing else."""
