"""One prompt of a call, with everything that is settled before its first token."""

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
"""How often a text that ran into a dead end is begun again."""


@dataclass(frozen=True, slots=True)
class DecodingRequest:
    """What is to be written.

    Attributes:
        params: what this call's texts share.
        prompt: ids.
        limit: greatest number of tokens.
        seed, sequence: keys of the noise.
        speculation: guesses what follows; None where nothing is guessed.
    """

    params: DecodingParams
    prompt: list[int]
    limit: int
    seed: int
    sequence: int
    speculation: DraftScheduler | None = None

    def randomness(self, attempt: int) -> PhiloxRandomness:
        """The randomness of an attempt."""
        return PhiloxRandomness(self.seed, self.sequence, attempt)

    def new_sequence(self, attempt: int = 0) -> TokenSequence:
        """A text, before its first token."""
        drafter = None if self.speculation is None else self.speculation.lazy_drafter(self.prompt)
        answer = TokenSequence(
            self.params, self.prompt, self.randomness(attempt), self.limit, drafter=drafter
        )
        answer.stats.seed, answer.stats.sequence = self.seed, self.sequence
        return answer

    def particle_batch(self, model: LanguageModel) -> CachedParticleBatch:
        """A room for many texts."""
        return CachedParticleBatch(
            model, self.params, self.prompt, self.limit, self.randomness, self.speculation
        )


def restart_decode(model: LanguageModel, request: DecodingRequest, sampler: TokenSampler) -> TokenSequence:
    """Begins a drawn text that ran into a dead end again, until it ends well: its law is that of the texts that do.

    Raises:
        BudgetExhausted: it never did.
    """
    for attempt in range(1, MAX_RESTARTS):
        answer = request.new_sequence(attempt)
        for _ in decode_sequences(model, [answer], sampler, request.speculation):
            pass
        if answer.finish != "dead":
            answer.stats.attempts += attempt
            return answer
    raise dead_end_error(MAX_RESTARTS, request.params.automaton.constraint)


def dead_end_error(attempts: int, constraint: Any = None) -> BudgetExhausted:
    """The error for texts that all ran into dead ends; names the predicates that may have led there."""
    return BudgetExhausted(
        f"the texts of all {attempts} attempts ran into dead ends: nothing that the constraint allows there is "
        "possible for the model",
        [
            Problem(predicate.name, "accepts beginnings that it lets nobody complete")
            for predicate in getattr(constraint, "predicates", ())
        ],
        action="check that prefixes the constraint accepts can be completed; or sample at a temperature",
        diagnostics={"attempts": attempts, "accepted": 0},
    )
