"""Units of measure: which one a name or a description asks for, and what a text measures in it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from constrained.extraction.stated_numbers import plain_numbers, wanted_numbers
from constrained.grammars.text.quantities import currencies, find_quantities, number_words, read_time
from constrained.grammars.text.units import wanted_unit


@pytest.mark.parametrize(
    ("name", "description", "dimension"),
    [
        ("duration_minutes", "", "time"),
        ("minutes", "", "time"),
        ("weightKg", "", "mass"),
        ("length_m", "", "length"),
        ("duration", "How long it takes, in hours.", "time"),
        ("distance", "Distance (km)", "length"),
        ("dauer_stunden", "", "time"),
        ("times_per_day", "", None),
        ("salary_min", "", None),
        ("day", "", None),
        ("year", "The year in which it began.", None),
        ("m", "", None),
        ("area_m2", "", None),
    ],
)
def test_a_name_or_a_description_says_in_which_unit_a_number_is(
    name: str, description: str, dimension: str | None
) -> None:
    unit = wanted_unit(name, description)
    assert (None if unit is None else unit.dimension) == dimension


@pytest.mark.parametrize(
    ("text", "name", "kind", "stated"),
    [
        ("It takes 2 hours and 30 minutes.", "duration_minutes", "integer", {150: "2 hours and 30 minutes"}),
        ("Off for two weeks", "days", "integer", {14: "two weeks"}),
        ("in half an hour", "minutes", "integer", {30: "half an hour"}),
        ("an hour and a half", "minutes", "integer", {90: "an hour and a half"}),
        ("anderthalb Stunden", "dauer_minuten", "integer", {90: "anderthalb Stunden"}),
        ("It weighs 2400 g.", "weight_kg", "number", {Decimal("2.4"): "2400 g"}),
        ("90 minutes", "duration_minutes", "integer", {90: "90"}),
        ("78.5 m² of 3 rooms", "area_m2", "number", {Decimal("78.5"): "78.5", 3: "3"}),
        ("every 8 hours", "times_per_day", "number", {8: "8"}),
        ("It made $3.2 million in 2024.", "revenue", "number", {3200000: "3.2 million", 2024: "2024"}),
        ("It made 3.2 million.", "revenue_in_millions", "number", {Decimal("3.2"): "3.2"}),
        ("75k € and 75k people", "salary", "integer", {75000: "75k", 75: "75"}),
        ("12 Mio. Euro", "umsatz", "integer", {12000000: "12 Mio"}),
        ("1.250 g", "weight_kg", "number", {Decimal("1.25"): "1.250 g", Decimal("0.00125"): "1.250 g"}),
        ("45 hours a week", "hours", "integer", {45: "45"}),
        ("It takes an hour.", "minutes", "integer", {60: "an hour"}),
        ("8 weeks, 45 hours", "hours", "integer", {1344: "8 weeks", 45: "45"}),
        ("zweimal täglich", "times_per_day", "integer", {2: "zweimal"}),
        ("three times a day", "times_per_day", "integer", {3: "three"}),
        ("trois fois par jour", "times_per_day", "integer", {3: "trois"}),
        ("twice as good", "rating", "integer", {}),
        ("10 minutes", "hours", "number", {Decimal("0.166667"): "10 minutes"}),
        ("2 rooms, 3 months", "notice_days", "integer", {2: "2"}),
        ("5 km in 20 minutes", "duration_min", "integer", {5: "5", 20: "20"}),
        ("5 km in 20 minutes", "minutes", "integer", {20: "20"}),
    ],
)
def test_numbers_are_those_that_the_member_means(
    text: str, name: str, kind: str, stated: dict[Any, str]
) -> None:
    kept, converted = wanted_numbers(text, plain_numbers(text), number_words(text), name, {"type": kind})
    found = {number: text[slice(*places[0])] for number, places in kept.items()}
    found |= {number: text[slice(*row[0].place)] for number, row in converted.items()}
    assert found == stated


def test_a_number_with_a_word_of_its_size_is_stated_beside_the_bare_one() -> None:
    found = find_quantities("3.2 million, $75k, 10k, 2 Milliarden")
    assert found.scaled.keys() == {3_200_000, 75_000, 2_000_000_000}
    assert Decimal("3.2") in found.numbers
    assert Decimal(10) in found.numbers


def test_currencies_are_found_by_sign_code_and_name() -> None:
    text = "150 Canadian dollars, 20 €, 3 US dollars, 1 250 Kč, £5"
    assert [code for code, _ in currencies(text)] == ["CAD", "EUR", "USD", "CZK", "GBP"]


def test_a_german_hour_is_a_time() -> None:
    assert str(read_time("15 Uhr")) == "15:00:00"
    assert str(read_time("9.30 Uhr")) == "09:30:00"
    assert read_time("15") is None
    assert read_time("25 Uhr") is None


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("1/5/2026", {"2026-05-01", "2026-01-05"}),
        ("1/5/2026 and 25/12/2026", {"2026-05-01", "2026-12-25"}),
        ("1/5/2026 and 12/25/2026", {"2026-01-05", "2026-12-25"}),
        ("1/5/2026, 25/12/2026, 12/25/2026", {"2026-05-01", "2026-01-05", "2026-12-25"}),
        ("11.9.2026", {"2026-09-11"}),
        ("9.13.2026", {"2026-09-13"}),
    ],
)
def test_points_stand_behind_the_day_and_one_text_writes_dates_one_way(text: str, dates: set[str]) -> None:
    assert {one.isoformat() for one in find_quantities(text).dates} == dates
