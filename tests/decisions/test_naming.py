"""An option that the text names gains by that, and only in weighings that take the prior off."""

from __future__ import annotations

import math
from typing import Literal

import pytest

import constrained
from constrained.decisions.naming import (
    AFFIRMED,
    NAMING,
    SHARING,
    UNNAMED,
    is_affirmed,
    is_named_beside,
    labelled_places,
    named_options,
    names_money,
)
from constrained.decisions.prior import plain
from constrained.decisions.questions import ABSENT, ClosedAnswer, Question
from constrained.extraction.decider import Decider


def question(*texts: str) -> Question:
    return Question("/x", tuple(ClosedAnswer(text, (1,), None) for text in texts))


@pytest.mark.parametrize(
    ("options", "text", "named"),
    [
        (['"EUR"', '"USD"'], "Total due: EUR 960.00", [1, 0]),
        (['"part_time"', '"full-time"'], "A Part-Time job, no\nfull  time", [1, 1]),
        (['"high"', '"low"'], "highly unlikely", [0, 0]),
        (['"English"', '"English breakfast"'], "an English  breakfast", [0, 1]),
        (['"English"', '"English breakfast"'], "English breakfast in English", [1, 1]),
        (["12", "3", "true", "null"], "12 of 3 are true, null", [1, 0, 0, 0]),
        (['"C++"', '"C"'], "written in C++.", [1, 0]),
        (['"süß"', '"(sauer)"'], "SÜSS und (sauer)", [1, 1]),
        (
            ['"toll"', '"roads"', '"church"', '"US"'],
            "Tolls on the road to two churches, she uses none",
            [1, 1, 1, 0],
        ),
        (['"EUR"', '"USD"', '"GBP"'], "for €89.95, not 90 pounds", [1, 0, 1]),
    ],
)
def test_an_option_is_named_by_words_of_its_own(options: list[str], text: str, named: list[int]) -> None:
    assert named_options(question(*options), text).tolist() == [NAMING * one for one in named]


def test_an_option_of_several_words_gains_by_those_that_the_text_has_rare_ones_most() -> None:
    options = ['"card_arrival"', '"card_payment_fee"', '"topUpFailed"', '"card"']
    gains = named_options(question(*options), "Why was there a fee, and when does my cards arrive?")
    arrival, payment, failed, card = gains.tolist()
    assert arrival == pytest.approx(SHARING * (math.log(5 / 1) + math.log(5 / 2)))  # arrival, card
    assert payment == pytest.approx(SHARING * math.log(5 / 2))  # "fee" is too short
    assert (failed, card) == (0, NAMING)


def test_a_word_of_a_long_text_says_less() -> None:
    text = "It has a balcony." + " And more." * 200
    (false, true) = named_options(
        Question("/balcony", tuple(ClosedAnswer(one, (1,), None) for one in ("false", "true"))), text
    )
    assert false == 0
    assert 0 < true < AFFIRMED / 3


@pytest.mark.parametrize(
    ("options", "text", "gained"),
    [
        (['"EUR"', '"USD"'], "Nobody pays.", UNNAMED),
        (['"EUR"', '"USD"'], "100 EUR", 0),
        (["true", "false"], "Nobody pays.", 0),  # no text has these words, and the name none to look for
        (['"A"', '"B"'], "Nobody pays.", 0),  # nor is a letter looked for
    ],
)
def test_a_member_is_left_out_rather_where_no_option_is_named(
    options: list[str], text: str, gained: float
) -> None:
    *_, absent = named_options(question(*options, ABSENT), text)
    assert absent == gained


@pytest.mark.parametrize(
    ("name", "text", "mentioned"),
    [
        ("familyFriendly", "Good for families.", True),
        ("customer_rating", "It is rated low.", False),
        ("customerRating", "Customers like it.", True),
        ("price range", "The prices are fair.", True),
        ("URL", "See the url.", False),  # too short
        ("area", "By the river.", False),
        ("área2", "El área es grande.", True),
    ],
)
@pytest.mark.parametrize("options", [["true", "false"], ['"one"', '"two"']])
def test_a_member_whose_name_the_text_has_is_rather_there(
    name: str, text: str, mentioned: bool, options: list[str]
) -> None:
    texts = (*options, ABSENT)
    asked = Question(f"/{name}", tuple(ClosedAnswer(one, (1,), None) for one in texts))
    is_boolean = options[0] == "true"
    there = [AFFIRMED, 0, 0] if is_boolean else [UNNAMED, UNNAMED, 0]
    is_sought = name != "URL" or not is_boolean
    expected = there if mentioned else [0, 0, UNNAMED * is_sought]
    assert named_options(asked, text).tolist() == expected


