"""Clients in turn: in queues, in the threads that prepare requests, and in the batch."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import httpx
import pytest

from constrained.server import scheduler
from constrained.server.round_robin import ClientThreads, RoundRobin
from tests.server.serving import MODEL, GatedModel, Served, served, wait_until


def test_clients_take_turns_and_their_items_do_not_overtake() -> None:
    queue: RoundRobin[str] = RoundRobin()
    for item in ("a1", "a2", "a3", "b1", "b2", "c1"):
        queue.put(item[0], item)
    assert (len(queue), list(queue)) == (6, ["a1", "a2", "a3", "b1", "b2", "c1"])
    taken = []
    while (client := queue.next()) is not None:
        assert queue.first(client)[0] == client
        taken.append(queue.pop(client))
        if taken == ["a1", "b1"]:
            queue.put("d", "d1")
            queue.drop(lambda item: item in ("a2", "c1"))
    assert taken == ["a1", "b1", "a3", "b2", "d1"]


def test_a_client_that_is_not_ready_loses_no_turn() -> None:
    queue: RoundRobin[str] = RoundRobin()
    for item in ("a1", "a2", "b1"):
        queue.put(item[0], item)
    assert queue.next(lambda client: client != "a") == "b"
    assert queue.next() == "a"
    assert queue.next(lambda client: False) is None


class Jobs:
    """Jobs that end when the test says."""

    def __init__(self, threads: int) -> None:
        self.pool = ClientThreads(threads, "jobs")
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

    def end(self, name: str) -> None:
        self.gates[name].set()


@pytest.fixture
def jobs(request: pytest.FixtureRequest) -> Iterator[Jobs]:
    made = Jobs(request.param)
    yield made
    made.pool.close()
    for gate in made.gates.values():
        gate.set()


@pytest.mark.parametrize("jobs", [1], indirect=True)
def test_jobs_of_clients_run_in_turn(jobs: Jobs) -> None:
    for name in ("a1", "a2", "a3"):
        jobs.add("a", name)
    jobs.runs("a1")
    jobs.add("b", "b1")
    for name, next_ones in (("a1", "a2"), ("a2", "b1"), ("b1", "a3")):
        jobs.end(name)
        wait_until(lambda wanted=next_ones: wanted in jobs.begun)
    jobs.runs("a1", "a2", "b1", "a3")


@pytest.mark.parametrize("jobs", [2], indirect=True)
def test_one_thread_is_left_to_others(jobs: Jobs) -> None:
    for name in ("a1", "a2"):
        jobs.add("a", name)
    jobs.runs("a1")
    jobs.add("b", "b1")
    jobs.runs("a1", "b1")
    jobs.end("b1")
    jobs.end("a1")
    jobs.runs("a1", "b1", "a2")


@pytest.mark.parametrize("jobs", [1], indirect=True)
def test_errors_cancelled_jobs_and_the_end(jobs: Jobs) -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        jobs.pool.submit("a", fail).result(20)
    running, waiting, left = jobs.add("a", "a1"), jobs.add("a", "a2"), jobs.add("a", "a3")
    jobs.runs("a1")
    assert waiting.cancel()
    jobs.end("a1")
    assert running.result(20) == "a1"
    jobs.runs("a1", "a3")
    last = jobs.add("a", "a4")
    jobs.pool.close()
    with pytest.raises(CancelledError):
        last.result(20)
    jobs.end("a3")
    assert left.result(20) == "a3"
    with pytest.raises(RuntimeError):
        jobs.add("a", "a5")


@pytest.mark.ci
@pytest.mark.parametrize("jobs", [1], indirect=True)
def test_a_cancelled_job_is_forgotten_at_once(jobs: Jobs) -> None:
    class Body:
        """What a job would read."""

    def read(body: Body) -> None:
        raise AssertionError("nobody waits for it")

    jobs.add("a", "a1")
    jobs.runs("a1")
    body = Body()
    freed = weakref.ref(body)
    assert jobs.pool.submit("a", read, body).cancel()
    del body
    gc.collect()
    assert freed() is None
    jobs.end("a1")


def chat(server: Served, key: str, text: str, max_tokens: int, n: int = 1) -> httpx.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "temperature": 0}
    headers = {"authorization": f"Bearer {key}"}
    return server.post("/v1/chat/completions", {**body, "max_tokens": max_tokens, "n": n}, headers=headers)


def test_a_request_waits_for_no_queue_of_another_client() -> None:
    """A row of the batch is kept for clients that have none, however many texts another one asks for."""
    model = GatedModel({"long": "x" * 600, "short": "yes"})
    with served(model, max_batch=2, api_key=("many", "few")) as server, ThreadPoolExecutor(7) as pool:
        long = [pool.submit(chat, server, "many", "long", 900) for _ in range(6)]
        assert model.reached.wait(60)
        wait_until(lambda: server.scheduler.waiting >= 5)
        assert server.scheduler.running == 1
        short = pool.submit(chat, server, "few", "short", 80)
        wait_until(lambda: server.scheduler.waiting >= 6)
        model.gate.set()
        assert short.result().json()["choices"][0]["message"]["content"] == "yes"
        assert sum(one.done() for one in long) <= 1, "it waits for the end of none"
        assert {one.result().json()["choices"][0]["message"]["content"] for one in long} == {"x" * 600}


def test_a_large_request_is_not_overtaken_forever() -> None:
    """It needs the whole batch: once it is its turn, nothing smaller is admitted before it."""
    model = GatedModel({"short": "yes", "all": "x" * 5})
    with served(model, max_batch=4, api_key=("many", "few")) as server, ThreadPoolExecutor(12) as pool:
        first = pool.submit(chat, server, "many", "short", 20)
        assert model.reached.wait(60)
        wide = pool.submit(chat, server, "few", "all", 20, 4)
        wait_until(lambda: server.scheduler.waiting == 1)
        rest = [pool.submit(chat, server, "many", "short", 20) for _ in range(6)]
        wait_until(lambda: server.scheduler.waiting == 7)
        model.gate.set()
        assert len(wide.result().json()["choices"]) == 4
        assert {one.result().status_code for one in (first, *rest)} == {200}


def test_so_many_prompts_are_read_between_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model = GatedModel({"long": "x" * 100, "short": "yes"})
    begun: list[int] = []
    monkeypatch.setattr(scheduler, "MAX_PREFILL_PROMPTS", 2)
    admit = scheduler.Scheduler._admit

    def noted(self: scheduler.Scheduler) -> None:
        before = self.running
        admit(self)
        begun.append(self.running - before)

    monkeypatch.setattr(scheduler.Scheduler, "_admit", noted)
    with served(model) as server, ThreadPoolExecutor(7) as pool:
        first = pool.submit(chat, server, "k", "long", 200)
        assert model.reached.wait(60)
        rest = [pool.submit(chat, server, "k", "short", 10) for _ in range(6)]
        wait_until(lambda: server.scheduler.waiting == 6)
        model.gate.set()
        assert {one.result().status_code for one in (first, *rest)} == {200}
    assert max(begun) == 2
