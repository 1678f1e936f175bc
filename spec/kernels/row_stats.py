"""`RowStats`, and `SplitStats`, of which it is merged; `constrained.spec.kernels.rows` says what they are for."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class SplitStats:
    """Statistics of the splits of rows of logits; input of `merge_splits`.

    Attributes:
        best: at least m packed keys and ids of every piece (see `constrained.spec.kernels.order`), in descending order,
            int64 ``[rows, splits, m or more]``.
        masses: largest z / T and sum of exp(z / T - largest), over all tokens and over the allowed ones, float32
            ``[rows, splits, 4]``.
        logits: the rows themselves, not a copy: they must not change before the last use of this object.
        temperature: float32 ``[rows]``.
        top_m: how many tokens a row has in the end.
    """

    best: torch.Tensor
    masses: torch.Tensor
    logits: torch.Tensor
    temperature: torch.Tensor
    top_m: int


@dataclass(frozen=True, slots=True)
class RowStats:
    """Statistics of rows of logits.

    Attributes:
        ids: the m best tokens, best first, int32 ``[rows, m]``; -1 where no more are possible (allowed, z > -inf).
        keys: their z / T + G, float32 ``[rows, m]``; -inf where the id is -1.
        log_p: their log-probability under the model after temperature, float32 ``[rows, m]``; -inf likewise.
        lse: log-sum-exp of z / T, float32 ``[rows]``; -inf if all z are, NaN if the row is not a distribution (a NaN or
            +inf in it), whose other entries then mean nothing.
        log_z: log of the mass that is allowed, float32 ``[rows]``; 0 without masks, -inf if nothing is possible.
    """

    ids: torch.Tensor
    keys: torch.Tensor
    log_p: torch.Tensor
    lse: torch.Tensor
    log_z: torch.Tensor
