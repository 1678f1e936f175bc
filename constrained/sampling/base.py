"""The interface of samplers: `Position` and `Candidates` to `Draw`, `ParticleBatch` to `SampleBatch`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from constrained.errors import ModelError
from constrained.sampling.ends import Ends
from constrained.sampling.randomness import TOKENS, Ids, Randomness, Scores
from constrained.sampling.seen_mass import SeenMass
from constrained.sampling.warpers import LogitsWarper, untruncated_warper
from constrained.spec.scores import log_sum_exp, top_indices


class Candidates(ABC):
    """The tokens that a constraint allows at one position: a membership test for one token, or all ids.

    Attributes:
        expensive_membership: a membership query is expensive (a parser, a predicate), and `ids` takes one query per
            token of the vocabulary; otherwise `ids` counts as one query.
        checks: membership queries so far.
        only_ends: only ends of sequence can follow (within the token limit); then `ids` takes no query.
        eos_ids: all ends of sequence; the probabilities of several count together.
    """

    expensive_membership: bool = False
    checks: int = 0
    only_ends: bool = False
    eos_ids: Sequence[int] = ()

    @property
    @abstractmethod
    def cached(self) -> bool:
        """Whether `ids` is already computed."""

    @property
    @abstractmethod
    def ids(self) -> Ids:
        """All allowed ids, ascending; empty in a dead end."""

    @abstractmethod
    def permits(self, token: int) -> bool:
        """Whether one token is allowed."""

    @property
    def limit_excludes(self) -> bool:
        """Whether the queries so far met a token that only the token limit forbids."""
        return False

    def without_limit(self) -> Candidates:
        """The candidates without a token limit."""
        return self


class CandidateList(Candidates):
    """Candidates that are given as a list."""

    cached = True

    def __init__(self, ids: Ids | Sequence[int]) -> None:
        self._ids = np.asarray(ids, dtype=np.intp)
        self.checks = 1

    @property
    def ids(self) -> Ids:
        """All allowed ids."""
        return self._ids

    def permits(self, token: int) -> bool:
        """Whether the token is in the list."""
        self.checks += 1
        return bool((self._ids == token).any())


class NoPossibleToken(ModelError):
    """The model gives probability 0 to every token that the constraint allows: in a set, that text has weight 0."""


class Distribution:
    """The model's distribution of the next token, after temperature. Sequences with equal prefixes can share one."""

    def __init__(self, logits: NDArray[np.floating[Any]] | None, warper: LogitsWarper) -> None:
        """Creates the distribution of logits.

        Args:
            logits: the model's, floating [V]; None in a subclass that overrides `logits`.
            warper: the temperature.
        """
        self._logits = logits
        self._warp = warper

    @property
    def logits(self) -> NDArray[np.floating[Any]]:
        """The model's logits, floating [V], without ids beyond the vocabulary."""
        assert self._logits is not None
        return self._logits

    @cached_property
    def scaled(self) -> Scores:
        """Logits after temperature, float64 [V]."""
        return self._warp.scale(self.logits)

    def scaled_of(self, ids: Ids) -> Scores:
        """`scaled` of some tokens, float64 [len(ids)]."""
        return self.scaled[ids]

    @cached_property
    def normaliser(self) -> float:
        """Log-sum-exp of `scaled` over the whole vocabulary: log p(a) = scaled[a] - normaliser.

        Raises:
            ModelError: the logits are not a distribution.
        """
        total = self._total()
        if not np.isfinite(total):
            raise ModelError(
                f"the model's logits are not a distribution: their log-sum-exp is {total}",
                action="check the model's weights, or load it in float32",
            )
        return total

    def _total(self) -> float:
        return log_sum_exp(self.scaled)

    def log_prob(self, token: int) -> float:
        """Log p of one token."""
        return float(self.scaled[token]) - self.normaliser

    def gumbel_top_k(self, randomness: Randomness, place: int, count: int) -> Sequence[int]:
        """The first tokens of a draw without replacement in which every token is allowed (Gumbel-top-k).

        Args:
            randomness: the randomness (a greedy distribution needs none).
            place: absolute position.
            count: number of tokens; the result may be shorter, with at least one token where the first one is certain.
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
        """The probability mass of all other tokens, summed directly: 1 minus the rest would lose a tiny mass."""
        rest = self.probs.copy()
        rest[ids] = 0.0
        return float(rest.sum())


class Position:
    """A position in a sequence at which a token is to be drawn.

    Attributes:
        distribution: the model's distribution of the next token.
        candidates: the tokens that the constraint allows.
        randomness: the randomness of the sequence.
        warper: temperature and truncations.
        position_id: absolute position; the prompt counts.
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

    def log_prob(self, token: int) -> float:
        """Log p of a token; of an end of sequence: of all ends together, since the completion is the same."""
        ends = self.candidates.eos_ids
        if len(ends) < 2 or token not in ends:
            return self.distribution.log_prob(token)
        return log_sum_exp(np.array([self.distribution.log_prob(end) for end in ends]))

    def gumbel_top_k(self, count: int) -> Sequence[int]:
        """See `Distribution.gumbel_top_k`."""
        return self.distribution.gumbel_top_k(self.randomness, self.position_id, count)

    @property
    def limit_may_change_draw(self) -> bool:
        """Whether a token was excluded by the token limit alone, and the draw without the limit can be repeated.

        Random numbers that are not keyed by position cannot be drawn twice.
        """
        keyed = self.warper.greedy or self.randomness.noise is not None
        return keyed and self.candidates.limit_excludes

    def without_limit(self) -> Position:
        """This position without the token limit: the same distribution and random numbers."""
        candidates = self.candidates.without_limit()
        return Position(self.distribution, candidates, self.randomness, self.warper, self.position_id)

    def pick(self, scores: Scores, ids: Ids, purpose: int = TOKENS) -> int:
        """Index of one of `ids`, see `Randomness.pick`."""
        return self.randomness.pick(scores, ids, self.position_id, purpose)

    def order(self, scores: Scores, ids: Ids) -> Iterator[int]:
        """Indices into `ids`, see `Randomness.order`."""
        return self.randomness.order(scores, ids, self.position_id)


