"""The law of types: what is drawn of a type is read, or its report says what is unchecked; what its serializer writes is accepted and comes back.

Each type stands alone, in containers, in a pydantic model, and in a dataclass with a `TypedDict` and a `NamedTuple` inside.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import enum
import ipaddress
import json
import pathlib
import random
import re
import uuid
import zoneinfo
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional

import annotated_types as at
import pydantic
import pytest
from pydantic import AliasPath, BaseModel, Field, TypeAdapter
from typing_extensions import Self, TypeAliasType, TypedDict

import constrained
from constrained import python_type
from constrained.errors import UnsupportedConstraint
from tests.grammars.json_schema.test_contents import accepted, draws
from tests.support.examples import examples

DRAW = random.Random(0)
UTC = timezone.utc


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Plain(enum.Enum):
    A = "a"
    B = "b"


class Text(str, enum.Enum):
    A = "a"
    B = "b"


class Mixed(enum.Enum):
    ONE = 1
    X = "x"
    HALF = 1.5
    NONE = None


class Pair(enum.Enum):
    A = (1, 2)
    B = (3,)


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Flags(BaseModel):
    a: Access


@dataclasses.dataclass
class Loose:
    a: int


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int


class Pets(TypedDict, total=False):
    cat: str
    dog: str


class Model(BaseModel):
    a: int
    b: str | None = None


class FrozenModel(BaseModel, frozen=True):
    a: int


@dataclasses.dataclass
class Node:
    value: int
    kids: list[Self]


class Measured(BaseModel):
    """Its length is its own matter."""

    a: int = 1
    b: int = 2

    def __len__(self) -> int:
        return 1


class Seconds(BaseModel, ser_json_timedelta="float"):
    took: timedelta


class Stripped(BaseModel, str_strip_whitespace=True, str_min_length=2):
    name: str


class Base(BaseModel, ser_json_bytes="base64", val_json_bytes="base64"):
    data: bytes


class Strict(BaseModel, strict=True):
    day: date
    share: dict[int, float]
    kind: Plain
    took: timedelta


Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | float | bool | None")
"""As pydantic's documentation writes it."""
Id = NewType("Id", int)


def whole() -> int:
    return DRAW.choice([0, -1, 1, DRAW.randint(-(10**6), 10**6)])


def number() -> float:
    return DRAW.choice(
        [0.0, -1.5, 1e-9, 1e20, -0.0, DRAW.uniform(-1, 1), DRAW.random() * 10 ** DRAW.randint(-320, 307)]
    )


def text() -> str:
    return DRAW.choice(["", "a", 'é\n"\\', "0", "日本"])


def day() -> date:
    return date.fromordinal(DRAW.randint(1, date.max.toordinal()))


def clock() -> time:
    zone = DRAW.choice([None, UTC, timezone(timedelta(minutes=-330))])
    return time(
        DRAW.randrange(24),
        DRAW.randrange(60),
        DRAW.randrange(60),
        DRAW.choice([0, 1, 500_000, 123_456]),
        zone,
    )


def length() -> timedelta:
    days = timedelta(days=DRAW.randint(-999_999_999, 999_999_999))
    some = [
        timedelta(seconds=41.286072),
        timedelta(days=-1, seconds=5),
        timedelta(0),
        timedelta.max,
        timedelta.min,
        days,
    ]
    return DRAW.choice(
        [*some, timedelta(days=400, microseconds=1), timedelta(microseconds=DRAW.randint(-(10**15), 10**15))]
    )


def cents(most: int) -> Decimal:
    return Decimal(DRAW.randint(0, most)).scaleb(-2)


def ip(make: Any, bits: int, lengths: int | None = None) -> Callable[[], Any]:
    if lengths is None:
        return lambda: make(DRAW.getrandbits(bits))
    return lambda: make((DRAW.getrandbits(bits), DRAW.randint(0, lengths)), strict=False)


def one_of(*values: Any) -> Callable[[], Any]:
    return lambda: DRAW.choice(values)