@pytest.mark.parametrize(
    ("name", "text", "affirmed"),
    [
        ("balcony", "A flat with a balcony.", True),
        ("balcony", "A flat with no balcony.", False),
        ("balcón", "Piso sin balcón, 720 € al mes.", False),
        ("pets_allowed", "3 rooms, not cheap. Pets are welcome.", True),
        ("pets_allowed", "3 rooms, no pets.", False),
        ("remote", "The work cannot be done remotely.", False),
        ("remote", "It isn't remote.", False),
        ("resolved", "It is not urgent and was resolved.", True),
        ("gelöst", "Der Fall ist noch nicht gelöst.", False),
        ("vegan", "Vegan ist das nicht.", False),
        ("has_parking", "It has a garden.", None),
        ("required", "It is required.", None),
        ("paid", "Should you have paid, ignore this.", None),
        ("paid", "If you paid, write us; it is not paid.", False),
        ("paid", "", None),
        ("furnished", "A studio, unfurnished.", False),
        ("active", "The account is inactive.", False),
        ("fasting", "Non-fasting sample", False),
        ("vyřešeno", "Zatím nevyřešeno.", False),
        ("untested", "It is untested.", True),
    ],
)
def test_a_text_affirms_or_denies_what_a_boolean_is_called(
    name: str, text: str, affirmed: bool | None
) -> None:
    assert is_affirmed(name, text) is affirmed
    options = tuple(ClosedAnswer(one, (1,), None) for one in ("false", "true"))
    gains = named_options(Question(f"/{name}", options), text).tolist()
    assert gains == [AFFIRMED * (affirmed is False), AFFIRMED * (affirmed is True)]


def test_what_is_named_gains_and_the_own_distribution_of_the_model_does_not() -> None:
    asked: Decider[str] = Decider(constrained.load(), Literal["red", "blue"])
    (weighing,) = asked.weighings
    gained = weighing.prior - weighing.about("It is blue.").prior
    assert dict(zip(map(asked.questions[0].value, range(2)), gained, strict=True)) == {
        "red": 0.0,
        "blue": pytest.approx(NAMING),
    }
    assert plain(asked.questions)[0].about("It is blue.").prior.tolist() == [0.0, 0.0]


def test_a_label_that_the_text_names_is_part_of_what_is_calibrated() -> None:
    rows = [(f"The ball is {colour}.", colour) for colour in ("red", "blue")] * 3
    asked: Decider[str] = Decider(constrained.load(), Literal["red", "blue"])
    asked.calibrate(rows)
    assert [asked(text).value for text, _ in rows] == [colour for _, colour in rows]


@pytest.mark.parametrize(
    ("text", "number", "name", "expected"),
    [
        ("Total: 251.50", "251.50", "total", True),
        ("a car with 5 doors", "5", "doors", True),
        ("serves 4, 35 minutes", "4", "servings", True),
        ("serves 4, 35 minutes", "35", "servings", False),
        ("including 21 % VAT", "21", "vat_percent", True),
        ("at 4.9 % over 48 months", "4.9", "months", False),
        ("30 days of paid vacation", "30", "vacationDays", True),
        ("Age 54", "54", "age", True),
        ("They paged 54 doctors", "54", "age", False),
    ],
)
def test_a_word_of_a_name_beside_a_number(text: str, number: str, name: str, expected: bool) -> None:
    start = text.index(number)
    assert is_named_beside(text, start, start + len(number), name) is expected


@pytest.mark.parametrize(
    ("name", "money"), [("price", True), ("totalPrice", True), ("cena", True), ("age", False), ("", False)]
)
def test_some_names_mean_money(name: str, money: bool) -> None:
    assert names_money(name) is money


@pytest.mark.parametrize(
    ("name", "text", "begins"),
    [
        ("near", "near the Burger King, and near Ranch", ["Burger", "Ranch"]),
        ("venue", "Venue: depot Garage", ["depot"]),
        ("object_name", "My name is Ada.", ["Ada"]),
        ("city", 'the city of "Paris"', ['"Paris"']),
        ("customer", "The customer rating is low.", []),
        ("version", "in version 4.2", ["4.2"]),
        ("fabricName", "API name: info. Parameter_fabricName: Net1", ["Net1"]),
        ("pickup_city", "Pickup city: Oslo, city: Bergen", ["Oslo"]),
        ("origin", "Flights from Vienna to Lisbon", ["Vienna"]),
        ("destination_city", "Flüge von Graz nach Porto", ["Porto"]),
        ("artist", "Play Blue Harbor by The Lanterns", ["The"]),
        ("title", "Play Blue Harbor by The Lanterns", []),
        ("composer", "directed by Ines Duarte, composed by Paul Lind", ["Paul"]),
        ("assignee", "Reported by Ada. Assigned to Tom.", ["Tom"]),
        ("host", "hosted by nobody", []),
        ("venue", "Venue:\n", []),
        ("", "a: b", []),
    ],
)
def test_what_a_text_calls_by_a_name_begins_behind_it(name: str, text: str, begins: list[str]) -> None:
    found = [text[at:].split()[0].rstrip(",.") for at in labelled_places(text, name)]
    assert found == begins
