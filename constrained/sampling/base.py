"""What samplers see and say: `Candidates` and a `Position` in, a `Draw` out; a `ParticleBatch` of texts in, a `SampleBatch` out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from constrained.errors import ModelError
from constrained.sampling.randomness import TOKENS, Ids, Randomness, Scores
from constrained.sampling.warpers import LogitsWarper
from spec.scores import log_sum_exp, top_indices


class Candidates(ABC):
    """What a constraint allows at one place: asked for one token, or for all at once.

    Attributes:
        expensive_membership: one question is dear (a parser, a predicate) and all at once cost as many questions as there are
            tokens; otherwise all at once are one question.
        checks: questions asked so far.
    """

    expensive_membership: bool = False
    checks: int = 0

    @property
    @abstractmethod
    def cached(self) -> bool:
        """Whether all are known already: `ids` asks nothing."""

    @property
    @abstractmethod
    def ids(self) -> Ids:
        """All allowed ids, ascending. None, if the constraint led into a dead end."""

    @abstractmethod
    def permits(self, token: int) -> bool:
        """Whether one token is allowed."""


class CandidateList(Candidates):
    """Candidates that are a list."""

    cached = True

    def __init__(self, ids: Ids | Sequence[int]) -> None:
        self._ids = np.asarray(ids, dtype=np.intp)
        self.checks = 1

    @property
    def ids(self) -> Ids:
        """The list."""
        return self._ids

    def permits(self, token: int) -> bool:
        """Whether it is in the list."""
        self.checks += 1
        return bool((self._ids == token).any())


class Distribution:
    """The model's law of the next token, after temperature. Texts that stand at the same place can share one."""

    def __init__(self, logits: NDArray[np.floating[Any]] | None, warper: LogitsWarper) -> None:
        """Computes nothing.

        Args:
            logits: the model's, floating [V]; None in a subclass that has them elsewhere.
            warper: the temperature.
        """
        self._logits = logits
        self._warp = warper

    @property
    def logits(self) -> NDArray[np.floating[Any]]:
        """The model's, floating [V]. Ids beyond the vocabulary have been cut off."""
        assert self._logits is not None
        return self._logits

    @cached_property
    def scaled(self) -> Scores:
        """Logits after temperature, float64 [V]."""
        return self._warp.scale(self.logits)

    @cached_property
    def normaliser(self) -> float:
        """Log-sum-exp of `scaled` over the whole vocabulary: log p(a) = scaled[a] - normaliser.

        Raises:
            ModelError: the logits are no distribution.
        """
        total = self._total()
        if not np.isfinite(total):
            raise ModelError(
                f"the model's logits are no distribution: their log-sum-exp is {total}",
                action="check the model's weights, or load it in float32",
            )
        return total

    def _total(self) -> float:
        return log_sum_exp(self.scaled)

    def log_prob(self, token: int) -> float:
        """Log p of one token."""
        return float(self.scaled[token]) - self.normaliser

    def gumbel_top_k(self, randomness: Randomness, place: int, count: int) -> Sequence[int]:
        """The tokens that would be drawn first, if every one were allowed: in the order in which they would be drawn.

        Args:
            randomness: the randomness (a greedy law needs none).
            place: absolute position.
            count: how many are wanted; there may be fewer, though at least one where it is certain which.
        """
        if self._warp.greedy:
            ids = top_indices(self.scaled, count)
            return [token for token in ids.tolist() if self.scaled[token] > -np.inf]
        found: list[int] = randomness.order_top_k(self.scaled, place, count).tolist()
        return found

    @cached_property
    def log_probs(self) -> Scores:
        """The log-probabilities log p, float64 [V]."""
        logs: Scores = self.scaled - self.normaliser
        return logs

    @cached_property
    def probs(self) -> Scores:
        """The probabilities, float64 [V]."""
        p: Scores = np.exp(self.log_probs)
        return p

    def mass_without(self, ids: Sequence[int]) -> float:
        """The mass of all other tokens: summed up, not subtracted from 1, which would lose a tiny one."""
        rest = self.probs.copy()
        rest[ids] = 0.0
        return float(rest.sum())


