"""Checks of the arguments of kernels: shapes, types and devices, never contents.

Reading contents would synchronise with the device. Each function documents what its contents must be.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


class InvalidTensor(ValueError):
    """An argument of a kernel has the wrong shape, type or device.

    Attributes:
        name: of the argument.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} {problem}")
        self.name = name

    def __reduce__(self) -> tuple[type[InvalidTensor], tuple[str, str]]:
        return type(self), (self.name, str(self).removeprefix(f"{self.name} "))


def check_tensor(
    name: str,
    tensor: object,
    dtypes: tuple[torch.dtype, ...],
    shape: tuple[int | None, ...],
    like: torch.Tensor | None = None,
) -> None:
    """Checks that an argument is a tensor of one of these dtypes and this shape (None: any size) on the device of `like`.

    Raises:
        InvalidTensor: it is not.
    """
    if not isinstance(tensor, torch.Tensor):
        raise InvalidTensor(name, f"is {type(tensor).__name__}, not a tensor")
    if tensor.dtype not in dtypes:
        raise InvalidTensor(name, f"has dtype {tensor.dtype}, not {' or '.join(map(str, dtypes))}")
    fits = len(shape) == tensor.dim() and all(
        wanted in (None, size) for wanted, size in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise InvalidTensor(name, f"has shape {list(tensor.shape)}, not [{wanted}]")
    if tensor.dim() and tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise InvalidTensor(name, f"has stride {tensor.stride(-1)} in its last dimension, not 1")
    if like is not None and tensor.device != like.device:
        raise InvalidTensor(name, f"is on {tensor.device}, not on {like.device}")


def check_masks(mask_table: object, mask_ids: object, rows: int, like: torch.Tensor) -> None:
    """Checks a table of masks, and the index of a mask for each of `rows` rows."""
    check_tensor("mask_table", mask_table, (torch.int32,), (None, None), like)
    check_tensor("mask_ids", mask_ids, (torch.int32,), (rows,), like)


def uses_triton(tensor: torch.Tensor) -> bool:
    """Whether the Triton kernels run for a tensor: it is on a CUDA device, and triton is installed."""
    return tensor.is_cuda and find_spec("triton") is not None
