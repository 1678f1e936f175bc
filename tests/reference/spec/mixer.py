"""The probability of a draft token from what all sources say about it and its competitors: online logistic regression.

Several sets of weights are added up, each selected by something else: the place, what was written there, the bytes around
the token, the sources that proposed it.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import exp, log, sqrt
from typing import NamedTuple

from constrained.spec.sources import DRAFT_SOURCES, merge_ngram_scopes
from tests.reference.spec.byte_classes import byte_class
from tests.reference.spec.context import DraftContext

SOURCES = 11
SUREST = 2 * SOURCES
COMPETITOR, OTHERS, CONSTANT, DEPTH, TRUSTED, DOUBTED, FEATURES = range(SUREST + 1, SUREST + 8)
BOUND = 7.0
_RATE = 0.1
_WRITTEN = (2, 6, 20)
"""Bytes of a name or value from which more counts as written."""
_NO_BYTE = 5
_RECYCLING = 1 << DRAFT_SOURCES.index("token_recycling")


class MixerPlace(NamedTuple):
    """Which sets of weights count for a token, one of each kind.

    Attributes:
        place: name, colon, value or behind one, and whether inside a string.
        written: how much of a name or value was written.
        around: classes of the byte before the token, and of its first and its last one.
        sources: those that proposed it, but for token recycling.
    """

    place: Hashable
    written: int
    around: tuple[int, int, int]
    sources: int

    @classmethod
    def of(cls, here: DraftContext, token: int, bits: int) -> MixerPlace:
        """The sets for a token that some sources (native bits) propose at a place."""
        path, piece = here.json_path, here.request.automaton.vocabulary.tokens[token]
        classes = (byte_class(piece[0]), byte_class(piece[-1])) if piece else (0, 0)
        around = (byte_class(here.recent_bytes[-1]) if here.recent_bytes else _NO_BYTE, *classes)
        named = merge_ngram_scopes(bits) & ~_RECYCLING
        if path is None:
            return cls(("key", False), 0, around, named)
        written = sum(len(path.partial) >= size for size in _WRITTEN)
        return cls((path.kind, path.quoted), written, around, named)

    def sets(self) -> list[Hashable]:
        """Keys of the sets; weights of the first kind begin with those of the surest source alone."""
        return [
            (0, self.place),
            (1, self.place, self.written),
            (2, self.around),
            (3, self.sources),
        ]


def logit(p: float) -> float:
    """Bounded log-odds."""
    p = min(1.0 - 1e-9, max(1e-9, p))
    return min(BOUND, max(-BOUND, log(p / (1.0 - p))))


class Mixer:
    """Weights by set; the step falls with the squares of the slopes so far (AdaGrad)."""

    def __init__(self) -> None:
        self.weights: dict[Hashable, list[float]] = {}
        self.squares: dict[Hashable, list[float]] = {}

    def probability(self, place: MixerPlace, features: list[float]) -> float:
        """That a token with these features comes."""
        total = 0.0
        for *weights, feature in zip(*map(self._weights, place.sets()), features, strict=True):
            total += sum(weights) * feature
        return 1.0 / (1.0 + exp(-total))

    def learn(self, place: MixerPlace, features: list[float], hit: bool) -> None:
        """It came, or another one did."""
        error = float(hit) - self.probability(place, features)
        for key in place.sets():
            weights, squares = self._weights(key), self.squares.setdefault(key, [1.0] * FEATURES)
            for i, feature in enumerate(features):
                slope = error * feature
                if slope:
                    squares[i] += slope * slope
                    weights[i] += _RATE * slope / sqrt(squares[i])

    def _weights(self, key: Hashable) -> list[float]:
        first = isinstance(key, tuple) and key[0] == 0
        return self.weights.setdefault(key, [float(first and i == SUREST) for i in range(FEATURES)])
