"""Linear layers of a model on a CPU whose weights are laid out once for the matrix product of a few tokens, in place of in each pass.

A pass over a token, a draft tree or a batch waits for the weights to come out of memory. `PackedLinear` keeps them

- as float16, where that holds them without a loss, as those of checkpoints in bfloat16 and float16: FBGEMM multiplies them with
  inputs in float32 and reads half the bytes;
- in the blocks of oneDNN, otherwise: `torch.nn.functional.linear` makes them anew in each pass.

The rows go, but for those of an output layer that shares them with the embeddings. The logits are those of the model up to the
rounding of its dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeGuard

import torch
from torch import nn

from constrained.errors import ModelError

MIN_WEIGHTS = 1 << 16
"""Weights of a layer; smaller ones fit in the processor's cache and gain nothing."""

_ROWS = 16
"""Tokens of the pass that the blocks of oneDNN are chosen for."""
_LOST = 2.0**-36
"""Of a layer's largest weight: what others may lose as float16. A sum of products in float32 has an error of 2^-24 of its largest."""


class _Blocks:
    """Weights in the blocks of oneDNN."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._blocks = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS)

    def multiply(self, inputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(inputs, self._blocks, bias, "none", [], "")
        return product

    def rows(self) -> torch.Tensor:
        rows: torch.Tensor = self._blocks.to_dense()
        return rows


class _Float16:
    """Weights as float16 numbers times a power of two, in the layout of FBGEMM."""

    def __init__(self, weight: torch.Tensor, scale: float) -> None:
        self._scale = scale
        self._packed = torch.ops.quantized.linear_prepack_fp16((weight * scale).contiguous(), None)

    def multiply(self, inputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        scaled = inputs.float() / self._scale
        product: torch.Tensor = torch.ops.quantized.linear_dynamic_fp16(scaled, self._packed)
        return product if bias is None else product.add_(bias)

    def rows(self) -> torch.Tensor:
        rows: torch.Tensor = torch.ops.quantized.linear_unpack_fp16(self._packed)[0]
        return rows / self._scale


class PackedLinear(nn.Linear):
    """A linear layer of packed weights; `weight` is its rows where embeddings share them, and NaN elsewhere.

    Moved, converted to another dtype, or saved it is a `torch.nn.Linear` again.
    """

    _held: _Blocks | _Float16
    _keeps_rows: bool

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
        return self._held.multiply(input, self.bias)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        """See `torch.nn.Module._apply`: what moves and converts a layer."""
        _unpack(self)
        return self._apply(fn, recurse)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = _rows(self).detach()

    def __getstate__(self) -> dict[str, Any]:
        """With the weight in rows, as packed weights belong to this process."""
        state = {**self.__dict__, "_parameters": {**self._parameters, "weight": _rows(self)}}
        del state["_held"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        _pack(self, keeps_rows=self._keeps_rows)


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
        types = " or ".join(str(dtype).removeprefix("torch.") for dtype in _dtypes())
        return f"it has no linear layer of {MIN_WEIGHTS} weights or more in {types}, which this processor multiplies"
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
    return (
        type(layer) is nn.Linear and layer.weight.numel() >= MIN_WEIGHTS and layer.weight.dtype in _dtypes()
    )


def _dtypes() -> list[torch.dtype]:
    """Those that oneDNN multiplies here: it refuses bfloat16 on processors without AVX-512."""
    wide = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return [torch.float32, torch.bfloat16] if wide else [torch.float32]


def _pack(layer: nn.Linear, *, keeps_rows: bool) -> None:
    weight = layer.weight.detach()
    scale = _float16_scale(weight)
    held = _Blocks(weight) if scale is None else _Float16(weight, scale)
    if not keeps_rows:
        placeholder = torch.full((), torch.nan, dtype=weight.dtype).expand(weight.shape)
        layer.weight = nn.Parameter(placeholder, requires_grad=False)
    layer.__class__ = PackedLinear
    layer.__dict__.update(_held=held, _keeps_rows=keeps_rows)


def _float16_scale(weight: torch.Tensor) -> float | None:
    """A power of two that makes the weights float16 numbers, if there is one, and FBGEMM."""
    usable = torch.backends.quantized.engine in ("fbgemm", "x86") and weight.dtype == torch.float32
    largest = float(weight.abs().max()) if usable else 0.0
    if not 0.0 < largest < math.inf:
        return None
    scale = 2.0 ** (15 - math.frexp(largest)[1])
    lost = (weight * scale).half().float().div_(scale).sub_(weight).abs_().max()
    return scale if float(lost) <= _LOST * largest else None


def _unpack(layer: PackedLinear) -> None:
    layer.weight = _rows(layer)
    del layer.__dict__["_held"], layer.__dict__["_keeps_rows"]
    layer.__class__ = nn.Linear  # type: ignore[assignment]


def _rows(layer: PackedLinear) -> nn.Parameter:
    """The weight in rows."""
    if layer._keeps_rows:
        return layer.weight  # type: ignore[return-value]
    return nn.Parameter(layer._held.rows(), requires_grad=False)
