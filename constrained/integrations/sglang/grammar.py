"""The tokens of one request as SGLang's grammar object."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.constrained.base_grammar_backend import BaseGrammarObject, GrammarRow, GrammarStats
from sglang.srt.utils.common import is_pin_memory_available

from constrained.integrations.engines.request_grammar import RequestGrammar
from constrained.integrations.engines.step_masks import StepMasks, write_mask

if TYPE_CHECKING:
    from constrained.automaton import Automaton


def allocate_masks(vocab_size: int, batch_size: int, device: Any = None) -> torch.Tensor:
    """Masks that allow everything, int32 ``[batch_size, ceil(vocab_size / 32)]`` in host memory."""
    shape = (batch_size, -(-vocab_size // 32))
    return torch.full(shape, -1, dtype=torch.int32, pin_memory=is_pin_memory_available())


def move_masks(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
    """The masks on a device."""
    return vocab_mask.to(device, non_blocking=True)


def apply_masks(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
    """Sets the logits of masked tokens to -inf, in place.

    Args:
        logits: ``[rows, vocab_size]``, of any device that SGLang has a kernel for.
        vocab_mask: int32 ``[rows, words]``, on the same device.
    """
    if logits.device.type != "cpu":
        from sglang.srt.constrained.xgrammar_backend import XGrammarGrammarBackend

        XGrammarGrammarBackend.apply_vocab_mask(logits, vocab_mask)  # all masks have this layout
        return
    bits = vocab_mask.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32)
    columns = min(logits.shape[-1], 32 * vocab_mask.shape[-1])
    masked = (bits & 1).flatten(-2)[..., :columns] == 0
    logits[..., :columns].masked_fill_(masked, float("-inf"))


class SglangGrammar(RequestGrammar, BaseGrammarObject):
    """A `RequestGrammar` as SGLang's class.

    Attributes:
        reasoner: SGLang's wrapper that withholds tokens of reasoning; None without reasoning.
    """

    def __init__(
        self, automaton: Automaton, stats: GrammarStats | None = None, *, canonical: bool = True
    ) -> None:
        """The grammar of a new request, without its limits: see `begin`."""
        BaseGrammarObject.__init__(self)
        RequestGrammar.__init__(self, automaton, canonical=canonical)
        self.grammar_stats = stats
        self.reasoner: Any = None

    def begin(self, limit: int, least: int, reasoner: Any = None) -> None:
        """Tells the limits of the request.

        Args:
            limit: tokens that it may write, reasoning included.
            least: tokens before which it must not end.
            reasoner: SGLang's wrapper of this object, if the model reasons.

        Raises:
            DoesNotFit: no completion is as short as `limit`.
            InvalidArgument: completions may be shorter than `least`.
        """
        self.check_lengths(limit, least)
        self.limit, self.reasoner = limit, reasoner

    @property
    def budget(self) -> int:
        """See `RequestGrammar.budget`; tokens of reasoning count."""
        if self.reasoner is not None and not self.reasoner.reasoning_in_grammar:
            self.tokens_before = len(self.reasoner._thinking_match_history)
        return super().budget

    def accept_token(self, token: int) -> None:
        """Appends a token. After the end nothing happens, as with SGLang's own backends.

        Raises:
            ValueError: it is not allowed; SGLang ends the request then.
        """
        if self.is_terminated():
            return
        self.current_token = token
        if token < 0 or not self.append([token]):
            raise ValueError(self.failure or f"token {token} is not allowed after {self.accepted} tokens")

    def copy(self) -> SglangGrammar:
        """The grammar of another request with this constraint, at its start."""
        stats = self.grammar_stats
        if stats is not None:
            stats = dataclasses.replace(stats, is_cache_hit=True, tree_traversal_time=[])
        return SglangGrammar(self.automaton, stats, canonical=self.canonical)

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        """See `allocate_masks`."""
        return allocate_masks(vocab_size, batch_size)

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Writes the mask of the present state into a row of int32 ``[rows, words]``."""
        write_mask(self, vocab_mask[idx].numpy())

    @staticmethod
    def fill_vocab_mask_batched(entries: list[GrammarRow], vocab_mask: torch.Tensor) -> None:
        """Writes the masks of a step by one native call; rows that are not listed stay as they are."""
        masks = StepMasks()
        with masks.step():
            for row, grammar in entries:
                if isinstance(grammar, SglangGrammar):
                    masks.add(grammar, vocab_mask, row)
                else:  # SGLang's wrapper of a model that reasons
                    grammar.fill_vocab_mask(vocab_mask, row)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        """Allows everything."""
        vocab_mask.fill_(-1)

    move_vocab_mask = staticmethod(move_masks)
    apply_vocab_mask = staticmethod(apply_masks)
