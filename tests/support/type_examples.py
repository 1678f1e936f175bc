"""Python types that the tests read, and an encoder of their values that shares nothing with the library."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar
from uuid import UUID

import annotated_types
import pydantic
from typing_extensions import NotRequired, Required, TypedDict


class Color(enum.Enum):
    """A colour of the catalogue."""

    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Grade(str, enum.Enum):
    A = "a"
    B = "b"


class Point(NamedTuple):
    x: float
    y: float = 0.0


class Contact(TypedDict, total=False):
    """How to reach somebody."""

    email: Required[str]
    phone: NotRequired[str | None]
    seen: date


class Address(pydantic.BaseModel):
    """Where somebody lives."""

    street: str = pydantic.Field(description="street and number", min_length=1)
    zip_code: str = pydantic.Field(alias="zip", pattern=r"^[0-9]{5}$")
    country: Literal["de", "fr"] = "de"


@dataclass
class Line:
    """One line of an order.

    Attributes:
        sku: article number,
            as printed
        price: what one costs
    """

    sku: Annotated[str, "article number"]
    price: Decimal
    count: Annotated[int, annotated_types.Interval(ge=1, le=99)] = 1
    color: Color | None = None


@dataclass(frozen=True, kw_only=True)
class Order:
    id: UUID
    lines: list[Line] = field(metadata={"description": "what was ordered"})
    when: datetime
    size: Size = Size.SMALL
    place: Point | None = None
    contact: Contact | None = None
    address: Address | None = None
    notes: dict[str, tuple[int, str]] = field(default_factory=dict)
    total: int = field(init=False, default=0)


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)
    parent: Optional["Tree"] = None  # noqa: UP037, UP045 - the old ways of writing it are read too


class Folder(pydantic.BaseModel):
    name: str
    folders: list[Folder] = []


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Owner(pydantic.BaseModel):
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


T = TypeVar("T")
S = TypeVar("S")


@dataclass
class Box(Generic[T]):
    item: T
    others: list[T]


@dataclass
class Labelled(Box[list[S]], Generic[S]):
    label: S


def encode(value: Any) -> Any:
    """The JSON value of an instance, written for the tests and from the types' documentation alone."""
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if dataclasses.is_dataclass(value):
        given = [each.name for each in dataclasses.fields(value) if each.init]
        return {name: encode(getattr(value, name)) for name in given}
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(value, "_asdict"):
        return {name: encode(part) for name, part in value._asdict().items()}
    if isinstance(value, Mapping):
        return {encode(key): encode(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(part) for part in value]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"P{value.days}DT{value.seconds}S"
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
