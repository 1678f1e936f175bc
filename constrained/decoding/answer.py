"""One text while it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained.decoding.output import Finish, Stats
from constrained.sampling import Draw, Position, Sampler, Warp
from spec.noise import Noise

if TYPE_CHECKING:
    from constrained.automaton import TokenAutomaton


@dataclass(frozen=True, slots=True)
class Rules:
    """What all texts of one call share.

    Attributes:
        automaton: what may be said.
        sampler: how a token is drawn.
        warp: out of which distribution.
    """

    automaton: TokenAutomaton
    sampler: Sampler
    warp: Warp


class Answer:
    """The text for one prompt: its tokens, the automaton's states along it, and what it weighs.

    A step is: `Position` of the model's logits and the allowed ids -> the sampler's draw -> `commit`. The allowed
    ids of the next position are looked up at once, so that a text is known to be finished before the model is asked.

    Attributes:
        prompt: ids of the prompt.
        tokens: ids of the text.
        states: automaton states, one more than tokens.
        unread: ids that the model has not read yet, in order: the prompt, then what was committed since.
        finish: why the text ended, None before it has.
        logprob, log_weight: as in `Output`.
        stats: what it has cost.
    """

    def __init__(self, rules: Rules, prompt: list[int], noise: Noise, limit: int) -> None:
        """Starts a text.

        Args:
            rules: what this call's texts share.
            prompt: ids, at least one.
            noise: the noise of this text.
            limit: greatest number of tokens; some complete text is as short as this.
        """
        self.rules = rules
        self.prompt = prompt
        self.noise = noise
        self.limit = limit
        self.tokens: list[int] = []
        self.states = [rules.automaton.start]
        self.unread: list[int] = list(prompt)
        self.finish: Finish | None = None
        self.logprob = 0.0
        self.log_weight = 0.0
        self.stats = Stats(prompt_tokens=len(prompt), seed=noise.seed, sequence=noise.sequence)
        vocabulary = rules.automaton.vocabulary
        self._row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
        self._eos = frozenset(vocabulary.eos_ids)
        self._allowed = self._look()

    def step(self, logits: NDArray[np.floating[Any]]) -> None:
        """Draws and commits the next token.

        Args:
            logits: the model's after everything it has read, floating [V].
        """
        position = Position(logits, self._allowed, self._gumbel, self.rules.warp)
        self.stats.forwards += 1
        self.unread.clear()
        self.commit(self.rules.sampler.propose(position))

    def commit(self, draw: Draw) -> None:
        """Appends a drawn token, or ends the text."""
        self.logprob += draw.logprob
        self.log_weight += draw.log_weight
        self.stats.checks += draw.checks
        if draw.token in self._eos:
            self.finish = "end"
            return
        self.tokens.append(draw.token)
        self.unread.append(draw.token)
        self.states.append(self.rules.automaton.next(self.states[-1], draw.token))
        self.stats.tokens = len(self.tokens)
        self._allowed = self._look()

    def _look(self) -> NDArray[np.intp]:
        """Allowed ids at the end of the text; sets `finish` when only the end is left."""
        automaton, state = self.rules.automaton, self.states[-1]
        automaton.fill_mask_within(state, self._row, self.limit - len(self.tokens))
        ids = ids_of(self._row)
        if all(int(token) in self._eos for token in ids[: len(self._eos) + 1]):
            assert len(ids), "the automaton allows nothing: a state without a completion was reached"
            self.finish = "limit" if len(self.tokens) == self.limit and self._goes_on() else "complete"
        return ids

    def _goes_on(self) -> bool:
        """Whether the text could go on if the limit were higher."""
        row = np.zeros_like(self._row)
        self.rules.automaton.fill_mask(self.states[-1], row)
        return any(int(token) not in self._eos for token in ids_of(row)[: len(self._eos) + 1])

    def _gumbel(self, ids: NDArray[np.intp]) -> NDArray[np.float64]:
        return self.noise.gumbel(len(self.prompt) + len(self.tokens), ids)


def ids_of(row: NDArray[np.int32]) -> NDArray[np.intp]:
    """The ids in a mask row (bit t % 32 of word t // 32), ascending."""
    bits = np.unpackbits(row.astype("<i4", copy=False).view(np.uint8), bitorder="little")
    return np.flatnonzero(bits.view(np.bool_))  # as truth values they are found several times faster
