"""Noise and ordered keys inside kernels: what `constrained.spec.noise` and `constrained.spec.kernels.order` say, in Triton."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice  # a module: which functions it has depends on the target

LOWEST = tl.constexpr(-(1 << 63))
"""Below every packed key."""


COARSE = tl.constexpr(1 << 22)
"""First words from here on need no further word."""


@triton.jit
def _words(blocks, keys):
    """Words of four neighbouring tokens each: uint32 [..., 4 n] for uint32 [..., n] blocks of ids.

    Philox4x32-10 gives the four words of a block at once.
    """
    k0 = tl.load(keys).to(tl.uint32)
    k1 = tl.load(keys + 1).to(tl.uint32)
    c0 = blocks
    c1 = tl.zeros_like(blocks) + tl.load(keys + 2).to(tl.uint32)
    c2 = tl.zeros_like(blocks) + tl.load(keys + 3).to(tl.uint32)
    c3 = tl.zeros_like(blocks) + tl.load(keys + 4).to(tl.uint32)
    for _ in tl.static_range(10):
        # One wide product gives both words; tl.umulhi and a second product would be two instructions.
        p0 = c0.to(tl.uint64) * 0xD2511F53
        p1 = c2.to(tl.uint64) * 0xCD9E8D57
        c0 = (p1 >> 32).to(tl.uint32) ^ c1 ^ k0
        c2 = (p0 >> 32).to(tl.uint32) ^ c3 ^ k1
        c1 = p1.to(tl.uint32)
        c3 = p0.to(tl.uint32)
        k0 += 0x9E3779B9
        k1 += 0xBB67AE85
    return tl.interleave(tl.interleave(c0, c2), tl.interleave(c1, c3))


@triton.jit
def gumbel(blocks, keys):
    """Gumbel noise of four neighbouring tokens each: float32 [..., 4 n] for uint32 [..., n] blocks of ids."""
    first = _words(blocks, keys)
    second = _words(blocks | (1 << 30), keys)
    small = first < COARSE
    head = tl.where(small, first, 0)
    tail = tl.where(small, second, first)
    unit = tl.where(small, 2.3283064365386963e-10, 1.0)
    if tl.min(first) == 0:  # one word in 2**32
        for level in tl.static_range(2, 4):
            further = _words(blocks | (level << 30), keys)
            small = (head == 0) & (tail < COARSE)
            head = tl.where(small, tail, head)
            tail = tl.where(small, further, tail)
            unit = tl.where(small, unit * 2.3283064365386963e-10, unit)
    return _noise(head, tail, unit)


@triton.jit
def gumbel_bound(blocks, keys, FAST: tl.constexpr):
    """As `gumbel`, from first words alone: at least the noise, and but for rounding the noise itself where v > 2**-10.

    The two logarithms are those of the hardware: relatively 1e-6 off.
    """
    word = _words(blocks, keys)
    v = tl.maximum(word.to(tl.float32) * 2.3283064365386963e-10, 1.1754943508222875e-38)
    rest = ((0xFFFFFFFF - word).to(tl.float32) + 0.5) * 2.3283064365386963e-10
    return -_fast_log(tl.where(v < 0.25, _series(v), -_fast_log(rest, FAST)), FAST)


@triton.jit
def _fast_log(x, FAST: tl.constexpr):
    """The logarithm of the hardware. With FAST, that of NVIDIA's libdevice; AMD's has none, and its log2 is as fast."""
    if FAST:
        return libdevice.fast_logf(x)
    else:
        return tl.log2(x) * 0.6931471805599453


@triton.jit
def _noise(head, tail, unit):
    """-log(-log1p(-v)) for v = (head + (tail + 1/2) / 2**32) * unit, with head below 2**22, which is 0 where unit is 1."""
    v = tl.maximum(
        head.to(tl.float32) + (tail.to(tl.float32) + 0.5) * 2.3283064365386963e-10, 9.313225746154785e-10
    )
    v = tl.maximum(v * unit, 1.1754943508222875e-38)
    rest = ((0xFFFFFFFF - tail).to(tl.float32) + 0.5) * 2.3283064365386963e-10
    return -tl.log(tl.where(v < 0.25, _series(v), -tl.log(rest)))


@triton.jit
def _series(v):
    """-log1p(-v) for v < 1/4, where the remainder is 1e-8: precise where v is small and the noise is large."""
    series = tl.full(v.shape, 1.0 / 12.0, tl.float32)
    for i in tl.static_range(11):
        series = series * v + 1.0 / (11 - i)
    return series * v


@triton.jit
def pack(keys, ids):
    """Keys and ids as one int64 whose order is the order of draws; see `constrained.spec.kernels.order`."""
    bits = tl.where(keys == 0, 0.0, keys).to(tl.int32, bitcast=True)
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return (ordered.to(tl.int64) << 32) | (0xFFFFFFFF - ids.to(tl.int64))


@triton.jit
def keys_of(packed):
    """The float32 keys in packed int64."""
    ordered = (packed >> 32).to(tl.int32)
    return tl.where(ordered < 0, ordered ^ 0x7FFFFFFF, ordered).to(tl.float32, bitcast=True)


@triton.jit
def ids_of(packed):
    """The ids in packed int64, as int32; -1 where the key is -inf."""
    ids = (0xFFFFFFFF - (packed & 0xFFFFFFFF)).to(tl.int32)
    return tl.where(keys_of(packed) == float("-inf"), -1, ids)


@triton.jit
def take(packed, M: tl.constexpr):
    """The M largest of packed int64 [n] in descending order, and what is left of it: `LOWEST` where they were.

    Each is taken out in turn; they must differ.
    """
    at = tl.arange(0, M)
    found = tl.zeros([M], tl.int64)
    for i in range(M):
        best = tl.max(packed, axis=0)
        found = tl.where(at == i, best, found)
        packed = tl.where(packed == best, LOWEST, packed)
    return found, packed


@triton.jit
def top(packed, M: tl.constexpr):
    """The M largest of packed int64 [n] in descending order; they must differ."""
    found, _ = take(packed, M)
    return found
