"""New constraints are compiled in worker processes, which may be ended: no constraint keeps a thread, or the server."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from constrained.chat.detect import ReplyFormats
from constrained.server.errors import ApiError
from constrained.server.requests import ChatRequest
from constrained.server.settings import ServerSettings
from constrained.server.workers import COMPILE, Workers
from tests.server.serving import MODEL, family, lives, processes_of, scripted, served, wait_until


def slow(rules: int = 5000, name: str = "b") -> dict[str, Any]:
    """A small grammar that takes far longer to compile than anybody here waits."""
    chain = "\n".join(f'r{i} ::= r{i + 1} | "a{i}"' for i in range(rules))
    return {"grammar": f'root ::= r0\n{chain}\nr{rules} ::= "{name}"'}


def chat_request(wanted: dict[str, Any]) -> ChatRequest:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], "structured_outputs": wanted}
    return ChatRequest.model_validate(body)


def workers_of(seconds: float, memory: int) -> Workers:
    settings = ServerSettings(compile_seconds=seconds, compile_memory=memory, compile_threads=1)
    made = Workers({MODEL: scripted("x")}, settings, None)
    made.start()
    return made


def compile_in(workers: Workers, wanted: dict[str, Any], param: str | None = None) -> None:
    workers.call(COMPILE, MODEL, chat_request(wanted), ReplyFormats(), param=param)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    made = workers_of(0.3, 256 << 20)
    yield made
    made.close()


@pytest.mark.ci
def test_what_can_be_compiled_passes(workers: Workers) -> None:
    (sandbox,) = workers._sandboxes
    before = processes_of(sandbox)[0]
    compile_in(workers, {"json": {"type": "object"}})
    compile_in(workers, {"choice": ["a", "b"]})
    assert processes_of(sandbox)[0] == before


@pytest.mark.ci
def test_what_cannot_is_refused_as_it_would_be_here(workers: Workers) -> None:
    with pytest.raises(ApiError) as refused:
        compile_in(workers, {"json": {"properties": {"a": {"pattern": r"(a)\1"}}}})
    assert (refused.value.status, refused.value.code) == (400, "unsupported_constraint")
    assert refused.value.param == "structured_outputs.json"
    assert [problem["place"] for problem in refused.value.problems] == ["#/properties/a/pattern"]


def test_what_takes_too_long_is_ended_and_the_next_one_is_served_at_once(workers: Workers) -> None:
    (sandbox,) = workers._sandboxes
    parent, child = family(sandbox)
    with pytest.raises(ApiError, match=r"within 0\.3 seconds") as refused:
        compile_in(workers, slow(), "structured_outputs.grammar")
    assert (refused.value.status, refused.value.code) == (400, "compile_timeout")
    assert refused.value.param == "structured_outputs.grammar"
    compile_in(workers, {"regex": "[a-z]+"})
    same, other = family(sandbox)
    assert same == parent
    assert other != child
    assert not Path(f"/proc/{child}").exists()


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_what_takes_too_much_memory_is_refused() -> None:
    small = workers_of(60, 24 << 20)
    try:
        compile_in(small, {"regex": "a"})
        with pytest.raises(ApiError) as refused:
            compile_in(small, {"choice": [f"{i:040}" for i in range(40_000)]})
        assert refused.value.code == "constraint_too_large"
        compile_in(small, {"regex": "a"})
    finally:
        small.close()


@pytest.mark.ci
def test_processes_that_were_killed_are_replaced(workers: Workers) -> None:
    (sandbox,) = workers._sandboxes
    parent, child = family(sandbox)
    os.kill(child, signal.SIGSEGV)  # as a mistake in the native part would
    wait_until(lambda: processes_of(sandbox)[1:] not in ([], [child]))
    for _ in range(2):
        compile_in(workers, {"regex": "a"})
        with pytest.raises(ApiError, match="within"):  # answers and questions have not got out of step
            compile_in(workers, slow())
    os.killpg(parent, signal.SIGKILL)
    with pytest.raises(ApiError) as refused:
        compile_in(workers, {"regex": "a"})
    assert (refused.value.status, refused.value.code) == (503, "compile_failed")
    compile_in(workers, {"regex": "a"})
    assert processes_of(sandbox)[0] != parent


@pytest.mark.ci
def test_twenty_hostile_constraints_in_a_row_leave_the_server_to_the_others() -> None:
    with (
        served(scripted("hello"), sandbox=True, compile_seconds=0.3, compile_threads=2) as server,
        ThreadPoolExecutor(20) as clients,
    ):
        assert server.chat(structured_outputs={"regex": "[a-z]+"}).status_code == 200
        sandboxes = server.workers._sandboxes
        for sandbox in sandboxes:
            sandbox.start()
        hostile = [clients.submit(server.chat, structured_outputs=slow(name=f"b{i}")) for i in range(20)]
        wait_until(lambda: server.service.admission.open >= 2)
        served_meanwhile = 0
        while not all(one.done() for one in hostile):
            answer = server.chat(structured_outputs={"regex": "[a-z]+"})  # is known
            if answer.status_code == 200:
                served_meanwhile += 1
            else:  # it waited behind the others and timed out
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "compile_queue_full")
        codes = {(one.result().status_code, one.result().json()["error"]["code"]) for one in hostile}
        assert codes <= {(400, "compile_timeout"), (503, "compile_queue_full")}
        assert (400, "compile_timeout") in codes
        # Threads and processes are back: as many constraints side by side as before.
        assert server.workers._free.qsize() == 2
        turns = itertools.count()

        def are_taken() -> bool:
            fresh = [
                clients.submit(server.chat, structured_outputs={"regex": f"[a-z]+|{next(turns)}"})
                for _ in range(2)
            ]
            return [one.result().status_code for one in fresh] == [200, 200]

        wait_until(are_taken)  # a process that is being started may miss its first deadline
        gone = [pid for sandbox in sandboxes for pid in processes_of(sandbox)]
        assert gone
    for pid in gone:
        wait_until(lambda pid=pid: not lives(pid))
