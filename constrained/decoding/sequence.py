"""`TokenSequence`: prompt, completion and automaton state of one request while it is decoded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.forced_tokens import forced_token
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.closed_slots import closed_slot
from constrained.decoding.prompt_questions import PromptQuestions
from constrained.decoding.prompt_reader import LONGEST_PROMPT, PromptReader
from constrained.decoding.reasoning import ReasoningBudget
from constrained.decoding.repetition import Guard
from constrained.decoding.slot_reading import SlotPlace, SlotReading
from constrained.decoding.stats import Finish, Stats
from constrained.decoding.text_tree import NO_TEXTS, TextTree
from constrained.decoding.tree_logits import TreeLogits
from constrained.decoding.tree_scores import TreeScores
from constrained.sampling import (
    CandidateList,
    Candidates,
    Distribution,
    Draw,
    LogitsWarper,
    Position,
    Randomness,
    TokenSampler,
)
from constrained.sampling.token_tree import TokenTree
from constrained.spec.assistant_balance import AssistantBalance
from constrained.spec.drafts import LazyDrafter
from constrained.spec.sources import source_bits

if TYPE_CHECKING:
    from constrained.automaton import Automaton

FORCED = source_bits(["forced"])
"""Where tokens come from that are written without logits, as bits of `TokenSequence.draft_origins`."""


@dataclass(frozen=True, slots=True)
class DecodingParams:
    """Parameters that all sequences of one call share.

    Attributes:
        automaton: the compiled constraint.
        warp: the logits warper: biases, penalties, temperature and truncation.
        certain_ends: an end has probability 1 where only the end can follow, and at the token limit; otherwise it is
            drawn, and counts, everywhere. See `constrained.sampling.ends`.
        reasoning: limits the reasoning before a reply; None: there is none, or it has no limit.
        guard: makes what ends a completion that repeats itself, for a prompt; None: nothing does.
        questions: are asked when the prompt is read, and narrow the automaton; None: nothing is asked.
        canonical: forced text has the tokens that the tokenizer writes, see `constrained.automaton.forced_tokens`.
        slots: the values of closed slots are drawn as wholes, see `constrained.decoding.slot_reading`.
        weights: draws have weights.
        jumps: these tokens are written without their logits: with the token before them, so that the next pass reads all of them.
        begin: text of the prompt that the tokens begin with, and that is no part of the completion: see `constrained.decoding.healing`.
    """

    automaton: Automaton
    warp: LogitsWarper
    certain_ends: bool
    reasoning: ReasoningBudget | None = None
    guard: Callable[[Sequence[int]], Guard] | None = None
    questions: PromptQuestions | None = None
    canonical: bool = False
    slots: bool = False
    weights: bool = True
    jumps: bool = False
    begin: bytes = b""


@dataclass(slots=True)
class DecodingCost:
    """Work that a particle batch has done.

    Attributes:
        passes: forward passes.
        forwards: rows of all forward passes: the number of passes without batching.
        attempts: sequences started.
        checks: membership checks of the constraint.
        tokens: tokens drawn, without EOS tokens.
    """

    passes: int = 0
    forwards: int = 0
    attempts: int = 0
    checks: int = 0
    tokens: int = 0


class TokenSequence:
    """Prompt and completion of one request, with the automaton's state and the importance weight.

    One step: `position` of the model's logits -> a sampler's draw -> `commit`. `commit` computes the candidate tokens
    of the next position at once, so a sequence whose end is certain needs no further forward pass.

    Attributes:
        prompt: token ids of the prompt.
        draws: the draw of each position.
        tokens: token ids of the completion.
        state: state of the automaton after the tokens.
        unread: ids that the model has not read yet, in order: the prompt, then the committed tokens.
        finish: why the completion ended; None before it has.
        cut: where the token limit first changed or ended it: the number of tokens before, and the excluded token or
            None; see `constrained.decoding.cut`.
        log_weight: as in `Output`.
        randomness: random numbers of this sequence.
        cache_row: row of the KV cache that has read it, for a `CachedParticleBatch`.
        tree_logits: logits of the last forward pass after that row; None without draft tokens.
        node: the node of the draft tree that the sequence has reached.
        draft_origins: by token: the draft sources that proposed it, as bits, and the number of its forward pass.
        drafter: proposes draft tokens; None without speculation.
        assistant_balance: of the assistant that drafts for it; None: none does.
        stats: work done for this sequence.
        guard: closes values in which the model repeats itself; None: nothing does.
        slot: that begins behind the tokens, and whose value is not known; None: there is none.
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
        """Creates an empty completion.

        Args:
            params: parameters of the call.
            prompt: token ids, at least one.
            randomness: random numbers of this sequence.
            limit: token limit; the shortest completion fits into it.
            count: shared counters, which count this sequence's work too.
            drafter: proposes draft tokens.
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
        self.cut: tuple[int, int | None] | None = None
        self.log_weight = 0.0
        self.cache_row = self.node = 0
        self.tree_logits: TreeLogits | None = None
        self.draft_origins: list[tuple[int, int]] = []
        self.drafter = drafter
        self.assistant_balance: AssistantBalance | None = None
        self.candidates: Candidates
        self.stats = Stats(prompt_tokens=len(prompt))
        self.guard = None if params.guard is None else params.guard(prompt)
        self.slot: SlotReading | None = None
        self._planned: list[int] = []  # tokens that come next
        self._planned_at = -1  # number of tokens where they began
        self._thought: bytes | None = None if params.reasoning is None else b""
        self._jump: int | None = None  # the forced token that comes next
        self._look()
        if params.questions is None:
            self._write_forced()

    @property
    def logprob(self) -> float:
        """As in `Output`."""
        return float(sum(draw.logprob for draw in self.draws))

    @property
    def content(self) -> bytes:
        """The bytes of the completion."""
        return self.params.automaton.vocabulary.decode(self.tokens)

    def position(self, distribution: Distribution | NDArray[np.floating[Any]]) -> Position:
        """The position at which the next token is drawn.

        Args:
            distribution: the model's next-token logits, floating [V], or a `Distribution` of them.
        """
        self.unread.clear()
        warp = self.params.warp
        if warp.adjusts:
            logits = distribution.logits if isinstance(distribution, Distribution) else distribution
            distribution = Distribution(warp.adjust(logits, self.prompt, self.tokens), warp)
        return Position(distribution, self.candidates, self.randomness, warp, self.next_position_id)

    def step(self, distribution: Distribution | NDArray[np.floating[Any]], sampler: TokenSampler) -> None:
        """Draws and commits the next token."""
        self.commit(sampler.draw_token(self.position(distribution)))

    def commit(self, draw: Draw) -> None:
        """Appends a drawn token, or ends the completion; and the forced tokens behind it, see `DecodingParams.jumps`."""
        tree, token = self.tree_logits, draw.token
        self._append(draw, 0 if tree is None or token is None else tree.origin(self.node, token))
        self._write_forced()

    def _write_forced(self) -> None:
        while self._jump is not None and not self.finish and not self.avoids:
            self._append(Draw(self._jump, 0.0, math.nan, checks=0), FORCED)

    def _append(self, draw: Draw, origin: int) -> None:
        self.draws.append(draw)
        self.log_weight += draw.log_weight
        self.stats.checks += draw.checks
        self.cost.checks += draw.checks
        automaton = self.params.automaton
        if draw.unlimited_token is not None and self.cut is None:
            self.cut = len(self.tokens), draw.unlimited_token
        if draw.token is None:
            self.finish = "dead"
        elif draw.token in automaton.vocabulary.eos_ids:
            chosen = not self.candidates.only_ends or self.candidates.limit_excludes
            self.finish = "limit" if self.cut is not None else "end" if chosen else "complete"
        else:
            if self.drafter is not None:
                self.drafter.commit(draw.token)
            if self.assistant_balance is not None:
                self.assistant_balance.record_origin(origin)
            self.draft_origins.append((origin, self.stats.forwards))
            self.tokens.append(draw.token)
            self.unread.append(draw.token)
            self.state = automaton.next(self.state, draw.token)
            self.stats.tokens = len(self.tokens)
            self.cost.tokens += 1
            if self.params.reasoning is not None and self._thought is not None:
                text = automaton.vocabulary.decode((draw.token,))
                self._thought = self.params.reasoning.thought_after(self._thought, text)
            if self.guard is not None:
                self.guard.commit(self.tokens)
            self._look()

    def answer(self, scores: TreeScores, reader: PromptReader) -> None:
        """Narrows the automaton by the answers to the questions of the prompt; `reader` reads behind it."""
        questions = self.params.questions
        assert questions is not None
        temperature = self.params.warp.temperature or 0.0
        automaton = questions.narrowed(scores, temperature, self.randomness, self.limit, reader)
        self.params = replace(self.params, automaton=automaton, questions=None)
        self.drafter = questions.drafter(self.prompt, automaton, drawn=temperature > 0)
        self.state = automaton.start
        self._look()
        self._write_forced()

    @property
    def avoids(self) -> bool:
        """Whether the next pass reads texts that the completion must not write."""
        return self.guard is not None and bool(self.guard.avoided)

    def asked_texts(self) -> TextTree:
        """What the next pass reads behind the completion: texts that it must not write, or values of a slot; it is asked for once."""
        if self.guard is not None and self.guard.avoided:
            avoided, self.guard.avoided, self.slot = self.guard.avoided, (), None
            return TextTree(TokenTree.of([tokens[: self.remaining_tokens] for tokens in avoided]))
        return NO_TEXTS if self.slot is None else self.slot.next_texts()

    def read_slot(self, rows: TreeLogits) -> bool:
        """Reads of the slot what the last pass has read; True if the value is known, whose tokens come next."""
        assert self.slot is not None
        self.slot.read(rows, self.node)
        value = self.slot.draw()
        if value is None:
            # The next pass reads values alone; its first token is drawn from what this pass has read.
            warp = self.params.warp
            self.slot.root = Distribution(rows.distribution(self.node, warp).logits, warp)
            return False
        pairs = enumerate(zip(value.tokens, value.unlimited, strict=False))
        parting = next((at for at, (one, other) in pairs if one != other), None)
        if self.cut is None and parting is not None:
            self.cut = len(self.tokens) + parting, value.unlimited[parting]
        self.log_weight += value.log_weight
        self.plan(value.tokens)
        return True

    def plan(self, tokens: Sequence[int]) -> None:
        """Has these tokens come next, as the texts that were asked for say; there is no other question at this place."""
        self._planned, self._planned_at = list(tokens), len(self.tokens)
        self._look()

    @property
    def unlimited_path(self) -> list[int]:
        """The tokens without the token limit, as far as they are known to differ; empty if the limit changed nothing."""
        if self.cut is None or self.cut[1] is None:
            return []
        return [*self.tokens[: self.cut[0]], self.cut[1]]

    def mark_divergence(self, path: Sequence[int]) -> None:
        """Marks where this completion leaves the `unlimited_path` of a sequence that it replaces, if there is one."""
        if not path:
            return
        pairs = enumerate(zip(self.tokens, path, strict=False))
        position = next(
            (i for i, (token, other) in pairs if token != other), min(len(self.tokens), len(path) - 1)
        )
        if self.cut is None or position <= self.cut[0]:
            self.cut = position, path[position]
        self.finish = "limit"

    def simulated(self) -> TokenSequence:
        """A copy to try on how the text may go on: with the same random numbers, without drafts, and not counted."""
        twin = self._twin()
        twin.drafter = twin.assistant_balance = None
        twin.cost, twin.candidates = DecodingCost(), copy(self.candidates)
        return twin

    def copy(self, randomness: Randomness) -> TokenSequence:
        """An independent copy that continues with other random numbers."""
        twin = self._twin()
        twin.randomness = randomness
        twin.drafter = None if self.drafter is None else self.drafter.copy()
        return twin

    def _twin(self) -> TokenSequence:
        """A copy that shares the drafter."""
        twin = object.__new__(TokenSequence)
        twin.__dict__.update(self.__dict__)
        twin.draws, twin.tokens, twin.unread = list(self.draws), list(self.tokens), list(self.unread)
        twin.draft_origins, twin._planned = list(self.draft_origins), list(self._planned)
        twin.stats = replace(self.stats)
        twin.guard = None if self.guard is None else self.guard.copy()
        return twin

    def close(self) -> None:
        """Records in the stats the source of each token and the counts of drafted and accepted tokens."""
        self.tree_logits = None  # it holds the logits of a pass
        self.stats.draft_origins = tuple(origin for origin, _ in self.draft_origins)
        self.stats.passes = tuple(number for _, number in self.draft_origins)
        if self.drafter is not None:
            self.stats.drafted, self.stats.accepted, self.stats.sources = self.drafter.counts()

    @property
    def next_position_id(self) -> int:
        """Absolute position of the next token."""
        return len(self.prompt) + len(self.tokens)

    @property
    def remaining_tokens(self) -> int:
        """Tokens left within the token limit."""
        return self.limit - len(self.tokens)

    def _look(self) -> None:
        """Prepares the next position; sets `finish` if only EOS tokens are allowed and their probability is 1."""
        self._jump = self.slot = None
        if (forced := self._forced()) is not None:
            self.candidates = CandidateList([forced])
            return
        automaton, budget = self.params.automaton, self.remaining_tokens
        self.candidates = (
            AutomatonCandidates(automaton, self.state, budget)
            if self.guard is None
            else self.guard.candidates(automaton, self.state, budget)
        )
        if self.params.canonical:
            token = forced_token(automaton, self.state)
            if token is not None and self.candidates.permits(token):
                self.candidates = CandidateList([token])
                self._jump = token if self.params.jumps else None
        if (
            self.params.slots
            and len(self.tokens) != self._planned_at
            and type(self.candidates) is AutomatonCandidates
        ):
            self.slot = self._slot()
        if self.params.certain_ends and self.candidates.only_ends:
            if self.cut is None and self.candidates.limit_excludes:
                self.cut = len(self.tokens), None
            self.finish = "complete" if self.cut is None else "limit"

    def _slot(self) -> SlotReading | None:
        """The slot that begins behind the tokens."""
        params = self.params
        slot = closed_slot(params.automaton, self.state, self.tokens)
        if slot is None:
            return None
        place = SlotPlace(
            params.automaton,
            self.state,
            (self.prompt, self.tokens),
            self.remaining_tokens,
            params.warp,
            params.weights,
            params.canonical,
            self.randomness,
        )
        # Drafts say more than its values, and behind a long prompt they have a pass of their own.
        return SlotReading(slot, place, at_once=self.drafter is None and len(self.unread) <= LONGEST_PROMPT)

    def _forced(self) -> int | None:
        """The token that must follow: one that is planned, or the end of a reasoning that has used up its budget."""
        if self._planned:
            return self._planned.pop(0)
        budget = self.params.reasoning
        if budget is None or self._thought is None or len(self.tokens) < budget.tokens:
            return None
        return budget.forced(self._thought, self.params.automaton, self.state, self.remaining_tokens)

    @property
    def awaits_end(self) -> bool:
        """Whether only an EOS token can follow: it is drawn for its probability."""
        return not self.finish and self.candidates.only_ends
