"""Keys as integers whose order is the order of draws: the larger key first, of equal keys the lower id.

    high 32 bits    the float32 key, its bits arranged so that integers compare as the floats do (-0 as 0)
    low 32 bits     2**32 - 1 - id

One 64-bit maximum, sort or top-k then also breaks ties, identically on every device.
"""

from __future__ import annotations

import torch

_WORD = 0xFFFFFFFF
_REST = 0x7FFFFFFF


def pack_keys(keys: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """int64 of float32 keys (no NaN) and int64 ids, of shapes that broadcast."""
    bits = torch.where(keys == 0, 0.0, keys).view(torch.int32).to(torch.int64)
    ordered = torch.where(bits < 0, bits ^ _REST, bits)
    return (ordered << 32) | (_WORD - ids)


def keys_of(packed: torch.Tensor) -> torch.Tensor:
    """The float32 keys in packed int64."""
    ordered = packed >> 32
    return torch.where(ordered < 0, ordered ^ _REST, ordered).to(torch.int32).view(torch.float32)


def ids_of(packed: torch.Tensor) -> torch.Tensor:
    """The ids in packed int64, as int32; -1 where the key is -inf: such a token cannot be drawn."""
    ids = (_WORD - (packed & _WORD)).to(torch.int32)
    return torch.where(keys_of(packed) == -torch.inf, -1, ids)