@dataclass(frozen=True, slots=True)
class Draw:
    """A drawn token with its weight.

    Attributes:
        token: id; None in a dead end, whose weight is 0.
        logprob: log p(token), under the model after temperature, over the whole vocabulary (nats); after
            `TokenSampler.draw_within_limit` that of an end is of all ends together, see `Position.log_prob`.
        log_weight: log W(u), see the table in `constrained.sampling`.
        checks: membership queries, see `Candidates.checks`.
        bounds: guaranteed lower and upper bound of Z(u); None where the sampler has none.
        unlimited_token: the token that equal random numbers draw without the token limit, if it is another one; None
            where the limit changed nothing, and for samplers that weigh or reject whole sequences: without the limit
            they could have rejected that token too.
    """

    token: int | None
    logprob: float
    log_weight: float
    checks: int = field(default=1)
    bounds: tuple[float, float] | None = None
    unlimited_token: int | None = None


class Particle(Protocol):
    """A sequence that a sampler extends.

    Attributes:
        draws: one for each forward pass.
        finish: why the sequence ended; None before its end; "dead" in a dead end.
        log_weight: log of its importance weight; a sampler may set it.
        randomness: source of its random choices.
    """

    draws: list[Draw]
    finish: Any
    log_weight: float
    randomness: Randomness

    @property
    def content(self) -> bytes:
        """The bytes of the sequence so far."""

    @property
    def logprob(self) -> float:
        """Log-probability under the model, see `Output`."""

    @property
    def awaits_end(self) -> bool:
        """Whether only an EOS token can follow, drawn for its probability."""

    def commit(self, draw: Draw) -> None:
        """Appends a drawn token, or ends the sequence."""

    def copy(self, randomness: Randomness) -> Particle:
        """An independent sequence with this prefix."""


