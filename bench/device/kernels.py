"""Bandwidth of the verification kernels on a GPU against that of a copy, and their error in float64.

The bytes of a kernel are those it must move (each logit, mask word, key or value once), so its share of the copy's
bandwidth is its share of the optimum. Calls cycle through inputs that exceed the cache of the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from constrained.bench.harness.settings import Progress
from constrained.bench.harness.tables import ReportTable
from constrained.cli.intervals import NO_VALUE
from constrained.spec.kernels import (
    LayerCaches,
    SplitStats,
    apply_masks,
    merge_splits,
    noise_keys,
    split_stats,
)
from constrained.spec.noise import GumbelNoise

Timer = Callable[[Sequence[Callable[[], object]]], tuple[float, float]]
"""Of calls that are made in turn: median seconds that the device computes for one, and from the first launch to the end of one."""

_IN_GRAPH = 16
"""Calls of a graph that is timed, at least."""


@dataclass(frozen=True, slots=True)
class KernelBenchSettings:
    """What to measure.

    Attributes:
        rows: nodes of a forward pass, several.
        tokens: size of the vocabulary.
        layers: of the cache that is compacted, with `heads` heads of `size` entries and `length` positions.
        heads: see there.
        size: see there.
        length: see there.
        memory: bytes from which inputs are taken in turn.
        seed: of the data.
    """

    rows: tuple[int, ...] = (1, 16, 64, 256)
    tokens: int = 131_072
    layers: int = 36
    heads: int = 8
    size: int = 128
    length: int = 2048
    memory: int = 256 << 20
    seed: int = 0


@dataclass(frozen=True, slots=True)
class KernelTiming:
    """One measurement.

    Attributes:
        kernel: its name.
        rows: nodes.
        bytes_moved: bytes it has to move.
        seconds: median time that the device computes.
        call: median time of a call from Python, launches included.
        copy: bytes that a copy moves in a second (read and written ones).
        error: largest difference from float64, of a log-sum-exp or a key; None where results are integers or moved
            bytes, which are compared exactly.
        wrong: results that are not those of float64, draws whose two best keys are closer than 1e-4 left out.
    """

    kernel: str
    rows: int
    bytes_moved: int
    seconds: float
    call: float
    copy: float
    error: float | None
    wrong: int

    @property
    def share(self) -> float:
        """Of the copy's rate."""
        return self.bytes_moved / self.seconds / self.copy


def section(rows: Sequence[KernelTiming], device: str) -> ReportTable:
    """The table: a line a measurement."""
    lines = [
        (
            f"{row.kernel}, {row.rows} rows",
            [
                f"{row.bytes_moved / 2**20:.2f}",
                f"{1e6 * row.seconds:.1f}",
                f"{1e6 * row.call:.1f}",
                f"{row.bytes_moved / row.seconds / 1e9:.0f}",
                f"{row.share:.0%}",
                NO_VALUE if row.error is None else f"{row.error:.1e}",
                str(row.wrong),
            ],
        )
        for row in rows
    ]
    heads = ["MiB", "us", "call us", "GB/s", "of a copy", "off float64", "wrong"]
    return ReportTable(f"{device}; a copy moves {rows[0].copy / 1e9:.0f} GB/s", heads, lines)


def measure(
    settings: KernelBenchSettings, device: str, timer: Timer, progress: Progress
) -> list[KernelTiming]:
    """All measurements, on any device and with any clock."""
    copy = _copy_rate(settings, device, timer)
    found = []
    for number, rows in enumerate(settings.rows):
        progress(f"{rows} rows", number, len(settings.rows))
        found += _verification(settings, rows, device, timer, copy)
        found.append(_compaction(settings, rows, device, timer, copy))
    return found