SCALARS: dict[str, tuple[Any, Callable[[], Any] | None]] = {
    "int": (int, whole),
    "float": (float, number),
    "str": (str, text),
    "bool": (bool, one_of(True, False)),
    "None": (type(None), one_of(None)),
    "Any": (Any, one_of(1, "a", None, [1, {"a": 0.5}])),
    "Decimal": (Decimal, lambda: cents(10**8)),
    "complex": (complex, one_of(1 + 2j, -0.5j, 3.25 - 1e20j)),
    "Fraction": (Fraction, one_of(Fraction(1, 3), Fraction(-7), Fraction(0))),
    "date": (date, day),
    "time": (time, clock),
    "datetime": (datetime, lambda: datetime.combine(day(), clock())),
    "timedelta": (timedelta, length),
    "UUID": (uuid.UUID, lambda: uuid.UUID(int=DRAW.getrandbits(128))),
    "Path": (pathlib.Path, one_of(pathlib.Path("a/b"))),
    "PurePosixPath": (pathlib.PurePosixPath, one_of(pathlib.PurePosixPath("a"))),
    "bytes": (bytes, one_of(b"", b"abc", "é".encode())),
    "re.Pattern": (re.Pattern, one_of(re.compile("a+"))),
    "re.Pattern[str]": (re.Pattern[str], one_of(re.compile("^a+b$"))),
    "IPv4Address": (ipaddress.IPv4Address, ip(ipaddress.IPv4Address, 32)),
    "IPv6Address": (ipaddress.IPv6Address, ip(ipaddress.IPv6Address, 128)),
    "IPv4Network": (ipaddress.IPv4Network, ip(ipaddress.IPv4Network, 32, 32)),
    "IPv6Network": (ipaddress.IPv6Network, ip(ipaddress.IPv6Network, 128, 128)),
    "IPv4Interface": (ipaddress.IPv4Interface, lambda: ipaddress.IPv4Interface((DRAW.getrandbits(32), 24))),
    "IPv6Interface": (ipaddress.IPv6Interface, lambda: ipaddress.IPv6Interface((DRAW.getrandbits(128), 24))),
    "IntEnum": (Level, one_of(*Level)),
    "Enum": (Plain, one_of(*Plain)),
    "str Enum": (Text, one_of(*Text)),
    "Enum of anything": (Mixed, one_of(*Mixed)),
    "Literal": (Literal["a", 1, True, None], one_of("a", 1, True, None)),
    "Literal of an IntEnum": (Literal[Level.LOW], one_of(Level.LOW)),
    "Literal of a str Enum": (Literal[Text.A, "z"], one_of(Text.A, "z")),
    "NewType": (Id, whole),
    "int | float": (int | float, one_of(1, 2.5)),
    "date | str": (date | str, one_of(date(2024, 2, 29), "soon")),
    "ge": (Annotated[int, Field(ge=5)], one_of(5, 7)),
    "at.Ge": (Annotated[int, at.Ge(5)], one_of(5, 7)),
    "interval": (Annotated[float, Field(ge=0, lt=1)], lambda: DRAW.random()),
    "multiple_of": (Annotated[float, Field(multiple_of=0.1)], one_of(0.3, 0.7, 2)),
    "money": (Annotated[Decimal, Field(max_digits=8, decimal_places=2, ge=0)], lambda: cents(10**8 - 1)),
    "money with bounds": (Annotated[Decimal, Field(max_digits=5, gt=-3, lt=100)], one_of(Decimal("12.345"), Decimal("-2.9"))),
    "quarters": (Annotated[Decimal, Field(max_digits=6, multiple_of=Decimal("0.25"))], one_of(Decimal("3.25"), Decimal("7"))),
    "digits": (Annotated[Decimal, Field(max_digits=4, decimal_places=2)], one_of(Decimal("12.25"))),
    "places": (Annotated[Decimal, Field(decimal_places=2, ge=0)], lambda: cents(10**6)),
    "length of bytes": (Annotated[bytes, Field(min_length=2, max_length=3)], one_of(b"ab", b"abc")),
    "bounds of a timedelta": (Annotated[timedelta, Field(ge=timedelta(0))], lambda: abs(length() / 2)),
    "AwareDatetime": (pydantic.AwareDatetime, one_of(datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=UTC))),
    "NaiveDatetime": (pydantic.NaiveDatetime, one_of(datetime(2020, 1, 2, 3, 4, 5, 6))),
    "PastDate": (pydantic.PastDate, one_of(date(1999, 1, 1))),
    "ByteSize": (pydantic.ByteSize, one_of(pydantic.ByteSize(1024))),
    "HttpUrl": (pydantic.HttpUrl, one_of(pydantic.HttpUrl("http://a.b/"))),
    "Flag": (Flags, one_of(Flags(a=Access.READ | Access.WRITE), Flags(a=Access(0)))),
    "constraint": (Annotated[str, constrained.regex("[xy]{2}")], one_of("xy")),
    "stripped": (Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)], one_of("a b")),
}  # fmt: skip

