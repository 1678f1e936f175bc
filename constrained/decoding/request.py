"""`DecodingRequest`: one prompt with its constraint, limits and seed; and restarts after dead ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from constrained.decoding.particle_batch import CachedParticleBatch
from constrained.decoding.sequence import DecodingParams, TokenSequence
from constrained.decoding.speculation import DraftScheduler
from constrained.decoding.step import decode_sequences
from constrained.errors import BudgetExhausted, Problem
from constrained.models import LanguageModel
from constrained.sampling import PhiloxRandomness, TokenSampler

MAX_RESTARTS = 64
"""Most attempts for a sampled sequence that reaches dead ends."""


@dataclass(frozen=True, slots=True)
class DecodingRequest:
    """One prompt with its constraint, limits and seed.

    Attributes:
        params: parameters that all sequences of the call share.
        prompt: token ids.
        limit: token limit of the completion.
        seed, sequence: keys of the random numbers.
        speculation: proposes draft tokens; None without speculation.
    """

    params: DecodingParams
    prompt: list[int]
    limit: int
    seed: int
    sequence: int
    speculation: DraftScheduler | None = None

    def randomness(self, attempt: int) -> PhiloxRandomness:
        """The random numbers of an attempt."""
        return PhiloxRandomness(self.seed, self.sequence, attempt)

    def new_sequence(self, attempt: int = 0) -> TokenSequence:
        """A sequence with an empty completion."""
        drafter = None
        if self.speculation is not None:
            healed = self.params.automaton if self.params.begin else None
            drafter = self.speculation.lazy_drafter(self.prompt, healed, drawn=not self.params.warp.greedy)
        answer = TokenSequence(
            self.params, self.prompt, self.randomness(attempt), self.limit, drafter=drafter
        )
        answer.stats.seed, answer.stats.sequence = self.seed, self.sequence
        return answer

    def particle_batch(self, model: LanguageModel) -> CachedParticleBatch:
        """A batch for the particles of this request."""
        return CachedParticleBatch(
            model, self.params, self.prompt, self.limit, self.randomness, self.speculation
        )


def restart_decode(
    model: LanguageModel, request: DecodingRequest, sampler: TokenSampler, dead: TokenSequence
) -> TokenSequence:
    """Restarts a sampled sequence that reached a dead end, until one is complete.

    This is rejection sampling: the result has the distribution of completions given that they avoid dead ends. Where the
    token limit changed a rejected attempt, it has changed the completion too.

    Args:
        model: the language model.
        request: the sampled request.
        sampler: proposes tokens.
        dead: the first attempt.

    Raises:
        BudgetExhausted: all `MAX_RESTARTS` attempts reached dead ends.
    """
    path = dead.unlimited_path
    for attempt in range(1, MAX_RESTARTS):
        answer = request.new_sequence(attempt)
        for _ in decode_sequences(model, [answer], sampler, request.speculation):
            pass
        if answer.finish != "dead":
            answer.stats.attempts += attempt
            answer.mark_divergence(path)
            return answer
        path = path or answer.unlimited_path
    raise dead_end_error(MAX_RESTARTS, request.params.automaton.constraint)


def dead_end_error(attempts: int, constraint: Any = None) -> BudgetExhausted:
    """The error for attempts that all reached dead ends; names the predicates that may be the reason."""
    return BudgetExhausted(
        f"the texts of all {attempts} attempts ran into dead ends: nothing that the constraint allows there is "
        "possible for the model",
        [
            Problem(predicate.name, "accepts prefixes that have no valid completion")
            for predicate in getattr(constraint, "predicates", ())
        ],
        action="check that prefixes the constraint accepts can be completed; or sample at a temperature",
        diagnostics={"attempts": attempts, "accepted": 0},
    )
