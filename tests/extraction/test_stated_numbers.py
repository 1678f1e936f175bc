"""The numbers that a text states for a member: as they stand there, in its unit, with the word of their size."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from constrained.extraction.stated_numbers import plain_numbers, wanted_numbers
from constrained.grammars.text.quantities import number_words


@pytest.mark.parametrize(
    ("text", "name", "kind", "stated"),
    [
        ("It takes 2 hours and 30 minutes.", "duration_minutes", "integer", {150: "2 hours and 30 minutes"}),
        ("Off for two weeks", "days", "integer", {14: "two weeks"}),
        ("in half an hour", "minutes", "integer", {30: "half an hour"}),
        ("an hour and a half", "minutes", "integer", {90: "an hour and a half"}),
        ("anderthalb Stunden", "dauer_minuten", "integer", {90: "anderthalb Stunden"}),
        ("It weighs 2400 g.", "weight_kg", "number", {Decimal("2.4"): "2400 g"}),
        ("90 minutes", "duration_minutes", "integer", {90: "90 minutes"}),
        ("78.5 m² of 3 rooms", "area_m2", "number", {Decimal("78.5"): "78.5", 3: "3"}),
        ("every 8 hours", "times_per_day", "number", {8: "8"}),
        ("It made $3.2 million in 2024.", "revenue", "number", {3200000: "3.2 million", 2024: "2024"}),
        ("It made 3.2 million.", "revenue_in_millions", "number", {Decimal("3.2"): "3.2"}),
        ("75k € and 75k people", "size", "integer", {75000: "75k", 75: "75"}),
        ("65k-80k for 3 years", "salary", "integer", {65000: "65k", 80000: "80k", 3: "3"}),
        ("a 10k run", "distance", "integer", {10: "10"}),
        ("120.000 km", "mileage", "integer", {120000: "120.000"}),
        ("12 Mio. Euro", "umsatz", "integer", {12000000: "12 Mio"}),
        ("1.250 g", "weight_kg", "number", {Decimal("1.25"): "1.250 g", Decimal("0.00125"): "1.250 g"}),
        ("45 hours a week", "hours", "integer", {45: "45 hours"}),
        ("It takes an hour.", "minutes", "integer", {60: "an hour"}),
        ("8 weeks, 45 hours", "hours", "integer", {1344: "8 weeks", 45: "45 hours"}),
        ("zweimal täglich", "times_per_day", "integer", {2: "zweimal"}),
        ("three times a day", "times_per_day", "integer", {3: "three"}),
        ("trois fois par jour", "times_per_day", "integer", {3: "trois"}),
        ("twice as good", "rating", "integer", {}),
        ("10 minutes", "hours", "number", {Decimal("0.166667"): "10 minutes"}),
        ("2 rooms, 3 months", "notice_days", "integer", {2: "2"}),
        ("5 km in 20 minutes", "duration_min", "integer", {5: "5", 20: "20"}),
        ("5 km in 20 minutes", "minutes", "integer", {20: "20 minutes"}),
    ],
)
def test_numbers_are_those_that_the_member_means(
    text: str, name: str, kind: str, stated: dict[Any, str]
) -> None:
    kept, converted = wanted_numbers(
        text, plain_numbers(text), number_words(text), name, {"type": kind}, is_needed=False
    )
    found = {number: text[slice(*places[0])] for number, places in kept.items()}
    found |= {number: text[slice(*row[0].place)] for number, row in converted.items()}
    assert found == stated


def test_a_word_is_a_number_where_one_is_needed_and_a_number_in_the_unit_of_the_member_says_so() -> None:
    text = "Two seats, one bag, 25 min, 40 km."
    numbers, words = plain_numbers(text), number_words(text)
    for is_needed, stated in ((True, {2, 25, 40}), (False, {25, 40})):
        kept, _ = wanted_numbers(text, numbers, words, "passengers", {"type": "integer"}, is_needed=is_needed)
        assert set(kept) == stated
    kept, converted = wanted_numbers(text, numbers, words, "minutes", {"type": "number"}, is_needed=True)
    assert set(kept) == {25}
    assert [(value, row[0].is_measured) for value, row in converted.items()] == [(25, True)]
