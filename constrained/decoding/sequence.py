"""One text while it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.protocol import NO_LIMIT
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.output import Finish, Stats
from constrained.decoding.tree_logits import TreeLogits
from constrained.sampling import (
    Candidates,
    Distribution,
    Draw,
    LogitsWarper,
    Position,
    Randomness,
    TokenSampler,
)
from spec.drafts import LazyDrafter

if TYPE_CHECKING:
    from constrained.automaton import Automaton


@dataclass(frozen=True, slots=True)
class DecodingParams:
    """What all texts of one call share.

    Attributes:
        automaton: what may be said.
        warp: out of which distribution tokens are drawn.
    """

    automaton: Automaton
    warp: LogitsWarper


@dataclass(slots=True)
class DecodingCost:
    """What a pool has cost.

    Attributes:
        passes: calls of the model.
        forwards: rows of all passes: what the model would have been called for without batches.
        attempts: texts begun.
        checks: questions put to the constraint.
        tokens: tokens drawn, an end of sequence not counted.
    """

    passes: int = 0
    forwards: int = 0
    attempts: int = 0
    checks: int = 0
    tokens: int = 0


class TokenSequence:
    """The text for one prompt: its tokens, the automaton's states along it, and what it weighs.

    A step is: `position` of the model's logits -> a sampler's draw -> `commit`. What can follow is looked at as soon
    as a token is committed, so that a text is known to be finished before the model is asked.

    Attributes:
        prompt: ids of the prompt.
        draws: one for each position where the model was asked.
        tokens: ids of the text.
        state: of the automaton, after the tokens.
        unread: ids that the model has not read yet, in order: the prompt, then what was committed since.
        finish: why the text ended, None before it has.
        log_weight: as in `Output`.
        randomness: its randomness.
        cache_row: of the cache that has read it, for a `Writers`.
        tree_logits: what the last pass read after that row; None where nothing was guessed.
        node: of the branch: where the text stands.
        draft_origins: by token: who guessed it (`spec.drafts.origin`), and the pass that it came in.
        drafter: guesses what follows; None where nothing is guessed.
        stats: what it has cost.
    """

    def __init__(
        self,
        params: DecodingParams,
        prompt: Sequence[int],
        randomness: Randomness,
        limit: int,
        count: DecodingCost | None = None,
        drafter: LazyDrafter | None = None,
    ) -> None:
        """Starts a text.

        Args:
            params: what this call's texts share.
            prompt: ids, at least one.
            randomness: the randomness of this text.
            limit: greatest number of tokens; some complete text is as short as this.
            count: what is common to several texts, counted there too.
            drafter: guesses what follows.
        """
        self.params = params
        self.prompt = prompt
        self.randomness = randomness
        self.limit = limit
        self.cost = count or DecodingCost()
        self.draws: list[Draw] = []
        self.tokens: list[int] = []
        self.state = params.automaton.start
        self.unread: list[int] = list(prompt)
        self.finish: Finish | None = None
        self.log_weight = 0.0
        self.cache_row = self.node = 0
        self.tree_logits: TreeLogits | None = None
        self.draft_origins: list[tuple[int, int]] = []
        self.drafter = drafter
        self.stats = Stats(prompt_tokens=len(prompt))
        self._look()

    @property
    def logprob(self) -> float:
        """As in `Output`."""
        return float(sum(draw.logprob for draw in self.draws))

    @property
    def content(self) -> bytes:
        """The bytes of the text."""
        return self.params.automaton.vocabulary.decode(self.tokens)

    def position(self, distribution: Distribution | NDArray[np.floating[Any]]) -> Position:
        """Where the next token is to be drawn.

        Args:
            distribution: the model's after the whole text: logits, floating [V], or what was made of them already.
        """
        self.unread.clear()
        return Position(
            distribution, self.candidates, self.randomness, self.params.warp, self.next_position_id
        )

    def step(self, distribution: Distribution | NDArray[np.floating[Any]], sampler: TokenSampler) -> None:
        """Draws and commits the next token."""
        self.commit(sampler.propose(self.position(distribution)))

    def commit(self, draw: Draw) -> None:
        """Appends a drawn token, or ends the text."""
        self.draws.append(draw)
        self.log_weight += draw.log_weight
        self.stats.checks += draw.checks
        self.cost.checks += draw.checks
        automaton = self.params.automaton
        if draw.token is None:
            self.finish = "dead"
        elif draw.token in automaton.vocabulary.eos_ids:
            self.finish = "end"
        else:
            if self.drafter is not None:
                self.drafter.commit(draw.token)
            guessed = 0 if self.tree_logits is None else self.tree_logits.origin(self.node, draw.token)
            self.draft_origins.append((guessed, self.stats.forwards))
            self.tokens.append(draw.token)
            self.unread.append(draw.token)
            self.state = automaton.next(self.state, draw.token)
            self.stats.tokens = len(self.tokens)
            self.cost.tokens += 1
            self._look()

    def copy(self, randomness: Randomness) -> TokenSequence:
        """A text that begins as this one does and goes on by itself."""
        twin = object.__new__(TokenSequence)
        twin.__dict__.update(self.__dict__)
        twin.randomness = randomness
        twin.draws, twin.tokens, twin.unread = list(self.draws), list(self.tokens), list(self.unread)
        twin.draft_origins = list(self.draft_origins)
        twin.stats = replace(self.stats)
        twin.drafter = None if self.drafter is None else self.drafter.copy()
        return twin

    def close(self) -> None:
        """Enters into the stats where the tokens came from, and what the drafts came to."""
        self.tree_logits = None  # it holds the logits of a pass
        self.stats.draft_origins = bytes(guessed for guessed, _ in self.draft_origins)
        self.stats.passes = tuple(number for _, number in self.draft_origins)
        if self.drafter is not None:
            self.stats.drafted, self.stats.accepted, self.stats.sources = self.drafter.counts()

    @property
    def next_position_id(self) -> int:
        """Absolute position of the next token."""
        return len(self.prompt) + len(self.tokens)

    @property
    def remaining_tokens(self) -> int:
        """Tokens that the text may still have."""
        return self.limit - len(self.tokens)

    def _look(self) -> None:
        """Prepares the next position; sets `finish` when only the end is left."""
        budget = self.remaining_tokens
        following = AutomatonCandidates(self.params.automaton, self.state, budget)
        self.candidates: Candidates = following
        if following.only_eos():
            self.finish = "limit" if budget == 0 and self._goes_on() else "complete"

    def _goes_on(self) -> bool:
        """Whether the text could go on if the limit were higher."""
        return not AutomatonCandidates(self.params.automaton, self.state, NO_LIMIT).only_eos()
