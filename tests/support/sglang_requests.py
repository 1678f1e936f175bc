"""Runs requests through SGLang's handling of grammars with a model that draws uniformly: the calls of its scheduler, in their order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class Row(NamedTuple):
    """As SGLang's `GrammarRow`."""

    row: int
    grammar: Any


class UniformServer:
    """A scheduler.

    Attributes:
        manager: SGLang's `GrammarManager`.
        size: of the vocabulary.
    """

    def __init__(self, manager: Any, size: int, seed: int = 0) -> None:
        self.manager = manager
        self.size = size
        self._generator = torch.Generator().manual_seed(seed)
        self.random = random.Random(seed)

    def start(self, *requests: Any) -> None:
        """Compiles the grammars of requests."""
        waiting = [one for one in requests if self.manager.process_req_with_grammar(one)]
        while waiting:
            ready = self.manager.get_ready_grammar_requests()
            waiting = [one for one in waiting if all(one is not other for other in ready)]

    def run(self, *requests: Any, forced: Callable[[Any], int | None] = lambda request: None) -> None:
        """Starts requests and writes until all have finished; `forced` may choose a token."""
        self.start(*requests)
        for one in requests:
            if one.to_finish is not None:
                one.update_finish_state()
        while live := [one for one in requests if not one.finished()]:
            self.step(live, forced)

    def step(self, live: list[Any], forced: Callable[[Any], int | None]) -> None:
        """One token for each request."""
        logits = torch.rand(len(live), self.size, generator=self._generator)
        if first := next((one.grammar for one in live if one.grammar is not None), None):
            masks = first.allocate_vocab_mask(self.size, len(live), "cpu")
            rows = [
                Row(i, one.grammar)
                for i, one in enumerate(live)
                if one.grammar is not None and not one.grammar.finished and not one.grammar.is_terminated()
            ]
            first.fill_vocab_mask_batched(rows, masks)
            masks = first.move_vocab_mask(masks, "cpu")
            first.apply_vocab_mask(logits=logits, vocab_mask=masks)
        for one, row in zip(live, logits, strict=True):
            wanted = forced(one)
            token = int(row.argmax()) if wanted is None else wanted
            assert row[token] > float("-inf")
            one.output_ids.append(token)
            one.update_finish_state()
            if one.grammar is not None:
                one.grammar.accept_token(token)
                one.grammar.finished = one.finished()
