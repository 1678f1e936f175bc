"""What drafters know before the first completion: what JSON texts under many schemas have in common.

A prior is a file of counts, and needs no vocabulary: which words follow in a slot of a JSON value, by the names on the path
to it, by what was written in it, and by its shape alone; which words follow words; how reliable each kind of draft token
was. A word is never cut by a token (`constrained.spec._core.word_ends`). `constrained bench prior` writes it; each count in it is of
something that occurs under several schemas.

It is spelled in the tokens of a vocabulary when it is first used there; memories that begin with it share its tables.
"""

from __future__ import annotations

import atexit
import gzip
import json
import threading
import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from constrained.spec import _core
from constrained.spec.memory import DraftMemory, retokenizer
from constrained.spec.packing import WordCounts, packed, unpacked
from constrained.spec.protocols import DraftVocabulary

_FORMAT = 5
_FILE = "prior.json.gz"
_CUT = "\0"
"""Between the first word of an n-gram and the others."""


@dataclass(frozen=True)
class DraftPrior:
    """Counts over the texts of many schemas.

    Attributes:
        about: where the texts come from, and what was counted.
        learned: keys of the rows that were counted, see `row_key`: benches do not measure with them.
        slots: by order of the slots: a JSON text that ends in a slot -> the words that follow, and how often.
        ngrams: words -> the words that follow them, and how often; the first word ends at a NUL.
        kinds: (kind of draft token, accepted, proposed).
        weights: of the mixer.
    """

    about: dict[str, Any] = field(default_factory=dict)
    learned: frozenset[int] = frozenset()
    slots: dict[int, dict[str, WordCounts]] = field(default_factory=dict)
    ngrams: dict[str, WordCounts] = field(default_factory=dict)
    kinds: tuple[tuple[int, float, float], ...] = ()
    weights: tuple[float, ...] = ()

    def save(self, path: Path) -> None:
        """Writes the file; the same counts give the same bytes.

        Raises:
            OSError: the file cannot be written.
        """
        text = json.dumps(
            {
                "format": _FORMAT,
                "about": self.about,
                "learned": [after - before for before, after in pairwise([0, *sorted(self.learned)])],
                "slots": {str(order): packed(table) for order, table in self.slots.items()},
                "ngrams": packed(self.ngrams),
                "kinds": self.kinds,
                "weights": self.weights,
            },
            ensure_ascii=False,
            separators=(",", ":"),
        )
        path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))

    @classmethod
    def load(cls, data: bytes) -> DraftPrior:
        """Reads the bytes of a file that `save` wrote.

        Raises:
            ValueError: they are no prior, or of another format.
        """
        try:
            content = json.loads(gzip.decompress(data))
            if content["format"] != _FORMAT:
                raise ValueError(f"format {content['format']!r}")
            return cls(
                content["about"],
                frozenset(accumulate(content["learned"])),
                {int(order): unpacked(table) for order, table in content["slots"].items()},
                unpacked(content["ngrams"]),
                tuple((kind, hits, trials) for kind, hits, trials in content["kinds"]),
                tuple(content["weights"]),
            )
        except (OSError, EOFError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"not a draft prior: {error!r}") from error

    def memory(self, vocabulary: DraftVocabulary) -> DraftMemory:
        """A memory over a vocabulary that has learned the counts, and nothing else."""
        core, pieces = _core.Memory(), retokenizer(vocabulary)
        for order, slots in self.slots.items():
            for opening, words in _rarest_texts_first(slots):
                core.teach_slots(pieces, order, opening, _rarest_first(words))
        for text, words in _rarest_texts_first(self.ngrams):
            first, _, rest = text.partition(_CUT)
            core.teach_ngrams(pieces, first + rest, len(first.encode()), _rarest_first(words))
        if self.weights:
            kinds = [(kind, (hits, trials)) for kind, hits, trials in self.kinds]
            core.restore_calibration(kinds, list(self.weights))
        return DraftMemory(core)


def row_key(name: str) -> int:
    """What a prior remembers of the name of a row that it was fitted to."""
    return zlib.crc32(name.encode())


def ngram_key(words: list[str]) -> str:
    """How the words before an n-gram's last one are written in `DraftPrior.ngrams`."""
    return words[0] + _CUT + "".join(words[1:]) if words else _CUT


@lru_cache(1)
def shipped_prior() -> DraftPrior:
    """The prior that comes with the library."""
    return DraftPrior.load(resources.files("constrained.spec").joinpath(_FILE).read_bytes())


_memories: WeakKeyDictionary[DraftVocabulary, DraftMemory] = WeakKeyDictionary()
_memories_lock = threading.Lock()
atexit.register(_memories.clear)  # see constrained.spec.memory


def new_memory(vocabulary: DraftVocabulary) -> DraftMemory:
    """A memory over a vocabulary that starts from the prior of the library."""
    with _memories_lock:
        known = _memories.get(vocabulary)
        if known is None:
            known = _memories[vocabulary] = shipped_prior().memory(vocabulary)
    return known.fork()


# What comes later displaces what is rarest in a full entry; and tables do not depend on how the counts are ordered.
def _rarest_texts_first(table: dict[str, WordCounts]) -> list[tuple[str, WordCounts]]:
    return sorted(table.items(), key=lambda item: (max(item[1].values()), item[0]))


def _rarest_first(words: WordCounts) -> list[tuple[str, int]]:
    return sorted(words.items(), key=lambda item: (item[1], item[0]))
