"""How often guesses came true: what a source says of itself is corrected by what happened.

Acceptance is not monotone in anything that a source knows (a match of one token can be worth more than one of three), so
it is measured: hits and tries for each kind of guess of each source, with the source's own number as the prior.
"""

from __future__ import annotations

PRIOR_STRENGTH = 3.0
"""Tries that a prior is worth."""

_MANY = 4096  # tries after which old ones begin to count less


class AcceptanceCalibration:
    """Counters by kind of guess.

    Attributes:
        counts: kind -> [hits, tries].
    """

    def __init__(self) -> None:
        self.counts: dict[int, list[float]] = {}

    def probability(self, kind: int, prior: float) -> float:
        """The probability that a guess comes true.

        Args:
            kind: names the source, and how sure it is.
            prior: what the source says.
        """
        count = self.counts.get(kind)
        if count is None:
            return prior
        return (count[0] + PRIOR_STRENGTH * prior) / (count[1] + PRIOR_STRENGTH)

    def record(self, kind: int, accepted: bool) -> None:
        """Counts a guess that was checked."""
        count = self.counts.get(kind)
        if count is None:
            count = self.counts[kind] = [0.0, 0.0]
        count[1] += 1.0
        if accepted:
            count[0] += 1.0
        if count[1] >= _MANY:
            count[0] /= 2
            count[1] /= 2
