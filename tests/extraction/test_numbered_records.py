"""Records that a text states by their numbers: invoices, orders, results."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from constrained import json_schema
from constrained.extraction.chunks import sentences
from constrained.extraction.numbered_records import (
    count_member,
    needed_numbers,
    numbered_records,
    quantified_pieces,
    required_quantities,
    states_quantities,
)

BESIDE = ["number", "issued", "total", "vat_percent"]


def found(text: str, needed: int = 2) -> list[tuple[str, str | None, int | None]]:
    parts = [(one.start, one.end) for one in sentences(text)]
    return [
        (text[slice(*one.stated)], one.name, one.number)
        for one in numbered_records(text, parts, needed, BESIDE)
    ]


@pytest.mark.parametrize(
    ("text", "records"),
    [
        (
            "Invoice 2026-118, issued 2 September 2026. 3 desk lamps at 24.50 each, 2 chairs at 89.00 each. Total 262.00.",
            [("3 desk lamps at 24.50", "desk lamps", 3), ("2 chairs at 89.00", "chairs", 2)],
        ),
        (
            "2 x espresso machine 149.90\n10 x coffee beans 1kg 12.50\nTotal: 424.80 EUR",
            [("2 x espresso machine 149.90", "espresso machine", 2), ("10 x coffee beans 1kg 12.50", "coffee beans", 10)],
        ),
        (
            "We sold two notebooks for 3.20 each and a fountain pen for 18.00, VAT 20 %.",
            [("two notebooks for 3.20", "notebooks", 2), ("a fountain pen for 18.00", "fountain pen", 1)],
        ),
        (
            "Web design, 12 hours at 80.00. Hosting, 1 year at 120.00.",
            [("12 hours at 80.00", None, None), ("1 year at 120.00", None, None)],
        ),
        (
            "Bestellung vom 9.2.2026: 12 Flaschen Wein zu je 8,90 und ein Korkenzieher zu 14,50.",
            [("12 Flaschen Wein zu je 8,90", "Flaschen Wein", 12), ("ein Korkenzieher zu 14,50", "Korkenzieher", 1)],
        ),
        ("Two tickets at 55.00 for Mr Ito.", [("Two tickets at 55.00", "tickets", 2)]),
        ("- 3 × Tisch à 199,00\n- 6 × Stuhl à 59,00\n", [("3 × Tisch à 199,00", "Tisch", 3), ("6 × Stuhl à 59,00", "Stuhl", 6)]),
        ("Flour 2.5 at 3.10, milk 1 at 1.20.", [("2.5 at 3.10", None, None), ("1 at 1.20", None, None)]),
        ("Irena ordered 4 glasses at 6.20 each. Nina got 1 lamp at 79.00.", [("4 glasses at 6.20", "glasses", 4), ("1 lamp at 79.00", "lamp", 1)]),
        ("2 bags at 1.50 each; 48.00 in all, and 3.00 for 2 boxes.", [("2 bags at 1.50", "bags", 2), ("3.00 for 2", None, None)]),
        ("He got 8 tyres, 72.00 apiece, and 16 bolts, 1.25 apiece.", [("8 tyres, 72.00", "tyres", 8), ("16 bolts, 1.25", "bolts", 16)]),
        ("4 boxes of A4 paper at 3.10, 2 pens at 1.00.", [("4 boxes of A4 paper at 3.10", "boxes of A4 paper", 4), ("2 pens at 1.00", "pens", 2)]),
        # One part that begins with no count, none with all numbers, and no numbers.
        ("The house was built in 1990 for 250 people.", []),
        ("Tea 2.80, cake 4.50.", []),
        ("Nothing was bought on 4 May 2026.", []),
    ],
)  # fmt: skip
def test_parts_with_the_numbers_of_a_record(text: str, records: Any) -> None:
    assert found(text) == records


def test_an_article_behind_a_break_counts_one_and_what_is_counted_ends_before_what_others_have() -> None:
    text = "Send 3 boxes of A4 paper, 12 pens and a stapler to Rosa Lindqvist, ein Lineal und 2 Stifte."
    rosa = text.index("Rosa"), text.index("Rosa") + len("Rosa Lindqvist")
    read = numbered_records(text, [(0, len(text))], 1, [], used=[rosa])
    counted = [("boxes of A4 paper", 3), ("pens", 12), ("stapler", 1), ("Lineal", 1), ("Stifte", 2)]
    assert [(one.name, one.number) for one in read] == counted
    assert "stapler" not in [
        one.name for one in numbered_records(text, [(0, len(text))], 1, [], counts=False)
    ]


def test_a_record_begins_behind_what_other_members_have_and_has_none_of_it_unless_it_says_a_count() -> None:
    text = "Ann Lee, 7 King Road: 2 bags at 1.50, soap for 3 at 2.10."
    parts = [(0, len(text))]
    address, price = (0, text.index(":")), (text.index("2.10"), len(text) - 1)
    read = numbered_records(text, parts, 2, BESIDE, used=[address])
    assert [one.name for one in read] == ["bags", None]
    assert [one.name for one in numbered_records(text, parts, 2, BESIDE, used=[address, price])] == ["bags"]


def test_a_row_keeps_its_first_cell() -> None:
    text = "Product   Quantity   Price\nDrill        1       89.00\nScrews     200        0.05\n"
    parts = [(one.start, one.end) for one in sentences(text)]
    rows = numbered_records(text, parts, 2, BESIDE)
    assert [text[slice(*one.span)].split() for one in rows] == [
        ["Drill", "1", "89.00"],
        ["Screws", "200", "0.05"],
    ]


def test_each_part_is_of_its_own_and_has_all_numbers_once() -> None:
    text = "Sold: 3 lamps at 24.50 each, 2 chairs at 89.00 each and one rug at 120.00; paid."
    pieces = numbered_records(text, [(0, len(text))], 2, BESIDE)
    spans = [one.span for one in pieces]
    assert spans == sorted(spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert all(one.span[0] <= one.stated[0] < one.stated[1] <= one.span[1] for one in pieces)


@pytest.mark.parametrize(
    ("text", "wanted", "pieces"),
    [
        ("Iron 13.8 g, zinc 5.4 g and lead 88 g.", {"number": 1}, ["Iron 13.8 g, ", "zinc 5.4 g and ", "lead 88 g."]),
        ("Iron 13.8 g, zinc 5.4 g.", {"number": 1}, None),
        ("Brno 31 degrees with 2 mm, Praha 29 with 4 mm.", {"number": 2}, ["Brno 31 degrees with 2 mm, ", "Praha 29 with 4 mm."]),
        ("250 g flour, 500 ml milk and 2 eggs.", {"number": 1}, None),
        ("9:00 Opening, 10:15 Graphs, 13:30 Privacy", {"time": 1}, None),
        ("The 7:20 to Rome and the 9:05 to Zurich.", {"time": 1}, ["The 7:20 to Rome and ", "the 9:05 to Zurich."]),
        ("No number, and none.", {"number": 1}, None),
    ],
)  # fmt: skip
def test_a_sentence_is_cut_where_each_part_states_all_quantities(text: str, wanted: Any, pieces: Any) -> None:
    found = quantified_pieces(text, (0, len(text)), wanted)
    assert [text[slice(*one)] for one in found] == (pieces or [text])


def test_quantities_that_a_record_must_have() -> None:
    item = _item(
        title={"type": "string"}, at={"type": "string", "format": "time"}, day={"type": "string", "format": "date"},
        seats={"type": "integer"}, price={"type": "number", "optional": True},
    )  # fmt: skip
    wanted = required_quantities(item)
    assert wanted == {"time": 1, "date": 1, "number": 1}
    for text, states in (
        ("On 4 May 2026 at 9:30, 12 seats.", True),
        ("On 4 May 2026 at 9:30.", False),
        ("12 seats at 9:30", False),
    ):
        assert states_quantities(text, (0, len(text)), wanted) is states
    assert not states_quantities("12 seats", (0, 8), {})


def _item(**members: Any) -> Any:
    required = [name for name, one in members.items() if not one.pop("optional", False)]
    return json_schema({"type": "object", "properties": members, "required": required}).enforced_schema


@pytest.mark.parametrize(
    ("members", "needed", "counter"),
    [
        ({"name": {"type": "string"}, "count": {"type": "integer"}, "price": {"type": "number"}}, 2, "/count"),
        ({"name": {"type": "string"}, "points": {"type": "integer"}, "rebounds": {"type": "integer"}}, 2, None),
        ({"name": {"type": "string"}, "price": {"type": "number"}, "weight": {"type": "number", "optional": True}}, 1, None),
        ({"name": {"type": "string"}, "unit": {"type": "string"}, "amount": {"type": "number"}}, 0, None),
        ({"name": {"type": "string"}, "paid": {"type": "boolean"}, "price": {"type": "number"}}, 0, None),
        ({"name": {"type": "string"}, "share": {"type": "number", "maximum": 1}}, 0, None),
    ],
)  # fmt: skip
def test_records_of_numbers_and_one_string(members: Any, needed: int, counter: str | None) -> None:
    item = _item(**members)
    assert needed_numbers(item) == needed
    if needed:
        assert count_member(item) == counter
