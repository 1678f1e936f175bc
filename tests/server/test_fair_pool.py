"""The threads that try new constraints: clients get equal parts of their time, and none of them gets all threads."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future

import pytest

from constrained.server.fair_pool import FairPool
from tests.server.serving import wait_until


class Clock:
    """Seconds that tests set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Jobs:
    """Jobs that take the time that a test says."""

    def __init__(self, threads: int, *, spare: bool = False) -> None:
        self.clock = Clock()
        self.pool = FairPool(threads, "fair", self.clock, spare=spare)
        self.begun: list[str] = []
        self.gates: dict[str, threading.Event] = {}

    def add(self, client: str, name: str) -> Future[str]:
        self.gates[name] = threading.Event()
        return self.pool.submit(client, self._run, name)

    def _run(self, name: str) -> str:
        self.begun.append(name)
        assert self.gates[name].wait(20)
        return name

    def runs(self, *names: str) -> None:
        """Waits until these jobs, and no others, have begun."""
        wait_until(lambda: set(names) <= set(self.begun))
        assert self.begun == list(names)

    def end(self, name: str, seconds: float) -> None:
        self.clock.now += seconds
        self.gates[name].set()


@pytest.fixture
def one() -> Iterator[Jobs]:
    yield from _jobs(1)


@pytest.fixture
def two() -> Iterator[Jobs]:
    yield from _jobs(2)


@pytest.fixture
def spare() -> Iterator[Jobs]:
    yield from _jobs(2, spare=True)


def _jobs(threads: int, *, spare: bool = False) -> Iterator[Jobs]:
    made = Jobs(threads, spare=spare)
    yield made
    made.pool.close()
    for gate in made.gates.values():
        gate.set()


def test_a_client_that_had_less_time_comes_first(one: Jobs) -> None:
    for name in ("a1", "a2", "a3"):
        one.add("a", name)
    one.runs("a1")
    for name in ("b1", "b2"):
        one.add("b", name)
    one.end("a1", 5)
    one.runs("a1", "b1")
    one.end("b1", 1)
    one.runs("a1", "b1", "b2")
    one.end("b2", 9)
    one.runs("a1", "b1", "b2", "a2")


def test_time_is_forgotten(one: Jobs) -> None:
    one.add("a", "a1")
    one.runs("a1")
    one.end("a1", 1000)
    wait_until(lambda: one.pool._idle == 1)
    one.add("b", "b1")
    one.runs("a1", "b1")
    one.clock.now += 600  # b has had 600 seconds then, and a had 1,000, long ago
    one.add("a", "a2")
    one.add("b", "b2")
    one.end("b1", 1)
    one.runs("a1", "b1", "a2")


def test_nobody_has_all_threads_while_others_are_about(two: Jobs) -> None:
    for name in ("a1", "a2", "a3"):
        two.add("a", name)
    wait_until(lambda: len(two.begun) == 2)  # alone
    two.add("b", "b1")
    two.end("a1", 1)
    wait_until(lambda: "b1" in two.begun)
    two.end("b1", 1)
    wait_until(lambda: two.pool._idle == 1)
    assert len(two.begun) == 3, "b was here a moment ago: a thread is left to it"
    two.end("a2", 1)
    wait_until(lambda: "a3" in two.begun)


def test_a_spare_thread_is_left_to_those_who_are_not_there_yet(spare: Jobs) -> None:
    for name in ("a1", "a2"):
        spare.add("a", name)
    spare.runs("a1")
    spare.add("b", "b1")
    spare.runs("a1", "b1")
    spare.end("b1", 1)
    spare.end("a1", 1)
    spare.runs("a1", "b1", "a2")


def test_errors_cancelled_jobs_and_the_end(one: Jobs) -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        one.pool.submit("a", fail).result(20)
    running, waiting, left = one.add("a", "a1"), one.add("a", "a2"), one.add("a", "a3")
    one.runs("a1")
    assert waiting.cancel()
    one.end("a1", 0)
    assert running.result(20) == "a1"
    one.runs("a1", "a3")
    last = one.add("a", "a4")
    one.pool.close()
    with pytest.raises(CancelledError):
        last.result(20)
    one.end("a3", 0)
    assert left.result(20) == "a3"
    with pytest.raises(RuntimeError):
        one.add("a", "a5")


def test_a_cancelled_job_is_forgotten_at_once(one: Jobs) -> None:
    class Body:
        """What a job would read."""

    def read(body: Body) -> None:
        raise AssertionError("nobody waits for it")

    one.add("a", "a1")
    one.runs("a1")
    body = Body()
    freed = weakref.ref(body)
    assert one.pool.submit("a", read, body).cancel()
    last = one.add("a", "a2")
    del body
    gc.collect()
    assert freed() is None
    one.end("a1", 0)
    one.end("a2", 0)
    assert last.result(20) == "a2"