class Position:
    """One place in one text, where a token is to be drawn.

    Attributes:
        distribution: the model's.
        candidates: what the constraint allows here.
        randomness: the randomness of the text.
        warper: temperature and truncations.
        position_id: absolute position in the text, the prompt's tokens counted.
    """

    def __init__(
        self,
        distribution: Distribution | NDArray[np.floating[Any]],
        candidates: Candidates,
        randomness: Randomness,
        warper: LogitsWarper,
        place: int = 0,
    ) -> None:
        self.distribution = (
            distribution if isinstance(distribution, Distribution) else Distribution(distribution, warper)
        )
        self.candidates = candidates
        self.randomness = randomness
        self.warper = warper
        self.position_id = place

    @property
    def logits(self) -> NDArray[np.floating[Any]]:
        """The model's, floating [V]."""
        return self.distribution.logits

    @property
    def allowed(self) -> Ids:
        """All ids that the constraint allows here, ascending."""
        return self.candidates.ids

    @property
    def scaled(self) -> Scores:
        """Logits after temperature, float64 [V]."""
        return self.distribution.scaled

    @property
    def normaliser(self) -> float:
        """Log-sum-exp of `scaled`."""
        return self.distribution.normaliser

    @property
    def log_probs(self) -> Scores:
        """The log-probabilities log p, float64 [V]."""
        return self.distribution.log_probs

    def gumbel_top_k(self, count: int) -> Sequence[int]:
        """See `Distribution.leaders`."""
        return self.distribution.gumbel_top_k(self.randomness, self.position_id, count)

    def pick(self, scores: Scores, ids: Ids, purpose: int = TOKENS) -> int:
        """Index of one of `ids`, see `Randomness.pick`."""
        return self.randomness.pick(scores, ids, self.position_id, purpose)

    def order(self, scores: Scores, ids: Ids) -> Iterator[int]:
        """Indices into `ids`, see `Randomness.order`."""
        return self.randomness.order(scores, ids, self.position_id)


@dataclass(frozen=True, slots=True)
class Draw:
    """A token, and what is known about how it came.

    Attributes:
        token: its id; None where nothing can be drawn: a dead end, of weight 0.
        logprob: log p(token), under the model after temperature, over the whole vocabulary (nats).
        log_weight: log W(u), see the table in `constrained.sampling`.
        checks: questions put to the constraint: a mask is one, unless its tokens are checked one by one.
        bounds: numbers between which Z(u) certainly is, where the sampler knows any.
    """

    token: int | None
    logprob: float
    log_weight: float
    checks: int = field(default=1)
    bounds: tuple[float, float] | None = None


class Particle(Protocol):
    """A text that is being written.

    Attributes:
        draws: how it came about, one for each position where the model was asked.
        finish: why it ended, None before it has; "dead" after a draw of nothing.
        log_weight: what it weighs; a sampler may set it.
        randomness: its randomness.
    """

    draws: list[Draw]
    finish: Any
    log_weight: float
    randomness: Randomness

    @property
    def content(self) -> bytes:
        """The bytes so far."""

    @property
    def logprob(self) -> float:
        """Under the model, see `Output`."""

    def commit(self, draw: Draw) -> None:
        """Appends a drawn token, or ends the text."""

    def copy(self, randomness: Randomness) -> Particle:
        """A text that begins as this one does and goes on by itself."""


