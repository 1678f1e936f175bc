"""The work of reading a constraint, counted in steps where it is done, so that a constraint of too much work is refused.

Only what can grow faster than the constraint itself is counted: combinations of alternatives, proofs that they exclude each
other, values and names that are tried against schemas and patterns. Steps are counted, not timed: a slow machine refuses the
same constraints.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from constrained.grammars.errors import ConstraintTooLarge, Problem

MAX_STEPS = 1_000_000
"""Steps, of about a microsecond, that reading one constraint may take."""


class _Work:
    """What is left of the steps of one constraint."""

    __slots__ = ("left", "place", "refusal")

    def __init__(self, place: str) -> None:
        self.left = MAX_STEPS
        self.place = place
        self.refusal: ConstraintTooLarge | None = None


_WORK: ContextVar[_Work | None] = ContextVar("work of reading a constraint", default=None)


@contextmanager
def counted_work(place: str) -> Iterator[None]:
    """Counts the steps of reading the constraint at a place. A constraint inside of it is part of it."""
    token = _WORK.set(_WORK.get() or _Work(place))
    try:
        yield
    finally:
        _WORK.reset(token)


def spend(steps: int, place: str = "") -> None:
    """Counts steps where a constraint is being read.

    Args:
        steps: about the microseconds that the work takes.
        place: where it is done; "": where the last steps were counted that had a place.

    Raises:
        ConstraintTooLarge: the constraint has taken more than `MAX_STEPS`, now or before.
    """
    work = _WORK.get()
    if work is None:
        return
    if place:
        work.place = place
    work.left -= steps
    if work.left >= 0:
        return
    if work.refusal is None:
        work.refusal = ConstraintTooLarge(
            "the constraint takes too much work to read",
            Problem(work.place, f"more than {MAX_STEPS:,} steps by the time this place is read"),
            action="simplify the alternatives, conditions and patterns that apply together here",
        )
    raise work.refusal
