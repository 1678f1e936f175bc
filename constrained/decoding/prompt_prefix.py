"""`PromptPrefix`: what prompts have in common is read once.

Prompts that differ only in their document begin alike: with instructions, a type and examples.
"""

from __future__ import annotations

from collections.abc import Sequence

from constrained.models import Cache, LanguageModel

_LEAST = 32
"""Tokens that two prompts must have in common: a pass of its own for fewer saves nothing."""


class PromptPrefix:
    """A cache of the prefix that the last prompts have in common. For one thread."""

    def __init__(self, model: LanguageModel) -> None:
        """Nothing is read yet.

        Args:
            model: reads the prompts.
        """
        self._model = model
        self._last: Sequence[int] = ()
        self._ids: list[int] = []
        self._cache: Cache | None = None

    def cache_for(self, prompt: Sequence[int]) -> tuple[Cache, int]:
        """A cache of one row for a prompt, and how many tokens of the prompt it has read already; never all of them.

        The prefix begins as that of two prompts, and becomes shorter until it is that of all. Prompts without it begin
        another one.
        """
        last, self._last = self._last, prompt
        if not self._model.reads_prompts_in_parts:
            return self._model.cache(1), 0
        longest = len(prompt) - 1
        common = min(_common(prompt, self._ids), longest)
        if common < _LEAST:
            common = min(_common(prompt, last), longest)
        if common < _LEAST:
            return self._model.cache(1), 0
        if self._cache is None or list(prompt[:common]) != self._ids:
            self._ids, self._cache = list(prompt[:common]), self._model.cache(1)
            self._model.forward([self._ids], self._cache)
        return self._cache.fork([0]), common

    def clear(self) -> None:
        """Drops the cache."""
        self._last, self._ids, self._cache = (), [], None


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Number of equal tokens at the start."""
    for i, (mine, theirs) in enumerate(zip(one, other)):  # noqa: B905 (of any lengths)
        if mine != theirs:
            return i
    return min(len(one), len(other))
