"""What the weights of masked prefixes tell of the weights at the end, by enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from constrained.bench.fidelity.measure import TaskMeasurement


@dataclass(frozen=True, slots=True)
class PrefixWeights:
    """Masked prefixes of some length, with their weights so far.

    Attributes:
        task: its name.
        tokens: of the prefixes; shorter texts that ended are among them.
        so_far: effective share of masked prefixes by their weights so far.
        at_end: the same by the exact distribution of prefixes.
        correlation: of the log-weight so far and the log-probability of a valid end; None where one of them is constant.
        weighted: total variation between the prefixes by their weights and the exact distribution of prefixes.
        masked: the same of the prefixes without weights.
    """

    task: str
    tokens: int
    so_far: float
    at_end: float
    correlation: float | None
    weighted: float
    masked: float


def prefix_weights(measured: TaskMeasurement) -> Iterator[PrefixWeights]:
    """A row for each number of tokens, from what is enumerated; for tasks whose tokens are letters.

    An end that has to come is counted at the end of all, as in `smc`.
    """
    pi = measured.exact.conditional
    longest = max(map(len, pi))
    for tokens, level in enumerate(_masked_levels(measured, longest)):
        q = np.array([one.probability for one in level])
        p = np.array(
            [
                sum(share for text, share in pi.items() if (text == one.text if one.ended else text.startswith(one.text)))
                for one in level
            ]
        )  # fmt: skip
        weights = np.array([one.weight for one in level])
        if tokens > longest:
            weights = weights * np.array([one.last for one in level])
        by_weight = q * weights / (q @ weights)
        log_weight, log_end = np.log(weights), np.log(p / (q * weights))
        yield PrefixWeights(
            measured.task.name,
            tokens,
            1 / float((by_weight**2 / q).sum()),
            1 / float((p**2 / q).sum()),
            _correlation(q, log_weight, log_end),
            0.5 * float(np.abs(by_weight - p).sum()),
            0.5 * float(np.abs(q - p).sum()),
        )


@dataclass(frozen=True, slots=True)
class _Masked:
    """A prefix under local masking: its probability, its weight so far, and the one of the end that has to come."""

    text: str
    probability: float
    weight: float
    ended: bool = False
    last: float = 1.0


def _masked_levels(measured: TaskMeasurement, longest: int) -> Iterator[list[_Masked]]:
    """The prefixes of 0, 1, ... tokens, and at last the texts."""
    texts = set(measured.exact.conditional)
    follow: dict[str, list[str]] = {}
    for prefix in sorted({text[:n] for text in texts for n in range(1, len(text) + 1)}):
        follow.setdefault(prefix[:-1], []).append(prefix[-1])
    vocabulary = measured.model.vocabulary
    place = {piece.decode(): i for i, piece in enumerate(vocabulary.tokens) if piece}
    (end,) = vocabulary.eos_ids

    def probabilities(text: str) -> NDArray[np.float64]:
        logits = np.asarray(measured.model.logits([], [place[letter] for letter in text]))  # type: ignore[attr-defined]
        shares: NDArray[np.float64] = np.exp(logits - logits.max())
        return np.asarray(shares / shares.sum())

    level = [_Masked("", 1.0, 1.0)]
    yield level
    for _ in range(longest + 1):
        after = []
        for one in level:
            letters = [] if one.ended else follow.get(one.text, [])
            row = None if one.ended else probabilities(one.text)
            if row is None:
                after.append(one)
            elif not letters:
                after.append(_Masked(one.text, one.probability, one.weight, True, float(row[end])))
            else:
                moves = [(one.text + letter, float(row[place[letter]]), False) for letter in letters]
                if one.text in texts:
                    moves.append((one.text, float(row[end]), True))
                allowed = math.fsum(share for _, share, _ in moves)
                after += [
                    _Masked(text, one.probability * share / allowed, one.weight * allowed, ended)
                    for text, share, ended in moves
                ]
        level = after
        yield level


def _correlation(
    q: NDArray[np.float64], one: NDArray[np.float64], other: NDArray[np.float64]
) -> float | None:
    """Of two columns under a distribution; None where one is constant."""
    one, other = one - q @ one, other - q @ other
    spreads = [math.sqrt(float(q @ column**2)) for column in (one, other)]
    return float(q @ (one * other)) / math.prod(spreads) if min(spreads) > 1e-6 else None
