"""A kernel that is only the noise of tokens; a file of its own, because triton looks names up in a kernel's module."""

from __future__ import annotations

import triton
import triton.language as tl

from constrained.spec.kernels.gpu.keys import gumbel, gumbel_bound


@triton.jit
def noise_of(blocks, keys, out, bound_out, n: tl.constexpr):
    """The noise of the tokens of n blocks, and its bounds; each block has keys of its own."""
    at = tl.program_id(0) * n + tl.arange(0, n)
    block = tl.load(blocks + at).to(tl.uint32)
    row = keys + 5 * tl.program_id(0)
    place = tl.program_id(0) * 4 * n + tl.arange(0, 4 * n)
    tl.store(out + place, gumbel(block, row))
    tl.store(bound_out + place, gumbel_bound(block, row, False))
