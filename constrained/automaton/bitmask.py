"""Token bitmasks: int32 words in which token t is bit ``t % 32`` of word ``t // 32``, and token ids.

Must not know: automata, vocabularies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Bitmask: TypeAlias = NDArray[np.int32]
"""A mask ``[words]``, or masks ``[..., words]``, int32."""


def word_count(size: int) -> int:
    """Words of a mask over `size` token ids."""
    return -(-size // 32)


def zero_mask(size: int, count: int | None = None) -> Bitmask:
    """A mask that allows nothing, int32 ``[words]``; with `count`, masks ``[count, words]``."""
    words = word_count(size)
    return np.zeros(words if count is None else (count, words), dtype=np.int32)


def pack_ids(ids: Iterable[int], size: int) -> Bitmask:
    """The mask over `size` token ids that allows `ids`, int32 ``[words]``."""
    bits = np.zeros(word_count(size) * 32, dtype=np.uint8)
    bits[list(ids)] = 1
    return np.packbits(bits, bitorder="little").view("<i4").astype(np.int32, copy=False)


def unpack_bits(mask: Bitmask) -> NDArray[np.bool_]:
    """Which tokens a mask allows: int32 ``[..., words]`` -> bool ``[..., 32 words]``."""
    octets = np.ascontiguousarray(mask, dtype="<i4").view(np.uint8)
    return np.unpackbits(octets, axis=-1, bitorder="little").view(np.bool_)


def unpack_ids(mask: Bitmask) -> NDArray[np.intp]:
    """The ids that a mask ``[words]`` allows, ascending."""
    return np.flatnonzero(unpack_bits(mask))  # numpy finds booleans several times faster than integers


def allow_only(mask: Bitmask, token: int) -> None:
    """Makes a mask int32 ``[words]`` allow one token."""
    mask[...] = 0
    mask.view(np.uint32)[token >> 5] = 1 << (token & 31)


def allows(mask: Bitmask, token: int) -> bool:
    """Whether a mask ``[words]`` allows one token."""
    return bool(mask[token >> 5] >> (token & 31) & 1)