CONTAINERS: dict[str, tuple[Any, Callable[[], Any] | None]] = {
    "deque": (collections.deque[int], one_of(collections.deque([1, 2]))),
    "bare deque": (collections.deque, one_of(collections.deque([1, "a"]))),
    "OrderedDict": (collections.OrderedDict[str, int], one_of(collections.OrderedDict(b=1, a=2))),
    "defaultdict": (collections.defaultdict[str, list[int]], one_of(collections.defaultdict(list, {"a": [1]}))),
    "Counter": (collections.Counter[str], one_of(collections.Counter("aab"))),
    "set": (set[int], one_of({1, 2})),
    "bare set": (set, one_of({1, "a"})),
    "set of tuples": (set[tuple[int, str]], one_of({(1, "a")})),
    "set of frozensets": (set[frozenset[int]], one_of({frozenset({1})})),
    "set of dataclasses": (set[Frozen], one_of({Frozen(1)})),
    "set of models": (set[FrozenModel], one_of({FrozenModel(a=1)})),
    "frozenset": (frozenset[str], one_of(frozenset("ab"))),
    "tuple": (tuple[int, str], one_of((1, "a"))),
    "tuple of any length": (tuple[int, ...], one_of((1, 2), ())),
    "dataclass": (Loose, one_of(Loose(1))),
    "model": (Model, one_of(Model(a=1), Model(a=2, b="x"))),
    "timedelta as a float": (Seconds, lambda: Seconds(took=timedelta(seconds=DRAW.randint(-(10**9), 10**9) / 4))),
    "stripped by the model": (Stripped, one_of(Stripped(name="a b"))),
    "bytes as Base64": (Base, one_of(Base(data=base64.urlsafe_b64encode(b"\xff\xfe")))),
    "strict model": (Strict, lambda: Strict(day=day(), share={whole(): 0.5}, kind=Plain.A, took=length())),
    "Secret": (pydantic.Secret[date], None),
    "ZoneInfo": (zoneinfo.ZoneInfo, one_of(zoneinfo.ZoneInfo("UTC"))),
    "Self": (Node, one_of(Node(1, [Node(2, [])]))),
    "alias": (Json, one_of({"a": [1, None, {"b": 2.5}]})),
    "JsonValue": (pydantic.JsonValue, one_of({"a": [1, None]})),
    "length of a list": (Annotated[list[int], at.MinLen(2)], one_of([1, 2])),
    "length of a TypedDict": (Annotated[Pets, Field(min_length=1, max_length=1)], one_of({"cat": "a"})),
    "length of a union": (Annotated[list[int] | str, Field(min_length=2)], one_of([1, 2], "ab")),
    "length of a model": (Annotated[Measured, Field(max_length=1)], one_of(Measured())),
    "length of a dict": (Annotated[dict[int, int], Field(min_length=1)], one_of({1: 2})),
}  # fmt: skip

