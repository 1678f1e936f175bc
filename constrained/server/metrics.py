"""Prometheus metrics; each server has its own registry."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from constrained.server.scheduler import Scheduler

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Counters, gauges and histograms of a server.

    Args:
        scheduler: source of the gauges.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "constrained_requests",
            "Requests, by endpoint and status.",
            ["endpoint", "status"],
            registry=registry,
        )
        self.disconnects = Counter(
            "constrained_disconnects", "Requests whose client disconnected.", registry=registry
        )
        self.prompt_tokens = Counter("constrained_prompt_tokens", "Prompt tokens.", registry=registry)
        self.tokens = Counter("constrained_generated_tokens", "Completion tokens.", registry=registry)
        self.compile = Histogram(
            "constrained_compile_seconds",
            "Seconds from the body of a request to its first mask.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.first_token = Histogram(
            "constrained_first_token_seconds",
            "Seconds from the body of a request to its first token.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.seconds = Histogram(
            "constrained_request_seconds",
            "Seconds from the body of a request to the end of its response.",
            buckets=_SECONDS,
            registry=registry,
        )
        running = Gauge("constrained_texts_running", "Sequences that are being decoded.", registry=registry)
        running.set_function(lambda: scheduler.running)
        parked = Gauge("constrained_texts_parked", "Sequences that wait for a slow mask.", registry=registry)
        parked.set_function(lambda: scheduler.parked)
        waiting = Gauge("constrained_requests_waiting", "Requests in the queue.", registry=registry)
        waiting.set_function(lambda: scheduler.waiting)

    def page(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self._registry)
