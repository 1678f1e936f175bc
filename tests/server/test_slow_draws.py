"""A slow mask holds its own completion only; a constraint with slow masks is refused by its trial."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from constrained import Vocabulary, load
from constrained.automaton import TokenAutomaton
from constrained.chat.detect import ReplyFormats
from constrained.server import compile_sandbox, lane, run
from constrained.server.compile_sandbox import CompileSandbox
from constrained.server.sequence_stream import SequenceStream
from tests.server.serving import BYTES, MODEL, scripted, served, wait_until
from tests.server.test_compile_sandbox import chat_request
from tests.support.tiny_models import random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer


class Gate:
    """Holds each draw of a marked prompt until it is opened, from its `first` token on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mark: int, first: int = 1) -> None:
        self.open = threading.Event()
        self.held = 0
        self.threads: set[str] = set()
        advance = SequenceStream.advance

        def gated(stream: SequenceStream, distribution: Any) -> None:
            if len(stream.sequence.prompt) == mark and len(stream.sequence.tokens) >= first:
                self.held += 1
                self.threads.add(threading.current_thread().name)
                assert self.open.wait(60)
            advance(stream, distribution)

        monkeypatch.setattr(SequenceStream, "advance", gated)


@pytest.mark.parametrize("first", [0, 2], ids=["first token", "later"])
@pytest.mark.parametrize("speculation", [None, "auto"])
def test_others_go_on_and_the_text_is_the_same(
    monkeypatch: pytest.MonkeyPatch, first: int, speculation: str | None
) -> None:
    model = load(random_llama(), small_bpe_tokenizer(), isolate=True)

    def ask(server: Any, prompt: list[int]) -> str:
        body = {"model": MODEL, "prompt": prompt, "seed": 3, "max_tokens": 12}
        answer: httpx.Response = server.post(
            "/v1/completions", {**body, "structured_outputs": {"regex": "[a-z ]{4,12}"}}
        )
        text: str = answer.json()["choices"][0]["text"]
        return text

    slow, quick = [5, 6, 7], [5, 6, 7, 8, 9]
    with served(model, speculation=speculation) as server:
        alone = [ask(server, prompt) for prompt in (slow, quick)]
    gate = Gate(monkeypatch, len(slow), first)
    with served(model, speculation=speculation) as server, ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(ask, server, slow)
        wait_until(lambda: server.scheduler.parked == 1)
        assert [ask(server, quick) for _ in range(2)] == [alone[1]] * 2
        assert not waiting.done()
        assert f'constrained_texts_parked{{model="{MODEL}"}} 1.0' in server.http.get("/metrics").text
        gate.open.set()
        assert waiting.result() == alone[0]
        wait_until(lambda: server.scheduler.parked == 0)
    assert "scheduler" not in gate.threads


def test_the_batch_waits_for_all_slow_draws_of_a_step_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its patience is that of a step, not of each draw: eight slow ones hold it little longer than one."""
    ends: list[float] = []
    wait = lane._Turn.wait

    def waited(turn: Any, end: float, park: Any) -> Any:
        ends.append(end)
        return wait(turn, end, park)

    monkeypatch.setattr(lane._Turn, "wait", waited)
    opened = threading.Event()
    members: list[Any] = [
        SimpleNamespace(
            slow=False, slow_seconds=0.0, draw_seconds=0.0, cancelled=False, parked=False, advance=lambda _: opened.wait(60)
        )
        for _ in range(8)
    ]  # fmt: skip
    distributions: list[Any] = [object()] * 8
    lanes = lane.Lane(60.0)
    try:
        assert lanes.draw(members, distributions, lambda _: None) == members
        assert len(ends) == 8
        assert len(set(ends)) == 1
    finally:
        opened.set()
        lanes.close()


class Gap(threading.Condition):
    """Holds the thread that draws once it has given its lock back after a draw, until the scheduler has waited in vain."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn, self.between, self.looked = threading.Event(), threading.Event(), threading.Event()
        self.waited = False

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if self.drawn.is_set() and threading.current_thread() is not threading.main_thread():
            self.between.set()
            assert self.looked.wait(60)

    def wait(self, timeout: float | None = None) -> bool:
        if self.waited:
            self.looked.set()
        self.waited = True
        return super().wait(timeout)


