"""Numbers and dates of an object: what a text states goes to the member that wants it most, and what it does not state is left out."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
import pytest

from constrained.constraint.generated import generated_constraint
from constrained.extraction import Extractor
from constrained.extraction.quantities import assignment, quantity_questions
from constrained.extraction.words_of_form import (
    named_form,
    word_places,
    words_of_form,
    words_of_named_form,
)
from tests.support.wishing_model import WishingModel


class Counting(WishingModel):
    """Where the value of a member begins it likes some texts, each so much; then it goes on with them."""

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        row = np.zeros(self.vocabulary.size)
        row[ord(" ")] += 14.0 * bytes(completion).endswith(b'":')
        member = re.search(rb'"(\w+)": ([^:,}]*)$', bytes(completion))
        for wish, strength in self.wishes.get(member[1].decode(), {}).items() if member else ():
            said = member[2]
            if said == wish.encode():
                row[list(b",}")] += 14.0
            elif wish.encode().startswith(said):
                row[wish.encode()[len(said)]] += 14.0 if said else strength
        return row


@dataclass
class Order:
    placed: date
    boxes: int
    price: float | None = None
    weight: float | None = None
    due: date | None = None


TEXT = "On 5 May 2024 we ordered 3 boxes for 1,250.50 EUR, in all 7.5 kg."
WISHES = {
    "placed": {'"5 May 2024"': 9.0},
    "boxes": {"7": 7.0, "3": 8.0},
    "price": {"7.5": 9.0, "1250.50": 8.5},
    "weight": {"7.5": 9.5},
    "due": {'"2024-05-05"': 10.0},
}


def test_each_quantity_goes_to_one_member_and_the_assignment_is_the_likeliest_as_a_whole() -> None:
    """`due` wants the only date more than `placed` does, which has to have one."""
    found = Extractor(Counting(WISHES), Order)(TEXT)
    assert found.value == Order(date(2024, 5, 5), 3, 1250.5, 7.5, None)
    assert set(found.decisions) == {"/placed", "/boxes", "/price", "/weight", "/due"}
    assert found.decisions["/due"].value is None
    assert found.decisions["/weight"].probability > 0.9


def test_optional_members_for_which_the_text_states_nothing_are_left_out_and_required_ones_written() -> None:
    wishes = WISHES | {"boxes": {"11": 9.0}, "placed": {'"2020-01-01"': 9.0}, "price": {"9.5": 9.0}}
    found = Extractor(Counting(wishes), Order)("We ordered something.")
    assert found.value == Order(date(2020, 1, 1), 11)
    assert not found.decisions


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("The day, in the format YYYY-MM-DD", {"day": "2024-05-05"}),
        ("The day (yyyy-mm-dd).", {"day": "2024-05-05"}),
        ("The time, as YYYY-MM-DD hh:mm", {"day": "5 May 2024"}),
        ("The day", {"day": "5 May 2024"}),
    ],
)
def test_a_string_is_a_date_where_its_description_says_so(description: str, expected: Any) -> None:
    schema = {"type": "object", "properties": {"day": {"type": "string", "description": description}}}
    model = Counting({"day": {'"5 May 2024"': 9.0}})
    assert Extractor(model, {**schema, "required": ["day"]})(TEXT).value == expected
    unstated = Extractor(model, schema)("We ordered something.").value
    assert unstated == {} or "YYYY" not in description.upper()


@pytest.mark.parametrize(
    ("name", "description", "wish", "expected"),
    [
        ("rate", "The interest rate as a decimal, e.g. 5% is 0.05.", "3.4", 0.034),
        ("rate", "The chance: a probability.", "0.034", 0.034),
        ("rate", "The interest rate.", "0.034", 0.034),
        ("rate", "The interest rate.", "3.4", 3.4),
        ("rate", "The interest rate as a percentage.", "3.4", 3.4),
        ("rate", "A decimal value, as a percentage from 0.0 to 100.0.", "3.4", 3.4),
        ("rate_percent", "", "3.4", 3.4),
    ],
)
def test_a_percentage_is_a_share_of_1_where_description_or_model_says_so(
    name: str, description: str, wish: str, expected: float
) -> None:
    schema = {
        "type": "object",
        "properties": {
            name: {"type": "number", "description": description},
            "years": {"type": "integer"},
        },
        "required": [name, "years"],
    }
    wishes = {name: {wish: 9.0, "3.4": 7.0, "250": 1.0}, "years": {"20": 9.0}}
    for text in ("We lend 250 euros at 3.4% for 20 years.", "250 Euro zu 3,4 Prozent, 20 Jahre."):
        assert Extractor(Counting(wishes), schema)(text).value == {name: expected, "years": 20}


@pytest.mark.parametrize(
    ("kind", "wish", "expected"),
    [
        ("date", '"3 May 2026"', "2026-05-03"),
        ("date", '"2026-05-03"', "2026-05-03"),
        ("time", '"7 pm"', "19:00:00Z"),
        ("date-time", '"3 May 2026 at 7 pm"', "2026-05-03T19:00:00Z"),
    ],
)
def test_a_date_that_the_model_would_write_as_the_text_does_has_the_form_of_its_member(
    kind: str, wish: str, expected: str
) -> None:
    schema = {
        "type": "object",
        "properties": {"at": {"type": "string", "format": kind}},
        "required": ["at"],
    }
    text = "A table for 4 at Noma on 3 May 2026 at 7 pm, please."
    assert Extractor(Counting({"at": {wish: 9.0}}), schema)(text).value == {"at": expected}


WORDS = "Ask Ana (ana.lim@example.org, +49 170 1234567) about LH1390, 10.0.0.12 and https://lim.example/a-b."


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"format": "email"}, "ana.lim@example.org"),
        ({"format": "ipv4"}, "10.0.0.12"),
        ({"pattern": "^[A-Z]{2}[0-9]{3,4}$"}, "LH1390"),
        ({"pattern": "^[+][0-9 ]{8,20}$"}, "+49 170 1234567"),
        ({"pattern": "^[A-Z]{2}[0-9]{3,4}$", "maxLength": 5}, None),
        ({"format": "uuid"}, None),
    ],
)
def test_words_of_a_form_are_those_of_the_text(form: dict[str, Any], expected: str | None) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"it": {"type": "string", **form}, "count": {"type": "integer"}},
    }
    model = Counting({"it": {f'"{expected}"': 5.0, '"x': 5.0}})
    found = Extractor(model, schema)(WORDS)
    assert found.value == ({} if expected is None else {"it": expected})
    assert found.decisions["/it"].value == expected if expected else "/it" not in found.decisions
    assert Extractor(model, schema)("Nothing is said here.").value == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Read (https://x.org/docs).", ["https://x.org/docs"]),
        ("Bo's https://x.org/a's is gone", ["https://x.org/a"]),
        ("https://x.org/a. https://y.org/b, https://x.org/a", ["https://x.org/a", "https://y.org/b"]),
        ("nothing", []),
    ],
)
def test_words_of_a_form_are_cut_at_what_stands_around_them(text: str, expected: list[str]) -> None:
    found = words_of_form(text, word_places(text), lambda word: word.startswith("https:") and " " not in word)
    assert found is not None
    assert list(found) == expected
    assert all(text[slice(*place)] == word for word, places in found.items() for place in places)
    long = f"{text} " * 9
    assert words_of_form(long, word_places(long), lambda word: True) is None


def test_a_pattern_of_few_values_is_a_closed_question() -> None:
    letter = {"type": "string", "pattern": "^[a-c]$"}
    schema = {"type": "object", "properties": {"grade": letter, "note": {"type": "string"}}}
    found = Extractor(Counting({"grade": {'"b"': 9.0}}), {**schema, "required": ["grade"]})(
        "It says nothing."
    )
    assert found.decisions["/grade"].value == found.value["grade"]
    assert Extractor(Counting({}), schema)("It says nothing.").value.get("grade", "a") in ("a", "b", "c")


def test_two_members_of_a_form_have_two_words() -> None:
    address = {"type": "string", "format": "email"}
    schema = {
        "type": "object",
        "properties": {"sender": address, "to": address},
        "required": ["sender", "to"],
    }
    wishes = {"sender": {'"bo@x.org"': 6.0, '"al@x.org"': 5.0}, "to": {'"bo@x.org"': 7.0, '"al@x.org"': 5.0}}
    found = Extractor(Counting(wishes), schema)("From al@x.org to bo@x.org.")
    assert found.value == {"sender": "al@x.org", "to": "bo@x.org"}


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("phone", "phone"),
        ("contactPhoneNumber", "phone"),
        ("tel", "phone"),
        ("e_mail", "email"),
        ("email_address", "email"),
        ("postal_code", "postcode"),
        ("zip", "postcode"),
        ("phone_model", None),
        ("code", None),
        ("address", None),
        ("", None),
    ],
)
def test_what_a_string_is_called_may_say_its_form(name: str, form: str | None) -> None:
    assert named_form(name) == form


@pytest.mark.parametrize(
    ("form", "text", "words"),
    [
        ("phone", "Call +49 89 123456 or (020) 7946 0958, or 555-0142.", ["+49 89 123456", "(020) 7946 0958", "555-0142"]),
        ("phone", "Order 4581234 of 2025-03-04 or 4.3.2025, 12.50 EUR, 1,250,000.00, A-12-34-567.", []),
        ("email", "Write to anneke.de-vries@umc.nl. Or @home, a@b.", ["anneke.de-vries@umc.nl"]),
        ("postcode", "80331 München, Leeds LS1 4AP, 1012 AB Amsterdam, 110 00 Praha, Boston, MA 02101, Ottawa K1A 0B1, 1010 Wien", ["80331", "LS1 4AP", "1012 AB", "110 00", "02101", "K1A 0B1", "1010"]),
        ("postcode", "ZIP code: 02101, PLZ 80331, zip 94103-1234", ["02101", "80331", "94103-1234"]),
        ("postcode", "Founded in 1998, 12000 staff, 54321 lamps, 100 20 times, 1,10000 and 12345.67, 3 May 2024", []),
    ],
)  # fmt: skip
def test_words_of_the_form_that_a_name_says(form: Any, text: str, words: list[str]) -> None:
    found = words_of_named_form(form, text)
    assert list(found) == words
    assert all(text[slice(*place)] == word for word, row in found.items() for place in row)


def test_a_telephone_number_is_one_of_the_text_and_optional_ones_are_left_out_without() -> None:
    """SmolLM2 wrote 123-456-7890 where a text had none."""

    @dataclass
    class Customer:
        phone: str | None = None

    model = Counting({"phone": {'"123-456-7890"': 9.0, '"0171 2345678"': 5.0}})
    assert Extractor(model, Customer)("Ms Ito, 0171 2345678").value == Customer("0171 2345678")
    assert Extractor(model, Customer)("Ms Ito called.").value == Customer()


def test_a_number_is_no_part_of_a_form_that_nobody_asks_for() -> None:
    @dataclass
    class Counted:
        lamps: int
        chairs: int

    model = Counting({"lamps": {"603": 9.0}, "chairs": {"123": 9.0}})
    assert Extractor(model, Counted)("603 123 456 Boxes").value == Counted(603, 123)


@pytest.mark.parametrize("text", ["", "x " * 5000, "a" * 20_000, "\u200b\n\t@ . @"])
def test_very_long_texts_and_words_have_no_words_of_a_form(text: str) -> None:
    schema = {"type": "object", "properties": {"it": {"type": "string", "format": "email"}}}
    constraint = generated_constraint(schema)
    vocabulary = Counting({}).vocabulary
    found = quantity_questions(constraint, vocabulary, text)
    assert found is None or not found.questions


def test_a_number_beside_a_word_of_a_members_name_is_rather_its_value() -> None:
    wishes = {"doors": {"4300": 9.0, "5": 7.0}}
    schema = {"type": "object", "properties": {"doors": {"type": "integer"}}, "required": ["doors"]}
    for text, doors in (("A Corsa with 5 doors, for 4300.", 5), ("A Corsa with 5 wheels, for 4300.", 4300)):
        assert Extractor(Counting(wishes), schema)(text).value == {"doors": doors}


def test_a_number_that_may_be_left_out_has_to_be_likelier_than_a_required_one() -> None:
    wishes = {"discount": {"7": 0.5}}  # about e^-5
    schema: Any = {"type": "object", "properties": {"discount": {"type": "number"}}}
    text = "We ordered 7 boxes."
    assert Extractor(Counting(wishes), schema)(text).value == {}
    assert Extractor(Counting({"discount": {"7": 2.0}}), schema)(text).value == {"discount": 7}
    assert Extractor(Counting(wishes), {**schema, "required": ["discount"]})(text).value == {"discount": 7}


def test_a_required_number_that_nothing_stated_fits_is_written() -> None:
    @dataclass
    class Count:
        boxes: int

    found = Extractor(Counting({"boxes": {"11": 20.0}}), Count)("We ordered 3 boxes.")
    assert found.value == Count(11)
    assert not found.decisions


def test_a_required_number_that_is_written_takes_no_place_from_another_member() -> None:
    @dataclass
    class Fleet:
        cars: int
        year: int | None = None

    model = Counting({"cars": {"31": 6.0, "32": 6.0, "41": 6.0, "51": 6.0}, "year": {"2016": 9.0}})
    found = Extractor(model, Fleet)("Cars of 2016.")
    assert found.value.year == 2016
    assert set(found.decisions) == {"/year"}


def test_a_number_that_the_model_has_in_mind_itself_is_written_though_the_text_states_another() -> None:
    @dataclass
    class Person:
        age: int | None = None

    model = Counting({"age": {"41": 12.0, "1983": 9.0}})
    assert Extractor(model, Person)("Born in 1983.").value == Person(41)


def test_a_whole_number_that_a_word_may_say_is_written() -> None:
    @dataclass
    class Order:
        boxes: int | None = None

    extractor = Extractor(Counting({"boxes": {"2": 9.0}}), Order)
    assert extractor("We ordered two boxes.").value == Order(2)
    assert extractor("We ordered boxes.").value == Order(None)


def test_a_word_that_counts_what_a_member_is_called_is_its_number() -> None:
    """Two adults were 780, the only number in figures."""

    @dataclass
    class Booking:
        adults: int
        children: int | None = None
        total: float | None = None

    model = Counting({"adults": {"2": 9.0, "780": 9.5}, "children": {"1": 9.0}, "total": {"780": 9.0}})
    text = "Two adults and one child, {} euros, zwei."
    assert Extractor(model, Booking)(text.format(780)).value == Booking(2, 1, 780.0)


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Order B-17 of 12 lamps", {"12"}),
        ("Order 31-B at 9:30, two lamps of 12", {"12"}),
        ("On 5 May 2024, 2024 lamps", {"2024"}),
        ("-4 degrees, INV-2020, 8kg", {"4", "-4", "8"}),
        ("12,5 m, 9.30 EUR and 1.234.567", {"12.5", "9.3", "1234567"}),
        ("A 3-room flat at 2 p.m. for 900/month, not 17-B, 5-HT or 8/c", {"3", "900"}),
        ("Won 3-1 in 45-60 minutes, not B1-2, 2-3-4 or 555-20", {"3", "1", "45", "60", "2", "555"}),
    ],
)
def test_names_times_and_days_are_no_numbers(text: str, stated: set[str]) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    model = Counting({"n": dict.fromkeys(stated, 9.0)})
    decision = Extractor(model, schema)(text).decisions["/n"]
    assert {format(one, "g") for one in decision.probabilities} == {format(float(one), "g") for one in stated}


@pytest.mark.parametrize("bounds", [{"minimum": 0, "maximum": 9000}, {"multipleOf": 7}])
def test_numbers_with_other_bounds_than_a_least_one_are_not_asked(bounds: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", **bounds}}}
    found = Extractor(Counting({"n": {"7": 20.0}}), schema)("3 boxes")
    assert found.value == {"n": 7}
    assert not found.decisions


def test_what_a_member_does_not_allow_is_no_option() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 4}}, "required": ["n"]}
    found = Extractor(Counting({"n": {"3": 7.0, "5": 8.0}}), schema)("3 boxes, 5 lamps, 6.5 kg")
    assert set(found.decisions["/n"].probabilities) == {5}


def test_a_date_may_be_counted_from_one_that_the_prompt_says() -> None:
    @dataclass
    class Meeting:
        day: date | None = None

    model = Counting({"day": {'"2024-05-06"': 9.0}})
    assert Extractor(model, Meeting)("We meet tomorrow.").value == Meeting(None)
    dated = Extractor(model, Meeting, context="Today is 5 May 2024.")
    assert dated("We meet tomorrow.").value == Meeting(date(2024, 5, 6))


def test_strings_do_not_get_the_number_of_another_member() -> None:
    @dataclass
    class Sale:
        price: float
        buyer: str | None = None
        item: str | None = None

    model = Counting({"price": {"12.50": 9.0}, "buyer": {'"12.50"': 4.0}, "item": {'"lamp"': 9.0}})
    assert Extractor(model, Sale)("A lamp for 12.50").value == Sale(12.5, None, "lamp")


def test_texts_with_too_many_numbers_and_decisions_turned_off_are_written() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    model = Counting({"n": {"5": 9.0}})
    many = " ".join(map(str, range(10000, 10900)))
    assert not Extractor(model, schema)(many).decisions
    assert not Extractor(model, schema, decisions=False)("3 boxes").decisions
    assert Extractor(model, schema)("5 boxes").decisions["/n"].value == 5


@pytest.mark.parametrize("seed", range(30))
def test_the_assignment_is_the_best_of_all(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(1, 5))
    scores = random.normal(size=(rows, rows + int(random.integers(0, 4))))
    scores[random.random(scores.shape) < 0.2] = -1e6
    found = assignment(scores)
    assert len(set(found)) == rows
    every = itertools.permutations(range(scores.shape[1]), rows)
    best = max(sum(scores[row, column] for row, column in enumerate(one)) for one in every)
    assert sum(scores[row, column] for row, column in enumerate(found)) == pytest.approx(best)


def test_streams_batches_and_draws_decide_alike() -> None:
    extractor = Extractor(Counting(WISHES), Order)
    texts = [TEXT, "Nothing.", "2 boxes on 5 May 2024"]
    alone = [extractor(text).value for text in texts]
    assert [result.value for result in extractor.many(texts, ordered=True)] == alone
    for text, value in zip(texts, alone, strict=True):
        *_, last = extractor.stream(text)
        assert last.result is not None
        assert last.result.value == value
    drawn = {json.dumps(str(extractor(TEXT, temperature=5.0, seed=seed).value)) for seed in range(12)}
    assert len(drawn) > 1
    assert extractor(TEXT, temperature=1.0, seed=1).value == extractor(TEXT, temperature=1.0, seed=1).value


@dataclass
class Appointment:
    start: datetime
    end: datetime | None = None


def test_a_datetime_of_a_type_is_the_day_and_time_of_the_text() -> None:
    wishes = {"start": {'"4 March 2027 at 9:15"': 9.0}, "end": {'"4 March 2027"': 1.0}}
    found = Extractor(Counting(wishes), Appointment)("Dentist on 4 March 2027 at 9:15.")
    assert found.value == Appointment(datetime(2027, 3, 4, 9, 15))


@pytest.mark.parametrize("wish", ["EUR", "euros"])
def test_a_currency_is_one_of_the_text_by_its_code_or_as_the_text_writes_it(wish: str) -> None:
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "currency": {"type": "string"}},
        "required": ["amount", "currency"],
    }
    wishes = {"amount": {"12": 9.0}, "currency": {f'"{wish}"': 9.0}}
    assert Extractor(Counting(wishes), schema)("I paid 12 euros.").value == {
        "amount": 12,
        "currency": wish,
    }


def test_a_number_is_in_the_unit_of_its_member() -> None:
    schema = {
        "type": "object",
        "properties": {
            "duration_minutes": {"type": "integer"},
            "weight": {"type": "number", "description": "In kg."},
        },
        "required": ["duration_minutes", "weight"],
    }
    wishes = {"duration_minutes": {"2": 9.0}, "weight": {"500": 9.0}}
    value = Extractor(Counting(wishes), schema)("Roast 500 g of it for 2 hours.").value
    assert value == {"duration_minutes": 120, "weight": 0.5}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("issued", "due"), ["2026-02-03", "2026-02-17"]),
        (("check_in", "check_out"), ["2026-02-03", "2026-02-17"]),
        (("due", "issued"), ["2026-02-17", "2026-02-03"]),
        (("one", "other"), ["2026-02-17", "2026-02-03"]),
    ],
)
def test_what_ends_something_comes_behind_what_begins_it(names: tuple[str, str], expected: list[str]) -> None:
    """The model likes them the other way round."""
    date = {"type": "string", "format": "date"}
    schema = {"type": "object", "properties": dict.fromkeys(names, date), "required": list(names)}
    first, second = names[::-1] if names[0] == "due" else names
    wishes = {first: {'"2026-02-17"': 9.0}, second: {'"2026-02-03"': 9.0}}
    found = Extractor(Counting(wishes), schema)("3 February 2026, payable by 17 February 2026.")
    assert [found.value[name] for name in names] == expected
    assert found.decisions[f"/{names[0]}"].probability > 0


def test_three_dates_in_order_keep_a_date_each() -> None:
    date = {"type": "string", "format": "date"}
    days = {"opened": "2026-02-17", "due": "2026-02-03", "closed": "2026-02-09"}
    schema = {"type": "object", "properties": dict.fromkeys(days, date), "required": list(days)}
    wishes = {name: {f'"{day}"': 9.0} for name, day in days.items()}
    value = Extractor(Counting(wishes), schema)("3 February 2026, 9 February 2026, 17 February 2026.").value
    assert value["opened"] == "2026-02-03"
    assert sorted(value.values()) == sorted(days.values())
