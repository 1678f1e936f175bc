"""What a type checks is enforced: every text that is drawn makes an instance, and usual texts are allowed."""

from __future__ import annotations

import builtins
import dataclasses
import datetime as datetime_module
import enum
import ipaddress
import json
import re
from datetime import date, datetime, time, timedelta, timezone
from typing import Annotated, Any, NamedTuple

import pydantic
import pytest
from pydantic import Field, TypeAdapter, networks
from typing_extensions import TypedDict

import constrained
from constrained import gbnf, json_schema, predicate, python_type, regex, substring_of
from constrained.errors import RejectedValue, UnsupportedConstraint
from tests.grammars.json_schema.test_contents import accepted, draws
from tests.support.examples import examples
from tests.support.paths import ROOT

NOW = datetime.now().astimezone()  # what is said of it below holds for a day
DAY = timedelta(days=1)
UTC = timezone.utc
UUIDS = {version: f"6ba7b810-9dad-{version}1d1-80b4-00C04fd430c8" for version in range(1, 9)}

# Type, texts of it in their usual form, texts that are not of it.
TYPES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "datetime": (
        datetime,
        ["2026-01-05T09:30:00", "2026-01-05 09:30", "2026-01-05T09:30:00.25Z", "2026-01-05T09:30:00+0100"],
        ["2026-02-30T09:30:00", "2026-01-05", "2026-01-05T25:00", "0000-01-05T09:30:00"],
    ),
    "time": (time, ["09:30", "09:30:15", "09:30:00.5+02:00"], ["24:00", "9:30", "09:30:60"]),
    "date": (date, ["2024-02-29"], ["2023-02-29", "2024-02-29T00:00"]),
    "aware": (pydantic.AwareDatetime, ["2026-01-05T09:30:00Z", "2026-01-05T09:30-05:00"], ["2026-01-05T09:30:00"]),
    "naive": (pydantic.NaiveDatetime, ["2026-01-05T09:30:00"], ["2026-01-05T09:30:00Z"]),
    "past date": (pydantic.PastDate, ["1999-12-31", str(NOW.date() - DAY)], [str(NOW.date() + DAY), "2999-01-01"]),
    "future date": (pydantic.FutureDate, ["2999-12-31", str(NOW.date() + 2 * DAY)], [str(NOW.date()), "1999-01-01"]),
    "past": (
        pydantic.PastDatetime,
        ["1999-12-31T00:00:00", (NOW - timedelta(minutes=5)).isoformat(), "1999-01-01T00:00+13:07"],
        [(NOW + DAY).isoformat(), "2999-01-01T00:00:00Z"],
    ),
    "future": (
        pydantic.FutureDatetime,
        ["2999-12-31T00:00:00", (NOW + 2 * DAY).isoformat(), (NOW + DAY).astimezone(UTC).strftime("%FT%TZ")],
        [NOW.isoformat(), "1999-01-01T00:00:00Z"],
    ),
    "date bounds": (
        Annotated[date, Field(ge=date(2020, 2, 3), lt=date(2020, 12, 1))],
        ["2020-02-03", "2020-11-30"],
        ["2020-02-02", "2020-12-01", "2021-05-05"],
    ),
    "wall clock bounds": (
        Annotated[datetime, Field(ge=datetime(2020, 2, 3, 10, 5, 7), lt=datetime(2020, 2, 4))],
        ["2020-02-03T10:05:07", "2020-02-03T23:59:59", "2020-02-03T11:00+05:00"],
        ["2020-02-03T10:05", "2020-02-04T00:00", "2020-02-03T09:00-05:00"],
    ),
    "instant bounds": (
        Annotated[datetime, Field(ge=datetime(2020, 2, 3, 10, tzinfo=UTC))],
        ["2020-02-03T10:00Z", "2020-02-03T10:00", "2020-02-03T12:00+02:00", "2020-02-03T05:00-05:00"],
        ["2020-02-03T09:59Z", "2020-02-03T11:00+02:00", "2020-02-03T04:59-05:00"],
    ),
    **{
        f"UUID{version}": (getattr(pydantic, f"UUID{version}"), [UUIDS[version]], [UUIDS[9 - version], "x"])
        for version in (1, 3, 4, 5, 6, 7, 8)
        if hasattr(pydantic, f"UUID{version}")
    },
    "IPv4Address": (ipaddress.IPv4Address, ["192.168.0.1"], ["192.168.0.256", "::1", "1.2.3.4/8"]),
    "IPv4Network": (ipaddress.IPv4Network, ["10.0.0.0/8", "1.2.3.4", "0.0.0.0/0"], ["10.0.0.1/8", "10.0.0.0/33"]),
    "IPv4Interface": (ipaddress.IPv4Interface, ["10.0.0.1/8", "10.0.0.1"], ["10.0.0.1/33"]),
    "IPv6Address": (ipaddress.IPv6Address, ["2001:db8::1", "::"], ["1.2.3.4", "1::2::3"]),
    "IPv6Network": (
        ipaddress.IPv6Network,
        ["2001:db8::/32", "::/0", "fe80::/10", "2001:db8:0:0:0:0:0:0/32", "::1/128"],
        ["2001:db8::1/32", "fe81::/10", "::/129"],
    ),
    "IPv6Interface": (ipaddress.IPv6Interface, ["2001:db8::1/32", "::1"], ["::1/129"]),
    "IPvAnyAddress": (networks.IPvAnyAddress, ["1.2.3.4", "::1"], ["1.2.3.4/8"]),
    "IPvAnyNetwork": (networks.IPvAnyNetwork, ["10.0.0.0/8", "2001:db8::/32"], ["10.0.0.1/8"]),
    "IPvAnyInterface": (networks.IPvAnyInterface, ["10.0.0.1/8", "::1/64"], ["10.0.0.1/64"]),
    "HttpUrl": (
        pydantic.HttpUrl,
        ["https://example.com", "http://u:p@my_host.org:8080/a/b?q=1&r=%20#top", "https://[::1]/", "https://cs.wikipedia.org/wiki/Živý"],
        ["value:", "ftp://example.com", "http://", "http://1.2.3.999/", "http://a:99999", "https://" + "a" * 2083],
    ),
    "AnyUrl": (pydantic.AnyUrl, ["mailto:ana@example.com", "urn:isbn:1", "ssh://h:22/x", "file:///etc"], ["http:", "x"]),
    "FileUrl": (pydantic.FileUrl, ["file:///etc/hosts"], ["http://a.b"]),
    "FtpUrl": (pydantic.FtpUrl, ["ftp://a.b/c"], ["http://a.b"]),
    "WebsocketUrl": (pydantic.WebsocketUrl, ["wss://a.b/c"], ["http://a.b"]),
    "PostgresDsn": (
        pydantic.PostgresDsn,
        ["postgresql://u:p@db:5432/app", "postgres://h1:1,h2:2/db", "postgresql+asyncpg://h/db?ssl=on"],
        ["postgres:///db", "mysql://h/db"],
    ),
    "RedisDsn": (pydantic.RedisDsn, ["redis://", "rediss://:pw@h:6379/0"], ["http://h"]),
    "MariaDBDsn": (networks.MariaDBDsn, ["mariadb://u@h/db"], ["mariadb://"]),
    **{name: (getattr(networks, name), [], ["http://h", "x"]) for name in ("MySQLDsn", "MongoDsn", "KafkaDsn", "AmqpDsn")},
    "Base64Bytes": (pydantic.Base64Bytes, ["", "YQ==", "/w==", "YWJj"], ["YQ", "_w==", "a==="]),
    "Base64Str": (pydantic.Base64Str, ["", "YQ==", "xaFl", "8J+YgA=="], ["/w==", "YQ", "7aCA"]),
    "Base64UrlBytes": (pydantic.Base64UrlBytes, ["_w==", "YQ=="], ["/w==", "YQ"]),
    "Base64UrlStr": (pydantic.Base64UrlStr, ["8J-YgA=="], ["_w=="]),
    "Json": (pydantic.Json, ['{"a": [1, "é\\n"]}', "3"], ["{", ""]),
    "Json[list[int]]": (pydantic.Json[list[int]], ["[1, 2]", "[]"], ["[1.5]", "{}"]),
    "EmailStr": (
        pydantic.EmailStr,
        ["ana@example.com", "a.b+c_d@sub.example.org", "x!#$%&'*/=?^`{|}~-@a-b.co"],
        ["ana", "ana@localhost", "a..b@example.com", ".a@example.com", "a@b@example.com", "a@-b.com", "a@b.test", "a b@c.de"],
    ),
    "ByteSize": (pydantic.ByteSize, ["1.5 GB", "3kib", "10", "2 kbit", 1024], ["GB", "1 xb", "1e3", -1]),
    "complex": (complex, ["1+2j", "-1.5e3-2J", "3", "j"], ["1 + 2j", "i"]),
    "set": (set[int], [[1, 2], []], [[1, 1]]),
    "frozenset": (frozenset[str], [["a", "b"]], [["a", "a"], ["a", "\u0061"]]),
    "stripped": (
        Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=2)],
        ["ab", "a b"],
        [" a", "a\u00a0", "a"],
    ),
}  # fmt: skip


