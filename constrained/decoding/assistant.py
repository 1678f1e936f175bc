"""Drafts of an assistant: a smaller model writes the next tokens, and the model verifies them with the other drafts.

Speculative decoding (Leviathan et al. 2023) in the draft tree: the assistant takes the steps of the sequence itself, with its mask, its
temperature and its noise, so that both models mostly draw the same tokens where their distributions are alike. Where it has other tokens, it
reads the text in its own, and its logits are translated (`constrained.vocabulary.token_map`). What it proposes is calibrated like every other source.
Texts are those without it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from constrained.sampling import Local
from constrained.sampling.base import NoPossibleToken
from constrained.spec.assistant_balance import AssistantBalance

if TYPE_CHECKING:
    from constrained.decoding.sequence import TokenSequence
    from constrained.models import Cache, LanguageModel
    from constrained.models.base import Assistant

LONGEST = 16
"""Tokens that an assistant writes before a pass, at most."""
_ROOM = 4 * LONGEST
"""Positions of its context that an assistant needs for them: its own tokens may be shorter."""
_FEW = 4
"""Tokens that a pass reads in about the time of one."""
_SAMPLER = Local(weights=False)

_balances: WeakKeyDictionary[Any, AssistantBalance] = WeakKeyDictionary()
_readers: WeakKeyDictionary[TokenSequence, AssistantReader] = WeakKeyDictionary()
_lock = threading.Lock()


class AssistantReader:
    """What an assistant has read of one sequence.

    Attributes:
        balance: of the model that it assists.
        own_passes: passes of the assistant for the last continuation; 0 where they read more than a few tokens at once.

    Args:
        assistant: the smaller model, and its tokens.
        balance: see above.
    """

    def __init__(self, assistant: Assistant, balance: AssistantBalance) -> None:
        self.balance = balance
        self._assistant, self._tokens = assistant
        self._cache = self._assistant.cache(1)
        self._read = 0
        self._row: NDArray[np.float32] | None = None  # logits behind what was read
        self._proposed: list[int] = []  # behind the first `_at` tokens
        self._at = 0
        self.own_passes = 0

    def continuation(self, sequence: TokenSequence) -> list[tuple[int, float]]:
        """The tokens that the assistant would write next, each with its probability; none during a pause.

        Args:
            sequence: what both models write.
        """
        self.own_passes = 0
        if not self.balance.affords():
            return []
        tokens = sequence.params.automaton.vocabulary.text_ids([*sequence.prompt, *sequence.tokens])
        ids = self._tokens.ids(tokens[self._read :])
        unread, context = len(ids), self._assistant.context
        if context is not None and self._cache.lengths[0] + unread + _ROOM > context:
            return []
        if not unread and self._row is None:  # a prompt of special tokens that it lacks
            return []
        self._compare(sequence.tokens)
        if unread or self._row is None:
            self._row = self._forward(ids, self._cache)
            self._read = len(tokens)
        row = self._row
        twin, cache = sequence.simulated(), None
        is_greedy, alike = twin.params.warp.greedy, self.balance.drawn_alike
        found: list[tuple[int, float]] = []
        certain = 1.0
        while (
            len(found) < LONGEST and certain >= self.balance.least and not twin.finish and twin.slot is None
        ):
            begin = len(twin.tokens)
            try:
                twin.step(row, _SAMPLER)
            except NoPossibleToken:  # the assistant has none of the tokens that may follow
                break
            written = twin.tokens[begin:]
            if not written:
                break
            # Tokens that a step writes without a pass behind the drawn one are forced.
            probability = _probability(row, written[0]) if is_greedy else alike
            found += [(written[0], probability), *((token, 1.0) for token in written[1:])]
            certain *= probability
            behind = self._tokens.ids(written)
            if not behind:  # special tokens that it lacks
                break
            if certain >= self.balance.least and not twin.finish:
                cache = cache or self._cache.branch(1)
                row = self._forward(behind, cache)
        if unread > _FEW:
            self.own_passes = 0
        self._proposed, self._at = [token for token, _ in found], len(sequence.tokens)
        return found

    def _compare(self, tokens: Sequence[int]) -> None:
        """Records how far the text went on as it was proposed."""
        came = tokens[self._at : self._at + len(self._proposed)]
        alike = next(
            (at for at, pair in enumerate(zip(came, self._proposed, strict=False)) if pair[0] != pair[1]),
            len(came),
        )
        self.balance.compare(alike, alike < len(came))

    def _forward(self, ids: list[int], cache: Cache) -> NDArray[np.float32]:
        """Logits [V] behind ids of the assistant, over the vocabulary of the model."""
        self.own_passes += 1
        return self._tokens.logits(self._assistant.forward([ids], cache)[0])


def _probability(row: NDArray[np.float32], token: int) -> float:
    """How likely the assistant finds a token."""
    scores = row - row.max()
    return min(1.0, max(1e-6, math.exp(float(scores[token])) / float(np.exp(scores).sum())))


def assisted(
    model: LanguageModel,
    sequence: TokenSequence,
    plain_seconds: float,
    clock: Callable[[], float],
) -> list[tuple[int, float]]:
    """What the assistant of a model proposes for a sequence.

    Args:
        model: verifies it, and has an assistant.
        sequence: that goes on.
        plain_seconds: of a pass of the model without drafts; 0: unknown, then it proposes nothing.
        clock: says how long it took, in seconds.
    """
    if plain_seconds <= 0 or model.assistant is None:
        return []
    began = clock()
    with _lock:
        balance = sequence.assistant_balance = _balances.setdefault(model, AssistantBalance())
        reader = _readers.get(sequence)
        if reader is None:
            reader = _readers[sequence] = AssistantReader(model.assistant, balance)
    found = reader.continuation(sequence)
    balance.spend((clock() - began) / plain_seconds, reader.own_passes)
    return found
