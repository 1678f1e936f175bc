"""Which words follow in the slots and after the words of many texts; only what occurs under several schemas is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from zlib import crc32

import numpy as np

from constrained.bench.replay.slots import openings
from constrained.spec.prior import ngram_key

LONGEST_NGRAM = 4
"""Words."""
NGRAMS = 0
"""The order under which n-grams are counted, beside those of slots."""

_BUCKETS = 1 << 24

Event = tuple[int, str, str]
"""An order, the opening or the words before, and the word that follows."""


def events(text: str) -> Iterator[Event]:
    """What follows what in a JSON text."""
    before: list[str] = []
    for word, found in openings(text):
        for order, opening in found.items():
            yield order, opening, word
        for size in range(min(LONGEST_NGRAM, len(before) + 1)):
            yield NGRAMS, ngram_key(before[len(before) - size :]), word
        before.append(word)
        del before[:-LONGEST_NGRAM]


def common_counts(
    texts: Iterable[list[str]], schemas: int, words: int
) -> dict[int, dict[str, dict[str, int]]]:
    """By order and opening: the most frequent words that follow.

    Args:
        texts: the texts of each schema; read twice.
        schemas: under how many different schemas something has to occur.
        words: kept for each opening.
    """
    texts = list(texts)
    # First in buckets, so that what occurs only once need not be stored.
    buckets = np.zeros(_BUCKETS, np.uint16)
    for of_schema in texts:
        hashed = {_bucket(event) for text in of_schema for event in events(text)}
        buckets[np.fromiter(hashed, np.int64, len(hashed))] += 1
    often, found = Counter[Event](), Counter[Event]()
    for of_schema in texts:
        here = Counter(
            event for text in of_schema for event in events(text) if buckets[_bucket(event)] >= schemas
        )
        found.update(here)
        often.update(here.keys())
    kept: dict[int, dict[str, dict[str, int]]] = {}
    for (order, opening, word), count in found.most_common():
        if often[order, opening, word] >= schemas:
            following = kept.setdefault(order, {}).setdefault(opening, {})
            if len(following) < words:
                following[word] = count
    return kept


def _bucket(event: Event) -> int:
    return crc32("\0".join((str(event[0]), *event[1:])).encode("utf-8", "surrogatepass")) % _BUCKETS
