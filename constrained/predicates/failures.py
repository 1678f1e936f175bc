"""How a call in a worker process fails, other than by an exception of its function."""

from __future__ import annotations


class PredicateTimeout(TimeoutError):
    """A call exceeded its time limit."""


class WorkerCrashed(RuntimeError):
    """A call ended its process."""
