"""The rows of a batch as sequences of a context of llama.cpp."""

from __future__ import annotations

from collections.abc import Sequence

from constrained.models.base import Cache
from constrained.models.llama_cpp.memory import SequenceMemory


class LlamaCppCache(Cache):
    """A cache whose rows are sequences; copies of a row share what they have in common."""

    def __init__(self, memory: SequenceMemory, sequences: list[int], lengths: list[int]) -> None:
        """Owns its sequences.

        Args:
            memory: where they are.
            sequences: id of each row.
            lengths: tokens of each row.
        """
        self.memory = memory
        self.sequences = sequences
        self._lengths = lengths

    def __del__(self) -> None:
        self.memory.release(self.sequences)

    @property
    def lengths(self) -> list[int]:
        """Tokens read so far, per row."""
        return list(self._lengths)

    def keep(self, rows: Sequence[int]) -> None:
        """Keeps these rows, in this order; a row named twice becomes two sequences with the same cells."""
        again = [i for i, row in enumerate(rows) if row in rows[:i]]
        copies = self.memory.copies([self.sequences[rows[i]] for i in again])
        kept = [self.sequences[row] for row in rows]
        for i, copy in zip(again, copies, strict=True):
            kept[i] = copy
        self.memory.release(set(self.sequences) - set(kept))
        self.sequences, self._lengths = kept, [self._lengths[row] for row in rows]

    def keep_paths(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Keeps the first tokens of each chain that was read last."""
        before = [self._lengths[row] - self._read[row] for row in rows]
        self.keep(rows)
        for row, (sequence, start, path) in enumerate(zip(self.sequences, before, paths, strict=True)):
            end = start + len(path)
            if end < self._lengths[row]:
                self.memory.cut(sequence, end)
                self._lengths[row] = end

    def fork(self, rows: Sequence[int]) -> Cache:
        """An independent cache of these rows, which shares what they have read."""
        copies = self.memory.copies([self.sequences[row] for row in rows])
        return LlamaCppCache(self.memory, copies, [self._lengths[row] for row in rows])

    def join(self, other: Cache) -> None:
        """Appends the rows of another cache."""
        assert isinstance(other, LlamaCppCache)
        assert other.memory is self.memory
        self.sequences += other.sequences
        self._lengths += other._lengths
        other.sequences, other._lengths = [], []

    def advance(self, counts: Sequence[int]) -> None:
        """Says how many tokens were read at the end of each row; `keep_paths` may take them back."""
        self._read = list(counts)
        self._lengths = [length + count for length, count in zip(self._lengths, counts, strict=True)]
