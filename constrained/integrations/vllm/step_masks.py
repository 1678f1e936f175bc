"""The masks of one step of the engine, written in one native call. Does not import vLLM."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.automaton import fill_masks

if TYPE_CHECKING:
    from constrained.automaton import Automaton


class StepMasks:
    """Collects which mask goes to which row, and writes all of them at the end of the step.

    Outside of `step` a mask is written at once.
    """

    def __init__(self) -> None:
        self._collecting = False
        self._rows: list[tuple[int, Automaton, int, int]] = []  # row, automaton, state, budget
        self._masks: Any = None
        self._lock = threading.Lock()  # vLLM fills the masks of large batches in several threads

    def add(self, automaton: Automaton, state: int, budget: int, masks: Any, row: int) -> None:
        """Writes a mask, now or at the end of the step.

        Args:
            automaton: of the request.
            state: one of its states.
            budget: see `Automaton.fill_mask_within`.
            masks: tensor int32 ``[rows, words]`` in host memory; the same one during a step.
            row: where the mask goes.
        """
        with self._lock:
            self._masks = masks
            self._rows.append((row, automaton, state, budget))
        if not self._collecting:
            self.write()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Context manager: masks are written when it ends, and not at all if it raises."""
        self._collecting = True
        try:
            yield
            self.write()
        finally:
            self._collecting = False
            self._rows.clear()
            self._masks = None

    def write(self) -> None:
        """Writes the masks that were added."""
        with self._lock:
            rows, self._rows = self._rows, []
        if not rows:
            return
        out = self._masks.numpy()
        by_vocabulary: dict[int, list[tuple[int, Automaton, int, int]]] = {}
        for entry in rows:  # requests with other stop ids or special tokens have vocabularies of their own
            by_vocabulary.setdefault(id(entry[1].vocabulary), []).append(entry)
        for group in by_vocabulary.values():
            places, automata, states, budgets = (list(column) for column in zip(*group, strict=True))
            first, count = places[0], len(places)
            if places == list(range(first, first + count)):
                fill_masks(automata, states, out[first : first + count], budgets)
            else:
                masks = np.empty((count, out.shape[1]), dtype=np.int32)
                fill_masks(automata, states, masks, budgets)
                out[places] = masks
