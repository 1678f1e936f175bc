"""The masks of one step of the engine, written in one native call."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from constrained.automaton import fill_masks
from constrained.automaton.bitmask import allow_only

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.integrations.engines.request_grammar import RequestGrammar


class _Row(NamedTuple):
    place: int
    mask: Any
    automaton: Automaton
    state: int
    budget: int
    grammar: RequestGrammar
    forced: int | None


class StepMasks:
    """Collects which mask goes to which row, and writes all of them at the end of the step.

    Outside of `step` a mask is written at once. A mask that cannot be computed allows everything, and its request fails: see
    `RequestGrammar.failure`.

    The last tensor is remembered as an array and its rows: after a forward pass, operations of torch on a tensor cost more than
    a known mask, because nothing of them is left in the processor's caches.
    """

    def __init__(self) -> None:
        self._collecting = False
        self._rows: list[_Row] = []
        self._known: tuple[Any, Any, list[Any]] = (None, None, [])
        self._lock = threading.Lock()  # vLLM fills the masks of large batches in several threads

    def add(self, grammar: RequestGrammar, masks: Any, place: int) -> None:
        """Writes the mask of a request's present state, now or at the end of the step.

        Args:
            grammar: of the request.
            masks: tensor int32 ``[rows, words]`` in host memory; the same one during a step.
            place: the row of the mask.
        """
        known, _, rows = self._known
        if known is not masks:
            array = masks.numpy()
            rows = list(array)
            self._known = (masks, array, rows)
        if not self._collecting:
            write_mask(grammar, rows[place])
            return
        try:
            row = _Row(
                place,
                rows[place],
                grammar.automaton,
                grammar.state,
                grammar.budget,
                grammar,
                grammar.forced_token(),
            )
        except Exception as error:  # the engine must go on
            _fail(grammar, rows[place], error)
            return
        with self._lock:
            self._rows.append(row)

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

    def write(self) -> None:
        """Writes the masks that were added."""
        with self._lock:
            rows, self._rows = self._rows, []
        if not rows:
            return
        out = self._known[1]
        by_vocabulary: dict[int, list[_Row]] = {}
        for row in rows:  # requests with other stop ids or special tokens have vocabularies of their own
            by_vocabulary.setdefault(id(row.automaton.vocabulary), []).append(row)
        for group in by_vocabulary.values():
            try:
                _write(group, out)
            except Exception:
                _write_singly(group)
        for row in rows:
            if row.forced is not None and row.grammar.failure is None:
                allow_only(row.mask, row.forced)


def write_mask(grammar: RequestGrammar, mask: Any) -> None:
    """Writes the mask of a request's present state, an array int32 ``[words]``; see `StepMasks`."""
    try:
        forced = grammar.forced_token()
        if forced is not None:
            allow_only(mask, forced)
        else:
            grammar.automaton.fill_mask_within(grammar.state, mask, grammar.budget)
    except Exception as error:  # the engine must go on
        _fail(grammar, mask, error)


def _write(rows: list[_Row], out: Any) -> None:
    """Writes masks of one vocabulary by one native call."""
    first, count = rows[0].place, len(rows)
    places = [row.place for row in rows]
    adjacent = places == list(range(first, first + count))
    masks = out[first : first + count] if adjacent else np.empty((count, out.shape[1]), dtype=np.int32)
    fill_masks(
        [row.automaton for row in rows], [row.state for row in rows], masks, [row.budget for row in rows]
    )
    if not adjacent:
        out[places] = masks


def _write_singly(rows: list[_Row]) -> None:
    """Writes the masks that can be computed; the other requests fail."""
    for row in rows:
        try:
            row.automaton.fill_mask_within(row.state, row.mask, row.budget)
        except Exception as error:
            _fail(row.grammar, row.mask, error)


def _fail(grammar: RequestGrammar, mask: Any, error: Exception) -> None:
    grammar.failure = error
    mask[...] = -1
