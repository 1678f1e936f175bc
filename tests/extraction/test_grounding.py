"""Where values stand, values that must stand in the document, their probabilities, and the view of both.

Places are judged by documents that were made with known ones, grounding by Python's ``in``.
"""

from __future__ import annotations

import datetime as dt
import io
import itertools
import json
import pickle
import random
import re
from dataclasses import dataclass
from decimal import Decimal
from html.parser import HTMLParser
from typing import Annotated, Any

import pytest

from constrained import (
    Document,
    Extractor,
    Span,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
    Vocabulary,
    compile,
    json_schema,
    python_type,
)
from constrained.automaton import DEAD, TokenAutomaton
from constrained.extraction.extraction import Extraction
from constrained.extraction.values.document_view import field_views, html_page, render_document, render_html
from constrained.extraction.values.fields import FieldProbability
from constrained.extraction.values.grounding import choose_places, find_spans, iterate_scalars
from constrained.extraction.values.json_places import scalar_places
from constrained.grammars.text.quantities import find_quantities, ungroup_numbers
from constrained.testing import ScriptedModel
from tests.support.grounded_documents import make_document

BYTES = Vocabulary.from_bytes([bytes((byte,)) for byte in range(256)] + [b""], [256])


def random_value(automaton: TokenAutomaton, rng: random.Random) -> Any:
    """The value of a random completion."""
    state, data = automaton.start, b""
    while not automaton.accepts(state):
        near = len(data) > 300
        moves = [(b, automaton.next(state, b)) for b in range(256)]
        alive = [(b, to) for b, to in moves if to != DEAD]
        if near:
            alive = [min(alive, key=lambda move: automaton.shortest_completion(move[1]))]
        byte, state = rng.choice(alive)
        data += bytes((byte,))
    return json.loads(data, parse_float=Decimal)


# ---------------------------------------------------------------- places


def test_places_in_documents_of_unseen_kinds() -> None:
    rng = random.Random(11)
    true = exact = 0
    for _ in range(200):
        document, value, places = make_document(rng)
        spans = find_spans(document, value)
        assert spans.keys() == places.keys()
        scalars = dict(iterate_scalars(value))
        for pointer, match in spans.items():
            start, end = places[pointer]
            assert match.how != "none", (document, pointer)
            exact += 1
            true += (match.start, match.end) == (start, end)
            if match.how == "exact":
                text = scalars[pointer] if isinstance(scalars[pointer], str) else str(scalars[pointer])
                assert match.text(document) == text
                assert document[start:end] == text or isinstance(scalars[pointer], (int, float))
    assert true / exact > 0.95  # others are equal values elsewhere


def test_how_a_value_stands() -> None:
    document = "INV-7 of 5 January 2026, 9:30 pm; Müller\u00a0 GmbH; “Q’s”; −3,5 °C; 1.234,50 €; 12kg"
    value = {
        "no": "INV-7",
        "date": "2026-01-05",
        "at": "2026-01-05T21:30:00Z",
        "firm": "müller gmbh",
        "quote": '"q\'s"',
        "cold": -3.5,
        "sum": 1234.5,
        "kg": 12,
        "other": "Zorro",
        "none": None,
        "yes": True,
        "empty": "",
    }
    spans = find_spans(document, value)
    assert {pointer: match.how for pointer, match in spans.items()} == {
        "/no": "exact",
        "/date": "normalised",
        "/at": "normalised",
        "/firm": "space",
        "/quote": "normalised",
        "/cold": "normalised",
        "/sum": "normalised",
        "/kg": "exact",
        "/other": "none",
        "/none": "none",
        "/yes": "none",
        "/empty": "none",
    }
    assert spans["/firm"].text(document) == "Müller\u00a0 GmbH"
    assert spans["/quote"].text(document) == "“Q’s”"
    assert spans["/cold"].text(document) == "−3,5"
    assert spans["/kg"].text(document) == "12"
    assert spans["/date"].text(document) == "5 January 2026"
    assert spans["/at"].text(document) == "5 January 2026, 9:30 pm"
    assert spans["/sum"].text(document) == "1.234,50"
    assert find_spans("x", "x") == find_spans("x", "x")


