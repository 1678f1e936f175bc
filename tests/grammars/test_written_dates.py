"""Dates of Python types as people write them: what is allowed is read back as the date that it says."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import constrained
from constrained.extraction.examples import accepts_text
from constrained.grammars.text.quantities import MONTHS, read_date
from tests.grammars.json_schema.test_contents import draws
from tests.support.examples import examples
from tests.support.finite import byte_vocabulary

VOCABULARY = byte_vocabulary()
DAYS = st.dates(dt.date(1000, 1, 1), dt.date(2999, 12, 31))
NAMES = sorted(set(MONTHS))


def automaton(hint: Any, dates: Any = "written") -> Any:
    return constrained.compile(constrained.python_type(hint, dates=dates), VOCABULARY)


DATE = automaton(dt.date)


def spellings(day: dt.date, names: list[str]) -> list[str]:
    found = [day.isoformat(), f"{day.day}.{day.month}.{day.year}", f"{day:%d}. {day:%m}. {day.year}"]
    if day.day > 12:
        found += [f"{day.day}/{day.month}/{day.year}", f"{day:%m}/{day:%d}/{day.year}"]
    for name in names:
        for month in (name, name.capitalize()):
            found += [
                f"{day.day} {month} {day.year}",
                f"{day.day:02d}. {month} {day.year}",
                f"{day.day}th of {month} {day.year}",
                f"{day.day} de {month} de {day.year}",
                f"{month} {day.day}, {day.year}",
                f"{month} {day.day}th, {day.year}",
            ]
    return found


@pytest.mark.parametrize("text", ["Jun.20,2023", "Jun. 20,2023", "Jun.20, 2023", "June 20,2023"])
def test_dates_are_read_without_the_spaces_that_some_leave_out(text: str) -> None:
    assert read_date(text) == dt.date(2023, 6, 20)


@settings(max_examples=examples(100), deadline=None)
@given(DAYS, st.data())
def test_what_people_write_is_allowed_and_read(day: dt.date, data: st.DataObject) -> None:
    names = [name for name in NAMES if MONTHS[name] == day.month]
    for text in spellings(day, data.draw(st.lists(st.sampled_from(names), max_size=3))):
        assert accepts_text(DATE, json.dumps(text, ensure_ascii=False)), text
        assert read_date(text) == day, text


@pytest.mark.parametrize(
    "text",
    [
        "31 April 2001", "29 February 2001", "29.2.1900", "30. února 2000", "April 31, 2001", "5/6/2001", "32/1/2001",
        "13/13/2001", "8 September 999", "8 September 3000", "0 May 2001", "2001-13-01", "0999-01-01", "8 Septembre.", "today",
        "8 September", "2001",
    ],
)  # fmt: skip
def test_what_is_no_date_or_could_be_two_is_not_allowed(text: str) -> None:
    assert not accepts_text(DATE, json.dumps(text, ensure_ascii=False))


@dataclass
class Person:
    name: str
    born: dt.date
    died: dt.date | None = None
    visits: tuple[dt.date, ...] = ()


class Order(pydantic.BaseModel):
    placed: dt.date
    sent: list[dt.date] = []
    note: str | dt.date = ""
    days: dict[str, dt.date] = {}


def test_values_are_of_the_type_and_the_text_is_standard_json() -> None:
    person = constrained.python_type(Person, dates="written", separators=(", ", ": "))
    text = '{"name": "May 2, 1950", "born": "2 May 1950", "died": "1.2.2003", "visits": ["June 3, 1999"]}'
    assert person.parse(text) == Person(
        "May 2, 1950", dt.date(1950, 5, 2), dt.date(2003, 2, 1), (dt.date(1999, 6, 3),)
    )
    assert person.standard_text(text) == (
        '{"name": "May 2, 1950", "born": "1950-05-02", "died": "2003-02-01", "visits": ["1999-06-03"]}'
    )
    order = constrained.python_type(Order, dates="written")
    found = order.parse(
        '{"placed": "2 May 1950", "sent": ["3 May 1950"], "note": "4 May 1950", "days": {"a": "5 May 1950"}}'
    )
    assert found == Order(
        placed=dt.date(1950, 5, 2),
        sent=[dt.date(1950, 5, 3)],
        note="4 May 1950",
        days={"a": dt.date(1950, 5, 5)},
    )


def test_a_prompt_shows_a_date() -> None:
    assert constrained.python_type(Person, dates="written").schema == constrained.python_type(Person).schema


def test_bounds_are_of_iso_dates() -> None:
    class Birth(pydantic.BaseModel):
        born: pydantic.PastDate

    born = automaton(Birth)
    assert accepts_text(born, '{"born": "1950-05-02"}')
    assert not accepts_text(born, '{"born": "2 May 1950"}')


def test_iso_alone_is_the_default() -> None:
    assert not accepts_text(automaton(dt.date, dates="iso"), '"2 May 1950"')
    assert accepts_text(automaton(dt.date, dates="iso"), '"0999-01-01"')
    with pytest.raises(constrained.InvalidConstraint, match="'iso' or 'written'"):
        constrained.python_type(dt.date, dates="any")  # type: ignore[arg-type]


TIME, MOMENT = automaton(dt.time), automaton(dt.datetime)


def clocks(time: dt.time) -> list[str]:
    hour, half = time.hour % 12 or 12, "pm" if time.hour >= 12 else "am"
    found = [
        f"{time:%H:%M}",
        f"{time.hour}.{time:%M}",
        f"{hour}:{time:%M} {half}",
        f"{hour}.{time:%M}{half.upper()}",
    ]
    return found if time.minute else [*found, f"{hour} {half}", f"{hour} {half[0]}.m."]


@settings(max_examples=examples(100), deadline=None)
@given(DAYS, st.times().map(lambda time: time.replace(second=0, microsecond=0)), st.data())
def test_times_and_moments_that_people_write_are_allowed_and_read(
    day: dt.date, time: dt.time, data: st.DataObject
) -> None:
    names = [name for name in NAMES if MONTHS[name] == day.month]
    written = data.draw(st.sampled_from(spellings(day, names[:2])))
    constraints = {kind: constrained.python_type(kind, dates="written") for kind in (dt.time, dt.datetime)}
    for clock in clocks(time):
        assert accepts_text(TIME, json.dumps(clock)), clock
        assert constraints[dt.time].parse(json.dumps(clock)) == time, clock
        for text in (
            f"{written} {clock}",
            f"{written} at {clock}",
            f"{written}, {clock}",
            f"{clock} on {written}",
        ):
            assert accepts_text(MOMENT, json.dumps(text, ensure_ascii=False)), text
            found = constraints[dt.datetime].parse(json.dumps(text, ensure_ascii=False))
            assert found == dt.datetime.combine(day, time), text


@pytest.mark.parametrize("hint", [dt.date, dt.time, dt.datetime])
def test_every_text_that_may_be_written_is_read(hint: Any) -> None:
    constraint = constrained.python_type(hint, dates="written")
    for text in draws(constraint, 300):
        assert isinstance(constraint.parse(text), hint)
        assert isinstance(constraint.parse(constraint.standard_text(text)), hint)


@pytest.mark.parametrize("text", ["25:00", "13 pm", "0 am", "9", "2:60 pm", "14:30 pm", "9:15 o'clock"])
def test_what_is_no_time_is_not_allowed(text: str) -> None:
    assert not accepts_text(TIME, json.dumps(text))
    assert not accepts_text(MOMENT, json.dumps(f"8 September 2001 {text}"))


def test_texts_of_iso_8601_stay_as_they_are() -> None:
    for hint, text in ((dt.time, '"09:30:00.5Z"'), (dt.datetime, '"2024-11-30 22:00+01:00"')):
        assert constrained.python_type(hint, dates="written").standard_text(text) == text


def test_where_an_offset_is_needed_times_are_of_iso_8601() -> None:
    moment = automaton(pydantic.AwareDatetime)
    assert accepts_text(moment, '"2024-11-30T22:00:00Z"')
    assert not accepts_text(moment, '"30 November 2024 at 10 pm"')
