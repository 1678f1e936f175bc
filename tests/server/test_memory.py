"""Memory of the process: cached automata have bytes, not only a number; new and then running requests end before the process does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from constrained import InvalidArgument, json_schema
from constrained.automaton import TokenAutomaton, cache
from constrained.automaton.cache import compile_cached
from constrained.server import ServerSettings, memory
from constrained.server.memory import MemoryWatch
from constrained.testing import ScriptedModel
from tests.server.serving import BYTES, MODEL, GatedModel, scripted, served, wait_until
from tests.support.paths import ROOT


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def automaton(pattern: str) -> Any:
    return compile_cached(json_schema({"type": "string", "pattern": pattern}), BYTES)[1]


def walk(made: Any, text: bytes) -> int:
    state: int = made.start
    for byte in text:
        state = made.next(state, byte)
    return state


def test_the_automata_that_were_used_last_stay_within_the_bytes() -> None:
    made = [automaton(f"^a{i}[a-z]+$") for i in range(6)]
    for one in made:
        walk(one, b'"a')
    total = cache.fit()
    sizes = [one.memory["bytes"] for one in made]
    assert total == sum(sizes)
    assert automaton("^a0[a-z]+$") is made[0], "used now"
    assert cache.fit(sizes[0] + sizes[5]) == sizes[0] + sizes[5]
    assert automaton("^a0[a-z]+$") is made[0]
    assert automaton("^a1[a-z]+$") is not made[1]
    assert cache.fit(0) > 0, "the newest stays"


def test_a_text_that_runs_keeps_its_evicted_automaton() -> None:
    first = automaton("^b[a-z]+$")
    state = walk(first, b'"b')
    automaton("^c$")
    cache.fit(0)
    assert automaton("^b[a-z]+$") is not first
    mask = first.new_mask()
    first.fill_mask(state, mask)
    assert first.accepts(first.next(first.next(state, ord("x")), ord('"')))


def test_an_automaton_that_computes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = automaton("^d+$")
    assert not busy.busy
    before = cache.fit()
    monkeypatch.setattr(TokenAutomaton, "busy", True, raising=False)
    monkeypatch.setattr(
        TokenAutomaton, "memory", property(lambda self: pytest.fail("it waits")), raising=False
    )
    assert cache.fit() == before


def test_what_is_left_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    free, resident, shed = [1000], [100], [0]
    monkeypatch.setattr(memory.gc, "collect", lambda: 0)  # takes seconds beside what other tests keep
    monkeypatch.setattr(memory, "free_bytes", lambda: free[0])
    monkeypatch.setattr(memory, "resident_size", lambda: resident[0])

    def end() -> None:
        shed[0] += 1

    watch = MemoryWatch(ServerSettings(min_free_memory=200, max_memory=600), end)
    for left, low, ended in ((1000, False, 0), (199, True, 0), (99, True, 1), (50, True, 2), (500, False, 2)):
        free[0] = left
        watch.look()
        assert (watch.low, shed[0]) == (low, ended)
    for size, low, ended in ((401, True, 2), (501, True, 3), (390, False, 3)):
        resident[0] = size
        watch.look()
        assert (watch.low, shed[0]) == (low, ended)
    free[0] = None
    resident[0] = None
    watch.look()
    assert not watch.low, "where the system says nothing, nothing is refused"


def test_low_memory_empties_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    made = automaton("^e+$")
    monkeypatch.setattr(memory, "free_bytes", lambda: 1 if len(cache._cache) else 1 << 40)
    monkeypatch.setattr(memory.gc, "collect", lambda: 0)
    watch = MemoryWatch(ServerSettings())
    watch.look()
    assert not watch.low
    assert automaton("^e+$") is not made


@pytest.mark.ci
def test_the_last_request_of_the_client_with_most_ends_first() -> None:
    model = GatedModel("x" * 500)
    keys = ("many", "few")
    with served(model, api_key=keys) as server, ThreadPoolExecutor(4) as pool:

        def ask(key: str) -> Any:
            body = {
                "model": MODEL,
                "messages": [{"role": "user", "content": "go"}],
                "temperature": 0,
                "max_tokens": 600,
            }
            return server.post("/v1/chat/completions", body, headers={"authorization": f"Bearer {key}"})

        answers = []
        model.gate.set()
        for turn, some in enumerate((["many"], ["many", "many"], ["few"])):  # admitted in this order
            answers += [pool.submit(ask, key) for key in some]
            count = len(answers)
            wait_until(lambda count=count: server.scheduler.waiting + server.scheduler.running == count)  # type: ignore[misc]
            model.gate.set()
            wait_until(lambda count=count: server.scheduler.running == count)  # type: ignore[misc]
            if turn < 2:
                model.gate.clear()
        server.service.models.shed()
        done = [one.result() for one in answers]
        assert sorted(one.status_code for one in done[1:3]) == [200, 503], "the last ones of that client"
        assert (done[0].status_code, done[3].status_code) == (200, 200)
        refused = next(one for one in done if one.status_code == 503)
        assert refused.json()["error"]["code"] == "out_of_memory"
        page = server.http.get("/metrics", headers={"authorization": "Bearer few"}).text
        assert 'constrained_memory_bytes{kind="resident"}' in page
        assert f'constrained_request_seconds_count{{model="{MODEL}"}}' in page
        server.service.models.shed()  # nobody is there, and who comes next is left alone
        assert ask("few").status_code == 200


def test_the_limit_leaves_room() -> None:
    with pytest.raises(InvalidArgument, match="max_memory"):
        ServerSettings(max_memory=100 << 20)


_LIMITED = """
import numpy as np, sys, torch
from constrained.decoding.malloc_trim import resident_size
from constrained.server import ServerSettings
from constrained.server.errors import to_api_error
from constrained.server.memory import MemoryWatch
watch = MemoryWatch(ServerSettings(max_memory=resident_size() + (600 << 20), min_free_memory=0))
watch.start()
for allocate in (lambda: np.ones(3 << 27), lambda: torch.ones(3 << 28), lambda: [0] * (3 << 27), lambda: bytearray(3 << 30)):
    try:
        allocate()
        print("it was allocated")
    except Exception as error:
        print(to_api_error(error).code, end=" ")
