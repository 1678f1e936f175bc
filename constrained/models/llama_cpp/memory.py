"""Sequences in a context of llama.cpp: keys and values of each, which copies share, in a memory that grows."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any

import llama_cpp as api
import numpy as np
from numpy.typing import NDArray

from constrained.errors import ModelError

_log = logging.getLogger("llama-cpp-python")
"""Its level decides what llama-cpp-python prints of llama.cpp's messages."""

_FIRST_CELLS = 1024
_FIRST_SEQUENCES = 16
_FULL = 1
"""What `llama_decode` returns when no cells are free; it has then changed nothing."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Tokens for the end of a sequence.

    Attributes:
        sequence: its id.
        start: position of the first token.
        tokens: at least one id.
        skip: number of first tokens that need no logits.
    """

    sequence: int
    start: int
    tokens: Sequence[int]
    skip: int


class SequenceMemory:
    """The sequences of one model. A cell has the keys and values of one token, for all sequences that share it.

    A context of llama.cpp has a fixed number of cells and sequences. One that is full is replaced by a larger one, into which
    its state is copied. Calls take turns; `release` may come from any thread at any time.
    """

    def __init__(self, llama: Any) -> None:
        """Allocates little.

        Args:
            llama: a `llama_cpp.Llama`: its weights and its settings are used, its own context is not.

        Raises:
            ModelError: there is no memory for a context.
        """
        self._llama = llama
        self._cells = _FIRST_CELLS
        self._sequences = _FIRST_SEQUENCES
        self._free = list(range(_FIRST_SEQUENCES))
        self._released: deque[int] = deque()
        self._turn = RLock()
        self._contexts = [self._open()]
        # The weights must outlive the context.
        weakref.finalize(self, _close, self._contexts, llama)

    def take(self, count: int) -> list[int]:
        """Ids of empty sequences.

        Raises:
            ModelError: llama.cpp has no more of them, or there is no memory.
        """
        with self._turn:
            while self._released:
                sequence = self._released.popleft()
                api.llama_memory_seq_rm(self._memory, sequence, -1, -1)
                self._free.append(sequence)
            while len(self._free) < count:
                most = api.llama_max_parallel_sequences()
                if self._sequences >= most:
                    raise ModelError(
                        f"llama.cpp holds {most} sequences at a time, and all are in use",
                        action="ask for fewer texts, particles or rows of a batch at once",
                    )
                more = min(2 * self._sequences, most)
                self._free += range(self._sequences, more)
                self._sequences = more
                self._replace()
            taken, self._free = self._free[:count], self._free[count:]
            return taken

    def copies(self, sequences: Sequence[int]) -> list[int]:
        """New sequences that go on like these; their cells are shared."""
        with self._turn:
            twins = self.take(len(sequences))
            for sequence, twin in zip(sequences, twins, strict=True):
                api.llama_memory_seq_cp(self._memory, sequence, twin, -1, -1)
            return twins

    def cut(self, sequence: int, length: int) -> None:
        """Keeps the first tokens of a sequence."""
        with self._turn:
            if not api.llama_memory_seq_rm(self._memory, sequence, length, -1):
                raise ModelError(
                    "this model cannot forget the last tokens of a sequence", action="pass speculation=None"
                )

    def release(self, sequences: Iterable[int]) -> None:
        """Frees sequences, at the next `take`: a finaliser that calls this waits for nobody."""
        self._released.extend(sequences)

    def read(self, readings: Sequence[Reading]) -> NDArray[np.float32]:
        """Reads tokens of several sequences, in as few passes as llama.cpp's batch size allows.

        Returns:
            Logits after the tokens that are not skipped, one sequence after the other, float32 [places, vocabulary].

        Raises:
            ModelError: llama.cpp cannot compute them, or there is no memory; the sequences are as before.
        """
        lengths = [len(reading.tokens) for reading in readings]
        tokens = np.fromiter((t for reading in readings for t in reading.tokens), np.int32, sum(lengths))
        sequences = np.repeat(np.array([reading.sequence for reading in readings], np.int32), lengths)
        positions = np.concatenate(
            [np.arange(r.start, r.start + len(r.tokens), dtype=np.int32) for r in readings]
        )
        wanted = np.concatenate([np.arange(len(r.tokens)) >= r.skip for r in readings]).astype(np.int8)
        width = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self._llama.model))
        logits = np.empty((int(wanted.sum()), width), np.float32)
        done = 0
        with self._turn:
            step = api.llama_n_batch(self._context)
            try:
                for begin in range(0, len(tokens), step):
                    part = slice(begin, begin + step)
                    self._decode(tokens[part], positions[part], sequences[part], wanted[part])
                    for place in np.flatnonzero(wanted[part]).tolist():
                        row = api.llama_get_logits_ith(self._context, place)
                        ctypes.memmove(logits[done].ctypes.data, row, 4 * width)
                        done += 1
            except ModelError:
                for reading in readings:
                    api.llama_memory_seq_rm(self._memory, reading.sequence, reading.start, -1)
                raise
        return logits

    @property
    def _context(self) -> Any:
        return self._contexts[0]

    @property
    def _memory(self) -> Any:
        return api.llama_get_memory(self._context)

    def _decode(
        self,
        tokens: NDArray[np.int32],
        positions: NDArray[np.int32],
        sequences: NDArray[np.int32],
        wanted: NDArray[np.int8],
    ) -> None:
        """One batch; the memory grows until it has room for it."""
        ones = np.ones(len(tokens), np.int32)
        addresses = (sequences.ctypes.data + sequences.itemsize * np.arange(len(tokens))).astype(np.uintp)
        batch = api.llama_batch()
        batch.n_tokens = len(tokens)
        for name, array in (
            ("token", tokens),
            ("pos", positions),
            ("n_seq_id", ones),
            ("logits", wanted),
            ("seq_id", addresses),
        ):
            kind = dict(api.llama_batch._fields_)[name]
            setattr(batch, name, ctypes.cast(array.ctypes.data, kind))
        with self._quiet():
            while (status := api.llama_decode(self._context, batch)) == _FULL:
                self._cells *= 2
                self._replace()
        if status:
            raise ModelError(
                f"llama.cpp cannot read these tokens (status {status})",
                action="load with verbose=True to see why",
            )

    def _open(self) -> Any:
        """An empty context of the current size."""
        settings = api.llama_context_params.from_buffer_copy(self._llama.context_params)
        settings.n_ctx = self._cells
        settings.n_seq_max = self._sequences
        settings.kv_unified = True  # copies share cells, and one sequence may have all of them
        settings.swa_full = True  # tokens behind a window come into it again when the last ones are cut off
        settings.embeddings = False
        with self._quiet():
            context = api.llama_init_from_model(self._llama.model, settings)
        if context is None:
            raise ModelError(
                f"there is no memory for the keys and values of {self._cells} tokens",
                action="use smaller batches, shorter prompts, or type_k and type_v of fewer bits",
            )
        return context

    @contextlib.contextmanager
    def _quiet(self) -> Iterator[None]:
        """Nothing is written about memory that is full and grows, unless the model was loaded with ``verbose=True``."""
        before = _log.level
        if not self._llama.verbose:
            _log.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            _log.setLevel(before)

    def _replace(self) -> None:
        """A larger context with the same state."""
        size = api.llama_state_get_size(self._context)
        state = (ctypes.c_uint8 * size)()
        api.llama_state_get_data(self._context, state, size)
        larger = self._open()
        if api.llama_state_set_data(larger, state, size) == 0:
            api.llama_free(larger)
            raise ModelError(
                "llama.cpp cannot copy its memory into a larger one", action="use smaller batches"
            )
        old, self._contexts[0] = self._contexts[0], larger
        api.llama_free(old)


def _close(contexts: list[Any], llama: Any) -> None:
    """Frees a context while its weights are still there."""
    while contexts:
        api.llama_free(contexts.pop())
    del llama
