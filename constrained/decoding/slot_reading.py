"""`SlotReading`: the value of a closed slot, drawn as a whole.

Token by token, masks take the value that begins best, which need not be the likeliest one. Here it is drawn by the probabilities of
whole values: `constrained.sampling.exact` within a text.

A value is at most as probable as those of its tokens that were read. So the draw is known as soon as the value that it takes, if each
value is as probable as it may be, was read whole: mostly one that was drafted, or the first that is read for the slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.forced_tokens import forced_token
from constrained.automaton.protocol import DEAD, Automaton
from constrained.decoding.closed_slots import ClosedSlot
from constrained.decoding.text_tree import NO_TEXTS, TextTree
from constrained.sampling import Distribution, LogitsWarper, Randomness
from constrained.sampling.exact import pick_text
from constrained.sampling.token_tree import TokenTree
from constrained.spec.scores import log_sum_exp

if TYPE_CHECKING:
    from constrained.decoding.tree_logits import TreeLogits

_FEW_NODES = 8
"""Nodes of values that are read at first: of more, a second pass costs less than they do."""

_TAIL = 24
"""Tokens that are forced behind the value which is read first, and read with it, at most."""


@dataclass(frozen=True, slots=True)
class SlotPlace:
    """Where a slot begins.

    Attributes:
        automaton: decides what may follow.
        state: one of its states.
        context: token ids of the prompt and of the completion so far.
        room: tokens that may follow.
        warp: the logits warper.
        weights: whether the draw needs a weight.
        canonical: whether forced text has the tokens that the tokenizer writes.
        randomness: for draws.
    """

    automaton: Automaton
    state: int
    context: tuple[Sequence[int], Sequence[int]]
    room: int
    warp: LogitsWarper
    weights: bool
    canonical: bool
    randomness: Randomness

    @property
    def position_id(self) -> int:
        """Absolute position of the first token of the value."""
        return sum(map(len, self.context))

    def behind(self, tokens: Sequence[int]) -> int:
        """The state behind the tokens of a value, which may be none."""
        return [self.state, *self.automaton.walk(self.state, tokens)][-1]

    def pick(self, totals: NDArray[np.float64]) -> tuple[int, float]:
        """See `pick_text`."""
        return pick_text(totals, self.warp, self.randomness, self.position_id)

    def law(self, found: Distribution, before: Sequence[int]) -> Distribution:
        """The distribution behind some tokens of a value, with biases and penalties."""
        if not self.warp.adjusts:
            return found
        prompt, tokens = self.context
        return Distribution(self.warp.adjust(found.logits, prompt, [*tokens, *before]), self.warp)


@dataclass(frozen=True, slots=True)
class SlotValue:
    """The value that was drawn.

    Attributes:
        tokens: of the value, and of an end where it could go on; empty where the token limit leaves no value, or no possible end.
        log_weight: what is added to the weights of these tokens, each of which counts as one that nothing else may stand for.
        unlimited: the tokens of what would have been drawn without the token limit.
    """

    tokens: tuple[int, ...] = ()
    log_weight: float = 0.0
    unlimited: tuple[int, ...] = ()


class SlotReading:
    """What was read of the values of a slot.

    Attributes:
        slot: its values.
        totals: of each value the log-probability of its tokens that were read, and of an end behind it if that was, float64 [n].
        root: the model's distribution where the slot begins, kept for the pass that reads values alone; None: it has not been read.
    """

    def __init__(self, slot: ClosedSlot, place: SlotPlace, *, at_once: bool) -> None:
        """Nothing is read.

        Args:
            slot: its values.
            place: where it begins.
            at_once: the next pass reads all values, if they are few.
        """
        self.slot = slot
        self.totals = np.zeros(len(slot.tokens))
        self.root: Distribution | None = None
        self._place = place
        self._texts = slot.tree if at_once and len(slot.tree) - 1 <= _FEW_NODES else NO_TEXTS
        self._nodes = _FEW_NODES
        self._depths = [0] * len(slot.tokens)  # tokens that were read
        self._ends: list[NDArray[np.float64] | None] = [None] * len(slot.tokens)

    def next_texts(self) -> TextTree:
        """What the next pass is to read behind the completion; once."""
        texts, self._texts = self._texts, NO_TEXTS
        return texts

    def read(self, rows: TreeLogits, begin: int) -> None:
        """Takes what a pass has read behind one of its nodes, where the slot begins."""
        found: dict[int, Distribution] = {}

        def law(node: int, before: Sequence[int]) -> Distribution:
            if node not in found:
                found[node] = self._place.law(rows.distribution(node, self._place.warp), before)
            return found[node]

        for index, tokens in enumerate(self.slot.tokens):
            node = begin
            for place, token in enumerate(tokens if self._ends[index] is None else ()):
                if place == self._depths[index]:
                    self.totals[index] += law(node, tokens[:place]).log_prob(token)
                    self._depths[index] += 1
                node = rows.child(node, token)
                if node < 0:
                    break
            else:
                if self._ends[index] is None:
                    behind = law(node, tokens)
                    self._ends[index] = scores = behind.scaled_of(self.slot.ends[index])
                    self.totals[index] += log_sum_exp(scores) - behind.normaliser

    def draw(self) -> SlotValue | None:
        """A value, drawn by its probability and that of an end behind it; None where more has to be read first: `next_texts`."""
        slot, place = self.slot, self._place
        sizes = zip(slot.tokens, slot.rests, strict=True)
        fits = [len(tokens) + rest <= place.room for tokens, rest in sizes]
        within = np.where(fits, self.totals, -np.inf)
        if not np.isfinite(within).any():
            return SlotValue()
        index, mass = place.pick(within)
        wanted = index if all(fits) else place.pick(self.totals)[0]
        # A weight is by the sum of all values, and a truncation compares them.
        if (place.weights or place.warp.truncates) and any(ends is None for ends in self._ends):
            self._texts = slot.tree
            return None
        for one, totals in ((index, within), (wanted, self.totals)):
            if self._ends[one] is None:
                self._texts = self._likely(totals)
                return None
        tokens, scores = slot.tokens[index], self._ends[index]
        assert scores is not None
        log_weight = mass - float(self.totals[index])
        if slot.goes_on[index]:
            state = place.behind(tokens)
            room = place.room - len(tokens)
            able = [
                place.automaton.next_within(state, one, room) != DEAD for one in slot.ends[index].tolist()
            ]
            ends, scores = slot.ends[index][able], scores[able]
            if not np.isfinite(scores).any():
                return SlotValue()
            best, mass = pick_text(scores, place.warp, place.randomness, place.position_id + len(tokens))
            log_weight += mass - float(scores[best])
            tokens = (*tokens, int(ends[best]))
        return SlotValue(tokens, log_weight, () if wanted == index else slot.tokens[wanted])

    def _likely(self, totals: NDArray[np.float64]) -> TextTree:
        """The values that may be drawn, in the order in which they would be, and what is forced behind the first one."""
        texts: list[list[int]] = []
        left = totals.copy()
        while np.isfinite(left).any() and sum(map(len, texts)) < self._nodes:
            index, _ = self._place.pick(left)
            left[index] = -np.inf
            known = self._ends[index] is not None
            tail = self._tail(index) if known or not texts else ()
            texts.append([*self.slot.tokens[index], *tail])
            if known:  # those behind it cannot be drawn
                break
        self._nodes *= 4
        return TextTree(TokenTree.of(texts))

    def _tail(self, index: int) -> Iterator[int]:
        """The tokens that must follow a value."""
        automaton = self._place.automaton
        state = self._place.behind(self.slot.tokens[index])
        for _ in range(_TAIL if self._place.canonical else 0):
            token = forced_token(automaton, state)
            if token is None or token in automaton.vocabulary.eos_ids:
                return
            yield token
            state = automaton.next(state, token)
