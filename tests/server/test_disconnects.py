"""Clients that hang up before they have an answer: nothing is computed for them any more."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from constrained.server import prepare
from constrained.server.round_robin import ClientThreads
from tests.server.serving import MODEL, Served, scripted, served, wait_until

HI: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "temperature": 0}
CHAT = "/v1/chat/completions"


@contextmanager
def busy(pool: ClientThreads) -> Iterator[None]:
    """All threads of a pool wait, each in a job of a client that nobody else is."""
    gate, began = threading.Event(), threading.Semaphore(0)

    def wait() -> None:
        began.release()
        gate.wait(60)

    jobs = [pool.submit(f"holder {i}", wait) for i in range(pool._size)]
    for _ in jobs:
        assert began.acquire(timeout=60)
    try:
        yield
    finally:
        gate.set()


def waiting(pool: ClientThreads) -> int:
    with pool._changed:
        return len(pool._waiting)


def asked(server: Served, path: str, body: dict[str, Any]) -> socket.socket:
    """A connection on which a request has been sent."""
    content = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))
    connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n".encode())
    connection.sendall(content)
    return connection


@pytest.mark.ci
@pytest.mark.parametrize(
    ("path", "body", "which"),
    [
        (CHAT, HI, "prepare_threads"),
        (CHAT, {**HI, "structured_outputs": {"regex": "a{17}"}}, "threads"),
        (CHAT, {**HI, "user": "x" * 20_000}, "prepare_threads"),
        ("/tokenize", {"prompt": "x"}, "prepare_threads"),
    ],
)
def test_a_request_that_waits_is_dropped(path: str, body: dict[str, Any], which: str) -> None:
    with served(scripted("hello"), compile_threads=1) as server:
        pool = getattr(server.workers, which)
        with busy(pool):
            connection = asked(server, path, body)
            wait_until(lambda: waiting(pool) == 1)
            assert server.service.admission.open == 1
            connection.close()
            wait_until(lambda: server.service.admission.open == 0)
            wait_until(lambda: waiting(pool) == 0)
        assert server.chat().status_code == 200


def test_a_constraint_that_was_tried_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, gate, prepared = threading.Event(), threading.Event(), []
    make = prepare.prepare_request
    monkeypatch.setattr(
        prepare, "prepare_request", lambda *given, **more: (prepared.append(given), make(*given, **more))[1]
    )

    def compiled(*given: Any, **named: Any) -> None:
        entered.set()
        assert gate.wait(60)

    with served(scripted("hello"), compile_threads=1) as server:
        monkeypatch.setattr(server.workers, "count", 1)
        monkeypatch.setattr(server.workers, "call", compiled)
        connection = asked(server, CHAT, {**HI, "structured_outputs": {"regex": "a{18}"}})
        assert entered.wait(60)
        connection.close()
        wait_until(lambda: server.service.admission.open == 0)
        gate.set()
        assert server.chat(structured_outputs={"regex": "hello"}).status_code == 200  # behind it
        assert len(prepared) == 1


def test_texts_and_tokens_count_as_requests() -> None:
    with served(scripted("hello"), max_client_requests=1) as server:
        with busy(server.workers.prepare_threads):
            connection = asked(server, "/tokenize", {"prompt": "x"})
            wait_until(lambda: server.service.admission.open == 1)
            answer = server.post("/detokenize", {"tokens": [65]})
            assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many_requests")
        wait_until(lambda: server.service.admission.open == 0)
        connection.close()
        assert server.post("/detokenize", {"tokens": [65]}).json()["prompt"] == "A"
