"""Kernel B: verification of draft trees on the device: draw at a node, move to the child with that token, or stop.

A draft tree is three int32 arrays over its nodes: token, first_child, next_sibling, with the root as node 0 and -1 for
none. The root is the last committed token; the logits of a node are those of the token after it. Trees of several
requests are concatenated, so that the row of a node is the offset of its tree plus its index.

Only emitted tokens leave the device. It needs masks that are on the device (`mask_table` and `mask_ids` of
`split_stats`); where the host checks tokens with an automaton, it verifies by itself, with `row_stats`. Must not know: automata, sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch

from spec.kernels import checks, order
from spec.kernels.rows import SplitStats, merge_splits_torch


@dataclass(frozen=True, slots=True)
class VerifiedPaths:
    """The tokens that a step emits for every request.

    The first token is drawn from the row of the root, every further one from the row of an accepted node. The last one has
    no node in the tree.

    Attributes:
        num_tokens: how many tokens are emitted, int32 ``[requests]``; 0 where the root's row has no possible token.
        tokens: the tokens, int32 ``[requests, limit]``; -1 from `num_tokens` on, as in `rows`.
        rows: the row that each token was drawn from, int32 ``[requests, limit]``: rows[1:] are the accepted nodes.
        log_p: log-probability of each token under the model after temperature, float32 ``[requests, limit]``; 0 from
            `num_tokens` on, as in `log_z`.
        log_z: log of the mass that was allowed there, float32 ``[requests, limit]``.
    """

    num_tokens: torch.Tensor
    tokens: torch.Tensor
    rows: torch.Tensor
    log_p: torch.Tensor
    log_z: torch.Tensor


def verify_trees(
    stats: SplitStats,
    token: torch.Tensor,
    first_child: torch.Tensor,
    next_sibling: torch.Tensor,
    offsets: torch.Tensor,
    *,
    limit: int,
) -> VerifiedPaths:
    """Verifies the draft tree of every request.

    Args:
        stats: of the logits of all nodes, ``rows`` of them.
        token: of each node, int32 ``[rows]``; that of a root is not read.
        first_child: number of a node's first child in its own tree, int32 ``[rows]``; -1: none.
        next_sibling: number of the next child of its parent, int32 ``[rows]``; -1: none.
        offsets: where each tree starts, and where the last one ends, int32 ``[requests + 1]``, ascending.
        limit: tokens to emit at most for a request, 1 or more; depth of the deepest tree + 1 cuts nothing off.

    Raises:
        InvalidTensor: an argument has the wrong shape, type or device.
    """
    rows = len(stats.logits)
    for name, tensor in (("token", token), ("first_child", first_child), ("next_sibling", next_sibling)):
        checks.check_tensor(name, tensor, (torch.int32,), (rows,), stats.logits)
    checks.check_tensor("offsets", offsets, (torch.int32,), (None,), stats.logits)
    if len(offsets) < 1:
        raise checks.InvalidTensor("offsets", "is empty: it ends with the number of rows")
    if limit < 1:
        raise checks.InvalidTensor("limit", f"is {limit}, not 1 or more")
    if checks.uses_triton(stats.logits):
        from spec.kernels.gpu.walk import launch_verify_trees

        with torch.cuda.device(stats.logits.device):
            return launch_verify_trees(stats, token, first_child, next_sibling, offsets, limit)
    return verify_trees_torch(stats, token, first_child, next_sibling, offsets, limit)


def verify_trees_torch(
    stats: SplitStats,
    token: torch.Tensor,
    first_child: torch.Tensor,
    next_sibling: torch.Tensor,
    offsets: torch.Tensor,
    limit: int,
) -> VerifiedPaths:
    """`verify_trees` in torch and, for the walk itself, Python."""
    device = stats.logits.device
    rows = merge_splits_torch(stats)
    best = order.ids_of(stats.best[:, :, 0].amax(dim=1)).tolist()
    tokens, firsts, nexts, starts = (
        tensor.tolist() for tensor in (token, first_child, next_sibling, offsets)
    )
    paths = []
    for start, end in pairwise(starts):
        path: list[int] = []
        node = 0 if end > start else -1
        while node >= 0 and len(path) < limit and best[start + node] >= 0:
            path.append(start + node)
            drawn, child, node = best[start + node], firsts[start + node], -1
            for _ in range(end - start):  # a chain of siblings is never longer than the tree
                if child < 0 or tokens[start + child] == drawn:
                    node = child
                    break
                child = nexts[start + child]
        paths.append(path)
    row = torch.tensor([path + [-1] * (limit - len(path)) for path in paths], dtype=torch.int64)
    row = row.reshape(-1, limit).to(device)
    off, at = row < 0, row.clamp(min=0)
    if not len(stats.logits):
        empty = torch.zeros(row.shape, device=device)
        return VerifiedPaths(_int32(off.sum(1) * 0), _int32(row), _int32(row), empty, empty.clone())
    return VerifiedPaths(
        num_tokens=_int32((~off).sum(dim=1)),
        tokens=_int32(torch.where(off, -1, rows.ids[at, 0])),
        rows=_int32(row),
        log_p=torch.where(off, 0.0, rows.log_p[at, 0]),
        log_z=torch.where(off, 0.0, rows.log_z[at]),
    )


def _int32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.int32)