def member(hint: Any) -> Any:
    """A pydantic model with one field."""
    return pydantic.create_model("Model", v=(hint, ...))


@pytest.mark.parametrize("name", TYPES)
def test_usual_texts_are_allowed_and_others_are_not(name: str) -> None:
    hint, right, wrong = TYPES[name]
    constraint = python_type(member(hint), separators=(",", ":"))
    for value in right:
        TypeAdapter(hint).validate_json(json.dumps(value))  # the judge
        for ascii_only in (True, False):
            assert accepted(
                constraint, json.dumps({"v": value}, ensure_ascii=ascii_only, separators=(",", ":"))
            ), value
    for value in wrong:
        assert not accepted(constraint, json.dumps({"v": value}, separators=(",", ":"))), value


def test_today_is_neither_a_past_date_nor_a_future_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Noon(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Noon:
            return cls(2026, 3, 1, 12, tzinfo=tz)

    monkeypatch.setattr("constrained.grammars.types.core_schemas.dt.datetime", Noon)
    for hint, right, wrong in (
        (pydantic.PastDate, "2026-02-28", "2026-03-01"),
        (pydantic.FutureDate, "2026-03-02", "2026-03-01"),
    ):
        constraint = python_type(member(hint), separators=(",", ":"))
        assert accepted(constraint, f'{{"v":"{right}"}}')
        assert not accepted(constraint, f'{{"v":"{wrong}"}}')


@pytest.mark.parametrize("name", TYPES)
def test_what_is_drawn_is_an_instance(name: str) -> None:
    constraint = python_type(member(TYPES[name][0]), whitespace="none")
    for text in draws(constraint, examples(40)):
        constraint.parse(text)


@dataclasses.dataclass
class Plain:
    at: datetime
    clock: time
    address: ipaddress.IPv4Network
    number: complex
    tags: set[str]
    frozen: frozenset[int]


def test_types_without_pydantic_are_read_the_same_way() -> None:
    constraint = python_type(Plain, separators=(",", ":"))
    said = {
        "at": "2026-01-05T09:30",
        "clock": "09:30:00+0100",
        "address": "10.0.0.0/8",
        "number": "1+2j",
        "tags": ["a"],
        "frozen": [2],
    }
    text = json.dumps(said, separators=(",", ":"))
    assert accepted(constraint, text)
    assert constraint.parse(text) == Plain(
        datetime(2026, 1, 5, 9, 30),
        time(9, 30, tzinfo=timezone(timedelta(hours=1))),
        ipaddress.IPv4Network("10.0.0.0/8"),
        1 + 2j,
        {"a"},
        frozenset({2}),
    )
    for text in draws(constraint, 10):
        constraint.parse(text)


def test_a_format_of_a_schema_stays_as_the_rfc_has_it() -> None:
    strict = json_schema({"type": "string", "format": "date-time"})
    assert not accepted(strict, '"2026-01-05T09:30:00"')
    assert accepted(strict, '"2026-01-05T09:30:00Z"')


# ---------------------------------------------------------------- constraints in Annotated

CODE = regex("[ab]{3}")
QUOTE = substring_of('He said "no"\n')
DEEP = gbnf('root ::= "(" root ")" | "x"')


class Inner(TypedDict):
    code: Annotated[str, CODE]


@dataclasses.dataclass
class Outer:
    inner: Inner
    codes: list[Annotated[str, CODE]]
    maybe: Annotated[str, DEEP] | None


class Model(pydantic.BaseModel):
    code: Annotated[str, CODE]
    short: Annotated[str, CODE, Field(description="a code", max_length=3)]
    quotes: list[Annotated[str, QUOTE]]
    by_name: dict[str, Annotated[str, constrained.choice(["u", 'v"'])]]
    deep: Annotated[str, DEEP] | None = None


class Pair(NamedTuple):
    left: Annotated[str, CODE]
    right: Annotated[date, regex("2024-.*")]


def test_a_constraint_is_enforced_at_any_depth() -> None:
    for hint in (Model, Outer, Pair, Annotated[str, DEEP], list[Annotated[str, QUOTE]], dict[str, Model]):
        constraint = python_type(hint, whitespace="none")
        for text in draws(constraint, 10):
            constraint.parse(text)
    model = python_type(Model, separators=(",", ":"))
    said: dict[str, Any] = {
        "code": "aba",
        "short": "bbb",
        "quotes": ['said "', "\n"],
        "by_name": {"k": 'v"'},
        "deep": "((x))",
    }
    assert accepted(model, json.dumps(said, separators=(",", ":")))
    for wrong in (
        {"code": "zzz"},
        {"short": "b"},
        {"quotes": ["say"]},
        {"by_name": {"k": "v"}},
        {"deep": "(x))"},
    ):
        assert not accepted(model, json.dumps({**said, **wrong}, separators=(",", ":"))), wrong
    outer = python_type(Outer, separators=(",", ":"))
    assert accepted(outer, '{"inner":{"code":"aaa"},"codes":["bbb"],"maybe":"(x)"}')
    assert not accepted(outer, '{"inner":{"code":"aac"},"codes":["bbb"],"maybe":"(x)"}')
    assert not accepted(outer, '{"inner":{"code":"aaa"},"codes":["bb"],"maybe":null}')
    pair = python_type(Pair, separators=(",", ":"))
    assert accepted(pair, '{"left":"aaa","right":"2024-02-29"}')
    assert not accepted(pair, '{"left":"aaa","right":"2023-02-28"}')


def test_a_prompt_shows_what_json_schema_can_say_of_a_constraint() -> None:
    shown = python_type(Model).schema["properties"]
    assert shown["code"] == {"pattern": "^(?:[ab]{3})$", "type": "string"}
    assert shown["by_name"]["additionalProperties"]["enum"] == ["u", 'v"']
    assert "span" in shown["quotes"]["items"]["description"]
    assert "x-content" not in json.dumps(python_type(Model).schema)
    assert Model.model_json_schema()["properties"]["code"]["pattern"] == "^(?:[ab]{3})$"


COMPILED = Annotated[str, re.compile("[ab]+")]


@pytest.mark.parametrize(
    ("hint", "place", "reason"),
    [
        (Annotated[int, CODE], "int", "only to str"),
        (Annotated[str, CODE, DEEP], "str", "second constraint"),
        (pydantic.create_model("Count", n=(Annotated[int, CODE], ...)), "Count.n", "only to str"),
        (dataclasses.make_dataclass("Order", [("id", COMPILED)]), "Order.id", r"constrained\.regex"),
        (pydantic.create_model("Order", id=(COMPILED, ...)), "Order.id", r"constrained\.regex"),
        (
            pydantic.create_model("Order", ids=(list[COMPILED | None], ...)),
            "Order.ids",
            r"constrained\.regex",
        ),
        (
            pydantic.create_model("Order", of=(pydantic.create_model("Id", x=(COMPILED, ...)), ...)),
            "Order.of.x",
            "Field",
        ),
        (Annotated[str, Field(min_length=2), re.compile("[ab]+")], "str", r"constrained\.regex"),
        (pydantic.create_model("Import", n=(pydantic.ImportString, ...)), "Import.n", "imported"),
    ],
)
def test_a_constraint_that_does_not_fit_is_refused(hint: Any, place: str, reason: str) -> None:
    with pytest.raises(UnsupportedConstraint, match=reason) as caught:
        python_type(hint)
    assert caught.value.problems[0].place == place


def test_what_no_json_string_can_follow_is_refused_before_a_model_runs() -> None:
    for constraint, reason in (
        (predicate(str.isdigit), "predicate"),
        (constrained.lark('start: "a" "b"'), "lexer"),
    ):
        with pytest.raises(UnsupportedConstraint, match=reason) as caught:
            _ = python_type(pydantic.create_model("Model", v=(list[Annotated[str, constraint]], ...))).grammar
        assert caught.value.problems[0].place.startswith("#/properties/v/items/x-content")


def test_json_that_contains_itself_is_refused() -> None:
    with pytest.raises(UnsupportedConstraint, match="contains itself"):
        _ = python_type(Nested).grammar


class Nested(pydantic.BaseModel):
    inner: pydantic.Json[Nested] | None = None


# ---------------------------------------------------------------- what only the type can check


class Checked(pydantic.BaseModel):
    even: int
    path: pydantic.FilePath
    length: Annotated[timedelta, Field(gt=timedelta(0))]
    word: Annotated[str, pydantic.AfterValidator(str.upper)]

    @pydantic.field_validator("even")
    @classmethod
    def is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("odd")
        return value

    @pydantic.model_validator(mode="after")
    def whole(self) -> Checked:
        return self


@dataclasses.dataclass
class Initialised:
    number: int

    def __post_init__(self) -> None:
        assert self.number


def test_the_report_names_what_is_checked_afterwards() -> None:
    def unchecked(hint: Any) -> dict[str, str]:
        return {
            entry.pointer: entry.note for entry in python_type(hint).report if entry.status == "unchecked"
        }

    found = unchecked(Checked)
    assert found.keys() == {
        "#/x-checked",
        *(f"#/properties/{name}/x-checked" for name in ("even", "path", "length", "word")),
    }
    assert "is_even" in found["#/properties/even/x-checked"]
    assert all(note.startswith("checked afterwards: ") for note in found.values())
    assert "x-checked" not in json.dumps(python_type(Checked).schema)
    assert "__post_init__" in unchecked(Initialised)["#/x-checked"]
    assert unchecked(member(str)) == unchecked(member(pydantic.HttpUrl)) == {}
    with pytest.raises(RejectedValue, match="odd"):
        python_type(member(Checked)).parse('{"v":{"even":1,"path":"/","length":"P1D","word":"a"}}')


class Suit(enum.Enum):
    HEARTS = "h"


def test_sets_of_enumerated_values() -> None:
    constraint = python_type(set[Suit], separators=(",", ":"))
    assert constraint.parse('["h"]') == {Suit.HEARTS}
    assert not accepted(constraint, '["h","h"]')


def test_the_table_in_the_docs_says_what_happens_to_each_type() -> None:
    """By what `python_type` and its report say of a field of the type."""
    page = (ROOT / "docs" / "constraints.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+) \| (enforced|checked afterwards|refused)", page, re.MULTILINE)
    names = {name: status for line, status in rows for name in re.findall(r"`(\w+)`", line)}
    homes = (pydantic, networks, ipaddress, builtins, datetime_module)
    found = {}
    for name in names:
        hint = next((getattr(home, name) for home in homes if hasattr(home, name)), None)
        if hint is None:
            continue
        if hint in (set, frozenset):  # of any items: arrays and objects among them are refused
            hint = hint[int]
        try:
            report = python_type(member(hint)).report
        except UnsupportedConstraint:
            found[name] = "refused"
            continue
        unchecked = any(entry.status == "unchecked" for entry in report)
        found[name] = "checked afterwards" if unchecked else "enforced"
    assert len(found) > 30
    assert found == {name: names[name] for name in found}
