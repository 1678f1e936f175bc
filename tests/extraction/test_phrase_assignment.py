"""Which member gets which phrase: no word goes to two, and who has none gets the phrase of one that does with another."""

from __future__ import annotations

import math

import numpy as np
import pytest

from constrained.extraction.phrase_assignment import AGAIN, Wishes, assigned_phrases

TEXT = ["Depot", "Garage", "in", "Ghent"]


def words(phrase: str) -> frozenset[int]:
    """The words of a phrase in `TEXT`."""
    return frozenset(TEXT.index(word) for word in phrase.split())


def wishes(least: float, *, is_optional: bool = False, **phrases: float) -> Wishes:
    """What a member likes; the names have underscores for spaces."""
    places = [[words(phrase.replace("_", " "))] for phrase in phrases]
    scores = np.array([*phrases.values(), least])
    return Wishes(scores, scores > AGAIN, places, is_optional)


def given(*members: Wishes, used: frozenset[int] = frozenset()) -> list[frozenset[int]]:
    """The words that each member gets; none: no phrase."""
    rows, _ = assigned_phrases(members, used, None)
    return [
        one.free(int(np.argmax(row)), frozenset()) or frozenset()
        for one, row in zip(members, rows, strict=True)
    ]


def test_the_likeliest_phrase_is_given_first_and_its_words_are_lost_to_the_others() -> None:
    name = wishes(-5.0, Depot_Garage=-1.0, Ghent=-3.0)
    owner = wishes(-5.0, Depot_Garage=-2.0, Ghent=-4.0)
    assert given(name, owner) == [words("Depot Garage"), words("Ghent")]
    assert given(name, used=words("Garage")) == [words("Ghent")]


def test_a_member_that_must_be_there_comes_before_one_that_may_be_left_out() -> None:
    customer = wishes(-5.0, Depot_Garage=-3.0)
    assignee = wishes(-7.0, is_optional=True, Depot_Garage=-1.5)
    assert given(customer, assignee) == [words("Depot Garage"), frozenset()]


def test_a_phrase_is_shared_out_where_both_parts_together_are_likelier() -> None:
    venue = wishes(-5.0, Depot_Garage_in_Ghent=-1.0, Depot_Garage=-2.0)
    city = wishes(-7.0, is_optional=True, Ghent=-2.0)
    assert given(venue, city) == [words("Depot Garage"), words("Ghent")]
    unlikely = wishes(-7.0, is_optional=True, Ghent=-6.5)
    assert given(venue, unlikely) == [words("Depot Garage in Ghent"), frozenset()]


def test_only_a_member_that_must_be_there_takes_a_whole_phrase() -> None:
    holder = wishes(-5.0, Ghent=-1.0, Depot=-1.5)
    assert given(holder, wishes(-5.0, Ghent=-2.0)) == [words("Depot"), words("Ghent")]
    assert given(holder, wishes(-7.0, is_optional=True, Ghent=-2.0)) == [words("Ghent"), frozenset()]


def test_two_members_that_surely_want_a_phrase_both_have_it() -> None:
    assert given(wishes(-5.0, Ghent=AGAIN / 2), wishes(-5.0, Ghent=AGAIN / 2)) == [words("Ghent")] * 2
    named = Wishes(np.array([1.0, -5.0]), np.array([False, False]), [[words("Ghent")]], False)
    assert given(wishes(-5.0, Ghent=1.5), named) == [words("Ghent"), frozenset()]


def test_a_name_that_two_want_is_shared_if_the_first_could_have_its_beginning() -> None:
    make = wishes(-5.0, Depot_Garage=-1.0, Depot=-2.0)
    model = wishes(-5.0, Depot_Garage=-1.5, Garage=-7.0)
    assert given(make, model) == [words("Depot"), frozenset()]
    _, (shared,) = assigned_phrases([make, model], frozenset(), None)
    assert (shared.holder, shared.other, int(np.argmax(shared.scores))) == (0, 1, 0)
    whole = wishes(-5.0, Depot_Garage=-1.0, Depot=-4.0)
    assert given(whole, model) == [words("Depot Garage"), frozenset()]
    optional = wishes(-7.0, is_optional=True, Depot_Garage=-1.5)
    assert given(make, optional) == [words("Depot Garage"), frozenset()]


def test_draws_are_made_among_what_the_others_leave() -> None:
    members = [wishes(-5.0, Ghent=-1.0, Depot=-2.0), wishes(-5.0, Ghent=-1.5, Garage=-3.0)]
    rows, _ = assigned_phrases(members, frozenset(), lambda member, scores: 1 - member)
    assert int(np.argmax(rows[0])) == 0  # what it could have had when it drew
    assert int(np.argmax(rows[1])) == 0
    rows, _ = assigned_phrases(members, frozenset(), lambda member, scores: 0)
    assert rows[1][0] == -math.inf


@pytest.mark.parametrize("seed", range(200))
def test_no_word_is_given_twice_and_nobody_loses_by_passing_phrases_on(seed: int) -> None:
    rng = np.random.default_rng(seed)
    phrases = ["Depot", "Garage", "Ghent", "Depot Garage", "Garage in Ghent", "in Ghent"]
    members = []
    for _ in range(3):
        some = rng.permutation(len(phrases))[: rng.integers(1, 5)]
        scores = np.append(-0.5 - 8 * rng.random(len(some)), -5.0)
        places = [[words(phrases[one])] for one in some]
        members.append(Wishes(scores, scores > AGAIN, places, bool(rng.integers(2))))
    held = given(*members)
    assert sum(map(len, held)) == len(frozenset().union(*held))
    drawn, _ = assigned_phrases(members, frozenset(), lambda _, scores: int(np.argmax(scores)))
    for one, row, words_held in zip(members, drawn, held, strict=True):
        assert words_held or int(np.argmax(row)) == len(one.places)
