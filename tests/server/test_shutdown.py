"""The server ends in its time, whatever its clients do; what it cannot finish is told why."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from constrained.server.errors import stopping_error
from constrained.server.read_request import LARGE
from constrained.testing import ScriptedModel
from tests.server.serving import BYTES, MODEL, GatedModel, Served, served, wait_until

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


@pytest.mark.ci
def test_what_is_not_finished_in_time_is_told_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A body that trickles in, a head that does, a large request in its process, an answer and streams that are not done."""
    model, held = GatedModel("hello"), threading.Event()
    with served(model, grace=1, sandbox=True) as server, ThreadPoolExecutor(8) as clients:
        monkeypatch.setattr(server.workers, "call", lambda *all: _ended(held))
        body = slowly(server, f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{".encode())
        head = slowly(server, f"POST {CHAT} HTT".encode())
        large = clients.submit(server.post, CHAT, {**HELLO, "user": "x" * LARGE})
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


@pytest.mark.ci
def test_bodies_that_keep_trickling_in_do_not_keep_the_server(caplog: pytest.LogCaptureFixture) -> None:
    """Byte by byte until they are told; announced or in chunks, small or with much behind them; and streams that nobody reads."""
    post = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\n"
    long = json.dumps({**HELLO, "stream": True, "max_tokens": 200_000}).encode()
    read = [
        (f"{post}Content-Length: 100000\r\n\r\n".encode(), b" "),
        (f"{post}Transfer-Encoding: chunked\r\n\r\n".encode(), b"1\r\n \r\n"),
        (f"{post}Content-Length: 8000000\r\n\r\n".encode() + b" " * 100_000, b" "),
    ]
    unread = f"{post}Content-Length: {len(long)}\r\n\r\n".encode() + long
    model = ScriptedModel(BYTES, "x" * 200_000, context=300_000)
    with served(model, grace=1) as server, ThreadPoolExecutor(8) as clients:
        streams = [slowly(server, unread) for _ in range(2)]
        wait_until(lambda: server.scheduler.running == 2)
        trickling = [clients.submit(trickled, server, head, more) for head, more in read * 2]
        wait_until(lambda: server.service.admission.open == 8)
        server.server.should_exit = True
        server.thread.join(60)
        assert not server.thread.is_alive()
        assert {one.result(60)[:12] for one in trickling} == {b"HTTP/1.1 503"}
        for one in streams:
            one.close()
        assert server.service.admission.open == 0
    assert "Exception" not in caplog.text


def trickled(server: Served, head: bytes, more: bytes) -> bytes:
    """What is answered to a request whose body comes in small parts, without an end."""
    connection, answer = slowly(server, head), b""
    connection.settimeout(0.02)
    with connection:
        while not answer:
            with contextlib.suppress(
                ConnectionError, TimeoutError
            ):  # what was answered can be read after a reset, too
                connection.sendall(more)
            with contextlib.suppress(TimeoutError):
                answer = connection.recv(4096)
    return answer


def _ended(held: threading.Event) -> None:
    held.wait(60)
    raise stopping_error()
