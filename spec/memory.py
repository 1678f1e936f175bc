"""What speculation learns across sequences: n-gram tables, and acceptance counts of each draft source.

The tables are native, bounded, and belong to one vocabulary.
"""

from __future__ import annotations

import atexit
import os
import threading
import zipfile
from collections import OrderedDict
from weakref import WeakKeyDictionary

from constrained.spec import _core
from constrained.spec.acceptance import INITIAL_FACTORS, AcceptanceTable
from constrained.spec.protocols import DraftVocabulary

_FORMAT = 6
MAX_CONSTRAINTS = 64
"""Constraints whose own tables are kept; the least recently used one is evicted."""
MAX_BYTES = 1 << 28
"""Of the tables of all constraints of a memory, about; likewise. The tables of one constraint take 200 MB at most."""


_retokenizers: WeakKeyDictionary[DraftVocabulary, _core.Retokenizer] = WeakKeyDictionary()
_retokenizers_lock = threading.Lock()
# Other libraries keep modules alive after the interpreter has ended; no native object may be left in them then.
atexit.register(_retokenizers.clear)


def retokenizer(vocabulary: DraftVocabulary) -> _core.Retokenizer:
    """Splits bytes into tokens of a vocabulary (native); created once for each vocabulary."""
    with _retokenizers_lock:
        known = _retokenizers.get(vocabulary)
        if known is None:
            ends, blob = [0], b"".join(vocabulary.tokens)
            for token in vocabulary.tokens:
                ends.append(ends[-1] + len(token))
            known = _retokenizers[vocabulary] = _core.Retokenizer(blob, ends)
        return known


class ConstraintMemory:
    """What was learned under one constraint.

    Attributes:
        core: the native tables.
        primed: an example completion was learned.
        begun: a completion was begun.
        size: bytes of the tables when they were last asked for.
    """

    def __init__(self) -> None:
        self.core = _core.ConstraintMemory()
        self.primed = False
        self.begun = False
        self.size = 0


class DraftMemory:
    """What was learned over one vocabulary. Safe to share between threads.

    Attributes:
        core: the native tables, which have a lock of their own.
        acceptance: predicted and actual acceptances of draft tokens, by whether completions under the constraint were begun
            before, whether there is a prompt, and whether tokens are drawn at a temperature.
    """

    def __init__(self, core: _core.Memory | None = None) -> None:
        """An empty memory, or one with the given tables."""
        self.core = core or _core.Memory()
        self.acceptance = {known: AcceptanceTable(factors) for known, factors in INITIAL_FACTORS.items()}
        self._lock = threading.Lock()
        self._by_constraint: OrderedDict[str, ConstraintMemory] = OrderedDict()

    def fork(self) -> DraftMemory:
        """A memory that begins with the tables of this one, which must not learn any more.

        What belongs to single constraints is left out. The tables are shared, so it costs next to nothing.
        """
        return DraftMemory(self.core.fork())

    def save(self, path: str | os.PathLike[str], vocabulary: str) -> None:
        """Writes the tables that do not belong to one constraint; replaces an existing file atomically.

        Args:
            path: of the file, a numpy archive.
            vocabulary: its fingerprint: token ids have no meaning over another vocabulary.

        Raises:
            OSError: the file cannot be written.
        """
        import numpy as np

        (ngrams, slots), (kinds, weights) = self.core.dump_tables(), self.core.dump_calibration()
        temporary = f"{os.fspath(path)}.{os.getpid()}.new"
        with open(temporary, "wb") as file:
            np.savez_compressed(
                file,
                format=np.array(_FORMAT),
                vocabulary=np.array(vocabulary),
                ngrams=np.array(ngrams, dtype=np.uint64),
                slots=np.array(slots, dtype=np.uint64),
                kinds=np.array([kind for kind, _ in kinds], dtype=np.uint32),
                counts=np.array([count for _, count in kinds], dtype=np.float64).reshape(-1, 2),
                weights=np.array(weights, dtype=np.float64),
            )
        os.replace(temporary, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], vocabulary: str, tokens: int) -> DraftMemory:
        """Reads a file that `save` wrote.

        Args:
            path: of the file.
            vocabulary: fingerprint of the vocabulary.
            tokens: size of the vocabulary.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is not a draft memory, is damaged, or belongs to another vocabulary.
        """
        import numpy as np

        memory = cls()
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                if int(archive["format"]) != _FORMAT or str(archive["vocabulary"]) != vocabulary:
                    raise ValueError("another format or vocabulary")
                counts = [tuple(pair) for pair in archive["counts"].tolist()]
                kinds = list(zip(archive["kinds"].tolist(), counts, strict=True))
                memory.core.restore_tables(archive["ngrams"].tolist(), archive["slots"].tolist(), tokens)
                memory.core.restore_calibration(kinds, archive["weights"].tolist())
        except (KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{os.fspath(path)} is not a draft memory: {error}") from error
        return memory

    def for_constraint(self, constraint: str) -> ConstraintMemory:
        """What was learned under a constraint, by its key."""
        with self._lock:
            all_known = self._by_constraint
            memory = all_known.pop(constraint, None) or ConstraintMemory()
            all_known[constraint] = memory
            memory.size = self.core.bytes_of(memory.core)
            total = sum(known.size for known in all_known.values())
            while len(all_known) > 1 and (len(all_known) > MAX_CONSTRAINTS or total > MAX_BYTES):
                _, evicted = all_known.popitem(last=False)
                total -= evicted.size
            return memory