def test_neighbours_decide_between_equal_texts() -> None:
    document = "1 total. Apple 1 at 5; Pear 1 at 5; Fig 2 at 5"
    value = [{"n": "Apple", "q": 1, "p": 5}, {"n": "Pear", "q": 1, "p": 5}, {"n": "Fig", "q": 2, "p": 5}]
    spans = find_spans(document, value)
    assert [spans[f"/{i}/q"].start for i in range(3)] == [15, 28, 40]
    assert [spans[f"/{i}/p"].start for i in range(3)] == [20, 33, 45]


def test_the_choice_is_the_cheapest_of_all() -> None:
    rng = random.Random(2)

    def cost(path: list[tuple[int, int]]) -> int:
        steps = itertools.pairwise(path)
        return sum(b - a if b >= a else 3 * (a - b) for (_, a), (b, _) in steps)

    for _ in range(100):
        layers = [
            sorted({(s, s + rng.randrange(1, 4)) for s in rng.choices(range(40), k=rng.randrange(1, 5))})
            for _ in range(rng.randrange(1, 5))
        ]
        every: list[list[tuple[int, int]]] = [[]]
        for layer in layers:
            every = [[*path, place] for path in every for place in layer]
        assert cost(choose_places(layers)) == min(map(cost, every))


def test_numbers_and_dates_of_a_text() -> None:
    found = find_quantities("1,234 or 1'000.5; 3.14e2; 1/5/2026; 5. Januar 2026; am 3 mai 2024; 31.12.99; -7")
    numbers = {str(number) for number in found.numbers}
    assert numbers >= {"1234", "1.234", "1000.5", "314", "-7", "7"}
    assert {dt.date(2026, 1, 5), dt.date(2026, 5, 1), dt.date(2024, 5, 3), dt.date(1999, 12, 31)} <= set(
        found.dates
    )


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("4 to 9 August 2025", ["2025-08-04", "2025-08-09"]),
        ("vom 4. bis 9. August 2025", ["2025-08-04", "2025-08-09"]),
        ("4.-9.8.2025", ["2025-08-04", "2025-08-09"]),
        ("04.08. - 09.08.2025", ["2025-08-04", "2025-08-09"]),
        ("August 4-9, 2025", ["2025-08-04", "2025-08-09"]),
        ("March 28 to April 2, 2025", ["2025-03-28", "2025-04-02"]),
        ("28 December to 3 January 2025", ["2024-12-28", "2025-01-03"]),
        ("9:15 to 4 August 2025", ["2025-08-04"]),
        ("31 April to 2 May 2024", ["2024-05-02"]),
        ("12 and 4 August 2025", ["2025-08-04"]),
    ],
)
def test_days_that_share_month_or_year_with_the_one_behind_them(text: str, days: list[str]) -> None:
    """A stay of ``4 to 9 August 2025`` began on the 19th of April."""
    found = find_quantities(text).dates
    assert sorted(day.isoformat() for day in found) == days
    for day, places in found.items():
        assert any(str(day.day) in text[start:end] for start, end in places)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("7.200 Euro", "7200 Euro"),
        ("1.259 EUR/l, 41.387 km", "1.259 EUR/l, 41.387 km"),
    ],
)
def test_a_price_with_one_point_and_three_digits_has_groups_of_digits(text: str, shown: str) -> None:
    assert ungroup_numbers(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("85.300 km, VB 12.900 Euro", "85300 km, VB 12900 Euro"),
        ("2.800 bis 3.200 Euro", "2800 bis 3200 Euro"),
        ("1.250 g, 1,5 l, 3.200,50 kg", "1250 g, 1,5 l, 3200.50 kg"),
        ("1.250 kg, 1.5 l, 4.500 \u20ac", "1.250 kg, 1.5 l, 4500 \u20ac"),
        ("1.250 kg for $1,234.50", "1.250 kg for $1234.50"),
        ("62 000 km, 8 990 \u20ac, +49 30 123 456", "62000 km, 8990 \u20ac, +49 30 123 456"),
        ("Am 12.03.2026 kamen 1.250.000, 85.300 blieben", "Am 12.03.2026 kamen 1250000, 85300 blieben"),
    ],
)
def test_a_text_groups_the_digits_of_all_its_numbers_alike(text: str, shown: str) -> None:
    """The mileage of a car was 120 beside its price."""
    assert ungroup_numbers(text) == shown


