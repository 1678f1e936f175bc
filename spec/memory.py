"""What drafting remembers beyond one text: tables that sources fill, and how often they were right.

Bounded, and bound to one vocabulary.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from typing import Any
from weakref import WeakKeyDictionary

from spec.calibration import AcceptanceCalibration
from spec.native import core as _core
from spec.protocols import DraftVocabulary
from spec.sources.counts import ContextCounts
from spec.sources.forced import ForcedLiterals
from spec.sources.recycle import RecycledTokens
from spec.sources.suffix import OutputHistory

_FORMAT = 1
MAX_CONSTRAINTS = 64
"""Constraints whose own tables are kept; the one that was not used for longest makes room."""


_pieces: WeakKeyDictionary[DraftVocabulary, Any] = WeakKeyDictionary()
_pieces_lock = threading.Lock()
atexit.register(
    _pieces.clear
)  # other libraries keep modules beyond the end: nothing native must be in there then


class ConstraintMemory:
    """What was learned under one constraint.

    Attributes:
        core: the same natively; None where the native module is missing.
        primed: whether a made-up text was shown.
        ngrams: contexts of tokens.
        slots: of JSON values.
        output_history: texts.
    """

    def __init__(self) -> None:
        self.core = None if _core is None else _core.ConstraintMemory()
        self.primed = False
        self.ngrams = ContextCounts(1 << 17)
        self.slots = ContextCounts(1 << 17)
        self.output_history = OutputHistory()


class DraftMemory:
    """What was learned over one vocabulary. Safe to share between threads: a draft holds the lock.

    Attributes:
        core: the same natively, with a lock of its own; None where the native module is missing.
        lock: held while anything here is read or changed.
        calibration: how often guesses came true.
        ngrams: contexts of tokens, under all constraints.
        slots: of JSON values, under all constraints.
        recycled_tokens: the model's runners-up.
    """

    def __init__(self) -> None:
        self.core = None if _core is None else _core.Memory()
        self.lock = threading.RLock()
        self.calibration = AcceptanceCalibration()
        self.ngrams = ContextCounts()
        self.slots = ContextCounts()
        self.recycled_tokens: RecycledTokens = {}
        self._scopes: OrderedDict[str, ConstraintMemory] = OrderedDict()

    def native_retokenizer(self, words: DraftVocabulary) -> Any:
        """How a vocabulary writes bytes, natively; made once for all memories."""
        with _pieces_lock:
            made = _pieces.get(words)
            if made is None:
                ends, blob = [0], b"".join(words.tokens)
                for token in words.tokens:
                    ends.append(ends[-1] + len(token))
                made = _pieces[words] = _core.Retokenizer(blob, ends)
            return made

    def save(self, path: str | os.PathLike[str], vocabulary: str) -> None:
        """Writes what does not belong to one constraint into a file, which replaces another one in one step.

        Args:
            path: of the file (a numpy archive).
            vocabulary: a fingerprint; token ids mean nothing over another one.

        Raises:
            OSError: the file cannot be written.
            RuntimeError: the native module is missing.
        """
        import numpy as np

        if self.core is None:
            raise RuntimeError("a memory is saved by the native module, which is missing")
        ngrams, slots, kinds = self.core.dump()
        beside = f"{os.fspath(path)}.{os.getpid()}.new"
        with open(beside, "wb") as file:
            np.savez_compressed(
                file,
                format=np.array(_FORMAT),
                vocabulary=np.array(vocabulary),
                ngrams=np.array(ngrams, dtype=np.uint64),
                slots=np.array(slots, dtype=np.uint64),
                kinds=np.array([kind for kind, _ in kinds], dtype=np.uint32),
                counts=np.array([count for _, count in kinds], dtype=np.float64).reshape(-1, 2),
            )
        os.replace(beside, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], vocabulary: str, tokens: int) -> DraftMemory:
        """Reads what `save` wrote.

        Args:
            path: of the file.
            vocabulary: its fingerprint.
            tokens: its size.

        Raises:
            OSError: the file cannot be read.
            ValueError: it holds something else, is damaged, or belongs to another vocabulary.
            RuntimeError: the native module is missing.
        """
        import zipfile

        import numpy as np

        made = cls()
        if made.core is None:
            raise RuntimeError("a memory is loaded by the native module, which is missing")
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                if int(archive["format"]) != _FORMAT or str(archive["vocabulary"]) != vocabulary:
                    raise ValueError("of another format or vocabulary")
                counts = [tuple(pair) for pair in archive["counts"].tolist()]
                kinds = list(zip(archive["kinds"].tolist(), counts, strict=True))
                made.core.restore(archive["ngrams"].tolist(), archive["slots"].tolist(), kinds, tokens)
        except (KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{os.fspath(path)} holds no memory: {error}") from error
        return made

    def for_constraint(self, constraint: str) -> ConstraintMemory:
        """What was learned under a constraint, by its key."""
        with self.lock:
            scope = self._scopes.setdefault(constraint, ConstraintMemory())
            self._scopes.move_to_end(constraint)
            while len(self._scopes) > MAX_CONSTRAINTS:
                self._scopes.popitem(last=False)
            return scope


__all__ = ["MAX_CONSTRAINTS", "ConstraintMemory", "DraftMemory", "ForcedLiterals"]
