"""Ranges of code points against sets of them."""

from __future__ import annotations

import random
from itertools import pairwise

from constrained.grammars import ir
from constrained.grammars.regex.charset import intersection

SURROGATES = range(0xD800, 0xE000)


def some_ranges(rng: random.Random) -> list[tuple[int, int]]:
    """A few ranges near one place, in any order, overlapping and empty ones included."""
    base = rng.choice([0, 0xD7F5, 0xDFF5])
    return [(low, low + rng.randrange(-1, 12)) for low in (base + rng.randrange(25) for _ in range(5))]


def points(ranges: list[tuple[int, int]] | tuple[tuple[int, int], ...]) -> set[int]:
    return {code for low, high in ranges for code in range(low, high + 1)}


def test_merged_ranges_and_intersections_have_the_code_points_of_the_sets() -> None:
    rng = random.Random(0)
    for _ in range(3000):
        first, second = (some_ranges(rng) for _ in range(2))
        if rng.random() < 0.3:
            first.append((rng.randrange(0xD700, 0xD900), rng.randrange(0xDF00, 0xE100)))
        merged, other = ir.merge_ranges(first), ir.merge_ranges(second)
        assert points(merged) == points(first) - set(SURROGATES)
        assert all(low <= high for low, high in merged)
        assert all(end + 1 < start for (_, end), (start, _) in pairwise(merged))
        both = intersection(merged, other)
        assert points(both) == points(merged) & points(other)
        assert all(end < start for (_, end), (start, _) in pairwise(both))