# ---------------------------------------------------------------- by construction


def test_nothing_outside_of_the_document() -> None:
    rng = random.Random(4)
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "x-span": True},
            "b": {"type": ["string", "null"], "x-span": {"case": "any", "space": "any"}},
            "c": {"type": "array", "items": {"type": "string", "x-span": {"words": True}}, "maxItems": 2},
        },
        "required": ["a", "b", "c"],
        "additionalProperties": False,
    }
    for document in (
        'Ana said "né 😀\\"\n\tto Zoë.\x00',
        "a",
        "日本 語 \u2028x",
        make_document(rng)[0][:200],
    ):
        automaton = compile(json_schema(schema).bind(document), BYTES)
        assert isinstance(automaton, TokenAutomaton)
        squeezed = " ".join(f" {document.casefold()} ".split(" "))
        for _ in range(15):
            value = random_value(automaton, rng)
            assert value["a"] in document
            assert all(item in document for item in value["c"])
            if value["b"] is not None:
                assert " ".join(value["b"].casefold().split()) in " ".join(squeezed.split())


def test_grounding_is_required() -> None:
    document = "Ana, 41, paid 1.234,50 EUR on 5 January 2026 at 9:30 pm."

    class Kind(str):
        pass

    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer", "minimum": 10},
            "sum": {"type": "number"},
            "on": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "date-time"},
            "kind": {"enum": ["invoice", "offer"]},
            "paid": {"type": "boolean"},
        },
        "required": ["name", "age", "sum", "on", "at", "kind", "paid"],
    }
    automaton = compile(json_schema(schema).bind(document, require_grounding=True), BYTES)
    assert isinstance(automaton, TokenAutomaton)
    rng = random.Random(1)
    for _ in range(20):
        value = random_value(automaton, rng)
        assert value["name"] in document
        assert value["age"] in (41, 1234, 2026, 30, 50)
        assert Decimal(value["sum"]) in find_quantities(document).numbers
        assert value["on"] in ("2026-01-05",)
        assert value["at"].startswith(
            ("2026-01-05T21:30:00", "2026-01-05t21:30:00", "2026-01-05T00:00:00", "2026-01-05t00:00:00")
        )
    with pytest.raises(UnsatisfiableConstraint):
        compile(json_schema(schema).bind("no figures here", require_grounding=True), BYTES)
    optional = {**schema, "required": ["name"]}
    compile(json_schema(optional).bind("no figures here", require_grounding=True), BYTES)
    with pytest.raises(UnsupportedConstraint, match="#/properties/x"):
        compile(
            json_schema({"type": "object", "properties": {"x": {}}}).bind("x", require_grounding=True), BYTES
        )


def test_span_in_types() -> None:
    from dataclasses import dataclass

    from pydantic import BaseModel

    @dataclass
    class Plain:
        name: Annotated[str, Span]
        city: Annotated[str | None, Span(case="any")] = None

    class Model(BaseModel):
        name: Annotated[str, Span]
        city: Annotated[str, Span(space="any", words=True)]

    for kind in (Plain, Model):
        constraint = python_type(kind)
        assert constraint.needs_document
        bound = pickle.loads(pickle.dumps(python_type(dict[str, Annotated[str, Span]]).bind("Ana")))
        assert not bound.needs_document
        automaton = compile(constraint.bind("Ana in Rome"), BYTES)
        assert isinstance(automaton, TokenAutomaton)
        value = random_value(automaton, random.Random(0))
        assert value["name"] in "Ana in Rome"
    with pytest.raises(UnsupportedConstraint, match="Span is for strings"):
        python_type(Annotated[int, Span])
    with pytest.raises(ValueError, match="case"):
        Span(case="lower")  # type: ignore[arg-type]


# ---------------------------------------------------------------- places in JSON, and the view


