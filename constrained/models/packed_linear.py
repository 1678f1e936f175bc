"""Linear layers of a model on a CPU whose weights are laid out for oneDNN once, in place of anew in each pass.

`torch.nn.functional.linear` hands oneDNN the weights row by row, which for a few tokens (a draft tree, a batch) are put into the
blocks of its kernels each time: two tokens then cost more than one and a half times a single one. `PackedLinear` keeps the blocks
and nothing else, so that memory stays what it was, but for an output layer that shares its weights with the embeddings, which
keep the rows. The logits are those of the model up to the rounding of its dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import torch
from torch import nn

from constrained.errors import ModelError

MIN_WEIGHTS = 1 << 18
"""Weights of a layer; calling oneDNN takes longer than it saves for smaller ones (measured: from 576 x 576 on it is faster)."""

_DTYPES = (torch.float32, torch.bfloat16)
_ROWS = 16
"""Tokens of the pass that the blocks are chosen for."""


class PackedLinear(nn.Linear):
    """A linear layer that reads its weight in the blocks of oneDNN; `weight` is these blocks, or rows that embeddings share.

    Moved, converted to another dtype, or saved it is a `torch.nn.Linear` again.
    """

    _blocks: torch.Tensor

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The layer's outputs, ``[..., out_features]``, of inputs ``[..., in_features]``.

        Raises:
            ModelError: gradients are asked for.
        """
        if input.requires_grad and torch.is_grad_enabled():
            raise ModelError(
                "the weights of this model are packed for inference and have no gradients",
                action="call it under torch.no_grad(), or load the model with packed=False",
            )
        packed: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            input, self._blocks, self.bias, "none", [], ""
        )
        return packed

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        """See `torch.nn.Module._apply`: what moves and converts a layer."""
        _unpack(self)
        return self._apply(fn, recurse)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = _rows(self).detach()

    def __getstate__(self) -> dict[str, Any]:
        """With the weight in rows, as oneDNN's blocks belong to this process."""
        state = {**self.__dict__, "_parameters": {**self._parameters, "weight": _rows(self)}}
        state["_keeps_rows"] = state.pop("_blocks") is not self.weight
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        keeps_rows = state.pop("_keeps_rows")
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        _pack(self, keeps_rows=keeps_rows)


def no_packing(model: nn.Module) -> str | None:
    """Why the weights of a model cannot be packed; None where they can."""
    if any(parameter.device.type != "cpu" for parameter in model.parameters()):
        return "the model is not on the CPU alone"
    if getattr(model, "hf_device_map", None) or getattr(model, "hf_quantizer", None):
        return "its layers are those of a device map, or quantised"
    operators = torch.ops.mkldnn
    if not hasattr(operators, "_reorder_linear_weight") or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return "this build of torch has no oneDNN"
    if not any(map(_fits, model.modules())):
        return f"it has no linear layer of {MIN_WEIGHTS} weights or more in float32 or bfloat16"
    return None


def pack(model: nn.Module) -> None:
    """Packs the large linear layers of a model for which `no_packing` is None."""
    embeddings = {id(layer.weight) for layer in model.modules() if isinstance(layer, nn.Embedding)}
    for layer in model.modules():
        if _fits(layer):
            _pack(layer, keeps_rows=id(layer.weight) in embeddings)


def unpack(model: nn.Module) -> None:
    """Makes every packed layer a `torch.nn.Linear` again."""
    for layer in model.modules():
        if isinstance(layer, PackedLinear):
            _unpack(layer)


def _fits(layer: nn.Module) -> TypeGuard[nn.Linear]:
    # Subclasses are somebody else's: quantised layers, layers with adapters, PackedLinear.
    return type(layer) is nn.Linear and layer.weight.numel() >= MIN_WEIGHTS and layer.weight.dtype in _DTYPES


def _pack(layer: nn.Linear, *, keeps_rows: bool) -> None:
    blocks = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), _ROWS)
    if not keeps_rows:
        layer.weight = blocks = nn.Parameter(blocks, requires_grad=False)
    layer.__class__ = PackedLinear
    object.__setattr__(layer, "_blocks", blocks)  # no second parameter


def _unpack(layer: PackedLinear) -> None:
    layer.weight = _rows(layer)
    object.__delattr__(layer, "_blocks")
    layer.__class__ = nn.Linear  # type: ignore[assignment]


def _rows(layer: PackedLinear) -> nn.Parameter:
    """The weight in rows."""
    if not layer.weight.is_mkldnn:
        return layer.weight  # type: ignore[return-value]
    return nn.Parameter(layer.weight.detach().to_dense(), requires_grad=False)
