"""Prometheus metrics; each server has its own registry."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from constrained.server.memory import MemoryWatch
from constrained.server.scheduler import Scheduler

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_GAUGES = (
    ("texts_running", "Sequences that are being decoded.", "running"),
    ("requests_waiting", "Requests in the queue.", "waiting"),
)
"""Name, description, and the attribute of a `Scheduler`."""


class Metrics:
    """Counters, gauges and histograms of a server.

    Args:
        schedulers: sources of the gauges, by the names of their models.
        memory: source of those of memory.
    """

    def __init__(self, schedulers: Mapping[str, Scheduler], memory: MemoryWatch) -> None:
        registry = self._registry = CollectorRegistry()

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"constrained_{name}", what, labels, registry=registry)

        def seconds(name: str, what: str) -> Histogram:
            what = f"Seconds from the body of a request to {what}."
            return Histogram(
                f"constrained_{name}_seconds", what, ["model"], buckets=_SECONDS, registry=registry
            )

        self.requests = counter("requests", "Requests, by endpoint and status.", "endpoint", "status")
        self.disconnects = counter("disconnects", "Requests whose client disconnected.")
        self.prompt_tokens = counter("prompt_tokens", "Prompt tokens.", "model")
        self.tokens = counter("generated_tokens", "Completion tokens.", "model")
        self.compile = seconds("compile", "its first mask")
        self.first_token = seconds("first_token", "its first token")
        self.seconds = seconds("request", "the end of its response")
        sizes = Gauge("constrained_memory_bytes", "Memory, by kind.", ["kind"], registry=registry)
        for kind in ("resident", "free", "automata"):
            sizes.labels(kind).set_function(partial(_size, memory, kind))
        for name, what, attribute in _GAUGES:
            gauge = Gauge(f"constrained_{name}", what, ["model"], registry=registry)
            for model, scheduler in schedulers.items():
                gauge.labels(model).set_function(partial(getattr, scheduler, attribute))

    def page(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self._registry)


def _size(memory: MemoryWatch, kind: str) -> float:
    """An attribute of `memory`; NaN where the system does not say."""
    found = getattr(memory, kind)
    return float("nan") if found is None else found
