"""What followed what, and how often: a bounded table from contexts to their most frequent tokens."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import log2

MAX_TOKENS_PER_CONTEXT = 10
"""Tokens that an entry counts; the rarest makes room."""

TokenCounts = dict[int, int]


class ContextCounts:
    """A table context -> {token: count}.

    Attributes:
        limit: entries; when there are more, those that were made first are dropped.
    """

    def __init__(self, limit: int = 1 << 18) -> None:
        self.limit = limit
        self.entries: dict[Hashable, TokenCounts] = {}

    def learn(self, key: Hashable, token: int) -> None:
        """Counts a token after a context."""
        entry = self.entries.get(key)
        if entry is None:
            if len(self.entries) >= self.limit:
                for old in list(self.entries)[: self.limit // 8 + 1]:
                    del self.entries[old]
            self.entries[key] = {token: 1}
            return
        count = entry.get(token)
        if count is None and len(entry) >= MAX_TOKENS_PER_CONTEXT:
            del entry[min(entry, key=entry.__getitem__)]
        entry[token] = (count or 0) + 1


def witten_bell_blend(
    found: Iterable[tuple[int, TokenCounts]], kinds: int, width: int = MAX_TOKENS_PER_CONTEXT
) -> list[tuple[int, float, int]]:
    """One law out of the entries of several contexts, the most telling one first.

    Each entry gives its tokens their share, keeps back as much as its number of different tokens suggests for what it
    has not seen, and leaves that to the next one (prediction by partial matching, method C; Moffat 1990).

    Args:
        found: (order, entry), the most telling first.
        kinds: added to the kinds.
        width: guesses at most.

    Returns:
        Guesses, the likeliest first as far as each entry goes; the kind holds the order, whether the count is one,
        two or more, and the share, coarsely.
    """
    candidates: list[tuple[int, float, int]] = []
    seen: set[int] = set()
    left = 1.0
    for order, entry in found:
        total = sum(entry.values())
        share = left / (total + len(entry))
        for token, count in sorted(entry.items(), key=_by_count):
            if token not in seen:
                seen.add(token)
                p = count * share
                level = min(7, int(-log2(p) * 1.5)) if p < 1.0 else 0
                candidates.append((token, p, kinds + order * 64 + min(count, 4) * 8 + level))
        left -= share * total
        if len(candidates) >= width:
            break
    return candidates[:width]


def _by_count(item: tuple[int, int]) -> int:
    return -item[1]
