"""Numbers, dates, times and currencies that a text states."""

from __future__ import annotations

from decimal import Decimal

import pytest

from constrained.grammars.text.quantities import currencies, find_quantities, is_priced, read_time


def test_a_number_with_a_word_of_its_size_is_stated_beside_the_bare_one() -> None:
    found = find_quantities("3.2 million, $75k, 10k, 2 Milliarden")
    assert found.scaled.keys() == {3_200_000, 75_000, 2_000_000_000}
    assert Decimal("3.2") in found.numbers
    assert Decimal(10) in found.numbers


def test_currencies_are_found_by_sign_code_and_name() -> None:
    text = "150 Canadian dollars, 20 €, 3 US dollars, 1 250 Kč, £5"
    assert [code for code, _ in currencies(text)] == ["CAD", "EUR", "USD", "CZK", "GBP"]


@pytest.mark.parametrize(
    ("text", "number", "priced"),
    [
        ("12 Elm Street, for 389,000 pounds", "389,000", True),
        ("12 Elm Street, for 389,000 pounds", "12", False),
        ("$ 40 off", "40", True),
        ("celkem 900 Kč", "900", True),
        ("5 eurostars", "5", False),
    ],
)
def test_a_currency_beside_a_number(text: str, number: str, priced: bool) -> None:
    start = text.index(number)
    assert is_priced(text, start, start + len(number)) is priced


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
