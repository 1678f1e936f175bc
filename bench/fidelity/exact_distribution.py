"""The distributions of a model under a constraint, by enumeration of all sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.models.base import LanguageModel, Prompt
from constrained.spec.scores import log_sum_exp


class TooManySequences(RuntimeError):
    """A language cannot be enumerated within the budget."""


@dataclass(frozen=True, slots=True)
class ExactDistributions:
    """Distributions over the completions in a language L.

    Attributes:
        conditional: P(w) / P(L): the model's distribution given that the completion is valid.
        local: Q(w), the distribution of local masking.
        mass: P(L).
        prefixes: number of enumerated prefixes, each one row of a forward pass.
    """

    conditional: dict[str, float]
    local: dict[str, float]
    mass: float
    prefixes: int

    @property
    def distance(self) -> float:
        """Total variation between the two."""
        return total_variation(self.local, self.conditional)


def exact_distributions(
    model: LanguageModel,
    automaton: Any,
    limit: int,
    *,
    prompt: Prompt = "",
    temperature: float = 1.0,
    budget: int = 50_000,
    certain_ends: bool = False,
) -> ExactDistributions:
    """Enumerates the token sequences that the automaton allows, breadth first.

    The probabilities of sequences with equal bytes are summed, and so are those of several ends.

    Args:
        model: the model.
        automaton: of a constraint; only its transitions are used, not its masks.
        limit: greatest number of tokens of a completion.
        prompt: of all completions.
        temperature: above 0.
        budget: greatest number of prefixes.
        certain_ends: an end has probability 1 where only the end can follow, and at `limit`, as with
            ``ends="certain"``.

    Raises:
        TooManySequences: there are more.
    """
    eos = automaton.vocabulary.eos_ids
    pieces = automaton.vocabulary.tokens
    whole: dict[bytes, tuple[float, float]] = {}
    level: list[tuple[bytes, int, float, float]] = [(b"", automaton.start, 0.0, 0.0)]  # log P, log Q
    cache = model.cache(1)
    unread: list[list[int]] = [model.encode(prompt)]
    prefixes = 0
    for length in range(limit + 1):
        prefixes += len(level)
        if prefixes > budget:
            raise TooManySequences(f"there are more than {budget} prefixes of at most {limit} tokens")
        steps = [_steps(automaton, state, limit - length) for _, state, _, _ in level]
        asked = [i for i, (ends, after) in enumerate(steps) if after or (ends and not certain_ends)]
        for i, (ends, after) in enumerate(steps):
            if certain_ends and ends and not after:
                _add(whole, level[i][0], level[i][2], level[i][3])
        if not asked:
            break
        cache.keep(asked)
        rows = model.forward([unread[i] for i in asked], cache)
        following: list[tuple[bytes, int, float, float]] = []
        parents: list[int] = []
        unread = []
        for row, i in enumerate(asked):
            text, _, log_p, log_q = level[i]
            ends, after = steps[i]
            logs = _log_softmax(rows[row], temperature)
            allowed = [*after, *(eos if ends else ())]
            log_z = log_sum_exp(logs[allowed])
            if log_z == -np.inf and after:
                continue
            if ends:
                end = log_sum_exp(logs[list(eos)])
                _add(whole, text, log_p + end, log_q + (end - log_z if after else 0.0))
            for token, state in after.items():
                if logs[token] > -np.inf:
                    following.append(
                        (text + pieces[token], state, log_p + logs[token], log_q + logs[token] - log_z)
                    )
                    parents.append(row)
                    unread.append([token])
        if not following:
            break
        cache.keep(parents)
        level = following
    mass = math.fsum(p for p, _ in whole.values())
    reached = math.fsum(q for _, q in whole.values())  # less than 1 where a predicate leads into dead ends
    names = {text: text.decode() for text in whole}
    return ExactDistributions(
        {names[text]: p / mass for text, (p, _) in whole.items()},
        {names[text]: q / reached for text, (_, q) in whole.items()},
        mass,
        prefixes,
    )


def total_variation(one: dict[str, float], other: dict[str, float]) -> float:
    """Half the sum of absolute differences: 0 for equal distributions, 1 for disjoint distributions."""
    return 0.5 * math.fsum(abs(one.get(text, 0.0) - other.get(text, 0.0)) for text in {*one, *other})


def kl_divergence(one: dict[str, float], other: dict[str, float]) -> float:
    """Kullback-Leibler divergence KL(one || other), in nats; infinite if `one` has a completion that `other` lacks."""
    if any(p > 0 and other.get(text, 0.0) == 0 for text, p in one.items()):
        return math.inf
    return math.fsum(p * math.log(p / other[text]) for text, p in one.items() if p > 0)


def _steps(automaton: Any, state: int, budget: int) -> tuple[bool, dict[int, int]]:
    """Whether the completion may end here; token -> state, for those after which it can be completed in time."""
    after = {}
    if budget > 0:
        for token, piece in enumerate(automaton.vocabulary.tokens):
            then = automaton.next(state, token) if piece else 0
            if then and automaton.shortest_completion(then) < budget:
                after[token] = then
    return automaton.accepts(state), after


def _log_softmax(logits: NDArray[np.floating[Any]], temperature: float) -> NDArray[np.float64]:
    scaled = logits.astype(np.float64) / temperature
    logs: NDArray[np.float64] = scaled - log_sum_exp(scaled)
    return logs


def _add(whole: dict[bytes, tuple[float, float]], text: bytes, log_p: float, log_q: float) -> None:
    p, q = whole.get(text, (0.0, 0.0))
    whole[text] = (p + math.exp(log_p), q + math.exp(log_q))
