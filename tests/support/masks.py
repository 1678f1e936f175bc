"""Vocabulary masks in tests: the difference of two masks, and the expected mask, token by token.

A mask is int32[ceil(V / 32)]; bit t % 32 of word t // 32 is set if token t is allowed.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.bitmask import pack_ids, unpack_ids
from tests.support.judge import RecognizerState, ReferenceRecognizer


class VocabularyLike(Hashable, Protocol):
    """The part of `constrained.Vocabulary` that masks need."""

    @property
    def tokens(self) -> Sequence[bytes]:
        """Bytes of every token id; empty ones are never allowed in text."""

    @property
    def eos_ids(self) -> Sequence[int]:
        """The ids that end a sequence."""


class MaskDifference(NamedTuple):
    """Token ids that only one of two masks allows; false when the masks agree."""

    only_first: tuple[int, ...]
    only_second: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.only_first or self.only_second)


def mask_diff(a: Any, b: Any) -> MaskDifference:
    """The token ids in which masks `a` and `b` (int32[words] each) differ.

    Raises:
        ValueError: the masks are of different lengths.
    """
    first, second = np.asarray(a), np.asarray(b)
    if first.shape != second.shape:
        raise ValueError(f"masks of different shapes: {first.shape} and {second.shape}")
    one, two = set(unpack_ids(first).tolist()), set(unpack_ids(second).tolist())
    return MaskDifference(tuple(sorted(one - two)), tuple(sorted(two - one)))


def brute_force_mask(
    recognizer: ReferenceRecognizer, prefix: bytes, vocabulary: VocabularyLike
) -> NDArray[np.int32]:
    """The expected mask after `prefix`: the recognizer reads every token, byte by byte.

    A common prefix of tokens is read once, and tokens after a prefix without completion are not read.

    Returns:
        int32[ceil(V / 32)]; EOS bits iff `prefix` is complete; all zero when `prefix` is not viable.
    """
    state = recognizer.after(prefix)
    size = len(vocabulary.tokens)
    if state is None:
        return pack_ids((), size)
    allowed = list(vocabulary.eos_ids) if state.complete else []
    work: list[tuple[_TokenTrieNode, RecognizerState]] = [(_tree(vocabulary), state)]
    while work:
        node, at = work.pop()
        for byte, child in node.children.items():
            after = at.step(byte)
            if after is not None:
                allowed += child.ids
                if child.children:
                    work.append((child, after))
    return pack_ids(allowed, size)


class _TokenTrieNode:
    """A prefix of tokens: the ids of those that end here, and the children by next byte."""

    __slots__ = ("children", "ids")

    def __init__(self) -> None:
        self.children: dict[int, _TokenTrieNode] = {}
        self.ids: list[int] = []


@functools.lru_cache(maxsize=4)
def _tree(vocabulary: VocabularyLike) -> _TokenTrieNode:
    root = _TokenTrieNode()
    special = set(vocabulary.eos_ids)
    for token, text in enumerate(vocabulary.tokens):
        if not text or token in special:
            continue
        node = root
        for byte in text:
            following = node.children.get(byte)
            if following is None:
                following = node.children[byte] = _TokenTrieNode()
            node = following
        node.ids.append(token)
    return root
