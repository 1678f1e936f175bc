"""Attention of draft trees on a device: `tree_attention` beside torch's with a mask, by length of the text.

Torch has two ways for heads that share keys: `scaled_dot_product_attention` shares them itself (`enable_gqa`), or keys and values
are copied for each head first, as transformers does where a pass has a mask. Both get their mask ready made. A pass of one node
needs no mask: `no mask` is torch's fastest way then, and no tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from constrained.bench.device.kernels import Timer
from constrained.bench.harness.settings import Progress
from constrained.bench.harness.tables import ReportTable
from constrained.cli.intervals import NO_VALUE
from constrained.models.attention_masks import ancestor_words
from constrained.spec.kernels import tree_attention


@dataclass(frozen=True, slots=True)
class AttentionBenchSettings:
    """What to measure, of one layer with one text.

    Attributes:
        lengths: tokens of the text.
        nodes: of the tree, a chain.
        heads: of the queries, a multiple of `groups`.
        groups: heads of keys and values.
        size: of a head.
        memory: bytes from which keys and values are taken in turn: between two passes of a layer, others use the device's cache.
        seed: of the data.
    """

    lengths: tuple[int, ...] = (128, 1024, 8192, 32768)
    nodes: tuple[int, ...] = (1, 8, 64)
    heads: int = 32
    groups: int = 8
    size: int = 128
    memory: int = 256 << 20
    seed: int = 0


@dataclass(frozen=True, slots=True)
class AttentionTiming:
    """One measurement.

    Attributes:
        length: tokens of the text.
        nodes: of the tree.
        tree: median seconds of `tree_attention`.
        shared: of torch's attention with a mask, which shares keys between heads.
        copied: the same, with keys and values copied for each head first.
        unmasked: of torch's attention without a mask; None for more than one node.
        least: seconds that keys and values take at the rate of a copy.
        error: largest difference of `tree_attention` and torch's attention with copied keys.
    """

    length: int
    nodes: int
    tree: float
    shared: float
    copied: float
    unmasked: float | None
    least: float
    error: float


def measure(
    settings: AttentionBenchSettings, device: torch.device, copy: float, timer: Timer, progress: Progress
) -> list[AttentionTiming]:
    """All measurements, in bfloat16.

    Args:
        settings: what to measure.
        device: where.
        copy: bytes that a copy moves in a second (read and written ones).
        timer: of calls.
        progress: told of each length.
    """
    found = []
    for number, length in enumerate(settings.lengths):
        progress(f"attention over {length} tokens", number, len(settings.lengths))
        found += [_timing(settings, length, nodes, device, copy, timer) for nodes in settings.nodes]
    return found


def _timing(
    settings: AttentionBenchSettings,
    length: int,
    nodes: int,
    device: torch.device,
    copy: float,
    timer: Timer,
) -> AttentionTiming:
    draw = torch.Generator(device=device).manual_seed(settings.seed)
    columns, times = length + nodes, settings.heads // settings.groups
    scale = settings.size**-0.5

    def drawn(heads: int, rows: int) -> torch.Tensor:
        shape = (1, heads, rows, settings.size)
        return torch.randn(shape, generator=draw, device=device).to(torch.bfloat16)

    moved = 2 * 2 * settings.groups * columns * settings.size  # keys and values, two bytes a number
    stores = [
        (drawn(settings.groups, columns), drawn(settings.groups, columns))
        for _ in range(max(1, min(64, settings.memory // moved)))
    ]
    queries = drawn(settings.heads, nodes)
    lengths = torch.tensor([length], device=device)
    chain = ancestor_words([range(-1, nodes - 1)], nodes)
    depths, words = (torch.from_numpy(array).to(device).view(1, nodes) for array in chain)
    mask = torch.arange(columns, device=device)[None] <= length + depths[0][:, None]

    def tree(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return tree_attention(queries, keys, values, lengths, words, depths, scale=scale)

    def shared(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(queries, keys, values, mask, scale=scale, enable_gqa=True)

    def copied(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        keys, values = keys.repeat_interleave(times, 1), values.repeat_interleave(times, 1)
        return scaled_dot_product_attention(queries, keys, values, mask, scale=scale)

    def unmasked(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(queries, keys, values, scale=scale, enable_gqa=True)

    def seconds(attend: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> float:
        return timer([lambda store=store: attend(*store) for store in stores])[0]  # type: ignore[misc]

    difference = tree(*stores[0]).transpose(1, 2).float() - copied(*stores[0]).float()
    return AttentionTiming(
        length=length,
        nodes=nodes,
        tree=seconds(tree),
        shared=seconds(shared),
        copied=seconds(copied),
        unmasked=seconds(unmasked) if nodes == 1 else None,
        least=moved / copy,
        error=float(difference.abs().max()),
    )


def section(rows: Sequence[AttentionTiming]) -> ReportTable:
    """The table: a line a measurement."""
    lines = [
        (
            f"{row.length} tokens, {row.nodes} nodes",
            [
                *(f"{1e6 * one:.1f}" for one in (row.tree, row.shared, row.copied)),
                NO_VALUE if row.unmasked is None else f"{1e6 * row.unmasked:.1f}",
                f"{1e6 * row.least:.1f}",
                f"{row.error:.1e}",
            ],
        )
        for row in rows
    ]
    heads = ["tree_attention, us", "torch, shared", "torch, copied", "torch, no mask", "least", "off torch"]
    return ReportTable("attention of a layer", heads, lines)
