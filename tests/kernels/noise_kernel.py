"""A kernel that is only the noise of words; a file of its own, because triton looks names up in a kernel's module."""

from __future__ import annotations

import triton
import triton.language as tl

from spec.kernels.gpu.keys import _noise


@triton.jit
def noise_of(words, out, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, _noise(tl.load(words + at).to(tl.uint32), False))