def time_on_device(calls: Sequence[Callable[[], object]]) -> tuple[float, float]:
    """A `Timer` by events of the CUDA device: around each call, and around a graph of many, whose launches take no time."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    seconds = _between_events([calls[number % len(calls)] for number in range(100)])
    repeats = -(-_IN_GRAPH // len(calls))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in [*calls] * repeats:
            call()
    return _between_events([graph.replay] * 20) / (repeats * len(calls)), seconds


def _between_events(calls: Sequence[Callable[[], object]]) -> float:
    """Median seconds of a call, by events around each."""
    event: Any = torch.cuda.Event
    marks = [(event(enable_timing=True), event(enable_timing=True)) for _ in calls]
    for call, (begin, end) in zip(calls, marks, strict=True):
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    times = sorted(begin.elapsed_time(end) for begin, end in marks)
    return float(times[len(times) // 2]) / 1000


def _copy_rate(settings: KernelBenchSettings, device: str, timer: Timer) -> float:
    """Bytes read and written in a second by a copy of twice the memory of the inputs."""
    source = torch.zeros(settings.memory * 2, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / timer([lambda: target.copy_(source)])[0]


def _verification(
    settings: KernelBenchSettings, rows: int, device: str, timer: Timer, copy: float
) -> list[KernelTiming]:
    draw = torch.Generator(device=device).manual_seed(settings.seed)
    words = math.ceil(settings.tokens / 32)
    sets = max(1, min(64, settings.memory // (2 * rows * settings.tokens)))
    logits = [
        (4 * torch.randn((rows, settings.tokens), generator=draw, device=device)).to(torch.bfloat16)
        for _ in range(sets)
    ]
    table = torch.randint(-(2**31), 2**31, (rows, words), dtype=torch.int32, generator=draw, device=device)
    places = torch.arange(rows, dtype=torch.int32, device=device)
    noises = [GumbelNoise(settings.seed, row) for row in range(rows)]
    keys = noise_keys(noises, list(range(rows)), device)
    heat = torch.full((rows,), 0.8, device=device)
    logit_bytes, mask_bytes = 2 * rows * settings.tokens, 4 * rows * words
    made = []
    for name, masked, moved in (
        ("row_stats", False, logit_bytes),
        ("row_stats, masked", True, logit_bytes + mask_bytes),
    ):
        read = partial(
            split_stats,
            keys=keys,
            temperature=heat,
            mask_table=table if masked else None,
            mask_ids=places if masked else None,
        )
        times = timer([partial(read, z) for z in logits])
        stats = read(logits[0])
        checked = _against_float64(stats, noises, table if masked else None)
        made.append(KernelTiming(name, rows, moved, *times, copy, *checked))
    held = stats.best.numel() * 8 + stats.masses.numel() * 4
    made.append(
        KernelTiming("merge_splits", rows, held, *timer([lambda: merge_splits(stats)]), copy, None, 0)
    )
    times = timer([partial(apply_masks, z, table, places) for z in logits])
    refused = ~_bits(table, settings.tokens)
    wrong = int(((logits[0] == -torch.inf) != refused).sum())
    written = 2 * int(refused.sum())
    made.append(KernelTiming("apply_masks", rows, mask_bytes + written, *times, copy, None, wrong))
    return made


def _compaction(
    settings: KernelBenchSettings, rows: int, device: str, timer: Timer, copy: float
) -> KernelTiming:
    """Every second node of the tree is kept."""
    draw = torch.Generator(device=device).manual_seed(settings.seed)
    shape = (1, settings.heads, settings.length + rows, settings.size)
    caches = [
        torch.randn(shape, generator=draw, device=device).to(torch.bfloat16)
        for _ in range(2 * settings.layers)
    ]
    kept = torch.arange(0, rows, 2, dtype=torch.int32, device=device)[None] + settings.length
    start = torch.tensor([settings.length], dtype=torch.int32, device=device)
    wanted = caches[-1].index_select(2, kept[0])
    compact = LayerCaches(caches).compact
    compact(kept, start)
    count = kept.shape[1]
    wrong = int((caches[-1][:, :, settings.length : settings.length + count] != wanted).sum())
    moved = 2 * len(caches) * settings.heads * count * settings.size * caches[0].element_size()
    return KernelTiming("compact_kv", rows, moved, *timer([lambda: compact(kept, start)]), copy, None, wrong)


def _against_float64(
    stats: SplitStats, noises: Sequence[GumbelNoise], table: torch.Tensor | None
) -> tuple[float, int]:
    """The largest difference of a log-sum-exp or key, and how many first tokens are others."""
    merged = merge_splits(stats)
    device, size = stats.logits.device, stats.logits.shape[1]
    allowed = torch.ones_like(stats.logits, dtype=torch.bool) if table is None else _bits(table, size)
    error, wrong = 0.0, 0
    for row, noise in enumerate(noises):
        z = stats.logits[row].double() / float(stats.temperature[row])
        drawn = torch.from_numpy(noise.gumbel(row, np.arange(size))).to(device)
        keys = torch.where(allowed[row], z + drawn, -torch.inf)
        best = torch.topk(keys, 2)
        found = int(merged.ids[row, 0])
        lse = torch.logsumexp(z, 0)
        log_z = torch.logsumexp(torch.where(allowed[row], z, -torch.inf), 0) - lse
        differences: list[Any] = [
            merged.lse[row] - lse, merged.log_z[row] - log_z, merged.keys[row, 0] - keys[found]
        ]  # fmt: skip
        error = max(error, *(abs(float(one)) for one in differences))
        wrong += found != int(best.indices[0]) and float(best.values[0] - best.values[1]) > 1e-4
    return error, wrong


def _bits(table: torch.Tensor, size: int) -> torch.Tensor:
    """Masks as bool ``[rows, size]``."""
    shifts = torch.arange(32, dtype=torch.int32, device=table.device)
    return (((table[:, :, None] >> shifts) & 1) != 0).flatten(1)[:, :size]
