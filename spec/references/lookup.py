"""Prompt lookup (Saxena 2023; Yang et al. 2023): proposes what followed an earlier occurrence of the last tokens."""

from __future__ import annotations

from collections.abc import Sequence


def prompt_lookup(tokens: Sequence[int], *, max_ngram: int = 3, num_draft_tokens: int = 10) -> list[int]:
    """Drafts a chain of tokens.

    The last n tokens are searched in what came before them, n = max_ngram, max_ngram - 1, ..., 1; the earliest match
    for the largest n that has one is continued.

    Args:
        tokens: the sequence so far, the prompt included.
        max_ngram: tokens of the longest match, 1 or more.
        num_draft_tokens: greatest number of draft tokens.

    Returns:
        Up to `num_draft_tokens` tokens; none without a match.

    Raises:
        ValueError: `max_ngram` is less than 1, or `num_draft_tokens` is negative.
    """
    if max_ngram < 1 or num_draft_tokens < 0:
        raise ValueError(f"longest is {max_ngram}, most is {num_draft_tokens}: pass 1 or more, 0 or more")
    history = list(tokens)
    for size in range(min(max_ngram, len(history) - 1), 0, -1):
        tail = history[-size:]
        for begin in range(len(history) - size):
            if history[begin : begin + size] == tail:
                return history[begin + size : begin + size + num_draft_tokens]
    return []
