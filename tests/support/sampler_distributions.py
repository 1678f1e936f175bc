"""The exact distributions of samplers, by enumerating every random choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.sequence import DecodingParams, TokenSequence
from constrained.decoding.step import decode_sequences
from constrained.sampling import CandidateList, Candidates, Draw, LogitsWarper, Position, TokenSampler
from tests.support.enumerable_model import EnumerableModel
from tests.support.enumerated_choices import EnumeratedRandomness, enumerate_outcomes

TokenDistribution = list[tuple[int | None, tuple[float, float]]]
"""(token, (probability, expected weight)) of one position, by token."""


def token_distribution(
    sampler: TokenSampler,
    logits: NDArray[np.floating[Any]],
    candidates: Candidates | NDArray[np.intp] | Callable[[], Candidates],
    warp: LogitsWarper,
) -> dict[int | None, tuple[float, float]]:
    """The exact distribution of one draw: the sampler runs once for every choice or visiting order that is possible.

    For small vocabularies: there may be V! orders.

    Args:
        sampler: the production sampler.
        logits: floating [V].
        candidates: allowed ids, ascending; or a function that returns new candidates for each run.
        warp: temperature and truncations.

    Returns:
        Token (None: dead end) -> (P(X = token), E[W 1{X = token}]).
    """
    law: dict[int | None, tuple[float, float]] = {}
    for chance, draw in enumerate_draws(sampler, logits, candidates, warp):
        old = law.get(draw.token, (0.0, 0.0))
        law[draw.token] = (old[0] + chance, old[1] + chance * math.exp(draw.log_weight))
    return law


def enumerate_draws(
    sampler: TokenSampler,
    logits: NDArray[np.floating[Any]],
    candidates: Candidates | NDArray[np.intp] | Callable[[], Candidates],
    warp: LogitsWarper,
) -> Iterator[tuple[float, Draw]]:
    """Every possible draw at a position, with its probability; arguments as for `token_distribution`."""

    def fresh() -> Candidates:
        if isinstance(candidates, Candidates):
            return candidates
        return candidates() if callable(candidates) else CandidateList(candidates)

    return enumerate_outcomes(lambda dice: sampler.propose(Position(logits, fresh(), dice, warp)))


def check_proper_weighting(
    sampler: TokenSampler,
    logits: NDArray[np.floating[Any]],
    allowed: NDArray[np.intp],
    temperature: float = 1.0,
    *,
    candidates: Callable[[], Candidates] | None = None,
    tolerance: float = 1e-12,
) -> None:
    """Checks that a sampler's draw is properly weighted: E[W 1{X = x}] = p(x) f(x) for every x.

    Args:
        sampler: any.
        logits: floating [V].
        allowed: ids.
        temperature: of the distribution.
        tolerance: greatest deviation.
        candidates: returns the candidates that the sampler gets; by default a list of the allowed ids.

    Raises:
        AssertionError: it is not; the message has the token and both values.
    """
    warp = LogitsWarper(temperature)
    law = token_distribution(sampler, logits, candidates or allowed, warp)
    scaled = warp.scale(logits)
    p = np.exp(scaled - scaled.max())
    p /= p.sum()
    for token in range(len(p)):
        wanted = float(p[token]) if token in allowed else 0.0
        got = law.get(token, (0.0, 0.0))[1]
        assert abs(got - wanted) < tolerance, f"token {token}: E[W 1{{X = x}}] is {got!r}, p f is {wanted!r}"


def sequence_distribution(
    model: EnumerableModel, automaton: Any, sampler: TokenSampler, warp: LogitsWarper, limit: int
) -> dict[bytes, tuple[float, float]]:
    """The exact distribution of completions: the production loop runs once for every sequence of tokens.

    Sequences that end in a dead end are left out.

    Returns:
        Bytes of the completion -> (its probability, expected exp(log_weight) 1{it is drawn}).
    """
    known: dict[tuple[int, ...], TokenDistribution] = {}

    def play(dice: EnumeratedRandomness) -> TokenSequence:
        answer = TokenSequence(
            DecodingParams(automaton, warp, sampler.certain_ends), model.encode(""), dice, limit
        )
        for _ in decode_sequences(model, [answer], _MeanWeightSampler(sampler, answer, known)):
            pass
        return answer

    law: dict[bytes, tuple[float, float]] = {}
    for chance, answer in enumerate_outcomes(play):
        if answer.finish != "dead":
            old = law.get(answer.content, (0.0, 0.0))
            law[answer.content] = (old[0] + chance, old[1] + chance * math.exp(answer.log_weight))
    return law


class _MeanWeightSampler(TokenSampler):
    """A sampler whose weight is replaced by its mean given the token, so that only tokens are random."""

    def __init__(
        self, inner: TokenSampler, answer: TokenSequence, known: dict[tuple[int, ...], TokenDistribution]
    ) -> None:
        self.inner = inner
        self.ends = inner.ends
        self.answer = answer
        self.known = known  # distributions of positions, by the tokens before them

    def propose(self, position: Position) -> Draw:
        place = tuple(self.answer.tokens)
        if place not in self.known:

            def fresh() -> Candidates:
                return AutomatonCandidates(
                    self.answer.params.automaton, self.answer.state, self.answer.limit - len(place)
                )

            self.known[place] = list(
                token_distribution(self.inner, position.logits, fresh, position.warper).items()
            )
        law = self.known[place]
        chances = np.log([chance for _, (chance, _) in law])
        token, (chance, weighted) = law[position.pick(chances, np.arange(len(law)))]
        logprob = -np.inf if token is None else float(position.log_probs[token])
        return Draw(token, logprob, math.log(weighted / chance) if weighted else -np.inf)

    def distribution(self, warp: LogitsWarper) -> str:
        return self.inner.distribution(warp)