@dataclass(frozen=True)
class ClosedDistribution:
    """The model's distribution over a closed set of texts.

    Attributes:
        draws: of each text: its tokens, and its end.
        totals: log-probability of each text with its end, in nats, float64 [texts].
        fits: whether each text is within the token limit, bool [texts].
    """

    draws: Sequence[Sequence[Draw]]
    totals: NDArray[np.float64]
    fits: NDArray[np.bool_]


class ParticleBatch(Protocol):
    """Sequences of one prompt that are extended together; the model reads equal prefixes once."""

    def randomness(self, attempt: int) -> Randomness:
        """The randomness of an attempt (of a particle, of a chain)."""

    def start(self, streams: Sequence[Randomness], draws: Sequence[Sequence[Draw]] = ()) -> list[Any]:
        """New sequences, one for each stream, with these draws as prefixes. Earlier sequences leave the cache."""

    def forward(self, texts: Sequence[Any], sampler: TokenSampler | None = None) -> list[Position]:
        """One forward pass: the positions at the ends of unfinished sequences. Others leave the cache.

        Args:
            texts: unfinished sequences.
            sampler: draws the tokens at these positions and looks at `TokenSampler.top_count` of each row; None: whole
                rows are needed.
        """

    def closed_distribution(self, *, certain_ends: bool) -> ClosedDistribution | None:
        """The model's distribution over the texts of a constraint that has few of them, in one pass; None for another constraint."""

    def reuse_logits(self) -> None:
        """Reads each prefix once from now on, as far as memory allows: for samplers that start sequences repeatedly."""

    @property
    def warper(self) -> LogitsWarper:
        """Temperature and truncations."""

    @property
    def forwards(self) -> int:
        """Sequence positions that the model has evaluated so far."""

    @property
    def key(self) -> str:
        """Identifies model, prompt, constraint and settings; a trie is valid for one key."""


@dataclass(frozen=True, slots=True)
class ChainMoves:
    """What Markov chains did.

    Attributes:
        accepted: share of the proposed texts that were accepted.
        unmoved: share of the chains whose text never changed.
    """

    accepted: float
    unmoved: float


@dataclass(slots=True)
class SampleBatch:
    """Sequences that a sampler drew together.

    Attributes:
        texts: finished sequences; their `log_weight` is relative to the others, for the conditional distribution.
        log_evidence: log of the estimate of P(L), the probability that the model's sequence is valid; None without one.
        log_evidence_error: its standard error (the relative error of the estimate); None where it is unknown.
        attempts: number of started sequences.
        accepted: number of valid ones among them.
        bounds: guaranteed lower and upper bound of P(L); None where the sampler has none.
        ess: effective sample size, where it is less than the weights alone say; else None.
        moves: what the chains did; None for samplers without chains.
    """

    texts: list[Any]
    log_evidence: float | None = None
    log_evidence_error: float | None = None
    attempts: int = 0
    accepted: int = 0
    bounds: tuple[float, float] | None = None
    ess: float | None = None
    moves: ChainMoves | None = None


class Sampler(ABC):
    """The configuration of a sampling method; `draw` runs it.

    Attributes:
        ends: see `constrained.sampling.ends`.
    """

    ends: Ends | None = "model"

    @property
    def certain_ends(self) -> bool:
        """Whether an end has probability 1 where only the end can follow, and at the token limit."""
        return self.ends == "certain"

    @property
    def canonical(self) -> bool:
        """Whether forced text has the tokens that the tokenizer writes; otherwise all spellings of it are allowed."""
        return False

    def weighted(self) -> Sampler:
        """This sampler with weights: the one that draws sets."""
        return self

    def warper(self, **settings: Any) -> LogitsWarper:
        """Temperature and truncations out of the settings of a call.

        Raises:
            InvalidArgument: a value is out of its range, or this sampler does not support it.
        """
        return LogitsWarper(**settings)

    @abstractmethod
    def distribution(self, warper: LogitsWarper) -> str:
        """Name of the distribution that finished sequences follow, for `Output.distribution`."""

    @abstractmethod
    def draw(self, batch: ParticleBatch, count: int) -> SampleBatch:
        """Draws sequences.

        Args:
            batch: runs the model.
            count: number of sequences, at least 1.

        Raises:
            BudgetExhausted: the sampler's budget is exhausted.
        """


