"""One prompt of a call, with everything that is settled before its first token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from constrained.decoding.particle_batch import Writers
from constrained.decoding.sequence import Answer, Rules
from constrained.decoding.speculation import Speculation
from constrained.decoding.step import run
from constrained.errors import BudgetExhausted, Problem
from constrained.models import LanguageModel
from constrained.sampling import Keyed, TokenSampler

RESTARTS = 64
"""How often a text that ran into a dead end is begun again."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be written.

    Attributes:
        rules: what this call's texts share.
        prompt: ids.
        limit: greatest number of tokens.
        seed, sequence: keys of the noise.
        drafting: guesses what follows; None where nothing is guessed.
    """

    rules: Rules
    prompt: list[int]
    limit: int
    seed: int
    sequence: int
    drafting: Speculation | None = None

    def chance(self, attempt: int) -> Keyed:
        """The randomness of an attempt."""
        return Keyed(self.seed, self.sequence, attempt)

    def answer(self, attempt: int = 0) -> Answer:
        """A text, before its first token."""
        drafter = None if self.drafting is None else self.drafting.waiting(self.prompt)
        answer = Answer(self.rules, self.prompt, self.chance(attempt), self.limit, drafter=drafter)
        answer.stats.seed, answer.stats.sequence = self.seed, self.sequence
        return answer

    def pool(self, model: LanguageModel) -> Writers:
        """A room for many texts."""
        return Writers(model, self.rules, self.prompt, self.limit, self.chance, self.drafting)


def restarted(model: LanguageModel, task: Task, sampler: TokenSampler) -> Answer:
    """Begins a drawn text that ran into a dead end again, until it ends well: its law is that of the texts that do.

    Raises:
        BudgetExhausted: it never did.
    """
    for attempt in range(1, RESTARTS):
        answer = task.answer(attempt)
        for _ in run(model, [answer], sampler, task.drafting):
            pass
        if answer.finish != "dead":
            answer.stats.attempts += attempt
            return answer
    raise nothing_left(RESTARTS, task.rules.automaton.constraint)


def nothing_left(attempts: int, constraint: Any = None) -> BudgetExhausted:
    """The error for texts that all ran into dead ends; names the predicates that may have led there."""
    return BudgetExhausted(
        f"the texts of all {attempts} attempts ran into dead ends: nothing that the constraint allows there is "
        "possible for the model",
        [
            Problem(predicate.name, "accepts beginnings that it lets nobody complete")
            for predicate in getattr(constraint, "predicates", ())
        ],
        action="check that prefixes the constraint accepts can be completed; or sample at a temperature",
        learned={"attempts": attempts, "accepted": 0},
    )
