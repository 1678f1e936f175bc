"""Clients share the steps of a batch by the time that they have had; a client with little to do waits for nobody."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from constrained.server import scheduler
from constrained.server.seats import Seats, StepCosts
from tests.server.serving import MODEL, GatedModel, Served, served, wait_until


@dataclass(eq=False)
class Sequence:
    """A sequence that takes so many seconds a token."""

    seconds: float = 0.01
    length: int = 0


@dataclass
class Batch:
    """Steps that take a fixed time and that of each of their sequences, by a clock of their own."""

    fixed: float = 0.0
    now: float = 100.0
    groups: dict[str, list[Sequence]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.seats: Seats[Sequence] = Seats(32, lambda: self.now)
        self.had: Counter[str] = Counter()

    def step(self) -> list[Sequence]:
        """One step; the sequences that took part."""
        groups = {name: group for name, group in self.groups.items() if group}
        self.seats.enter(groups)
        chosen = self.seats.choose(groups)
        took = self.fixed + sum(one.seconds for one in chosen)
        here = [name for name, group in groups.items() if set(map(id, group)) & set(map(id, chosen))]
        self.seats.costs.record(len(chosen), took)
        for name in here:
            drawn = sum(one.seconds for one in groups[name] if one in chosen)
            self.seats.charge(name, drawn + self.fixed / len(here))
            self.had[name] += drawn + self.fixed / len(here)  # type: ignore[assignment]
        for one in chosen:
            one.length += 1
        self.now += took
        return chosen


def test_one_client_has_the_whole_batch() -> None:
    batch = Batch(groups={"a": [Sequence() for _ in range(40)]})
    assert len(batch.step()) == 32


def test_a_client_that_comes_begins_at_once_and_alone() -> None:
    """Its ten tokens wait for no draw of the client that was there."""
    batch = Batch(groups={"many": [Sequence() for _ in range(16)]})
    for _ in range(50):
        batch.step()
    few = Sequence()
    batch.groups["few"] = [few]
    for _ in range(10):
        assert batch.step() == [few]
    batch.groups["few"] = []
    assert len(batch.step()) == 1, "a client that was just here may be back in a moment"
    batch.now += 3
    assert len(batch.step()) == 16


def test_clients_that_stay_have_equal_time() -> None:
    """One with sixteen sequences of slow draws, one with one sequence, one that comes later: nobody starves."""
    batch = Batch(groups={"many": [Sequence(0.03) for _ in range(16)], "one": [Sequence(0.002)]})
    while batch.now < 130:
        batch.step()
    assert batch.had["many"] == pytest.approx(batch.had["one"], abs=0.3)
    batch.groups["late"] = [Sequence(0.01)]
    before = Counter(batch.had)
    while batch.now < 160:
        batch.step()
    gained = [batch.had[name] - before[name] for name in batch.groups]
    assert max(gained) - min(gained) < 0.5, gained


def test_who_uses_little_waits_for_nobody_that_comes() -> None:
    """A client that asks for ten tokens now and then, and one that comes with much: the first one is in every step that it wants."""
    batch, few = Batch(), [Sequence(0.0005)]
    for turn in range(100):
        batch.groups["few"] = few
        if turn == 80:
            batch.groups["many"] = [Sequence(0.001) for _ in range(16)]
        for _ in range(10):
            assert few[0] in batch.step()
        batch.groups["few"] = []
        began = batch.now
        while batch.now < began + 0.02:
            if turn < 80:
                batch.now += 0.02
            else:
                batch.step()


def test_clients_with_much_have_equal_time_beside_one_with_little() -> None:
    batch = Batch(groups={"slow": [Sequence(0.03)], "quick": [Sequence(0.002)] * 4})
    while batch.now < 160:
        batch.groups["few"] = [Sequence(0.001)] if round(batch.now * 10) % 5 == 0 else []
        batch.step()
    assert batch.had["slow"] == pytest.approx(batch.had["quick"], rel=0.05)
    assert batch.had["few"] > 1


def test_an_absence_saves_up_little() -> None:
    batch = Batch(groups={"stays": [Sequence()], "comes": [Sequence()]})
    while batch.now < 110:
        batch.step()
    comes = batch.groups.pop("comes")
    while batch.now < 170:
        batch.step()
    batch.groups["comes"] = comes
    before, began = batch.had["stays"], batch.now
    while batch.now < began + 1:
        batch.step()
    assert batch.had["stays"] - before > 0.3


@pytest.mark.parametrize(
    ("fixed", "each", "least", "most"), [(0.05, 0.0005, 17, 17), (0.0, 0.01, 1, 2), (0.04, 0.01, 4, 7)]
)
def test_sequences_beside_one_of_each_client_take_part_where_they_cost_little(
    fixed: float, each: float, least: int, most: int
) -> None:
    """As on a GPU, where a step takes about as long for many; on a CPU it takes longer with each."""
    batch = Batch(fixed, groups={"many": [Sequence(each) for _ in range(16)]})
    for i in range(200):
        batch.groups["one"] = [Sequence(each)] if i % 2 else []
        batch.step()
    batch.groups["one"] = [Sequence(each)]
    counts = {len(batch.step()) for _ in range(40)}
    assert least <= max(counts) <= most


def test_costs_of_steps_are_learned_and_kept() -> None:
    rng = random.Random(5)
    costs = StepCosts()
    assert costs.extra == 0
    for _ in range(300):
        count = rng.randint(1, 20)
        costs.record(count, 0.03 + 0.005 * count + rng.gauss(0, 0.001))
    assert costs.extra == pytest.approx(6, abs=1)
    for _ in range(2000):
        costs.record(2, 0.04)
    assert costs.extra == pytest.approx(6, abs=1)
    for _ in range(300):
        costs.record(rng.randint(1, 20), 0.03)
    assert costs.extra > 20


def test_the_sequences_of_a_client_take_turns() -> None:
    many = [Sequence() for _ in range(4)]
    batch = Batch(groups={"many": many, "one": [Sequence()]})
    while min(one.length for one in many) < 64:
        batch.step()
    assert max(one.length for one in many) <= 128


def test_a_request_waits_for_no_queue_of_another_client() -> None:
    """A batch of two and a queue, both filled by one client: the request of another one is answered before them."""
    model = GatedModel({"long": "x" * 60, "short": "yes"})
    keys = ("many", "few")
    with served(model, max_batch=2, api_key=keys) as server, ThreadPoolExecutor(7) as pool:

        def ask(key: str, text: str) -> httpx.Response:
            return _chat(server, key, text, max_tokens=80)

        long = [pool.submit(ask, "many", "long") for _ in range(6)]
        assert model.reached.wait(60)
        wait_until(lambda: server.scheduler.waiting >= 5)
        short = pool.submit(ask, "few", "short")
        wait_until(lambda: server.scheduler.waiting >= 6)
        model.gate.set()
        assert short.result().json()["choices"][0]["message"]["content"] == "yes"
        assert not any(one.done() for one in long)
        assert {one.result().json()["choices"][0]["message"]["content"] for one in long} == {"x" * 60}
        assert server.scheduler.held == 0


def test_prompts_are_read_one_by_one_while_others_wait_for_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a client alone all that wait begin together; beside another one a step is made after each prompt that takes long."""
    model = GatedModel({"long": "x" * 200, "short": "yes"})
    begun: list[int] = []  # sequences in the batch after each round
    monkeypatch.setattr(scheduler, "ADMIT_SECONDS", 0.0)
    admit = scheduler.Scheduler._admit

    def noted(self: scheduler.Scheduler, batch: Any) -> None:
        before = self.running
        admit(self, batch)
        begun.append(self.running - before)

    monkeypatch.setattr(scheduler.Scheduler, "_admit", noted)
    keys = ("many", "few")
    for others, most in ((("many",), 7), (("many", "few"), 2)):  # the first of two was alone
        model.gate.clear()
        model.reached.clear()
        begun.clear()
        with served(model, api_key=keys) as server, ThreadPoolExecutor(8) as pool:
            first = pool.submit(_chat, server, others[-1], "long", max_tokens=300)
            assert model.reached.wait(60)
            rest = [pool.submit(_chat, server, "many", "short", max_tokens=10) for _ in range(6)]
            wait_until(lambda server=server: server.scheduler.waiting == 6)
            model.gate.set()
            assert {one.result().status_code for one in (first, *rest)} == {200}
        assert max(begun) == most


def _chat(server: Served, key: str, text: str, *, max_tokens: int, timeout: float = 60) -> httpx.Response:
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": max_tokens,
    }
    headers = {"authorization": f"Bearer {key}"}
    return server.post("/v1/chat/completions", body, headers=headers, timeout=timeout)


def test_a_sequence_that_sits_out_can_be_given_up() -> None:
    model = GatedModel({"long": "x" * 5000, "other": "y" * 3000})
    with served(model, max_batch=4, api_key=("many", "few")) as server:

        def leave(key: str, text: str) -> None:
            with contextlib.suppress(httpx.TimeoutException):
                _chat(server, key, text, max_tokens=4000, timeout=0.5)

        model.gate.set()
        threads = [
            threading.Thread(target=leave, args=args) for args in [("many", "long")] * 4 + [("few", "other")]
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        wait_until(lambda: server.scheduler.running == 0 and server.scheduler.held == 0)
