"""Which member gets which phrase of a text: no word goes to two of them.

The likeliest phrase of all is given first, and what overlaps it is lost to the other members. Then a member that has none gets a phrase of
another one that does with another: of ``Depot Garage in Ghent``, the name of a venue, its city gets ``Ghent``. Where two want one name, the first
has its beginning, and the other one is asked for behind it: make and model of a ``Skoda Octavia``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Words = frozenset[int]
"""Numbers of words of a text."""

AGAIN = -0.2
"""Log-probability of a phrase that two members have: one place may be both where something is sent and where the bill goes."""
_OPTIONAL = -2.0
"""What a member that may be left out gains in the order of members, in nats: it waits for those that must be there."""
_WITHOUT = -8.0
"""What it is worth that a member which must be there has no phrase, in nats, where another one could do with another."""
_SHORTER = 1.5
"""What a member may lose by a part of its phrase, in nats, where another one wants the same phrase."""


@dataclass(frozen=True)
class Wishes:
    """The phrases that a member may have.

    Attributes:
        scores: of each, and what one has to have at least, in nats, float64 [phrases + 1]: log-probabilities, and what its name says.
        is_sure: of which the log-probability alone is more than `AGAIN`.
        places: of each phrase, its words wherever it stands.
        is_optional: whether the member may be left out.
    """

    scores: NDArray[np.float64]
    is_sure: NDArray[np.bool_]
    places: Sequence[Sequence[Words]]
    is_optional: bool

    def free(self, phrase: int, used: Words) -> Words | None:
        """The words of a phrase in the first place where none of them is used; those of no phrase are none."""
        if phrase == len(self.places):
            return frozenset()
        return next((place for place in self.places[phrase] if not place & used), None)


class Shared(NamedTuple):
    """A name of which a member has the beginning; it is whole again if another one does not get the rest.

    Attributes:
        holder: number of the member.
        scores: of its phrases, without all but the name.
        other: number of the other member.
    """

    holder: int
    scores: NDArray[np.float64]
    other: int


def assigned_phrases(
    wishes: Sequence[Wishes], used: Words, draw: Callable[[int, NDArray[np.float64]], int] | None
) -> tuple[list[NDArray[np.float64]], list[Shared]]:
    """The scores of each member, without the phrases that the others leave it no words for; and the names that are shared.

    Args:
        wishes: of each member.
        used: words that no member gets.
        draw: the phrase of a member, by its number and scores; None: the likeliest one.
    """
    scores = [one.scores.copy() for one in wishes]
    words = dict[int, Words]()
    left, taken = list(range(len(wishes))), used
    while left:
        for member in left:
            _rule_out(scores[member], wishes[member], taken)
        member = max(left, key=lambda one: scores[one].max() + _OPTIONAL * wishes[one].is_optional)
        left.remove(member)
        phrase = int(np.argmax(scores[member])) if draw is None else draw(member, scores[member])
        words[member] = wishes[member].free(phrase, taken) or frozenset()
        taken |= words[member]
    shared: list[Shared] = []
    if draw is None:
        for member, one in enumerate(wishes):
            if int(np.argmax(scores[member])) == len(one.places):
                _pass_on(member, wishes, scores, words, used)
        for member, one in enumerate(wishes):
            if not one.is_optional:
                shared += _share_name(member, wishes, scores, words, used)
    return scores, shared


def _rule_out(scores: NDArray[np.float64], wishes: Wishes, used: Words) -> None:
    """Leaves no phrases whose words are used, but those that the member wants all the same."""
    for phrase in range(len(wishes.places)):
        if not wishes.is_sure[phrase] and wishes.free(phrase, used) is None:
            scores[phrase] = -math.inf


def _pass_on(
    taker: int,
    wishes: Sequence[Wishes],
    scores: Sequence[NDArray[np.float64]],
    words: dict[int, Words],
    used: Words,
) -> None:
    """Gives a member the phrase of another one that has another phrase, where both together are likelier."""
    mine = wishes[taker]
    without = mine.scores[-1] if mine.is_optional else min(_WITHOUT, mine.scores[-1])
    best, change = 0.0, None
    for phrase in np.flatnonzero(mine.scores[:-1] > without):
        place = mine.free(phrase, used)
        holders = [one for one, held in words.items() if place and held & place]
        if place is None or len(holders) != 1:
            continue
        (holder,) = holders
        others = used.union(place, *(held for one, held in words.items() if one != holder))
        theirs = wishes[holder]
        for rest in np.argsort(-theirs.scores, kind="stable"):
            other = theirs.free(rest, others)
            if not other and rest < len(theirs.places):
                continue
            if other and (not mine.is_optional or other < words[holder]):
                gain = mine.scores[phrase] - without + theirs.scores[rest] - scores[holder].max()
                if gain > best:
                    best, change = gain, ((taker, phrase, place), (holder, rest, other))
            break
    for member, phrase, place in change or ():
        words[member] = place or frozenset()
        _keep(scores[member], phrase, wishes[member])


def _keep(scores: NDArray[np.float64], phrase: int, wishes: Wishes) -> None:
    """Leaves a member one phrase."""
    scores[:] = -math.inf
    scores[phrase] = wishes.scores[phrase]


def _share_name(
    loser: int,
    wishes: Sequence[Wishes],
    scores: Sequence[NDArray[np.float64]],
    words: dict[int, Words],
    used: Words,
) -> Iterator[Shared]:
    """Leaves a member none where another one has the phrase that it wants most, or a longer one, and could as well have a part of it."""
    mine = wishes[loser]
    place = mine.free(int(np.argmax(mine.scores)), used)
    holder = next((one for one, held in words.items() if one != loser and place and place <= held), None)
    if holder is None or words[loser] == place:
        return
    theirs, whole = wishes[holder], scores[holder].copy()
    for phrase in np.argsort(-theirs.scores, kind="stable"):
        part = theirs.free(phrase, used)
        least = max(whole.max() - _SHORTER, theirs.scores[-1])
        if part and part < words[holder] and theirs.scores[phrase] > least:
            yield Shared(holder, whole, loser)
            words[holder], words[loser] = part, frozenset()
            _keep(scores[holder], phrase, theirs)
            _keep(scores[loser], len(mine.places), mine)
            return
