"""A document that a recorded value could have been extracted from.

It is made of the value: every string and every number of it stands in a sentence of its own, between sentences that
have nothing to do with it, in another order, without the names of the members, and in another spelling: strings
unescaped, one in ten of them in lower case; numbers from 1,000 on with separators for every other one; truth values,
nulls and empty strings not at all.
"""

from __future__ import annotations

import random
from typing import Any

_OPENINGS = (
    "It was noted that {}.",
    "The record mentions {} in passing.",
    "According to the file, {} was agreed.",
    "Somebody wrote down {}.",
    "{} came up more than once.",
    "There was also talk of {}.",
)
_FILLERS = (
    "Nothing else happened that day.",
    "The meeting was moved twice, and nobody minded.",
    "As far as anyone remembers, the weather was fine.",
    "Questions were left for another time.",
)


def make_document(value: Any, seed: int) -> str:
    """Prose that holds the leaves of a JSON value.

    Args:
        value: what will be extracted.
        seed: of order and spelling.
    """
    rng = random.Random(seed)
    leaves = [_spelled(leaf, rng) for leaf in _leaves(value)]
    sentences = [rng.choice(_OPENINGS).format(leaf) for leaf in leaves if leaf]
    sentences += [rng.choice(_FILLERS) for _ in range(1 + len(sentences) // 4)]
    rng.shuffle(sentences)
    return " ".join(sentences)


def _leaves(value: Any) -> list[Any]:
    found, stack = [], [value]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            stack += part.values()
        elif isinstance(part, list):
            stack += part
        elif part is not None and not isinstance(part, bool):
            found.append(part)
    return found


def _spelled(leaf: Any, rng: random.Random) -> str:
    if isinstance(leaf, str):
        return leaf.lower() if rng.random() < 0.1 else leaf
    if abs(leaf) >= 1000 and rng.random() < 0.5:
        return f"{leaf:,}"
    return str(leaf)
