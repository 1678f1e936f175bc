"""The probability of a draft token from what all sources say about it and its competitors: online logistic regression."""

from __future__ import annotations

from math import exp, log, sqrt

SOURCES, PLACES = 11, 8
SUREST = 2 * SOURCES
COMPETITOR, OTHERS, CONSTANT, DEPTH, TRUSTED, DOUBTED, FEATURES = range(SUREST + 1, SUREST + 8)
BOUND = 7.0
_RATE = 0.2


def logit(p: float) -> float:
    """Bounded log-odds."""
    p = min(1.0 - 1e-9, max(1e-9, p))
    return min(BOUND, max(-BOUND, log(p / (1.0 - p))))


class Mixer:
    """Weights by class of place; the step falls with the squares of the slopes so far (AdaGrad)."""

    def __init__(self) -> None:
        self.weights = [[float(i == SUREST) for i in range(FEATURES)] for _ in range(PLACES)]
        self.squares = [[1.0] * FEATURES for _ in range(PLACES)]

    def probability(self, place: int, features: list[float]) -> float:
        """That a token with these features comes."""
        total = 0.0
        for weight, feature in zip(self.weights[place], features, strict=True):
            total += weight * feature
        return 1.0 / (1.0 + exp(-total))

    def learn(self, place: int, features: list[float], hit: bool) -> None:
        """It came, or another one did."""
        error = float(hit) - self.probability(place, features)
        for i, feature in enumerate(features):
            slope = error * feature
            if slope:
                self.squares[place][i] += slope * slope
                self.weights[place][i] += _RATE * slope / sqrt(self.squares[place][i])
