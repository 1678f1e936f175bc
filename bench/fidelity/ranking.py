"""Samplers ranked by the forwards that they take to come as close to the exact distribution as genlm-control."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from constrained.bench.fidelity.competitors import GENLM
from constrained.bench.fidelity.rows import COMPLETED, FidelityRow
from constrained.bench.harness.tables import ReportTable, format_number


@dataclass(frozen=True, slots=True)
class SizeMean:
    """Means of the sets of one size.

    Attributes:
        texts: of a set.
        distance: total variation.
        forwards: rows of forward passes; of genlm-control distinct contexts.
        contexts: distinct contexts; None where they were not recorded.
        seconds, cpu_seconds: of a set.
    """

    texts: int
    distance: float
    forwards: float
    contexts: float | None
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Forwards that a distance takes.

    Attributes:
        forwards: how many; a bound if there is a `sign`.
        sign: ``<=``: the smallest set is closer already; ``>``: the largest set is further away.
    """

    forwards: float
    sign: str = ""


def size_means(rows: Sequence[FidelityRow], task: str, sampler: str) -> list[SizeMean]:
    """Means by size, ascending; without the sizes of which a set is missing."""
    sets = [row for row in rows if (row.task, row.sampler) == (task, sampler)]
    means = []
    for texts in sorted({row.texts for row in sets}):
        same = [row for row in sets if row.texts == texts]
        if any(row.outcome != COMPLETED or row.distance is None for row in same):
            continue
        contexts = [row.contexts for row in same if row.contexts is not None]
        means.append(
            SizeMean(
                texts,
                statistics.fmean(row.distance or 0.0 for row in same),
                statistics.fmean(row.forwards for row in same),
                statistics.fmean(contexts) if contexts else None,
                statistics.fmean(row.seconds for row in same),
                statistics.fmean(row.cpu_seconds for row in same),
            )
        )
    return means


def forwards_to_reach(distance: float, means: Sequence[SizeMean]) -> Cost:
    """Forwards at which the mean distance of a sampler falls to a value, interpolated between sizes.

    Between two sizes the logarithms of both are interpolated linearly; a distance of 0 counts as 1e-9.

    Args:
        distance: total variation to reach.
        means: of the sampler, at least one, by ascending size.
    """
    if means[0].distance <= distance:
        return Cost(means[0].forwards, "<=")
    for before, after in itertools.pairwise(means):
        if after.distance <= distance:
            high, low, wanted = (math.log(max(d, 1e-9)) for d in (before.distance, after.distance, distance))
            share = (high - wanted) / (high - low) if high > low else 1.0
            first, last = math.log(before.forwards), math.log(after.forwards)
            return Cost(math.exp(first + share * (last - first)))
    return Cost(means[-1].forwards, ">")


def ranking_tables(rows: Sequence[FidelityRow], tasks: Sequence[str]) -> list[ReportTable]:
    """A table for each task that genlm-control was measured on: the cheapest sampler first, then those that stay further away."""
    tables = []
    for task in tasks:
        rival = size_means(rows, task, GENLM)
        if not rival:
            continue
        target = rival[-1]
        ranked = []
        for sampler in dict.fromkeys(row.sampler for row in rows if row.task == task):
            means = size_means(rows, task, sampler)
            if means:
                cost = (
                    Cost(target.forwards) if sampler == GENLM else forwards_to_reach(target.distance, means)
                )
                ranked.append((cost.sign == ">", cost.forwards, sampler, means[-1], cost))
        lines = []
        for _, forwards, sampler, last, cost in sorted(ranked, key=lambda one: one[:3]):
            cells = [
                str(last.texts),
                format_number(last.distance, decimals=3),
                f"{last.forwards:.0f}",
                "-" if last.contexts is None else f"{last.contexts:.0f}",
                format_number(last.seconds, decimals=2),
                format_number(last.cpu_seconds, decimals=2),
                f"{cost.sign}{forwards:.0f}",
                f"{cost.sign}{forwards / target.forwards:.2f}",
            ]
            lines.append((sampler, cells))
        columns = ["texts", "total variation", "forwards", "distinct contexts", "wall s", "CPU s"]
        columns += [f"forwards to {target.distance:.3f}", "of genlm-control's"]
        tables.append(ReportTable(f"{task}: ranked by forwards to genlm-control's distance", columns, lines))
    return tables
