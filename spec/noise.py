"""Position-keyed noise: a random number depends only on seed, sequence, position and token id.

Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") keyed by the caller's seed and
counted by (token id, absolute position, sequence, purpose). There is no state, so the order of calls, the batch row,
the tree node and the device do not matter, and a completion does not depend on speculation or on the rest of its
batch. Must not know: automata, models, logits.

Layout (words of 32 bits)

    key      k0 = seed & 0xFFFFFFFF     k1 = seed >> 32
    counter  c0 = token id >> 2 | i << 30   for word w_i of the token, i = 0 .. 3; ids are below 2**32
             c1 = absolute position (prompt included, padding never)
             c2 = sequence              c3 = purpose (`TOKEN_PURPOSE`: draws of tokens; other draws use other numbers)
    output   word (token id & 3) belongs to the token

From words to noise, in the order of the definition:

    X = the first k words as one number, w_0 first, with the least k for which X >= 2**22; k = 4 if there is none
    v = max((X + 1/2) / 2**(32 k), 2**-126)
    E = -log1p(-v)               standard exponential, precise where it is small: at the likely winners
    G = -log E                   standard Gumbel, between -3.2 and 87.4

So v has at least 22 significant bits down to 2**-106, and a token of probability 1e-30 is drawn as often as it should be;
one token in 1,024 needs more than one word. The reference is numpy in float64. Devices compute identical integers, and
E and G in float32; there 1 - v is computed from the word when v > 1/2 (it would round to 0 at the end), so both agree
to a few float32 roundings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from constrained.spec import _core

if TYPE_CHECKING:
    import torch

TOKEN_PURPOSE = 0
"""Purpose of the draws that choose a token."""

COARSE = 1 << 22
"""First words from here on need no further word."""

LEVELS = 4
"""Words that a token has."""

_SMALLEST = 2.0**-126
_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF

T = TypeVar("T")


def philox4x32(counter: tuple[T, T, T, T], key: tuple[T | int, T | int]) -> tuple[T, T, T, T]:
    """Philox4x32 with 10 rounds.

    Written once for Python ints, uint64 numpy arrays and int64 torch tensors that hold 32-bit words. A product
    of two words needs 64 bits: in int64 it wraps, and the mask after the (arithmetic) shift restores the high word.

    Args:
        counter: four words, of any shapes that broadcast.
        key: two words, ints or of a shape that broadcasts with the counter's.

    Returns:
        Four words, of the broadcast shape.
    """
    c0: Any
    c1: Any
    c2: Any
    c3: Any
    k0: Any
    k1: Any
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        p0 = c0 * _MULTIPLIERS[0]
        p1 = c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((p1 >> 32) & _WORD) ^ c1 ^ k0,
            p1 & _WORD,
            ((p0 >> 32) & _WORD) ^ c3 ^ k1,
            p0 & _WORD,
        )
        k0 = (k0 + _KEY_STEPS[0]) & _WORD
        k1 = (k1 + _KEY_STEPS[1]) & _WORD
    return c0, c1, c2, c3


def gumbel(uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard Gumbel noise from numbers between 0 and 1, in their shape (the float64 reference)."""
    noise: NDArray[np.float64] = np.negative(uniforms)
    # In place: a new array for each step takes 40 % longer.
    for step in (np.log1p, np.negative, np.log, np.negative):
        step(noise, out=noise)
    return noise


def torch_gumbel(
    words: torch.Tensor, further: Callable[[tuple[torch.Tensor, ...], int], torch.Tensor]
) -> torch.Tensor:
    """Standard Gumbel noise in float32 on a device.

    Args:
        words: first words, int64, of any shape.
        further: (indices of some of `words`, as `torch.where` gives them; i) -> words w_i of these, int64 ``[n]``.

    Returns:
        float32, in the shape of `words`.
    """
    import torch

    v = (words.to(torch.float32) + 0.5) * 2.0**-32
    small = torch.where(words < COARSE)
    v[small] = _refined(words[small], lambda level: further(small, level))
    rest = ((_WORD - words).to(torch.float32) + 0.5) * 2.0**-32
    return -torch.log(-torch.where(v < 0.5, torch.log1p(-v), torch.log(rest)))


