"""What an adapter provides: calls as a server would make them, with nothing of ours between timer and engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from constrained.bench.masks.workload import VocabularyData

MaskTable = NDArray[np.int32]
"""Masks, int32[n, ceil(vocabulary / 32)]: token t is bit ``t % 32`` of word ``t // 32``."""


class EngineFault(RuntimeError):
    """An engine allows nothing, refuses what it allowed, or says that something went wrong."""


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema made ready by one engine, as the raw calls that use it.

    Attributes:
        start: a state before any token; may recycle the one it gave before.
        fill: ``fill(state, *target)`` computes the mask and writes it to memory that the caller owns.
        commit: ``commit(state, token)`` advances by one token; the next state, or whatever an engine returns that
            changes its states in place. 0 or False: refused.
        in_place: `commit` changes the state itself.
        targets: for each of some rows, the arguments by which `fill` finds it.
        complete: whether the text so far is complete, where that is not a bit of the mask; None: an EOS bit says so.
        error_message: what an engine that does not raise has to say about a state gone wrong.
        fork: an independent copy of a state, where `commit` changes it in place; None: the engine has no call for it
            that `fill_many` could use. A state that does not change is its own copy.
        rollback: ``rollback(state, n)`` takes the last n tokens of a state back, where `commit` changes it in place.
            States that do not change need no call: whoever kept the one before has gone back.
        fill_many: ``fill_many(states, rows)`` computes several masks in one call; None: there is no such call.
        memory: bytes this schema takes, if the engine knows.
        fill_within: ``fill_within(state, row, n)`` computes the mask of tokens that leave a completion within n tokens, of an
            engine that knows such a budget.
        shortest: tokens of the shortest completion of a state, likewise.
    """

    start: Callable[[], Any]
    fill: Callable[..., Any]
    commit: Callable[[Any, int], Any]
    in_place: bool
    targets: Callable[[MaskTable], Sequence[tuple[Any, ...]]]
    complete: Callable[[Any], bool] | None = None
    error_message: Callable[[Any], str | None] | None = None
    fork: Callable[[Any], Any] | None = None
    rollback: Callable[[Any, int], Any] | None = None
    fill_many: Callable[[list[Any], MaskTable], Any] | None = None
    memory: Callable[[], int] | None = None
    fill_within: Callable[[Any, Any, int], Any] | None = None
    shortest: Callable[[Any], int] | None = None

    def check(self, state: Any) -> None:
        """Asks an engine that does not raise whether a state went wrong.

        Raises:
            EngineFault: it did.
        """
        if self.error_message is not None and (message := self.error_message(state)):
            raise EngineFault(message)


class Engine(Protocol):
    """One engine over one vocabulary.

    Attributes:
        version: what is measured, for the record.

    An engine whose `compile` takes structural tags in place of schemas has ``structural_tags = True``. One that reads
    regular expressions and GBNF has ``compile_source(notation, text)``, which is otherwise like `compile`.
    """

    version: str

    def __init__(self, tokens: VocabularyData, threads: int) -> None:
        """Reads the vocabulary; takes as long as it takes, and is not part of any figure."""

    def compile(self, schema: Any, text: str) -> CompiledSchema:
        """Makes a schema ready.

        Args:
            schema: as Python values.
            text: the same as JSON text; an adapter takes the one its engine reads faster.

        Raises:
            Exception: the engine refuses the schema.
        """
        ...


def mask_slices(rows: MaskTable) -> list[tuple[Any, ...]]:
    """`CompiledSchema.targets` of an engine whose `fill` takes one row of numpy."""
    return [(row,) for row in rows]


def mask_addresses(rows: MaskTable) -> list[tuple[int, int]]:
    """`CompiledSchema.targets` of an engine whose `fill` takes an address and a number of bytes."""
    return [(row.ctypes.data, row.nbytes) for row in rows]


def table_indices(rows: MaskTable) -> list[tuple[Any, ...]]:
    """`CompiledSchema.targets` of an engine whose `fill` takes a table of rows and an index."""
    return [(rows, i) for i in range(len(rows))]
