"""Python types -> JSON Schema -> instances."""

from __future__ import annotations

import dataclasses
import enum
import json
import pathlib
import sys
from dataclasses import InitVar, dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, NamedTuple, NewType, Optional, Union
from uuid import UUID

import annotated_types as at
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from typing_extensions import Doc, TypeAliasType, TypedDict

from constrained.grammars.errors import InvalidConstraint, UnsatisfiableConstraint, UnsupportedConstraint
from constrained.grammars.types import type_spec
from tests.support.examples import examples
from tests.support.type_examples import (
    Address,
    Box,
    Cat,
    Color,
    Contact,
    Dog,
    Folder,
    Grade,
    Labelled,
    Line,
    Order,
    Owner,
    Point,
    Size,
    Tree,
    encode,
)


def round_trip(hint: Any, value: Any) -> Any:
    """Through JSON text under the type's schema, and back."""
    spec = type_spec(hint)
    Draft202012Validator.check_schema(spec.schema)
    said = json.loads(json.dumps(encode(value)))
    Draft202012Validator(spec.schema).validate(said)
    return spec.build(said)


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types all the way down (1, 1.0 and True are equal in Python)."""
    return left == right and repr(left) == repr(right)


# ---------------------------------------------------------------- schemas


def test_a_dataclass_is_a_closed_object_with_its_fields_in_order() -> None:
    schema = type_spec(Line).schema
    assert schema["title"] == "Line"
    assert schema["description"] == "One line of an order."
    assert list(schema["properties"]) == ["sku", "price", "count", "color"]
    assert schema["required"] == ["sku", "price"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["count"] == {"type": "integer", "minimum": 1, "maximum": 99, "default": 1}
    assert schema["properties"]["color"] == {"anyOf": [{"$ref": "#/$defs/Color"}, {"type": "null"}]}
    assert schema["$defs"]["Color"]["enum"] == ["red", "blue"]


def test_descriptions_come_from_annotations_metadata_and_docstrings() -> None:
    line = type_spec(Line).schema["properties"]
    assert line["sku"]["description"] == "article number", "the annotation is nearer than the docstring"
    assert line["price"]["description"] == "what one costs"
    assert type_spec(Order).schema["properties"]["lines"]["description"] == "what was ordered"
    assert type_spec(Address).schema["properties"]["street"]["description"] == "street and number"
    assert type_spec(Address).schema["description"] == "Where somebody lives."
    assert type_spec(Contact).schema["description"] == "How to reach somebody."
    assert type_spec(Annotated[int, Doc("how many")]).schema["description"] == "how many"
    assert type_spec(Color).schema["description"] == "A colour of the catalogue."


def test_generated_docstrings_are_no_descriptions() -> None:
    for hint in (Order, Point, Tree, Grade):
        assert "description" not in (
            type_spec(hint).schema | type_spec(hint).schema.get("$defs", {}).get("Tree", {})
        )


def test_numbers_of_an_enum_are_explained_by_their_names() -> None:
    assert type_spec(Size).schema["description"] == "1 = SMALL, 2 = LARGE"


def test_a_description_of_a_field_stands_beside_the_reference() -> None:
    @dataclass
    class Shirt:
        color: Annotated[Color, "of the sleeves"]

    schema = type_spec(Shirt).schema
    assert schema["properties"]["color"] == {"$ref": "#/$defs/Color", "description": "of the sleeves"}
    assert type_spec(Shirt).build({"color": "red"}) == Shirt(Color.RED)


def test_a_recursive_type_refers_to_itself() -> None:
    for hint, field in ((Tree, "children"), (Folder, "folders")):
        schema = type_spec(hint).schema
        name = hint.__name__
        assert schema["$ref"] == f"#/$defs/{name}"
        assert schema["$defs"][name]["properties"][field]["items"] == {"$ref": f"#/$defs/{name}"}
    deep = Tree(1, [Tree(2, [Tree(3, parent=Tree(4))])])
    assert same(round_trip(Tree, deep), deep)
    nested = Folder(name="a", folders=[Folder(name="b", folders=[Folder(name="c")])])
    assert same(round_trip(list[Folder], [nested]), [nested])


def test_a_type_that_is_used_once_at_the_root_is_written_in_place() -> None:
    assert "$ref" not in type_spec(Line).schema
    assert "$defs" not in type_spec(Color).schema


def test_two_types_of_one_name_are_kept_apart() -> None:
    first = dataclasses.make_dataclass("Item", [("a", int)])
    second = dataclasses.make_dataclass("Item", [("b", str)])
    third = pydantic.create_model("Item", c=(bool, ...))
    outer = pydantic.create_model("Outer", item=(pydantic.create_model("Item", d=(float, ...)), ...))
    for hint in (tuple[first, second, third, outer], tuple[outer, third, second, first]):
        spec = type_spec(hint)
        values = {first: {"a": 1}, second: {"b": "x"}, third: {"c": True}, outer: {"item": {"d": 0.5}}}
        said = [values[part] for part in hint.__args__]
        Draft202012Validator(spec.schema).validate(said)
        built = spec.build(said)
        assert [type(part) for part in built] == list(hint.__args__)
        assert not Draft202012Validator(spec.schema).is_valid(said[::-1])


def test_a_definition_that_two_pydantic_models_share_is_written_once() -> None:
    left = pydantic.create_model("Left", address=(Address, ...))
    right = pydantic.create_model("Right", address=(Address, ...))
    schema = type_spec(tuple[left, right, Address]).schema
    assert sorted(schema["$defs"]) == ["Address", "Left", "Right"]


def test_pydantic_models_are_closed_unless_they_take_extra_keys() -> None:
    class Open(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")
        a: int

    assert type_spec(Cat).schema["additionalProperties"] is False
    assert type_spec(Open).schema["additionalProperties"] is True
    assert type_spec(Open).build({"a": 1, "b": 2}).model_extra == {"b": 2}


def test_a_discriminated_union_requires_the_tag_that_pydantic_needs() -> None:
    spec = type_spec(Owner)
    assert "oneOf" not in json.dumps(spec.schema)
    assert "discriminator" not in json.dumps(spec.schema)
    validator = Draft202012Validator(spec.schema)
    assert validator.is_valid({"pet": {"kind": "cat"}})
    assert not validator.is_valid({"pet": {"lives": 3}})
    assert spec.build({"pet": {"kind": "dog", "name": "Rex"}}) == Owner(pet=Dog(name="Rex"))


def test_pydantic_reads_by_alias() -> None:
    assert list(type_spec(Address).schema["properties"]) == ["street", "zip", "country"]
    assert type_spec(Address).build({"street": "Way 1", "zip": "12345"}).zip_code == "12345"


def test_strict_pydantic_models_take_json() -> None:
    class Strict(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(strict=True)
        day: date
        color: Color
        pair: tuple[int, str]

    value = Strict(day=date(2024, 2, 29), color=Color.BLUE, pair=(1, "a"))
    assert round_trip(Strict, value) == value


@pytest.mark.parametrize(
    ("settings", "good", "bad"),
    [
        (
            {"max_digits": 4, "decimal_places": 2},
            ["0", "12.5", "-99.99", "0.05"],
            ["100", "1.234", "007", ""],
        ),
        ({"max_digits": 3}, ["0.123", "1.23", "12.3", "123", "-1"], ["1234", "12.34", "0.1234"]),
        ({"decimal_places": 1}, ["123456789.5", "0"], ["1.25", "1."]),
        ({"max_digits": 2, "decimal_places": 2}, ["0.25", "-0.1"], ["1.5", "0", "0.125"]),
    ],
)
def test_digits_of_a_pydantic_decimal_are_counted(settings: Any, good: list[str], bad: list[str]) -> None:
    model = pydantic.create_model("Price", price=(Decimal, pydantic.Field(**settings)))
    spec = type_spec(model)
    validator = Draft202012Validator(spec.schema)
    for text in good:
        assert validator.is_valid({"price": text})
        assert spec.build({"price": text}).price == Decimal(text), "what the schema allows, pydantic takes"
    for text in bad:
        assert not validator.is_valid({"price": text})


def test_a_bounded_pydantic_decimal_is_a_number() -> None:
    model = pydantic.create_model("Price", price=(Decimal, pydantic.Field(ge=0, decimal_places=2)))
    assert type_spec(model).schema["properties"]["price"] == {
        "type": "number",
        "minimum": 0.0,
        "multipleOf": 0.01,
    }
    assert type_spec(pydantic.create_model("Any", x=(Decimal, ...))).schema["properties"]["x"] == {
        "type": "number"
    }


def test_pydantic_metadata_and_adapters() -> None:
    even = Annotated[int, pydantic.Field(ge=0, multiple_of=2, description="even")]
    assert type_spec(even).schema == {"type": "integer", "minimum": 0, "multipleOf": 2, "description": "even"}
    assert type_spec(pydantic.TypeAdapter(list[int])).build([1]) == [1]
    twice = Annotated[int, pydantic.AfterValidator(lambda number: number * 2)]
    assert type_spec(list[twice]).build([1, 2]) == [2, 4]

    @pydantic.dataclasses.dataclass
    class Checked:
        day: date

    assert type_spec(Checked).build({"day": "2024-01-01"}) == Checked(date(2024, 1, 1))
    with pytest.raises(pydantic.ValidationError):
        type_spec(Checked).build({"day": "tomorrow"})


def test_typed_dict_keys_are_required_by_their_own_marks() -> None:
    assert type_spec(Contact).schema["required"] == ["email"]
    assert list(type_spec(Contact).schema["properties"]) == ["email", "phone", "seen"]
    assert type_spec(Contact).build({"email": "x", "seen": "2024-01-01"}) == {
        "email": "x",
        "seen": date(2024, 1, 1),
    }


def test_init_only_and_computed_fields_of_a_dataclass() -> None:
    @dataclass
    class Circle:
        radius: InitVar[float]
        area: float = dataclasses.field(init=False)
        unit: Final[str] = "cm"

        def __post_init__(self, radius: float) -> None:
            self.area = 3 * radius * radius

    spec = type_spec(Circle)
    assert list(spec.schema["properties"]) == ["radius", "unit"]
    assert spec.build({"radius": 2}).area == 12.0


def test_generic_classes_are_bound() -> None:
    assert type_spec(Box[Size]).build({"item": 1, "others": [2]}) == Box(Size.SMALL, [Size.LARGE])
    spec = type_spec(Labelled[Color])
    assert spec.build({"item": ["red"], "others": [["blue"], []], "label": "red"}) == Labelled(
        [Color.RED], [[Color.BLUE], []], Color.RED
    )
    assert type_spec(Box).schema["properties"]["item"] == {}, "an unbound variable is any value"


def test_new_types_and_aliases() -> None:
    user_id = NewType("user_id", int)
    assert type_spec(user_id).schema == {"type": "integer"}
    ids = TypeAliasType("ids", list[user_id])
    assert type_spec(ids).schema == {"type": "array", "items": {"type": "integer"}}
    assert type_spec(dict[str, ids]).build({"a": [1]}) == {"a": [1]}


def test_parameters_of_a_function() -> None:
    def book(room: str, nights: Annotated[int, at.Ge(1)] = 1, *, view: Color | None = None) -> None:
        """Books a room.

        Long text.

        Args:
            room: its number
            view (Color): which side
                it looks to

        Returns:
            nothing: at all
        """

    spec = type_spec(book)
    assert spec.schema["title"] == "book"
    assert spec.schema["description"] == "Books a room.\n\nLong text."
    assert spec.schema["required"] == ["room"]
    properties = spec.schema["properties"]
    assert properties["room"] == {"type": "string", "description": "its number"}
    assert properties["nights"] == {"type": "integer", "minimum": 1, "default": 1}
    assert properties["view"]["description"] == "which side it looks to"
    assert spec.build({"room": "1a", "view": "red"}) == {"room": "1a", "view": Color.RED}


def test_a_dict_with_finite_keys_has_properties() -> None:
    spec = type_spec(dict[Color, int])
    assert spec.schema["properties"] == {"red": {"type": "integer"}, "blue": {"type": "integer"}}
    assert spec.schema["additionalProperties"] is False
    assert spec.build({"blue": 1}) == {Color.BLUE: 1}


# ---------------------------------------------------------------- bounds of `Annotated`


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Annotated[float, at.Gt(0), at.Lt(1)], {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
        (Annotated[int, at.Ge(1), at.Ge(3), at.Le(9), at.Le(8)], {"type": "integer", "minimum": 3, "maximum": 8}),
        (Annotated[str, at.Len(2, 5)], {"type": "string", "minLength": 2, "maxLength": 5}),
        (Annotated[list[int], at.MinLen(1)], {"type": "array", "items": {"type": "integer"}, "minItems": 1}),
        (Annotated[dict[str, int], at.MaxLen(2)], {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2}),
        (Annotated[int, at.MultipleOf(5)], {"type": "integer", "multipleOf": 5}),
        (Annotated[int | None, at.Ge(0)], {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]}),
        (Annotated[Decimal, at.Ge(Decimal("0.5"))], {"type": "number", "minimum": 0.5}),
        (Annotated[int, {"not": "about constraints"}, object()], {"type": "integer"}),
    ],
)  # fmt: skip
def test_bounds(hint: Any, schema: dict[str, Any]) -> None:
    assert type_spec(hint).schema == schema


# ---------------------------------------------------------------- refusals


class Money(pydantic.BaseModel):
    amount: complex


class Invoice(pydantic.BaseModel):
    money: Money


@dataclass
class Basket:
    items: list[dict[str, range]]
    tags: dict[str, range]
    invoice: Invoice
    fine: int


@pytest.mark.parametrize(
    ("hint", "places"),
    [
        (Basket, ["Basket.items[]{}", "Basket.tags{}"]),
        (list[Basket], ["list[Basket][].items[]{}", "list[Basket][].tags{}"]),
        (bytearray, ["bytearray"]),
        (dict[tuple[int, int], str], ["dict[tuple[int, int], str]"]),
        (set[list[int]], ["set[list[int]]"]),
        (tuple[int, range], ["tuple[int, range][1]"]),
        (Literal[b"x"], ["Literal[b'x']"]),
        (Annotated[str, at.Ge(1)], ["str"]),
        (Annotated[date, at.Ge(date(2020, 1, 1))], ["date"]),
        (Annotated[int, at.Predicate(bool)], ["int"]),
        (Annotated[int, at.Ge(float("inf"))], ["int"]),
        (enum.Flag("Access", "READ WRITE"), ["Access"]),
        (enum.Enum("Weird", {"A": (1, 2)}), ["Weird"]),
        (type("Plain", (), {}), ["Plain"]),
        (42, ["42"]),
    ],
)
def test_every_part_that_cannot_be_said_is_named(hint: Any, places: list[str]) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        type_spec(hint)
    found = [problem.place for problem in caught.value.problems]
    assert found[: len(places)] == places
    assert f"{len(found)} part" in str(caught.value)


def test_a_field_of_a_pydantic_model_that_has_no_schema_is_named() -> None:
    class Callback(pydantic.BaseModel):
        hook: Any
        calls: list[int]
        handler: type[int]

    class Job(pydantic.BaseModel):
        name: str
        callback: Callback

    @dataclass
    class Queue:
        jobs: list[Job]

    with pytest.raises(UnsupportedConstraint, match="pydantic has no JSON Schema") as caught:
        type_spec(Queue)
    assert caught.value.problems[0].place == "Queue.jobs[].callback.handler"


def test_classes_of_a_function_may_name_each_other() -> None:
    @dataclass
    class Wheel:
        of: Cart | None

    @dataclass
    class Cart:
        wheels: list[Wheel]

    assert type_spec(Wheel).build({"of": {"wheels": [{"of": None}]}}) == Wheel(Cart([Wheel(None)]))


def test_unresolved_names() -> None:
    with pytest.raises(InvalidConstraint, match="'Nowhere' is a name outside"):
        type_spec(list["Nowhere"])  # type: ignore[name-defined]  # noqa: F821
    lost = dataclasses.make_dataclass("Lost", [("x", "Nowhere")])
    with pytest.raises(InvalidConstraint, match="Lost"):
        type_spec(lost)


def test_an_enum_without_members() -> None:
    class Empty(enum.Enum):
        pass

    with pytest.raises(UnsatisfiableConstraint, match="Empty"):
        type_spec(Empty)


def test_positional_only_and_variadic_parameters() -> None:
    def first(x: int, /, *rest: int) -> None: ...

    with pytest.raises(UnsupportedConstraint) as caught:
        type_spec(first)
    assert [problem.place for problem in caught.value.problems] == ["first.x", "first.rest"]


def test_models_of_pydantic_1_are_refused() -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        v1 = pytest.importorskip("pydantic.v1")
        if sys.version_info >= (3, 14):
            pytest.skip("pydantic 1 does not run here")
        old = v1.create_model("Old", x=(int, ...))
    with pytest.raises(UnsupportedConstraint, match="pydantic 1"):
        type_spec(old)


# ---------------------------------------------------------------- building values


@pytest.mark.parametrize(
    ("hint", "said", "built"),
    [
        (bool | int, True, True),
        (bool | int, 1, 1),
        (int | float, 1, 1),
        (int | float, 1.0, 1.0),
        (float | int, 1, 1),
        (float, 1, 1.0),
        (str | date, "2024-02-29", date(2024, 2, 29)),
        (date | str, "2023-02-29", "2023-02-29"),
        (datetime | date, "2024-02-29", date(2024, 2, 29)),
        (str | Color, "red", Color.RED),
        (str | Color, "green", "green"),
        (Any | int, 1, 1),
        (Literal[1, True, "a", None], True, True),
        (Literal[1, True, "a", None], 1, 1),
        (Literal[Color.RED, 3], "red", Color.RED),
        (Optional[list[Optional[int]]], [1, None], [1, None]),  # noqa: UP045
        (Union[list[int], list[str]], ["a"], ["a"]),  # noqa: UP007
        (dict[str, int] | Line, {"sku": 1}, {"sku": 1}),
        (Box[int] | Box[str], {"item": "a", "others": []}, Box("a", [])),
        (Cat | Dog, {"kind": "dog", "name": "a"}, Dog(name="a")),
        (list[tuple[int, ...]], [[1, 2], []], [(1, 2), ()]),
        (tuple[()], [], ()),
        (Grade, "b", Grade.B),
        (Size, 2, Size.LARGE),
        (pathlib.Path, "a/b", pathlib.Path("a/b")),
        (Decimal, 0.1, Decimal("0.1")),
        (Decimal, 10**30 + 1, Decimal(10**30 + 1)),
        (None, None, None),
        (list, [1, "a"], [1, "a"]),
    ],
)
def test_values(hint: Any, said: Any, built: Any) -> None:
    spec = type_spec(hint)
    Draft202012Validator(spec.schema).validate(said)
    assert same(spec.build(said), built)


def test_of_two_records_the_one_that_leaves_fewer_fields_unset() -> None:
    @dataclass
    class Wide:
        x: int
        y: int = 0

    @dataclass
    class Narrow:
        x: int

    assert type_spec(Wide | Narrow).build({"x": 1}) == Narrow(1)
    assert type_spec(Wide | Narrow).build({"x": 1, "y": 2}) == Wide(1, 2)


@pytest.mark.parametrize(
    ("hint", "text", "built"),
    [
        (datetime, "2016-12-31T23:59:60Z", datetime(2017, 1, 1, tzinfo=timezone.utc)),
        (datetime, "2024-02-29t12:00:00.1234567+02:30", datetime(2024, 2, 29, 12, 0, 0, 123456, timezone(timedelta(minutes=150)))),
        (time, "12:30:00Z", time(12, 30, tzinfo=timezone.utc)),
        (time, "23:59:60.5-01:00", time(0, 0, 0, 500000, timezone(timedelta(hours=-1)))),
        (timedelta, "P1Y2M3DT4H5M6S", timedelta(days=365 + 60 + 3, hours=4, minutes=5, seconds=6)),
        (timedelta, "P2W", timedelta(days=14)),
        (timedelta, "-PT0.25S", timedelta(milliseconds=-250)),
    ],
)  # fmt: skip
def test_moments(hint: Any, text: str, built: Any) -> None:
    assert same(type_spec(hint).build(text), built)


@pytest.mark.parametrize("text", ["P", "PT", "P1", "1D", "P1DT", "P1H"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        type_spec(timedelta).build(text)


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (int, True), (int, 1.5), (int, "1"), (float, True), (bool, 1), (str, 1), (None, 0), (date, "20240229"),
        (date, "2023-02-29"), (UUID, "0" * 32), (Color, "RED"), (Color, []), (Literal[1], True), (list[int], {}),
        (tuple[int, int], [1]), (dict[str, int], []), (Line, {"sku": "a"}), (int | str, None),
        (Line, {"sku": "a", "price": 1, "more": 1}), (Decimal, "1"), (Line | None, {}),
    ],
)  # fmt: skip
def test_a_value_of_another_shape_is_refused(hint: Any, said: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any of many messages
        type_spec(hint).build(said)


# ---------------------------------------------------------------- random types

NAMES = ("a", "b", "c", "class_", "größe")

LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (str, st.text(max_size=5)),
    (None, st.none()),
    (date, st.dates()),
    (datetime, st.datetimes(timezones=st.just(timezone.utc)).map(lambda moment: moment.replace(fold=0))),
    (UUID, st.uuids()),
    (timedelta, st.integers(0, 10**9).map(lambda seconds: timedelta(seconds=seconds))),
    (Color, st.sampled_from(Color)),
    (Size, st.sampled_from(Size)),
    (Literal["x", 3, None], st.sampled_from(["x", 3, None])),
    (Annotated[int, at.Interval(ge=0, le=9), "a digit"], st.integers(0, 9)),
    (Address, st.builds(Address, street=st.text(min_size=1, max_size=3), zip=st.just("01234"))),
    (Tree, st.builds(Tree, st.integers(), st.lists(st.builds(Tree, st.integers()), max_size=2), st.none())),
]


@st.composite
def typed_values(draw: st.DrawFn, depth: int = 3) -> tuple[Any, st.SearchStrategy[Any]]:
    """A random type, and a strategy for its values."""
    makers = ["leaf", "leaf", *(MAKERS if depth else ())]
    kind = draw(st.sampled_from(makers))
    if kind == "leaf":
        return draw(st.sampled_from(LEAVES))
    count = draw(st.integers(1, 3))
    parts = [draw(typed_values(depth=depth - 1)) for _ in range(count)]
    return MAKERS[kind](parts)


def _record(make: Any) -> Any:
    def maker(parts: list[tuple[Any, st.SearchStrategy[Any]]]) -> tuple[Any, st.SearchStrategy[Any]]:
        cls = make({name: hint for name, (hint, _) in zip(NAMES, parts, strict=False)})
        values = {name: strategy for name, (_, strategy) in zip(NAMES, parts, strict=False)}
        return cls, st.fixed_dictionaries(values).map(
            lambda given: cls(**{name: given[name] for name in values})
        )

    return maker


def _optional(parts: list[Any]) -> tuple[Any, st.SearchStrategy[Any]]:
    hint, values = parts[0]
    return Optional[hint], st.none() | values  # noqa: UP045


MAKERS: dict[str, Any] = {
    "list": lambda parts: (list[parts[0][0]], st.lists(parts[0][1], max_size=3)),
    "tuple": lambda parts: (tuple[tuple(hint for hint, _ in parts)], st.tuples(*(values for _, values in parts))),
    "many": lambda parts: (tuple[parts[0][0], ...], st.lists(parts[0][1], max_size=3).map(tuple)),
    "dict": lambda parts: (dict[str, parts[0][0]], st.dictionaries(st.text(max_size=3), parts[0][1], max_size=3)),
    "optional": _optional,
    "dataclass": _record(lambda fields: dataclasses.make_dataclass("Made", list(fields.items()))),
    "typed_dict": _record(lambda fields: TypedDict("Keyed", fields)),
    "named_tuple": _record(lambda fields: NamedTuple("Pair", list(fields.items()))),
}  # fmt: skip


@settings(max_examples=examples(60))
@given(st.data())
def test_any_value_of_any_type_comes_back(data: st.DataObject) -> None:
    hint, values = data.draw(typed_values())
    value = data.draw(values)
    built = round_trip(hint, value)
    assert same(built, value)
    assert type(built) is type(value)


@settings(max_examples=15)
@given(
    st.builds(
        Order,
        id=st.uuids(),
        lines=st.lists(
            st.builds(
                Line,
                st.text(max_size=4),
                st.integers(0, 10**6).map(lambda cents: Decimal(cents) / 100),
                st.integers(1, 99),
                st.none() | st.sampled_from(Color),
            ),
            max_size=3,
        ),
        when=st.datetimes(timezones=st.just(timezone.utc)),
        size=st.sampled_from(Size),
        place=st.none() | st.builds(Point, st.floats(-9, 9), st.floats(-9, 9)),
        contact=st.none()
        | st.fixed_dictionaries({"email": st.text(max_size=3)}, optional={"phone": st.none()}),
        address=st.none() | LEAVES[-2][1],
        notes=st.dictionaries(st.text(max_size=3), st.tuples(st.integers(), st.text(max_size=3)), max_size=2),
    )
)
def test_orders_come_back(order: Order) -> None:
    assert round_trip(Order, order) == order