KEYS: dict[str, tuple[Any, Callable[[], Any] | None]] = {
    name: SCALARS[name]
    for name in (
        "int", "float", "str", "bool", "Decimal", "date", "time", "timedelta", "UUID", "IPv4Address", "IntEnum", "Enum", "str Enum",
        "Literal of a str Enum", "NewType", "ge", "at.Ge", "interval", "digits", "money", "HttpUrl", "constraint", "Path",
    )
}  # fmt: skip
KEYS |= {
    "Any": (Any, text),
    "str | None": (Optional[str], text),  # noqa: UP045
    "length": (Annotated[str, Field(min_length=2, max_length=3)], one_of("ab", "é\n")),
    "at.Len": (Annotated[str, at.Len(1, 3)], one_of("ab")),
    "pattern": (Annotated[str, Field(pattern="^[a-c]+$")], one_of("abc")),
    "bounded date": (Annotated[date, Field(ge=date(2020, 1, 1))], one_of(date(2021, 1, 1))),
    "multiple": (Annotated[int, Field(multiple_of=5)], one_of(0, 25)),
    "Level | Plain": (Level | Plain, one_of(*Level, *Plain)),
    "alias": (TypeAliasType("Alias", int), whole),
    "StrictInt": (pydantic.StrictInt, whole),
}
KINDS = {
    **SCALARS,
    **CONTAINERS,
    **{
        f"dict of {name}": (dict[hint, int], lambda make=make: {make(): 1})
        for name, (hint, make) in KEYS.items()
    },
    "Mapping": (collections.abc.Mapping[int, str], one_of({1: "a"})),
    "Counter of int": (collections.Counter[int], one_of(collections.Counter([1, 1]))),
    "dict of dicts": (dict[Level, dict[date, int]], one_of({Level.LOW: {date(2024, 2, 29): 1}})),
}


def forms(hint: Any) -> Iterator[tuple[Any, Callable[[Any], Any], Callable[[Any, str], str]]]:
    """The type alone, in a model and in a dataclass: with the value around one of it, and the JSON around its JSON."""
    yield hint, lambda value: value, lambda value, said: said
    model = pydantic.create_model("Outer", v=(hint, ...), many=(list[hint], ...), by=(dict[str, hint], {}), maybe=(Optional[hint], None))  # type: ignore[valid-type]  # noqa: UP045  # fmt: skip
    yield (
        model,
        lambda v: model(v=v, many=[v], by={"k": v}),
        lambda v, said: f'{{"v":{said},"many":[{said}],"by":{{"k":{said}}}}}',
    )
    keyed = TypedDict("Keyed", {"v": hint})  # type: ignore[misc]  # noqa: UP013
    named = NamedTuple("Named", [("v", hint)])  # type: ignore[misc]  # noqa: UP014
    record: Any = dataclasses.make_dataclass(
        "Record", [("keyed", keyed), ("named", named), ("both", tuple[hint, hint])]
    )
    yield (
        record,
        lambda v: record({"v": v}, named(v), (v, v)),
        lambda v, said: f'{{"keyed":{{"v":{said}}},"named":{{"v":{said}}},"both":[{said},{said}]}}',
    )


def written(hint: Any, value: Any) -> str:
    """What pydantic writes; it writes a `Decimal` as a string, where these types have a number unless its digits are counted."""
    said = TypeAdapter(hint).dump_json(value).decode()
    return (
        said.strip('"') if isinstance(value, Decimal) and "pattern" not in python_type(hint).schema else said
    )


def equal(left: Any, right: Any) -> bool:
    return bool(left == right) or repr(left) == repr(right)


