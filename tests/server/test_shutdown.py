"""The server ends in its time, whatever its clients do; what it cannot finish is told why."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from constrained.sandbox import SandboxFailed
from constrained.server import bodies
from tests.server.serving import MODEL, GatedModel, Served, served, wait_until

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}


def slowly(server: Served, head: bytes) -> socket.socket:
    """A connection whose request does not come to its end."""
    connection = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))
    connection.sendall(head)
    return connection


def told(connection: socket.socket) -> bytes:
    connection.settimeout(60)
    with connection:
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_what_is_not_finished_in_time_is_told_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A body that trickles in, a head that does, a large request in its process, an answer and streams that are not done."""
    model, held = GatedModel("hello"), threading.Event()
    with served(model, grace=1, sandbox=True) as server, ThreadPoolExecutor(8) as clients:
        wait_until(lambda: server.service.large.ready)
        monkeypatch.setattr(server.service.large, "run", lambda *all: _ended(held))
        body = slowly(server, f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{".encode())
        head = slowly(server, f"POST {CHAT} HTT".encode())
        large = clients.submit(server.post, CHAT, {**HELLO, "user": "x" * bodies.ELSEWHERE})
        whole = clients.submit(server.post, CHAT, HELLO)
        stream = clients.submit(server.post, CHAT, {**HELLO, "stream": True})
        events = clients.submit(
            server.post, "/v1/responses", {"model": MODEL, "input": "hello", "stream": True}
        )
        wait_until(lambda: server.service.admission.open == 5)
        wait_until(lambda: server.scheduler.running + server.scheduler.waiting == 3)
        server.server.should_exit = True
        try:
            assert told(head) == b""
            assert told(body).startswith(b"HTTP/1.1 503")
            for asked in (large, whole):
                answer = asked.result(60)
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "stopping")
            last, done = [line for line in stream.result(60).text.splitlines() if line][-2:]
            assert json.loads(last.removeprefix("data: "))["error"]["code"] == "stopping"
            assert done == "data: [DONE]"
            last = [line for line in events.result(60).text.splitlines() if line][-1]
            assert json.loads(last.removeprefix("data: "))["code"] == "stopping"
        finally:
            held.set()
            model.gate.set()
        server.thread.join(60)
        assert not server.thread.is_alive()
    assert "Exception" not in caplog.text


def _ended(held: threading.Event) -> None:
    held.wait(60)
    raise SandboxFailed(None)
