"""Attention of draft trees over caches whose rows stand in slots: all columns of the text, and of the tree a node's ancestors.

What a node sees of its tree is one bit for each node of a word, so there is no mask to make, store and read. On a device all
heads that share keys are rows of one product: keys and values are read once for them, also where a mask would make torch
copy them for every head. The text is split, and the parts are merged as in online softmax (Milakov & Gimelshein 2018), so
that one sequence keeps a whole device busy.
"""

from __future__ import annotations

import torch

from constrained.spec.kernels import checks

MAX_NODES = 64
"""Nodes of a tree: bits of a word."""
MAX_SIZE = 256
"""The largest size of a head."""


def tree_attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    lengths: torch.Tensor,
    words: torch.Tensor,
    depths: torch.Tensor,
    *,
    scale: float,
    window: int = 0,
) -> torch.Tensor:
    """Attention of the nodes of a tree in each slot. Sums are in float32.

    Args:
        queries: bfloat16, float16 or float32 ``[slots, heads, nodes, size]``, at most 64 nodes and a size of 256.
        keys: of the same type, ``[slots, key heads, columns, size]``, the last dimension contiguous. Heads are a multiple of
            key heads; head h uses key head ``h // (heads / key heads)``. Node j of a slot is at column
            ``lengths[slot] + j``; columns after the nodes are not read.
        values: as the keys.
        lengths: columns of the text in each slot, int64 ``[slots]``; ``lengths + nodes`` is at most `columns`.
        words: the nodes that a node sees: node j at bit j, its own bit set, int64 ``[slots, nodes]``.
        depths: of the nodes: their positions after the text, int64 ``[slots, nodes]``; read with a window only.
        scale: factor of the scores.
        window: positions that a node sees, with its own; 0: all.

    Returns:
        Type of the queries, ``[slots, nodes, heads, size]``.

    Raises:
        InvalidTensor: an argument has the wrong shape, type or device.
    """
    checks.check_tensor("queries", queries, checks.FLOATS, (None, None, None, None))
    slots, heads, nodes, size = queries.shape
    if not 0 < nodes <= MAX_NODES or not 0 < size <= MAX_SIZE:
        raise checks.InvalidTensor(
            "queries", f"has {nodes} nodes and a size of {size}, not 64 and 256 or less"
        )
    checks.check_tensor("keys", keys, (queries.dtype,), (slots, None, None, size), queries)
    groups, columns = keys.shape[1:3]
    if not groups or heads % groups:
        raise checks.InvalidTensor("keys", f"has {groups} heads, of which {heads} is no multiple")
    checks.check_tensor("values", values, (queries.dtype,), (slots, groups, columns, size), queries)
    checks.check_tensor("lengths", lengths, (torch.int64,), (slots,), queries)
    checks.check_tensor("words", words, (torch.int64,), (slots, nodes), queries)
    checks.check_tensor("depths", depths, (torch.int64,), (slots, nodes), queries)
    if window < 0:
        raise checks.InvalidTensor("window", f"is {window}, not 0 or more")
    compute = _operator if torch.compiler.is_compiling() else _compute
    output: torch.Tensor = compute(queries, keys, values, lengths, words, depths, scale, window)
    return output


def _compute(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    lengths: torch.Tensor,
    words: torch.Tensor,
    depths: torch.Tensor,
    scale: float,
    window: int,
) -> torch.Tensor:
    if checks.uses_triton(queries):
        from constrained.spec.kernels.gpu.attention import launch_tree_attention

        with torch.cuda.device(queries.device):
            return launch_tree_attention(queries, keys, values, lengths, words, depths, scale, window)
    return tree_attention_torch(queries, keys, values, lengths, words, depths, scale, window)


# An operator of torch, so that `torch.compile` takes it as a whole and compiles one graph around it.
_operator = torch.library.custom_op(
    "constrained::tree_attention",
    _compute,
    mutates_args=(),
    schema="(Tensor queries, Tensor keys, Tensor values, Tensor lengths, Tensor words, Tensor depths, "
    "float scale, int window) -> Tensor",
)


@_operator.register_fake
def _(queries: torch.Tensor, *others: object) -> torch.Tensor:
    slots, heads, nodes, size = queries.shape
    return queries.new_empty((slots, nodes, heads, size))


def tree_attention_torch(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    lengths: torch.Tensor,
    words: torch.Tensor,
    depths: torch.Tensor,
    scale: float,
    window: int,
) -> torch.Tensor:
    """`tree_attention` in torch."""
    slots, heads, nodes, size = queries.shape
    groups, columns = keys.shape[1:3]
    column = torch.arange(columns, device=queries.device)
    node = column - lengths[:, None]
    known = node.clamp(0, nodes - 1)
    own = ((words[:, :, None] >> known[:, None, :]) & 1 == 1) & ((node >= 0) & (node < nodes))[:, None, :]
    seen = own | (node < 0)[:, None, :]
    if window:
        places = torch.where(node < 0, column, lengths[:, None] + depths.gather(1, known))
        seen = seen & (places[:, None, :] > (lengths[:, None] + depths - window)[:, :, None])
    rows = queries.reshape(slots, groups, heads // groups * nodes, size).to(torch.float32)
    scores = (rows @ keys.to(torch.float32).transpose(2, 3) * scale).view(slots, groups, -1, nodes, columns)
    shares = scores.masked_fill(~seen[:, None, None], -torch.inf).softmax(dim=-1).flatten(2, 3)
    # What is not read may be anything, and 0 times NaN is NaN.
    read = (node < nodes)[:, None, :, None]
    output = shares @ values.to(torch.float32).masked_fill(~read, 0.0)
    return output.view(slots, heads, nodes, size).transpose(1, 2).to(queries.dtype).contiguous()
