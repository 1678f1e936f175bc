"""What one schema gave with one engine: a row of JSON, written as soon as it is known."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

RAN = "ran"
REFUSED = "refused"
FAILED = "failed"
TIMEOUT = "timeout"
MEMORY = "memory"
CRASHED = "crashed"
NOT_RUN = "not run"

OUTCOMES = {
    RAN: "compiled, and every instance was replayed",
    REFUSED: "the engine refused the schema by an error of its own",
    FAILED: "the engine compiled the schema, and raised an error later",
    TIMEOUT: "longer than the time limit; the process was killed",
    MEMORY: "more than the memory limit; the process was killed",
    CRASHED: "the process died",
    NOT_RUN: "the engine could not be started again after a crash",
}
"""Everything that can become of a schema."""

COLD = "cold"
AGAIN = "again"
KEPT = "kept"
PASSES = {
    COLD: "the schema is seen for the first time",
    AGAIN: "the same schema is compiled a second time by the same process, and replayed",
    KEPT: "the compiled schema was kept by the caller, and is replayed",
}
"""Times a schema is gone through, in this order; all but the first on request."""


@dataclass(slots=True)
class InstanceReplay:
    """One instance, replayed.

    Attributes:
        valid: whether the data says that it satisfies the schema.
        accepted: every token was allowed, and so was the end.
        stopped_at: index of the first token that was not allowed (the number of tokens, if it is the end); None if
            accepted.
        mask_ns: one time a mask, in order; the last is the mask at the end. The first is None where it was measured
            as part of `ReplayPass.first_mask_ns`.
        commit_ns: one time a token that was allowed.
    """

    valid: bool
    accepted: bool
    stopped_at: int | None
    mask_ns: list[int | None]
    commit_ns: list[int]


@dataclass(slots=True)
class ReplayPass:
    """All instances of a schema, gone through once.

    Attributes:
        first_mask_ns: from the schema to the first mask: compiling, starting and filling, timed as one.
        replays: the instances.
    """

    first_mask_ns: int
    replays: list[InstanceReplay] = field(default_factory=list)


@dataclass(slots=True)
class BatchTimes:
    """Several states' masks, in one call and in one call each.

    Attributes:
        states: how many.
        single_ns: per round, all of them by calls of their own.
        many_ns: per round, all of them in one call; empty if the engine has no such call.
        forks: how many of the states were followed by a token.
        fork_ns: per round, a copy of each of these, and the token taken back after it was committed to the copy;
            empty if the engine cannot take tokens back.
    """

    states: int
    single_ns: list[int]
    many_ns: list[int]
    forks: int = 0
    fork_ns: list[int] = field(default_factory=list)


@dataclass(slots=True)
class MaskBenchRow:
    """One schema with one engine.

    Attributes:
        engine: its name.
        id: the schema's name in the data.
        outcome: a key of `OUTCOMES`.
        phase: where it ended, if not well: ``compile`` or a key of `PASSES`, or ``batch``.
        kind: the type of the error.
        message: message of the engine.
        passes: by name.
        batch: the batch measurement, if there was one.
        compiled_bytes: memory of the compiled schema after the replay, if the engine says.
        process_bytes: resident memory of the process afterwards; None where the system does not say.
        peak_bytes: the most it has had since it was started.
    """

    engine: str
    id: str
    outcome: str = RAN
    phase: str = "compile"
    kind: str = ""
    message: str = ""
    passes: dict[str, ReplayPass] = field(default_factory=dict)
    batch: BatchTimes | None = None
    compiled_bytes: int | None = None
    process_bytes: int | None = None
    peak_bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> MaskBenchRow:
        """The row that `to_json` gave."""
        passes = {
            name: ReplayPass(one["first_mask_ns"], [InstanceReplay(**replay) for replay in one["replays"]])
            for name, one in data["passes"].items()
        }
        batch = BatchTimes(**data["batch"]) if data["batch"] else None
        return cls(**{**data, "passes": passes, "batch": batch})