@pytest.mark.parametrize("name", KINDS)
def test_a_type_means_what_it_says(name: str) -> None:
    hint, make = KINDS[name]
    DRAW.seed(name)
    for whole_type, around, around_json in forms(hint):
        constraint = python_type(whole_type, separators=(",", ":"))
        unchecked = [entry.note for entry in constraint.report if entry.status == "unchecked"]
        for said in draws(constraint, examples(4)):
            try:
                constraint.parse(said)
            except constrained.RejectedValue:
                assert unchecked, said
        for _ in range(examples(4) if make else 0):  # what is written of a secret is no secret
            value = make()
            said = around_json(value, written(hint, value))
            assert accepted(constraint, said), said
            assert equal(constraint.parse(said), around(value)), said


REFUSED: dict[str, tuple[Any, str]] = {
    "Literal of a plain Enum": (Literal[Plain.A], "reads? .*from JSON"),
    "enum of tuples": (Pair, r"\(1, 2\)"),
    "set of lists": (set[list[int]], "hashable"),
    "set of dataclasses": (set[Loose], "hashable"),
    "set of models": (set[Model], "hashable"),
    "set of dicts": (frozenset[Pets], "hashable"),
    "set of tuples of lists": (set[tuple[int, list[int]]], "hashable"),
    "keys that are tuples": (dict[tuple[int, int], int], "keys in JSON are strings"),
    "keys that are None": (dict[None, int], "keys in JSON are strings"),
    "keys of an Enum of anything": (dict[Mixed, int], "keys in JSON are strings|reads no key"),
    "numbers of a Literal as keys": (dict[Literal[1, 2], int], "reads no key"),
    "an alias that is a path": (Annotated[int, Field(validation_alias=AliasPath("names", 0))], "path"),
    "type": (type[int], "JSON"),
}
"""Type, and why a field of a model with it is refused: pydantic reads none of its values from JSON."""
READ_HERE = ("Literal of a plain Enum", "numbers of a Literal as keys", "an alias that is a path")
"""Which of them are read outside of pydantic."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_json_stands_for_is_refused_by_its_place(name: str) -> None:
    hint, reason = REFUSED[name]
    refused = [(pydantic.create_model("Model", a=(int, 0), v=(hint, ...)), "Model.v")]
    if name not in READ_HERE:
        refused.append((dataclasses.make_dataclass("Record", [("a", int), ("v", hint)]), "Record.v"))
    for whole_type, place in refused:
        with pytest.raises(UnsupportedConstraint) as caught:
            python_type(whole_type)
        (problem,) = caught.value.problems
        assert problem.place == place
        assert re.search(reason, problem.reason), problem.reason


def test_members_of_a_plain_enum_and_numbers_of_a_literal_outside_of_pydantic() -> None:
    @dataclasses.dataclass
    class Tagged:
        kind: Literal[Plain.A]
        share: dict[Literal[1, 2], float]

    said = '{"kind": "a", "share": {"1": 0.5}}'
    assert accepted(python_type(Tagged), said)
    assert python_type(Tagged).parse(said) == Tagged(Plain.A, {1: 0.5})


def test_a_bound_of_a_length_is_enforced_where_it_has_an_effect() -> None:
    constraint = python_type(pydantic.create_model("Owner", pet=(KINDS["length of a TypedDict"][0], ...)))
    assert [one.keyword for one in constraint.report if "Properties" in one.keyword and one.pointer.startswith("#/properties/pet")] == [
        "minProperties", "maxProperties"
    ]  # fmt: skip
    assert not any(entry.keyword == "minLength" or entry.status == "unchecked" for entry in constraint.report)
    for wrong in ({}, {"cat": "a", "dog": "b"}):
        assert not accepted(constraint, json.dumps({"pet": wrong}))
    none = {
        "type": "object",
        "minLength": 1,
        "properties": {"a": {"$ref": "#/$defs/a", "pattern": "x"}},
        "$defs": {"a": {"type": "array"}},
    }
    said = {entry.pointer: (entry.status, entry.note) for entry in constrained.json_schema(none).report}
    for pointer in ("#/minLength", "#/properties/a/pattern"):
        assert said[pointer] == ("annotation", "has no effect on values of this type")
