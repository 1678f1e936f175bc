"""Several calls of one tool in a message: which quantities and phrases belong to which of them."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.extraction.enumerations import are_joined
from constrained.extraction.quantities import StatedMember
from constrained.extraction.several_calls import (
    StatedCall,
    _segmented,
    call_spans,
    enumerated_calls,
    stated_quantities,
)


def members(text: str, *wanted: str, optional: str = "") -> list[StatedMember]:
    """Members that like each number of a text by the words beside it: of `wanted`, each ``name:word``."""
    numbers = {match[0]: match.span() for match in re.finditer(r"\d+(?:\.\d+)?", text)}
    found = []
    for one in wanted:
        name, word = one.split(":")
        likes = [
            (number, [span], 1.0 if word in text[max(0, span[0] - 9) : span[1] + 8] else -5.0)
            for number, span in numbers.items()
        ]
        found.append(StatedMember(f"/{name}", name != optional, likes))
    return found


def calls(text: str, *wanted: str, optional: str = "") -> list[dict[str, Any]]:
    found = stated_quantities(text, members(text, *wanted, optional=optional))
    return [{name[1:]: json.loads(one) for name, one in call.texts.items()} for call in found]


BODY = ("weight:kilo", "height:centi")


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        (
            "The first weighs 85 kilograms and is 175 centimeters tall, the second weighs 60 kilograms and is 160 centimeters tall.",
            BODY,
            [{"weight": 85, "height": 175}, {"weight": 60, "height": 160}],
        ),
        ("A person of 85 kilograms and 175 centimeters.", BODY, []),
        ("What are the factorials of 5, 7 and 9?", ("number:of",), [{"number": n} for n in (5, 7, 9)]),
        (
            "A field of 5 Tesla on 2 square meters in 4 seconds, and then in 10 seconds.",
            ("field:Tesla", "area:square", "time:seconds"),
            [{"field": 5, "area": 2, "time": 4}, {"field": 5, "area": 2, "time": 10}],
        ),
        (
            "Put 1000 euros at 5% for 1, 3 and 10 years.",
            ("amount:euro", "rate:at", "years:year"),
            [{"amount": 1000, "rate": 5, "years": n} for n in (1, 3, 10)],
        ),
        (
            "Bought at 150, 200 and 250, sold at 180, 210 and 300 respectively.",
            ("bought:ought", "sold:sold"),
            [{"bought": 150, "sold": 180}, {"bought": 200, "sold": 210}, {"bought": 250, "sold": 300}],
        ),
        (
            "Of (45, 60), (90, 120) and (36, 48).",
            ("one:Of", "two:Of"),
            [{"one": 45, "two": 60}, {"one": 90, "two": 120}, {"one": 36, "two": 48}],
        ),
        ("Round [3, 2, 1] and [1, 2, 3] to 2 places.", ("places:places",), []),
        ("Nothing is said.", BODY, []),
        ("", BODY, []),
    ],
)
def test_quantities_are_cut_into_calls(text: str, wanted: tuple[str, ...], expected: list[Any]) -> None:
    assert calls(text, *wanted) == expected


def test_a_quantity_that_may_be_left_out_is_that_of_the_call_before() -> None:
    text = "Mix 2 kilos at 25 degrees for 7 hours, and 3 kilos at 40 degrees."
    wanted = ("mass:kilo", "heat:degree", "time:hour")
    expected = [{"mass": 2, "heat": 25, "time": 7}, {"mass": 3, "heat": 40, "time": 7}]
    assert calls(text, *wanted, optional="time") == expected


def test_quantities_of_other_units_are_no_further_call() -> None:
    assert calls("A room for 2 nights from the 15th of May.", "nights:night") == []


@given(st.integers(1, 5), st.integers(1, 3), st.randoms(use_true_random=False))
def test_the_cut_is_the_best_of_all(count: int, size: int, rng: Any) -> None:
    scores = [[rng.uniform(-9, 2) for _ in range(size)] for _ in range(count)]
    needed = [rng.random() < 0.5 for _ in range(size)]
    best, found = _segmented(scores, needed)

    def total(ways: Any) -> float:
        """Of each quantity: the member, or None, and whether it begins a call."""
        score, call = 0.0, set[int]()
        lacks = lambda call: -3.0 * sum(one and m not in call for m, one in enumerate(needed))  # noqa: E731
        for row, (member, is_new) in zip(scores, ways, strict=True):
            if member is None:
                score -= 7.0
                if is_new:
                    return -1e9
                continue
            if is_new:
                if not call:
                    return -1e9
                score, call = score - 1.0 + lacks(call), set()
            elif member in call:
                return -1e9
            else:
                score += 0.5 * all(one < member for one in call)
            score += row[member]
            call.add(member)
        return score + lacks(call)

    choices = [(m, new) for m in (None, *range(size)) for new in (False, True)]
    assert best == pytest.approx(max(map(total, itertools.product(choices, repeat=count))))
    assert all(len({*call.values()}) == len(call) for call in found)


@pytest.mark.parametrize(
    ("text", "phrases", "expected"),
    [
        (
            "The price of gold, silver, and palladium?",
            {"metal": "gold"},
            [{"metal": "gold"}, {"metal": "silver"}, {"metal": "palladium"}],
        ),
        (
            "Colours of navy, purple and maroon.",
            {"colour": "purple"},
            [{"colour": "navy"}, {"colour": "purple"}, {"colour": "maroon"}],
        ),
        (
            "Weather in New York, Los Angeles and Tokyo now",
            {"city": "Los Angeles"},
            [{"city": one} for one in ("New York", "Los Angeles", "Tokyo")],
        ),
        (
            "Libraries in New York, NY and Los Angeles, CA with a cafe",
            {"city": "New York"},
            [{"city": "New York, NY"}, {"city": "Los Angeles, CA"}],
        ),
        (
            'News on "Climate" and "Space" today',
            {"topic": "Climate"},
            [{"topic": "Climate"}, {"topic": "Space"}],
        ),
        (
            "Ranks of Rome and Turin in Serie A and La Liga respectively",
            {"team": "Rome", "league": "La Liga"},
            [{"team": "Rome", "league": "Serie A"}, {"team": "Turin", "league": "La Liga"}],
        ),
        (
            "Prices for Apple and Intel in Oslo and Bergen",
            {"firm": "Apple", "city": "Oslo"},
            [{"firm": a, "city": b} for a in ("Apple", "Intel") for b in ("Oslo", "Bergen")],
        ),
        ("A recipe in Rome, Italy", {"city": "Rome"}, []),
        ("The distance between Mars and Venus", {"one": "Mars"}, []),
        ("How alike are Mars and Venus", {"one": "Mars", "two": "Venus"}, []),
        ("ATP in the mitochondria, and does it help", {"where": "mitochondria"}, []),
        (
            "Das Wetter in Köln, Bonn und Aachen",
            {"stadt": "Bonn"},
            [{"stadt": one} for one in ("Köln", "Bonn", "Aachen")],
        ),
        ("", {"city": "Oslo"}, []),
    ],
)
def test_a_call_for_each_item_of_an_enumeration(text: str, phrases: Any, expected: Any) -> None:
    assert enumerated_calls(text, phrases) == expected


def test_the_enumeration_of_a_list_is_no_list_of_calls() -> None:
    text = "Combine the names 'John' and 'Doe'."
    assert len(enumerated_calls(text, {"separator": "Doe"})) == 2
    assert enumerated_calls(text, {"separator": "Doe"}, (), {"John"}) == []


def test_enumerations_with_very_many_calls_are_left() -> None:
    names = ", ".join(f"Town{chr(97 + i)}" for i in range(20)) + " and Oslo"
    assert enumerated_calls(f"Weather in {names}", {"city": "Oslo"}) == []


@pytest.mark.parametrize(
    ("text", "places", "expected"),
    [
        (
            "Jazz in Rome for 14 days and rock in Turin for 10 days",
            [(17, 19), (47, 49)],
            ["Jazz in Rome for 14 days and", "rock in Turin for 10 days"],
        ),
        (
            "Tax on $30 in Rome, Italy, $52 in Bern, now",
            [(8, 10), (28, 30)],
            ["Tax on $30 in Rome, Italy,", "$52 in Bern, now"],
        ),
        ("A has 3 m. B, the other, has 4 m.", [(6, 7), (29, 30)], ["A has 3 m.", "B, the other, has 4 m."]),
        (
            "I have questions. A has 3 m, on Mondays, and then B, the other, has 4 m. Thanks!",
            [(24, 25), (65, 66)],
            ["A has 3 m, on Mondays,", "and then B, the other, has 4 m."],
        ),
        ("3 4", [(0, 1), (2, 3)], None),
    ],
)
def test_what_a_text_says_about_each_call(text: str, places: Any, expected: Any) -> None:
    found = [StatedCall({"/n": text[slice(*place)]}, {"/n": place}) for place in places]
    spans = call_spans(text, found)
    assert expected == (spans and [text[slice(*span)].strip() for span in spans])


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("for 10 and 20 years", True),
        ("for 10 years and 20 years", True),
        ("the first 2 years, first 3 years", True),
        ("for 10 years and 20 months", False),
        ("for 10 years with 20 years", False),
        ("from 10 to 20", False),
    ],
)
def test_quantities_with_the_same_words_around_them_are_joined(text: str, joined: bool) -> None:
    one, other = (match.span() for match in re.finditer(r"\d+", text))
    assert are_joined(text, one, other) is joined