assert np.ones(50 << 20, np.uint8).any()
watch.stop()
assert np.empty(3 << 30, np.uint8).size  # nothing is written: its pages cost seconds
print("done")
"""


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_an_allocation_beyond_the_limit_is_an_error_of_its_request() -> None:
    """3 GiB at once, by numpy, torch, Python lists and bytes; 50 MiB are there, and so are 3 GiB without the limit."""
    done = subprocess.run([sys.executable, "-c", _LIMITED], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "out_of_memory " * 4 + "done\n", done.stderr


class Greedy(ScriptedModel):
    """Cannot allocate what the logits of a long prompt take."""

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        if len(prompt) > 20:
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"
            )
        return super().logits(prompt, completion)


def test_a_pass_without_memory_ends_its_requests_only() -> None:
    with served(Greedy(BYTES, "hello")) as server:
        refused = server.chat("x" * 30)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "out_of_memory")
        assert server.chat("x").status_code == 200


@pytest.mark.ci
def test_a_request_is_refused_while_memory_is_low(monkeypatch: pytest.MonkeyPatch) -> None:
    free = [1 << 40]
    monkeypatch.setattr(memory, "free_bytes", lambda: free[0])
    with served(scripted("hello")) as server:
        assert server.chat().status_code == 200
        free[0] = 200 << 20
        wait_until(lambda: server.service.memory.low)
        answer = server.chat()
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "low_memory")
        assert answer.headers["retry-after"]
        free[0] = 1 << 40
        wait_until(lambda: not server.service.memory.low)
        assert server.chat().status_code == 200
