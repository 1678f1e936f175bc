"""Certain bounds of P(L) from the draws of token samplers: what they have read, and nothing estimated.

The valid texts that were drawn have at least their own mass. At each prefix that was read, the draw knows an upper bound
of the permitted mass (`Draw.bounds`), so the rest is refused for certain; tokens that nobody drew count as valid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from constrained.sampling.trie import ROOT, Trie, above, below, log_total

_ROUNDING = 1e-12
"""More than a difference of two sums of probabilities is off by, relative to the larger one."""

_TINY = 5e-324
"""The smallest float: a bound that was rounded to 0 is below it."""


class SeenMass:
    """The prefixes and valid texts that a sampler has drawn, each with its mass under the model."""

    def __init__(self) -> None:
        self._trie = Trie()
        self._permitted: dict[int, float] = {}
        self._texts: dict[tuple[int, ...], float] = {}
        self._bounded = True

    def add(self, texts: Iterable[Any]) -> None:
        """Adds sequences, finished or not."""
        for text in texts:
            node = ROOT
            for i, draw in enumerate(text.draws):
                if draw.bounds is None:
                    self._bounded = False
                    return
                permitted = math.log(draw.bounds[1] + _TINY)
                self._permitted[node] = min(permitted, self._permitted.get(node, 0.0))
                if i < len(text.tokens):  # otherwise it is an end, or a dead end
                    node = self._trie.add_child(node, text.tokens[i], draw.logprob)
            if text.finish not in (None, "dead"):
                self._texts[tuple(text.tokens)] = text.logprob

    def bounds(self) -> tuple[float, float] | None:
        """Lower and upper bound of P(L); None where a draw had no bounds, as under truncation."""
        if not self._bounded:
            return None
        trie = self._trie
        for node in reversed(range(len(trie))):  # children come after their parents
            if node in self._permitted:
                permitted = self._permitted[node]
                drawn = log_total([trie.log_p[child] for child in trie.children(node)])
                rest = max(0.0, 1.0 - math.exp(min(0.0, drawn - permitted))) + _ROUNDING
                trie.log_rest[node] = permitted + math.log(rest)
                trie.log_theta[node] = min(0.0, trie.surviving_mass(node))
        upper = above(trie.log_theta[ROOT])
        return min(below(log_total(list(self._texts.values()))), upper), upper