def _refined(words: torch.Tensor, further: Callable[[int], torch.Tensor]) -> torch.Tensor:
    """The numbers v of first words below `COARSE`, float32: X = head * 2**32 + tail, and head is exact in float32."""
    import torch

    head, tail = words, further(1)
    unit = torch.full(words.shape, 2.0**-32, dtype=torch.float32, device=words.device)
    for level in range(2, LEVELS):
        small = (head == 0) & (tail < COARSE)
        head, unit = torch.where(small, tail, head), torch.where(small, unit * 2.0**-32, unit)
        tail = torch.where(small, further(level), tail)
    v = (head.to(torch.float32) + (tail.to(torch.float32) + 0.5) * 2.0**-32).clamp(min=2.0**-30) * unit
    return v.clamp(min=_SMALLEST)


@dataclass(frozen=True, slots=True)
class GumbelNoise:
    """The noise of one sequence.

    Attributes:
        seed: 0 .. 2**64 - 1.
        sequence: which of the sequences drawn with this seed, 0 .. 2**32 - 1.
        purpose: what the numbers decide, 0 .. 2**32 - 1. Draws of different purposes are independent.

    Raises:
        ValueError: a number is out of range.
    """

    seed: int
    sequence: int = 0
    purpose: int = TOKEN_PURPOSE

    def __post_init__(self) -> None:
        for name, bits in (("seed", 64), ("sequence", 32), ("purpose", 32)):
            value = getattr(self, name)
            if not 0 <= value < 1 << bits:
                raise ValueError(f"{name} {value} is out of range: it must be in 0 .. 2**{bits} - 1")

    def philox_words(
        self, position: int, ids: NDArray[np.integer[Any]], level: int = 0
    ) -> NDArray[np.uint32]:
        """Random words of some tokens at one position.

        Args:
            position: absolute position, 0 .. 2**32 - 1.
            ids: token ids, int [n], below 2**32, in any order.
            level: which of a token's words, 0 .. 3.

        Returns:
            uint32 [n].

        Raises:
            ValueError: the position or the level is out of range.
            IndexError: an id is out of range.
        """
        _check_position(position)
        words = np.empty(len(ids), dtype=np.uint32)
        tokens = np.ascontiguousarray(ids, dtype=np.int64)
        _core.philox_words(self.seed, self.sequence, self.purpose, position, tokens, level, words)
        return words

    def uniforms(self, position: int, ids: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """The numbers v of some tokens at one position, in (0, 1): float64 [n] for int [n] ids.

        Raises:
            ValueError: the position is out of range.
            IndexError: an id is out of range.
        """
        _check_position(position)
        numbers = np.empty(len(ids), dtype=np.float64)
        tokens = np.ascontiguousarray(ids, dtype=np.int64)
        _core.uniforms(self.seed, self.sequence, self.purpose, position, tokens, numbers)
        return numbers

    def gumbel(self, position: int, ids: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Gumbel noise of some tokens at one position: float64 [n] for int [n] ids; errors as `uniforms`."""
        return gumbel(self.uniforms(position, ids))

    def torch_philox_words(self, position: int, ids: torch.Tensor, level: int = 0) -> torch.Tensor:
        """`philox_words` on a device: int64 [n] with identical values, for int64 [n] ids."""
        import torch

        table = torch.stack(self._blocks(position, (ids >> 2) | level << 30))
        return table.gather(0, (ids & 3).unsqueeze(0)).squeeze(0)

    def torch_gumbel(self, position: int, ids: torch.Tensor) -> torch.Tensor:
        """`gumbel` on a device: float32 [n] for int64 [n] ids."""
        return torch_gumbel(
            self.torch_philox_words(position, ids),
            lambda some, level: self.torch_philox_words(position, ids[some], level),
        )

    def _blocks(self, position: int, block: Any) -> tuple[Any, Any, Any, Any]:
        """The four words of each block of four ids, in the number or array type of `block`."""
        _check_position(position)
        rest = block * 0
        counter = (block, rest + position, rest + self.sequence, rest + self.purpose)
        return philox4x32(counter, (self.seed & _WORD, self.seed >> 32))


def _check_position(position: int) -> None:
    if not 0 <= position <= _WORD:
        raise ValueError(f"position {position} is out of range: it must be in 0 .. 2**32 - 1")
