"""Scores of extracted values: which fields are right, whatever the order of arrays."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.extraction.values.scoring import (
    ExtractionScores,
    _cheapest_assignment,
    _scalars,
    score_fields,
)

SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 2.0]) | st.text("ab é", max_size=3)
)
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.sampled_from("abc/"), below, max_size=3),
    max_leaves=12,
)


def verdicts(expected: Any, found: Any) -> list[tuple[str, str]]:
    return [(score.pointer, score.verdict) for score in score_fields(expected, found)]


def shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, list):
        return rng.sample([shuffled(item, rng) for item in value], len(value))
    if isinstance(value, dict):
        return {name: shuffled(member, rng) for name, member in value.items()}
    return value


@given(VALUES)
def test_a_value_is_right_against_itself(value: Any) -> None:
    assert all(score.verdict == "right" for score in score_fields(value, value))


@given(VALUES, VALUES)
def test_each_expected_scalar_has_one_score_and_each_found_one_at_most_one(expected: Any, found: Any) -> None:
    scores = score_fields(expected, found)
    count = Counter(score.verdict for score in scores)
    assert count["right"] + count["wrong"] + count["missing"] == len(list(_scalars("", expected)))
    assert count["right"] + count["wrong"] + count["invented"] == len(list(_scalars("", found)))


@given(VALUES, VALUES, st.randoms(use_true_random=False))
def test_the_order_of_arrays_does_not_count(expected: Any, found: Any, rng: random.Random) -> None:
    assert Counter(verdicts(expected, found)) == Counter(
        verdicts(shuffled(expected, rng), shuffled(found, rng))
    )


@given(VALUES, VALUES)
def test_the_other_way_round_what_is_missing_is_invented(expected: Any, found: Any) -> None:
    there, back = (
        Counter(verdict for _, verdict in verdicts(*pair)) for pair in ((expected, found), (found, expected))
    )
    assert there["right"] == back["right"]
    assert there["wrong"] + there["missing"] == back["wrong"] + back["invented"]


@pytest.mark.parametrize(
    ("expected", "found", "scores"),
    [
        ({"a": None}, {}, []),
        ({"a": []}, {"a": None}, []),
        ({}, {"a": None, "b": [None], "c": {}}, []),
        ({"a": 1}, {}, [("/a", "missing")]),
        ({"a": 1}, None, [("/a", "missing")]),
        (
            {},
            {"a": {"b": 1, "c": [2, 3]}},
            [("/a/b", "invented"), ("/a/c", "invented"), ("/a/c", "invented")],
        ),
        ({"a": 1}, {"a": 2}, [("/a", "wrong")]),
        ("yes", "no", [("", "wrong")]),
        ({"a/b": "x"}, {"a/b": "x"}, [("/a~1b", "right")]),
        ({"a": 12}, {"a": 12.0}, [("/a", "right")]),
        ({"a": 10**30}, {"a": 10**30 + 1}, [("/a", "wrong")]),
        ({"a": 1}, {"a": True}, [("/a", "wrong")]),
        ({"a": "12"}, {"a": 12}, [("/a", "wrong")]),
        ({"a": "Café  au\nlait"}, {"a": "Cafe\u0301 au lait "}, [("/a", "right")]),
        ({"a": "Rome"}, {"a": "rome"}, [("/a", "wrong")]),
        ({"a": "x"}, {"a": {"b": "x"}}, [("/a", "missing"), ("/a/b", "invented")]),
        ({"a": ["x", "y"]}, {"a": ["y", "x"]}, [("/a", "right"), ("/a", "right")]),
        ({"a": ["x", "x"]}, {"a": ["x"]}, [("/a", "right"), ("/a", "missing")]),
        ({"a": ["x"]}, {"a": ["x", "x", "y"]}, [("/a", "right"), ("/a", "invented"), ("/a", "invented")]),
        ({"a": ["x", "y"]}, {"a": ["z", "y"]}, [("/a", "right"), ("/a", "wrong")]),
        ([[1, 2], [3]], [[3], [2, 1]], [("/*", "right")] * 3),
    ],
)
def test_verdicts(expected: Any, found: Any, scores: list[tuple[str, str]]) -> None:
    assert sorted(verdicts(expected, found)) == sorted(scores)


def test_items_of_an_array_belong_together_where_they_have_the_most_in_common() -> None:
    """Item by item in their order, or each with the best one still free, fewer fields would be right."""
    expected = [{"name": "pen", "price": 2, "count": 1}, {"name": "pen", "price": 3, "count": 5}]
    found = [{"name": "pen", "price": 3, "count": 1}, {"name": "ink", "price": 2, "count": 1}]
    assert Counter(verdicts({"lines": expected}, {"lines": found})) == {
        ("/lines/*/name", "right"): 1,
        ("/lines/*/name", "wrong"): 1,
        ("/lines/*/price", "right"): 2,
        ("/lines/*/count", "right"): 1,
        ("/lines/*/count", "wrong"): 1,
    }


@given(
    st.integers(0, 5).flatmap(
        lambda n: st.lists(st.lists(st.integers(-9, 9), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_the_assignment_is_the_cheapest_of_all(costs: list[list[int]]) -> None:
    def cost(columns: Any) -> int:
        return sum(row[column] for row, column in zip(costs, columns, strict=True))

    chosen = _cheapest_assignment(costs)
    assert sorted(chosen) == list(range(len(costs)))
    assert cost(chosen) == min(map(cost, itertools.permutations(range(len(costs)))))


def test_sums_over_documents() -> None:
    scores = ExtractionScores()
    scores.add(
        score_fields({"city": "Rome", "people": ["Ada", "Bo"]}, {"city": "Rome", "people": ["Bo", "Ada"]})
    )
    scores.add(score_fields({"city": "Oslo", "people": ["Cy"]}, {"people": ["Di", "Ed"]}))
    scores.add(score_fields({"city": None}, {"city": None}))
    city, people, total = scores.fields["/city"], scores.fields["/people"], scores.total
    assert (city.asked, city.right, city.wrong, city.missing, city.invented) == (2, 1, 0, 1, 0)
    assert (people.asked, people.right, people.wrong, people.missing, people.invented) == (3, 2, 1, 0, 1)
    assert (total.asked, total.right, total.invented) == (5, 3, 1)
    assert (scores.documents, scores.whole) == (3, 2)