@pytest.mark.parametrize("fails", [False, True], ids=["a draw was the last one", "the model failed after it"])
def test_a_draw_that_has_ended_is_never_parked(fails: bool) -> None:
    gap = Gap()
    member: Any = SimpleNamespace(advance=lambda _: gap.drawn.set(), draw_seconds=0.0, finished=False)
    first: Any = object()
    parked: list[Any] = []

    def follow(_: Any) -> None:
        if fails:
            raise RuntimeError("no logits")

    def park(one: Any, _: float) -> None:
        parked.append(one)
        gap.looked.set()

    turn = lane._Turn(deque([(member, first)]), follow)
    turn._changed = gap
    with ThreadPoolExecutor(1) as worker:
        late = worker.submit(turn.work)
        assert gap.between.wait(60)
        with pytest.raises(RuntimeError, match="no logits") if fails else contextlib.nullcontext():
            assert turn.wait(0.0, park) is None
        assert late.result(60) is None
        assert not parked


def test_draws_that_take_too_long_end_their_request(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, len("slow"))
    with served(scripted("hello"), draw_seconds=0.2) as server:
        answer = server.chat("slow")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "constraint_too_slow")
        assert server.chat("quick").json()["choices"][0]["message"]["content"] == "hello"
        assert gate.held == 1
        gate.open.set()
        assert server.chat("slow").status_code == 200


def test_an_error_of_one_draw_is_that_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little memory for what it asks of its automaton."""
    step = TokenAutomaton.next_within

    def fails(automaton: Any, state: int, token: int, budget: int) -> int:
        if "zz" in getattr(automaton.constraint, "pattern", ""):
            raise MemoryError
        return step(automaton, state, token, budget)

    monkeypatch.setattr(TokenAutomaton, "next_within", fails)
    with served(scripted("abc"), max_tokens=20) as server:
        answer = server.chat(structured_outputs={"regex": "(zz|[a-c]){3,}"}, temperature=1)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "out_of_memory")
        assert server.chat(structured_outputs={"regex": "[a-c]{3,}"}, temperature=1).status_code == 200


def test_a_trial_measures_the_slowest_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = CompileSandbox(BYTES, 30, 256 << 20)
    try:
        assert 0 < sandbox(chat_request({"json": {"type": "object"}}), ReplyFormats(), None, 50) < 1
    finally:
        sandbox.close()
    seen: list[int] = []

    class Slow:
        """An automaton over two tokens whose masks are slow from the third token on, near the limit only."""

        vocabulary = Vocabulary.from_bytes([b"a", b"b", b""], [2])
        start = 1

        def new_mask(self) -> Any:
            import numpy as np

            return np.zeros(1, dtype=np.int32)

        def shortest_completion(self, state: int) -> int:
            return 2

        def fill_mask_within(self, state: int, mask: Any, budget: int) -> None:
            seen.append(budget)
            mask[0] = 0b111
            clock[0] += 3.0 if state == 3 and budget == 3 else 0.01

        def next(self, state: int, token: int) -> int:
            return state + 1

    clock = [0.0]
    monkeypatch.setattr(compile_sandbox.time, "thread_time", lambda: clock[0])
    assert compile_sandbox._slowest_mask(Slow(), 40) == pytest.approx(3.0)  # type: ignore[arg-type]
    assert {3, 10, 40, 33} <= set(seen)


def test_a_constraint_with_slow_masks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(self: CompileSandbox, *arguments: Any) -> float:
        return {"a": 0.0, "b": 2.0}[arguments[0].structured_outputs.regex]

    monkeypatch.setattr(CompileSandbox, "__call__", tried)
    with served(scripted("a"), sandbox=True) as server:
        assert server.chat(structured_outputs={"regex": "a"}).status_code == 200
        answer = server.chat(structured_outputs={"regex": "b"})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "constraint_too_slow")
        assert error["param"] == "structured_outputs.regex"


def test_a_request_is_refused_while_memory_is_low(monkeypatch: pytest.MonkeyPatch) -> None:
    from constrained.server import memory

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


def test_no_thread_keeps_the_others_from_running_while_the_server_serves() -> None:
    gc.unfreeze()  # what another library froze
    settings = gc.get_freeze_count(), sys.getswitchinterval()
    with run._prompt_threads():
        assert gc.get_freeze_count() > 10_000
        assert sys.getswitchinterval() < 0.001
    assert (gc.get_freeze_count(), sys.getswitchinterval()) == settings
