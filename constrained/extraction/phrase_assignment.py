"""Which member gets which phrase of a text: no word goes to two of them.

The likeliest phrase of all is given first, and what overlaps it is lost to the other members. Then a member that has none gets a phrase of
another one that does with another: of ``Depot Garage in Ghent``, the name of a venue, its city gets ``Ghent``. Where two want one name, the first
has its beginning, and the other one is asked for behind it: make and model of a ``Skoda Octavia``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    made = _Assignment(wishes, used)
    made.give_all(draw or (lambda _, scores: int(np.argmax(scores))))
    if draw is not None:
        return made.scores, []
    for member, one in enumerate(wishes):
        if int(np.argmax(made.scores[member])) == len(one.places):
            made.pass_on(member)
    shared = (made.share_name(member) for member, one in enumerate(wishes) if not one.is_optional)
    return made.scores, [one for one in shared if one is not None]


class _Assignment:
    """Which phrases are left to each member, and the words that it has.

    Attributes:
        scores: of each member, see `Wishes`; a phrase that it cannot have has -inf.
    """

    def __init__(self, wishes: Sequence[Wishes], used: Words) -> None:
        self.scores = [one.scores.copy() for one in wishes]
        self._wishes, self._used = wishes, used
        self._words: dict[int, Words] = {}

    def give_all(self, choose: Callable[[int, NDArray[np.float64]], int]) -> None:
        """Gives each member a phrase or none, the likeliest first; what overlaps it is lost to the others."""
        left, taken = list(range(len(self._wishes))), self._used
        while left:
            for member in left:
                self._rule_out(member, taken)
            member = max(
                left, key=lambda one: self.scores[one].max() + _OPTIONAL * self._wishes[one].is_optional
            )
            left.remove(member)
            phrase = choose(member, self.scores[member])
            self._words[member] = self._wishes[member].free(phrase, taken) or frozenset()
            taken |= self._words[member]

    def _rule_out(self, member: int, used: Words) -> None:
        """Leaves no phrases whose words are used, but those that the member wants all the same."""
        mine = self._wishes[member]
        for phrase in range(len(mine.places)):
            if not mine.is_sure[phrase] and mine.free(phrase, used) is None:
                self.scores[member][phrase] = -math.inf

    def pass_on(self, taker: int) -> None:
        """Gives a member the phrase of another one that has another phrase, where both together are likelier."""
        mine = self._wishes[taker]
        without = mine.scores[-1] if mine.is_optional else min(_WITHOUT, mine.scores[-1])
        best, change = 0.0, None
        for phrase in np.flatnonzero(mine.scores[:-1] > without):
            place = mine.free(phrase, self._used)
            holders = [one for one, held in self._words.items() if place and held & place]
            if place is None or len(holders) != 1:
                continue
            (holder,) = holders
            others = self._used.union(place, *(held for one, held in self._words.items() if one != holder))
            rest, other = self._likeliest(holder, others)
            if other and (not mine.is_optional or other < self._words[holder]):
                both = mine.scores[phrase] + self._wishes[holder].scores[rest]
                gain = both - without - self.scores[holder].max()
                if gain > best:
                    best, change = gain, ((taker, phrase, place), (holder, rest, other))
        for member, phrase, words in change or ():
            self._keep(member, phrase, words)

    def share_name(self, loser: int) -> Shared | None:
        """Leaves a member none where another one has the phrase that it wants most, or a longer one, and could as well have a part of it."""
        mine = self._wishes[loser]
        place = mine.free(int(np.argmax(mine.scores)), self._used)
        held = self._words.items()
        holder = next((one for one, words in held if one != loser and place and place <= words), None)
        if holder is None or self._words[loser] == place:
            return None
        theirs, whole = self._wishes[holder], self.scores[holder].copy()
        least = max(whole.max() - _SHORTER, theirs.scores[-1])
        for phrase in np.argsort(-theirs.scores, kind="stable"):
            part = theirs.free(phrase, self._used)
            if part and part < self._words[holder] and theirs.scores[phrase] > least:
                self._keep(holder, phrase, part)
                self._keep(loser, len(mine.places), frozenset())
                return Shared(holder, whole, loser)
        return None

    def _likeliest(self, member: int, used: Words) -> tuple[int, Words]:
        """The likeliest phrase of a member that has no used words, and its words; or none."""
        mine = self._wishes[member]
        for phrase in np.argsort(-mine.scores, kind="stable"):
            words = mine.free(phrase, used)
            if words is not None:
                return int(phrase), words
        return len(mine.places), frozenset()

    def _keep(self, member: int, phrase: int, words: Words) -> None:
        """Leaves a member one phrase."""
        self.scores[member][:] = -math.inf
        self.scores[member][phrase] = self._wishes[member].scores[phrase]
        self._words[member] = words
