"""Counts and percentiles of an engine, out of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from constrained.bench.masks import rows as r

QUANTILES = {
    "p25": 25.0,
    "p50": 50.0,
    "p75": 75.0,
    "p90": 90.0,
    "p95": 95.0,
    "p99": 99.0,
    "p99.9": 99.9,
    "max": 100.0,
}
MASK = "mask"
COMMIT = "commit"
STEP = "mask + commit"
FIRST = "first mask"


@dataclass(frozen=True, slots=True)
class TimeSummary:
    """How a set of times is spread, in nanoseconds.

    Attributes:
        count: how many.
        avg: their mean.
        quantiles: by the names of `QUANTILES`; linear between neighbours.
    """

    count: int
    avg: float
    quantiles: dict[str, float]

    @classmethod
    def of(cls, times: Collection[float]) -> TimeSummary | None:
        """The spread of some times; None if there are none."""
        if not times:
            return None
        array = np.fromiter(times, np.float64, len(times))
        values = np.percentile(array, list(QUANTILES.values())).tolist()
        return cls(len(times), float(array.mean()), dict(zip(QUANTILES, values, strict=True)))


@dataclass(slots=True)
class EngineSummary:
    """One engine over all cases.

    Attributes:
        engine: its name.
        version: of its package; "" if it could not be started.
        unavailable: why it could not be started, or "".
        setup_seconds: to read the vocabulary.
        setup_bytes: resident memory before the first schema.
        outcomes: schemas by outcome.
        kinds: refusals and errors by the type of the error.
        passing: schemas that ran, and under which every instance was judged as the data says.
        false_positives: ids of schemas under which an invalid instance was accepted.
        false_negatives: ids of schemas under which a valid instance was not accepted.
        instances: instances replayed.
        times: by pass and quantity.
        batch: nanoseconds a state: by single calls, and in one call for `batch_states`; None without them.
        batch_states: states in one call.
        fork: nanoseconds to copy a state and to take a token back; None where it was not measured.
        compiled_bytes: median memory of a compiled schema, if the engine says.
        peak_bytes: the most resident memory of the process.
    """

    engine: str
    version: str = ""
    unavailable: str = ""
    setup_seconds: float | None = None
    setup_bytes: int | None = None
    outcomes: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    passing: int = 0
    false_positives: list[str] = field(default_factory=list)
    false_negatives: list[str] = field(default_factory=list)
    instances: int = 0
    times: dict[str, dict[str, TimeSummary | None]] = field(default_factory=dict)
    batch: tuple[float, float] | None = None
    batch_states: int = 0
    fork: float | None = None
    compiled_bytes: float | None = None
    peak_bytes: int | None = None

    @property
    def schemas(self) -> int:
        """How many schemas it was given."""
        return sum(self.outcomes.values())


def summarise(
    engine: str, rows: Iterable[r.MaskBenchRow], only: Collection[str] | None = None
) -> EngineSummary:
    """What the rows of an engine come to.

    Args:
        engine: whose rows count.
        rows: of any engines.
        only: ids of the schemas that count; all by default.
    """
    own = [row for row in rows if row.engine == engine and (only is None or row.id in only)]
    summary = EngineSummary(engine)
    summary.outcomes = dict(Counter(row.outcome for row in own))
    summary.kinds = dict(Counter(f"{row.outcome}: {row.kind}" for row in own if row.kind).most_common())
    for row in own:
        replays = row.passes[r.COLD].replays if r.COLD in row.passes else []
        summary.instances += len(replays)
        lax = any(replay.accepted and not replay.valid for replay in replays)
        strict = any(replay.valid and not replay.accepted for replay in replays)
        if lax:
            summary.false_positives.append(row.id)
        if strict:
            summary.false_negatives.append(row.id)
        summary.passing += row.outcome == r.RAN and not lax and not strict
    for name in r.PASSES:
        passes = [row.passes[name] for row in own if name in row.passes]
        if passes:
            summary.times[name] = {what: TimeSummary.of(values) for what, values in times(passes).items()}
    batches = [row.batch for row in own if row.batch is not None]
    if batches:
        summary.batch_states = batches[0].states
        summary.batch = (
            float(np.mean([np.median(batch.single_ns) / batch.states for batch in batches])),
            float(np.mean([np.median(batch.many_ns) / batch.states for batch in batches])),
        )
    forks = [np.median(batch.fork_ns) / batch.forks for batch in batches if batch.fork_ns]
    summary.fork = float(np.mean(forks)) if forks else None
    sizes = [row.compiled_bytes for row in own if row.compiled_bytes is not None]
    summary.compiled_bytes = float(np.median(sizes)) if sizes else None
    summary.peak_bytes = max((row.peak_bytes for row in own if row.peak_bytes is not None), default=None)
    return summary


def times(passes: Iterable[r.ReplayPass]) -> dict[str, list[float]]:
    """All times of some passes, in nanoseconds, by quantity.

    A step is the mask before a token and the commit of that token; the mask at the end belongs to no step.
    """
    found: dict[str, list[float]] = {MASK: [], COMMIT: [], STEP: [], FIRST: []}
    for one in passes:
        found[FIRST].append(one.first_mask_ns)
        for replay in one.replays:
            found[MASK] += [time for time in replay.mask_ns if time is not None]
            found[COMMIT] += replay.commit_ns
            found[STEP] += [
                mask + commit
                for mask, commit in zip(replay.mask_ns, replay.commit_ns, strict=False)
                if mask is not None
            ]
    return found


def ran_ids(engine: str, rows: Iterable[r.MaskBenchRow]) -> set[str]:
    """Ids of the schemas that an engine went through to the end."""
    return {row.id for row in rows if row.engine == engine and row.outcome == r.RAN}