class ParticleBatch(Protocol):
    """The room in which texts of one prompt are written side by side; equal beginnings are read once."""

    def randomness(self, attempt: int) -> Randomness:
        """The randomness of an attempt (of a particle, of a chain)."""

    def start(self, streams: Sequence[Randomness], draws: Sequence[Sequence[Draw]] = ()) -> list[Any]:
        """New texts, one for each chance, beginning with these draws. What was read for others is forgotten."""

    def forward(self, texts: Sequence[Any]) -> list[Position]:
        """One forward pass: the positions at the ends of texts that have not ended. Others are forgotten."""

    @property
    def forwards(self) -> int:
        """Rows that the model has read so far."""

    @property
    def key(self) -> str:
        """Names model, prompt, constraint and settings: what a trie learns holds where this is the same."""


@dataclass(slots=True)
class SampleBatch:
    """Texts that a sampler drew together.

    Attributes:
        texts: finished, each with its `log_weight`: relative to the others, for the law of the model given validity.
        log_evidence: log of the estimate of P(L), the probability that the model's text is valid; None without one.
        log_evidence_error: its standard error (the relative one of the estimate); None where it is not known.
        attempts: texts that were begun.
        accepted: of these, how many ended valid.
        bounds: numbers between which P(L) certainly is, where the sampler knows any.
    """

    texts: list[Any]
    log_evidence: float | None = None
    log_evidence_error: float | None = None
    attempts: int = 0
    accepted: int = 0
    bounds: tuple[float, float] | None = None


class Sampler(ABC):
    """A way to draw texts: a frozen configuration with one entry point, `draw`."""

    def warper(self, **settings: Any) -> LogitsWarper:
        """Temperature and truncations out of the settings of a call.

        Raises:
            InvalidArgument: a value is out of its range, or this sampler has no use for it.
        """
        return LogitsWarper(**settings)

    @abstractmethod
    def distribution(self, warper: LogitsWarper) -> str:
        """Name of the law that finished texts follow, for `Output.law`."""

    @abstractmethod
    def draw(self, batch: ParticleBatch, count: int) -> SampleBatch:
        """Draws texts.

        Args:
            batch: writes them.
            count: how many are wanted, at least 1.

        Raises:
            BudgetExhausted: the sampler's budget was spent before they were there.
        """


class TokenSampler(Sampler):
    """A sampler that decides token by token, without looking at other texts: such texts can be streamed.

    Attributes:
        weights: draws carry a weight; otherwise it is not a number.
    """

    weights: bool = True

    def top_count(self, warper: LogitsWarper) -> int:
        """How many of the leading tokens of a place it mostly looks at, and at no others; 0: at whole rows."""
        return 0

    @abstractmethod
    def propose(self, position: Position) -> Draw:
        """Draws the token at one position.

        The result depends on the position alone: the same logits, candidates and noise give the same token.
        """

    def draw(self, batch: ParticleBatch, count: int) -> SampleBatch:
        """Independent texts; the mean of their weights estimates P(L)."""
        texts = batch.start([batch.randomness(i) for i in range(count)])
        run_particles(batch, texts, self)
        evidence, error = estimate_evidence([text.log_weight for text in texts])
        alive = sum(text.finish != "dead" for text in texts)
        return SampleBatch(texts, evidence, error, attempts=count, accepted=alive)


def run_particles(batch: ParticleBatch, texts: Sequence[Particle], proposal: TokenSampler) -> None:
    """Writes texts to their ends, token by token."""
    while writing := [text for text in texts if not text.finish]:
        for text, position in zip(writing, batch.forward(writing), strict=True):
            text.commit(proposal.propose(position))


def estimate_evidence(log_weights: Sequence[float]) -> tuple[float, float | None]:
    """(log of the mean weight, its standard error by the delta method) of independent weights."""
    weights = np.asarray(log_weights, dtype=np.float64)
    mean = log_sum_exp(weights) - float(np.log(len(weights)))
    if len(weights) < 2 or mean == -np.inf:
        return mean, None
    relative = np.exp(weights - mean)
    return mean, float(np.std(relative, ddof=1) / np.sqrt(len(weights)))
