"""What others guess with: prompt lookup (Saxena 2023), as transformers has it."""

from __future__ import annotations

from collections.abc import Sequence

_MATCH = 3  # tokens that are looked up at most
_AHEAD = 10


def prompt_lookup(said: Sequence[int]) -> list[int]:
    """The tokens after the latest earlier occurrence of the last tokens; the longest match counts.

    Args:
        said: ids of the prompt and of the text so far.
    """
    for length in range(min(_MATCH, len(said) - 1), 0, -1):
        end = tuple(said[-length:])
        for at in range(len(said) - length - 1, -1, -1):
            if tuple(said[at : at + length]) == end:
                return list(said[at + length : at + length + _AHEAD])
    return []
