"""Copies from the host to a device that the host does not wait for.

A copy from ordinary memory waits until the device has done all that it was asked for. Copies from pinned memory do not,
and torch keeps that memory until they are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


_ALIGNED = 16
"""Bytes that begins of arrays are multiples of: Triton compiles a kernel again for arguments that are not aligned so."""


class PassUpload:
    """The copies of one forward pass to a device; the first of them takes along what is needed after the pass.

    Attributes:
        device: where to.
    """

    def __init__(self, device: torch.device, later: Sequence[NDArray[Any]] = ()) -> None:
        """Copies nothing yet.

        Args:
            device: where to.
            later: arrays that are needed after the pass.
        """
        self.device = device
        self._later = list(later)
        self._copied: list[torch.Tensor] = []

    def __call__(self, *arrays: NDArray[Any]) -> list[torch.Tensor]:
        """See `upload`."""
        later, self._later = self._later, []
        if not later:
            return upload(self.device, *arrays)
        found = upload(self.device, *later, *arrays)
        self._copied = found[: len(later)]
        return found[len(later) :]

    @property
    def later(self) -> list[torch.Tensor]:
        """The arrays that are needed after the pass, on the device."""
        if self._later:
            self()
        return self._copied


def upload(device: torch.device, *arrays: NDArray[Any]) -> list[torch.Tensor]:
    """Arrays as tensors on a device, in one copy.

    Args:
        device: where to. On the host nothing is copied: an array must not be changed afterwards.
        arrays: of any shapes and types.

    Returns:
        Tensors of the shapes and types of the arrays; on a device they are parts of one.
    """
    import torch

    if device.type == "cpu":
        return [torch.from_numpy(array) for array in arrays]
    pinned = device.type == "cuda"
    begins, size = [], 0
    for array in arrays:
        size += -size % _ALIGNED
        begins.append(size)
        size += array.nbytes
    packed = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    bytes_of = packed.numpy()
    for array, begin in zip(arrays, begins, strict=True):
        bytes_of[begin : begin + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    copied = packed.to(device, non_blocking=pinned)
    return [
        copied[begin : begin + array.nbytes].view(torch.from_numpy(array).dtype).view(array.shape)
        for array, begin in zip(arrays, begins, strict=True)
    ]
