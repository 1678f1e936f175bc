"""Prompt lookup (Saxena 2023; Yang et al. 2023): what came after the same tokens before, comes again."""

from __future__ import annotations

from collections.abc import Sequence


def prompt_lookup(tokens: Sequence[int], *, longest: int = 3, most: int = 10) -> list[int]:
    """Guesses what follows: a chain, to be verified token by token.

    The last n tokens are searched in what came before them, n = longest, longest - 1, ..., 1; the earliest match
    of the first n that has one is continued.

    Args:
        tokens: everything so far, the prompt included.
        longest: tokens of the longest match, 1 or more.
        most: tokens to guess at most.

    Returns:
        Up to `most` tokens; none without a match.

    Raises:
        ValueError: `longest` is less than 1, or `most` is negative.
    """
    if longest < 1 or most < 0:
        raise ValueError(f"longest is {longest}, most is {most}: pass 1 or more, 0 or more")
    said = list(tokens)
    for size in range(min(longest, len(said) - 1), 0, -1):
        tail = said[-size:]
        for begin in range(len(said) - size):
            if said[begin : begin + size] == tail:
                return said[begin + size : begin + size + most]
    return []
