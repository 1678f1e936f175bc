"""The statistics of rows in Triton: one program for a row and a split of 8,192 logits, and one for a row to merge its splits.

The top m of a split, without sorting it: cut it into groups of 32 and take each group's best. The m groups with the
best bests hold the top m (each of those is in a group whose best is at least as good, and there are at most m such
groups), so keys are made a second time for m groups only, and those are sorted. Logits come from the cache then.

The keys of the first time are upper bounds, from the first word of noise and fast logarithms; those of the second time
are precise. Where the bound of a group that is left is not below the m-th of them, by more than rounding, the next m
groups are looked at, too: in about one split of a thousand.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from constrained.spec.kernels.gpu.keys import LOWEST, gumbel, gumbel_bound, ids_of, keys_of, pack, take, top
from constrained.spec.kernels.row_stats import RowStats, SplitStats

SPLIT = 8192
GROUP = 32
FUSED: dict[str, Any] = {"enable_fp_fusion": True}
"""Of every launch: a product and a sum may be rounded once. Said, because the default differs between versions of Triton."""


@triton.jit
def scale_of(temperature):
    """1 / T, and 1 for greedy."""
    return tl.where(temperature > 0, tl.div_rn(1.0, tl.where(temperature > 0, temperature, 1.0)), 1.0)


@triton.jit
def allowed_of(table, words, first, COUNT: tl.constexpr):
    """Bits of `COUNT` words of a mask from word `first` on, bool [32 COUNT]; words beyond it are 0."""
    at = first + tl.arange(0, COUNT)
    loaded = tl.load(table + at, mask=at < words, other=0)
    bits = (loaded[:, None] >> tl.arange(0, 32)[None, :]) & 1
    return tl.reshape(bits, [32 * COUNT]) != 0


@triton.jit
def _mass(z):
    peak = tl.max(z, axis=0)
    return peak, tl.sum(tl.exp(z - tl.where(peak == float("-inf"), 0.0, peak)), axis=0)


@triton.jit
def _split_stats(
    logits,
    row_stride,
    size,
    keys,
    temperature,
    table,
    table_stride,
    words,
    places,
    best,
    masses,
    MASKED: tl.constexpr,
    M: tl.constexpr,
    GROUP: tl.constexpr,
    SPLIT: tl.constexpr,
    FAST: tl.constexpr,
):
    row = tl.program_id(0)
    split = tl.program_id(1)
    first = split * SPLIT
    logits += row.to(tl.int64) * row_stride
    keys += row * 5
    heat = tl.load(temperature + row)
    scale = scale_of(heat)

    ids = first + tl.arange(0, SPLIT)
    z = tl.load(logits + ids, mask=ids < size, other=float("-inf")).to(tl.float32) * scale
    peak, mass = _mass(z)
    out = (row * tl.num_programs(1) + split).to(tl.int64)
    tl.store(masses + out * 4, peak)
    tl.store(masses + out * 4 + 1, mass)
    if MASKED:
        place = tl.load(places + row)
        table += tl.maximum(place, 0).to(tl.int64) * table_stride
        allowed = allowed_of(table, words, first // 32, SPLIT // 32) | (place < 0)
        z = tl.where(allowed, z, float("-inf"))
        peak, mass = _mass(z)
    tl.store(masses + out * 4 + 2, peak)
    tl.store(masses + out * 4 + 3, mass)

    if heat > 0:
        drawn = z + gumbel_bound((first // 4 + tl.arange(0, SPLIT // 4)).to(tl.uint32), keys, FAST)
    else:
        drawn = z
    bests = tl.max(tl.reshape(drawn, [SPLIT // GROUP, GROUP]), axis=1)
    left = pack(bests, tl.arange(0, SPLIT // GROUP))
    best_here = tl.full([M], LOWEST, tl.int64)
    looked = 0
    while looked < SPLIT // GROUP:
        taken, left = take(left, M)
        groups = (0xFFFFFFFF - (taken & 0xFFFFFFFF)).to(tl.int32)
        # Names of their own: in a loop a name keeps its shape.
        near = first + groups[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
        inside = near < size
        scores = tl.load(logits + near, mask=inside, other=float("-inf")).to(tl.float32) * scale
        if MASKED:
            known = inside & (near // 32 < words)
            bits = tl.load(table + near // 32, mask=known, other=0) >> (near % 32)
            scores = tl.where(((bits & 1) != 0) | (place < 0), scores, float("-inf"))
        if heat > 0:
            blocks = first // 4 + groups[:, None] * (GROUP // 4) + tl.arange(0, GROUP // 4)[None, :]
            scores += gumbel(blocks.to(tl.uint32), keys)
        found = top(tl.reshape(pack(scores, near), [M * GROUP]), M)
        if looked > 0:
            found = top(tl.interleave(best_here, found), M)
        best_here = found
        looked += M
        bound = keys_of(tl.max(left, axis=0))
        slack = tl.where(heat > 0, 1e-5 + 1e-6 * tl.abs(bound), 0.0)
        if (bound == float("-inf")) | (keys_of(tl.min(best_here, axis=0)) >= bound + slack):
            looked = SPLIT // GROUP
    tl.store(best + out * M + tl.arange(0, M), best_here)


@triton.jit
def log_masses(masses, row, splits, SPLITS: tl.constexpr):
    """The log-sum-exp of a row, and the log of what is allowed of it."""
    masses += row.to(tl.int64) * splits * 4
    lse = _merged(masses, splits, SPLITS)
    allowed = _merged(masses + 2, splits, SPLITS)
    return lse, tl.where(allowed == float("-inf"), allowed, allowed - lse)


@triton.jit
def _merged(masses, splits, SPLITS: tl.constexpr):
    at = tl.arange(0, SPLITS)
    peaks = tl.load(masses + at * 4, mask=at < splits, other=float("-inf"))
    sums = tl.load(masses + at * 4 + 1, mask=at < splits, other=0.0)
    whole = tl.max(peaks, axis=0)
    whole = tl.where(whole == float("-inf"), 0.0, whole)
    return whole + tl.log(tl.sum(sums * tl.exp(peaks - whole), axis=0))


@triton.jit
def _merge(
    best,
    masses,
    splits,
    logits,
    row_stride,
    temperature,
    ids_out,
    keys_out,
    log_p_out,
    lse_out,
    log_z_out,
    M: tl.constexpr,
    SPLITS: tl.constexpr,
):
    row = tl.program_id(0)
    lse, log_z = log_masses(masses, row, splits, SPLITS)
    tl.store(lse_out + row, lse)
    tl.store(log_z_out + row, log_z)
    at = tl.arange(0, SPLITS * M)
    packed = tl.load(best + row.to(tl.int64) * splits * M + at, mask=at < splits * M, other=LOWEST)
    packed = top(packed, M)
    ids = ids_of(packed)
    scale = scale_of(tl.load(temperature + row))
    z = tl.load(logits + row.to(tl.int64) * row_stride + ids, mask=ids >= 0, other=0).to(tl.float32)
    out = row * M + tl.arange(0, M)
    tl.store(ids_out + out, ids)
    tl.store(keys_out + out, keys_of(packed))
    tl.store(log_p_out + out, tl.where(ids >= 0, z * scale - lse, float("-inf")))


def launch_split_stats(
    logits: torch.Tensor,
    keys: torch.Tensor,
    temperature: torch.Tensor,
    table: torch.Tensor | None,
    places: torch.Tensor | None,
    m: int,
    *,
    split: int = SPLIT,
    group: int = GROUP,
) -> SplitStats:
    """`constrained.spec.kernels.split_stats` of checked arguments.

    Args:
        logits: as there.
        keys: as there.
        temperature: as there, a tensor.
        table: as there.
        places: as there.
        m: as there.
        split: logits of a program, a power of two.
        group: see above; a power of two, at least 4, and at most ``split / m`` with m rounded up to a power of two.
    """
    rows, size = logits.shape
    splits = triton.cdiv(size, split)
    top = triton.next_power_of_2(m)
    best = torch.empty((rows, splits, top), dtype=torch.int64, device=logits.device)
    masses = torch.empty((rows, splits, 4), dtype=torch.float32, device=logits.device)
    masked = table is not None and places is not None
    if rows:
        _split_stats[(rows, splits)](
            logits,
            logits.stride(0),
            size,
            keys.contiguous(),
            temperature,
            table if table is not None else masses,  # not read
            table.stride(0) if table is not None else 0,
            table.shape[1] if table is not None else 0,
            places if places is not None else masses,  # not read
            best,
            masses,
            MASKED=masked,
            M=top,
            GROUP=group,
            SPLIT=split,
            FAST=torch.version.cuda is not None and not triton.knobs.runtime.interpret,
            num_warps=8 if split >= SPLIT else 4,
            **FUSED,
        )
    return SplitStats(best, masses, logits, temperature, m)


def launch_merge_splits(stats: SplitStats) -> RowStats:
    """`constrained.spec.kernels.merge_splits` of checked arguments."""
    rows, splits, top = stats.best.shape
    device = stats.logits.device
    ids = torch.empty((rows, top), dtype=torch.int32, device=device)
    keys, log_p = (torch.empty((rows, top), dtype=torch.float32, device=device) for _ in range(2))
    lse, log_z = (torch.empty(rows, dtype=torch.float32, device=device) for _ in range(2))
    if rows:
        _merge[(rows,)](
            stats.best,
            stats.masses,
            splits,
            stats.logits,
            stats.logits.stride(0),
            stats.temperature,
            ids,
            keys,
            log_p,
            lse,
            log_z,
            M=top,
            SPLITS=triton.next_power_of_2(splits),
            **FUSED,
        )
    m = stats.top_m
    return RowStats(ids[:, :m], keys[:, :m], log_p[:, :m], lse, log_z)