def test_scalar_places() -> None:
    text = '{"a/b": [1, -2.5e3, "x\\"\\u00e9"], "~": {"": true, "n": null}, "e": [], "o": {}}'
    places = scalar_places(text)
    assert list(places) == ["/a~1b/0", "/a~1b/1", "/a~1b/2", "/~0/", "/~0/n"]
    for start, end, value in places.values():
        assert json.loads(text[start:end]) == value
    with pytest.raises(ValueError, match="not JSON"):
        scalar_places('{"a": }')


class Reader(HTMLParser):
    """Text of a page, and the names of its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_hostile_texts_stay_texts() -> None:
    document = '<script>alert(1)</script> & "quoted" \x1b[31m \u202edesrever </div> Ana\x00'
    value = {"<img onerror=x>": "<script>alert(1)</script>", "n": "Ana", "q": '"quoted"', "z": "</td><b>"}
    views = field_views(value, find_spans(document, value))
    for page in (
        render_html(document, views, title="</style><script>"),
        "".join(html_page([(document, views, "<b>", "")])),
    ):
        reader = Reader()
        reader.feed(page)
        assert "script" not in reader.tags
        assert "img" not in reader.tags
        assert not any(name.startswith("on") for name in reader.attributes)
        assert "<script>alert(1)</script>" in reader.text
        assert "\u202e" not in page
    terminal = render_document(document, views).plain
    assert "\x1b" not in terminal
    assert len(terminal) == len(document)


def test_a_page_marks_what_is_in_doubt_and_can_show_that_alone() -> None:
    document = "Ana, Brno"
    value = {"a": "Ana", "b": "Brno", "c": "nowhere"}
    fields = {
        "/a": FieldProbability("Ana", 0.0, "", 0.0, ()),
        "/b": FieldProbability("Brno", 0.0, "", 0.0, (), 0.01),
    }
    page = "".join(html_page([(document, field_views(value, find_spans(document, value), fields), "", "")]))
    rows = page.split("<tr>")[-3:]
    assert ["cx-bad" in row for row in rows] == [False, True, True]
    assert "derailed" in rows[1]
    assert "no source" in rows[2]
    assert re.search(r"has\(\.cx-filter :checked\).*tr:not\(:has\(\.cx-bad\)\).*display:none", page)


def test_an_error_is_shown_too(tmp_path: Any) -> None:
    from constrained.errors import PromptError

    failed: Extraction[Any] = Extraction("doc 1", "text", error=PromptError("too <long>"))
    assert "too &lt;long&gt;" in failed._repr_html_()
    file = io.StringIO()
    failed.show(file=file)
    assert "too <long>" in file.getvalue()
    failed.write_html(tmp_path / "page.html")
    assert "doc 1" in (tmp_path / "page.html").read_text()


@dataclass
class Birth:
    name: str
    born: int


@dataclass
class Meeting:
    people: list[Birth]
    day: dt.date


@pytest.mark.parametrize(
    ("constraint", "text", "message"),
    [
        (
            Birth,
            "Ana lives here.",
            "the document states no number for 'born'(.|\n)*#/properties/born (.|\n)*optional",
        ),
        (Meeting, "Ana met 3 others.", "the document states no date for 'day'"),
        (int, "Ana lives here.", "the document states no number\n"),
    ],
)
def test_what_the_document_does_not_state_is_named(constraint: Any, text: str, message: str) -> None:
    extractor: Extractor[Any] = Extractor(ScriptedModel(BYTES, "{}"), constraint, require_grounding=True)
    with pytest.raises(UnsatisfiableConstraint, match=message):
        extractor(text)
    (result,) = extractor.many([Document("a.txt", text)])
    assert str(result.error).startswith("document 'a.txt' states no")


def test_two_values_at_one_place_both_have_their_colour_there() -> None:
    views = field_views({"a": "Ana", "b": "Ana"}, find_spans("Ana", {"a": "Ana", "b": "Ana"}))
    page = render_html("Ana", views)
    place = re.search(r"<mark[^>]*style=\"([^\"]*)\"", page)
    assert place is not None
    hues = re.findall(r"<a href=[^>]*--h:(\d+)", page)
    assert all(hue in place[1] for hue in hues)
    assert len(set(hues)) == 2
