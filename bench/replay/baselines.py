"""A baseline: prompt lookup (Saxena 2023)."""

from __future__ import annotations

from collections.abc import Sequence

_MATCH = 3  # tokens that are looked up at most
_AHEAD = 10


def prompt_lookup(tokens: Sequence[int]) -> list[int]:
    """The tokens after the latest earlier occurrence of the last tokens; the longest match counts.

    Args:
        tokens: ids of the prompt and of the text so far.
    """
    for length in range(min(_MATCH, len(tokens) - 1), 0, -1):
        end = tuple(tokens[-length:])
        for at in range(len(tokens) - length - 1, -1, -1):
            if tuple(tokens[at : at + length]) == end:
                return list(tokens[at + length : at + length + _AHEAD])
    return []
