"""Copies from the host to a device that the host does not wait for.

A copy from ordinary memory waits until the device has done all that it was asked for. Copies from pinned memory do not,
and torch keeps that memory until they are done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


def upload(device: torch.device, *arrays: NDArray[Any]) -> list[torch.Tensor]:
    """Arrays as tensors on a device, in one copy.

    Args:
        device: where to. On the host nothing is copied: an array must not be changed afterwards.
        arrays: of any shapes; the wider types come first, so that all are aligned.

    Returns:
        Tensors of the shapes and types of the arrays; on a device they are parts of one.
    """
    import torch

    if device.type == "cpu":
        return [torch.from_numpy(array) for array in arrays]
    pinned = device.type == "cuda"
    packed = torch.empty(sum(array.nbytes for array in arrays), dtype=torch.uint8, pin_memory=pinned)
    bytes_of, begin = packed.numpy(), 0
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        bytes_of[begin : begin + len(flat)] = flat
        begin += len(flat)
    copied, begin = packed.to(device, non_blocking=pinned), 0
    tensors = []
    for array in arrays:
        part = copied[begin : begin + array.nbytes].view(torch.from_numpy(array).dtype)
        tensors.append(part.view(array.shape))
        begin += array.nbytes
    return tensors
