"""The laws of samplers: exact, by enumerating every random choice, and measured, by a test of fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from constrained.decoding.answer import Answer, Rules
from constrained.decoding.loop import run
from constrained.sampling import Draw, Position, Sampler, Warp
from constrained.testing.models import EnumerableModel
from spec.noise import Noise

K = TypeVar("K", bound=Hashable)
TokenLaw = list[tuple[int, tuple[float, float]]]
"""(token, (probability, expected weight)) of one position, by token."""


def g_test(counts: Mapping[K, int], law: Mapping[K, float], *, least: float = 5.0) -> float:
    """p-value of the G-test (likelihood ratio against multinomial counts; Sokal and Rohlf 1981, ch. 17).

    Args:
        counts: how often each outcome was seen.
        law: probability of each possible outcome, of sum 1.
        least: outcomes expected less often than this are pooled into one.

    Returns:
        Probability of a fit at least this bad when the law is true; 0 if something impossible was seen.
    """
    import torch

    total = sum(counts.values())
    if any(law.get(outcome, 0.0) == 0.0 for outcome, n in counts.items() if n):
        return 0.0
    seen, expected = [0.0], [0.0]  # the pool comes first
    for outcome, p in law.items():
        if p * total < least:
            seen[0] += counts.get(outcome, 0)
            expected[0] += p * total
        else:
            seen.append(counts.get(outcome, 0))
            expected.append(p * total)
    cells = [(o, e) for o, e in zip(seen, expected, strict=True) if e > 0]
    g = 2 * math.fsum(o * math.log(o / e) for o, e in cells if o)
    degrees = len(cells) - 1
    if degrees < 1:
        return 1.0
    tail = torch.special.gammaincc(
        torch.tensor(degrees / 2, dtype=torch.float64), torch.tensor(max(g, 0.0) / 2, dtype=torch.float64)
    )
    return float(tail)


def token_law(
    sampler: Sampler, logits: NDArray[np.floating[Any]], allowed: NDArray[np.intp], warp: Warp
) -> dict[int, tuple[float, float]]:
    """The exact law of one draw: every order in which noise can rank the tokens is passed to the sampler.

    The Gumbel keys of all tokens rank them as draws without replacement from the model's law (Plackett-Luce), so the
    probability of an order is known. V! orders: for vocabularies of up to six or so.

    Args:
        sampler: the production sampler.
        logits: floating [V].
        allowed: ids, ascending.
        warp: temperature and truncations.

    Returns:
        Token -> (P(X = token), E[W 1{X = token}]).
    """
    scaled = warp.scale(logits)
    p = np.exp(scaled - scaled.max())
    p /= p.sum()
    law: dict[int, tuple[float, float]] = {}
    for order in itertools.permutations(range(len(p))):
        chance, left = 1.0, list(order)
        for token in order:
            rest = math.fsum(p[left])
            chance *= p[token] / rest if rest > 0 else 1.0 / len(left)
            left.pop(0)
        if chance == 0.0:
            continue
        ranks = np.empty(len(p))
        ranks[list(order)] = -np.arange(len(p), dtype=np.float64)
        finite = np.where(np.isfinite(scaled), scaled, 0.0)
        noise = ranks - finite
        draw = sampler.propose(Position(logits, allowed, noise.__getitem__, warp))
        old = law.get(draw.token, (0.0, 0.0))
        law[draw.token] = (old[0] + chance, old[1] + chance * math.exp(draw.log_weight))
    return law


def check_proper(
    sampler: Sampler,
    logits: NDArray[np.floating[Any]],
    allowed: NDArray[np.intp],
    temperature: float = 1.0,
    *,
    tolerance: float = 1e-12,
) -> None:
    """Checks that a sampler's draw is properly weighted: E[W 1{X = x}] = p(x) f(x) for every x.

    Raises:
        AssertionError: it is not; the message has the token and both numbers.
    """
    warp = Warp(temperature)
    law = token_law(sampler, logits, allowed, warp)
    scaled = warp.scale(logits)
    p = np.exp(scaled - scaled.max())
    p /= p.sum()
    for token in range(len(p)):
        wanted = float(p[token]) if token in allowed else 0.0
        got = law.get(token, (0.0, 0.0))[1]
        assert abs(got - wanted) < tolerance, f"token {token}: E[W 1{{X = x}}] is {got!r}, p f is {wanted!r}"


def text_law(
    model: EnumerableModel, automaton: Any, sampler: Sampler, warp: Warp, limit: int
) -> dict[bytes, tuple[float, float]]:
    """The exact law of finished texts: the production loop is run once for every sequence of choices.

    Returns:
        Text -> (probability that it is drawn, expected exp(log_weight) 1{it is drawn}).
    """
    law: dict[bytes, tuple[float, float]] = {}
    for path in _paths(model, automaton, sampler, warp, limit):
        text = model.vocabulary.decode(path.answer.tokens)
        old = law.get(text, (0.0, 0.0))
        law[text] = (old[0] + path.chance, old[1] + path.chance * math.exp(path.answer.log_weight))
    return law


class _Path(Sampler):
    """Takes given choices first, then always the first possible one, and notes how many there were."""

    def __init__(self, inner: Sampler, choices: list[int], known: dict[tuple[int, ...], TokenLaw]) -> None:
        self.inner = inner
        self.choices = choices
        self.known = known  # laws of positions, by the choices that lead there
        self.options: list[int] = []
        self.chance = 1.0
        self.answer: Answer

    def propose(self, position: Position) -> Draw:
        step = len(self.options)
        place = tuple(self.choices[:step])
        if place not in self.known:
            found = token_law(self.inner, position.logits, position.allowed, position.warp)
            self.known[place] = sorted(found.items())
        law = self.known[place]
        if step == len(self.choices):
            self.choices.append(0)
        self.options.append(len(law))
        token, (chance, weighted) = law[self.choices[step]]
        self.chance *= chance
        return Draw(token, float(position.scaled[token]) - position.normaliser, math.log(weighted / chance))

    def law(self, warp: Warp) -> str:
        return self.inner.law(warp)


def _paths(
    model: EnumerableModel, automaton: Any, sampler: Sampler, warp: Warp, limit: int
) -> Iterator[_Path]:
    choices: list[int] = []
    known: dict[tuple[int, ...], TokenLaw] = {}
    while True:
        path = _Path(sampler, choices, known)
        path.answer = Answer(Rules(automaton, path, warp), model.encode(""), Noise(0), limit)
        for _ in run(model, [path.answer]):
            pass
        yield path
        # The next sequence of choices, as on an odometer.
        while choices and choices[-1] + 1 == path.options[len(choices) - 1]:
            choices.pop()
        if not choices:
            return
        choices[-1] += 1