class UntruncatedSampler(Sampler):
    """A sampler of the model's own distribution: temperature 1 where none is given, and no truncation.

    Attributes:
        law: name of the distribution that its sequences follow, whatever the settings.
    """

    law: ClassVar[str]

    def warper(self, **settings: Any) -> LogitsWarper:
        """See `Sampler`."""
        return untruncated_warper(settings, type(self).__name__.lower())

    def distribution(self, warper: LogitsWarper) -> str:
        """See `Sampler`."""
        return self.law


class TokenSampler(Sampler):
    """A sampler that draws token by token, independently of other sequences, so that sequences can be streamed.

    Attributes:
        weights: whether draws have a weight; otherwise it is NaN.
    """

    weights: bool = True

    def top_count(self, warper: LogitsWarper) -> int:
        """Number of most likely tokens that usually suffice for a draw; 0: the whole distribution is needed."""
        return 0

    @abstractmethod
    def propose(self, position: Position) -> Draw:
        """Draws the token at one position.

        The result is a function of the position: of logits, candidates and noise.
        """

    def draw_within_limit(self, position: Position) -> Draw:
        """Draws the token at one position; the probability of an end is that of all ends together."""
        draw = self.propose(position)
        ends = position.candidates.eos_ids
        if len(ends) > 1 and draw.token is not None and draw.token in ends:
            draw = replace(draw, logprob=position.log_prob(draw.token))
        return draw

    def draw_token(self, position: Position) -> Draw:
        """Draws the token at one position, and tells whether the token limit changed it.

        Where the limit excluded a token, the draw is repeated without the limit, with the same logits and noise.
        """
        draw = self.draw_within_limit(position)
        if not position.limit_may_change_draw:
            return draw
        unlimited = self.propose(position.without_limit()).token
        return draw if unlimited == draw.token else replace(draw, unlimited_token=unlimited)

    def draw(self, batch: ParticleBatch, count: int) -> SampleBatch:
        """Independent sequences; the mean of their weights estimates P(L)."""
        texts = batch.start([batch.randomness(i) for i in range(count)])
        run_particles(batch, texts, self)
        evidence, error = estimate_evidence([text.log_weight for text in texts])
        alive = sum(text.finish != "dead" for text in texts)
        seen = SeenMass()
        seen.add(texts)
        return SampleBatch(texts, evidence, error, attempts=count, accepted=alive, bounds=seen.bounds())


def run_particles(batch: ParticleBatch, texts: Sequence[Particle], proposal: TokenSampler) -> None:
    """Extends sequences token by token until all have ended."""
    while writing := [text for text in texts if not text.finish]:
        for text, position in zip(writing, batch.forward(writing, proposal), strict=True):
            text.commit(draw_or_end(proposal.draw_token, position))


def draw_or_end(draw: Callable[[Position], Draw], position: Position) -> Draw:
    """A token; a dead end, of weight 0, where the model gives every allowed token probability 0."""
    try:
        return draw(position)
    except NoPossibleToken:
        return Draw(None, -np.inf, -np.inf, position.candidates.checks, (0.0, 0.0))


def estimate_evidence(log_weights: Sequence[float]) -> tuple[float, float | None]:
    """(log of the mean weight, its standard error by the delta method) of independent weights."""
    weights = np.asarray(log_weights, dtype=np.float64)
    mean = log_sum_exp(weights) - float(np.log(len(weights)))
    if len(weights) < 2 or mean == -np.inf:
        return mean, None
    relative = np.exp(weights - mean)
    return mean, float(np.std(relative, ddof=1) / np.sqrt(len(weights)))
