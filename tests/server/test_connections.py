"""Many connections, heads that are large or can be read in two ways, and what a proxy or a page of the web would send."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import socket
import sys
from collections.abc import Iterator

import httpx
import pytest

from constrained.server import ServerSettings
from constrained.server.connections import LoopErrors, fit_connections
from constrained.server.logs import logging_as_json
from constrained.server.round_robin import Turns
from tests.server.serving import MODEL, GatedModel, scripted, served
from tests.server.test_limits import HI, process, received

HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


@contextlib.contextmanager
def connections(where: tuple[str, int], count: int, address: str) -> Iterator[list[socket.socket]]:
    """Idle connections of an address, which the server has seen."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(where, address)) for _ in range(count)]
        assert all(map(is_open, held))
        yield held


def connected(where: tuple[str, int], address: str) -> socket.socket:
    return socket.create_connection(where, timeout=60, source_address=(address, 0))


def is_open(connection: socket.socket) -> bool:
    answer = b""
    with contextlib.suppress(ConnectionError):
        connection.sendall(HEALTH)
        while b'"ok"' not in answer and (part := connection.recv(1000)):
            answer += part
    return b'"ok"' in answer


needs_loopback = pytest.mark.skipif(sys.platform != "linux", reason="the loopback has one address elsewhere")


@pytest.mark.ci
@needs_loopback
def test_at_the_limit_the_address_with_most_connections_loses_an_idle_one() -> None:
    with (
        process(scripted("hello"), sandbox=False, max_connections=6) as where,
        connections(where, 1, "127.0.0.2") as others,
        connections(where, 5, "127.0.0.1") as many,
        connections(where, 2, "127.0.0.3") as new,
    ):
        assert [is_open(one) for one in (*others, *new)] == [True] * 3
        assert [is_open(one) for one in many] == [False, False, True, True, True]


@pytest.mark.ci
@needs_loopback
def test_a_request_in_work_keeps_its_connection_and_the_last_refusal_says_what_to_do() -> None:
    body = json.dumps(HI).encode()
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    )
    with (
        process(scripted("hello"), sandbox=False, max_connections=2) as where,
        contextlib.ExitStack() as stack,
    ):
        working = [stack.enter_context(connected(where, "127.0.0.1")) for _ in range(2)]
        for one in working:
            one.sendall(head % len(body))
            assert one.recv(1000).startswith(b"HTTP/1.1 100 ")
        refused, _, said = received(stack.enter_context(connected(where, "127.0.0.2"))).partition(b"\r\n\r\n")
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1" in refused
        assert json.loads(said)["error"]["code"] == "too_many_connections"
        for one in working:
            one.sendall(body)
            assert one.recv(1000).startswith(b"HTTP/1.1 200 ")


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_connections_have_descriptors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import resource

    limits = {"now": (1024, 4096)}
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda which, to: limits.update(now=to))
    assert fit_connections(ServerSettings()).max_connections == 1024
    assert limits["now"] == (4096, 4096)
    assert not caplog.text
    limits["now"] = (256, 512)
    assert fit_connections(ServerSettings()).max_connections == 512 - 128
    assert "at most 384 connections" in caplog.text
    limits["now"] = (256, -1)
    assert fit_connections(ServerSettings(max_connections=100_000)).max_connections == 100_000


def test_errors_of_the_loop_are_a_line_a_second() -> None:
    stream = io.StringIO()

    async def fail() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(LoopErrors())
        for _ in range(3000):
            loop.call_exception_handler({"message": "accept failed", "exception": OSError(24, "secret")})

    with contextlib.redirect_stderr(stream), logging_as_json(requests=False):
        asyncio.run(fail())
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["error"] == "OSError"
    assert "secret" not in line


@pytest.mark.ci
@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 5000 + b"\r\n\r\n", b"more than 2048 bytes"),
        (b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long:" + b" " * 5000 + b"\r\n\r\n", b"more than 2048 bytes"),
        (b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 5000, b"invalid_http"),
        (
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"send one of them",
        ),
        (b"hello\r\n\r\n", b"invalid_http"),
    ],
)
def test_a_head_that_is_refused_ends_its_connection(where: tuple[str, int], head: bytes, said: bytes) -> None:
    """Also if it comes in one piece; what follows it is not read."""
    with socket.create_connection(where, timeout=60) as sent:
        sent.sendall(head + HEALTH)
        answer = received(sent)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"
    assert said in answer


@pytest.fixture(scope="module")
def where() -> Iterator[tuple[str, int]]:
    with process(scripted("hello"), sandbox=False, max_headers=2048) as found:
        yield found


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(
            (one, 200)
            for one in ("localhost", "LocalHost:80", "127.0.0.1:8000", "[::1]:1", "x", "a.localhost")
        ),
        *((one, 200) for one in ("192.168.0.7:8000", "host.docker.internal:8000", "box.local")),
        *(
            (one, 403)
            for one in ("example.com", "example.com:8000", "127.0.0.1.example.com", "localhost.de:1")
        ),
    ],
)
def test_a_server_for_this_machine_has_no_name_of_the_web(
    where: tuple[str, int], host: str, status: int
) -> None:
    answer = httpx.get(f"http://{where[0]}:{where[1]}/v1/models", headers={"host": host})
    assert answer.status_code == status
    if status != 200:
        assert answer.json()["error"]["code"] == "host_not_allowed"


@pytest.mark.ci
def test_with_a_key_or_behind_a_proxy_every_name_is_right() -> None:
    for settings in ({"api_key": "k"}, {"trust_proxy": True}):
        with process(scripted("hello"), sandbox=False, **settings) as (host, port):
            headers = {"host": "example.com", "authorization": "Bearer k"}
            assert httpx.get(f"http://{host}:{port}/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"content-type": "application/json; charset=utf-8"}, 200),
        ({"content-type": "APPLICATION/vnd.x+json"}, 200),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "text/plain; application/json"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "multipart/form-data; boundary=x"}, 415),
        ({"origin": "https://a.example"}, 415),
        ({"origin": "https://a.example", "content-type": "application/json"}, 200),
    ],
)
def test_pages_of_the_web_have_to_ask_first(
    where: tuple[str, int], headers: dict[str, str], status: int
) -> None:
    url = f"http://{where[0]}:{where[1]}/v1/chat/completions"
    answer = httpx.post(url, content=json.dumps(HI), headers=headers)
    assert answer.status_code == status
    if status != 200:
        assert answer.json()["error"]["code"] == "unsupported_content_type"


@pytest.mark.ci
@pytest.mark.parametrize(
    ("trusted", "told", "client"),
    [
        (False, "10.0.0.1", "127.0.0.1"),
        (True, "6.6.6.6, 10.0.0.1", "10.0.0.1"),
        (True, "nobody", "127.0.0.1"),
        (True, "2001:DB8::1", "2001:db8::1"),
    ],
)
def test_clients_are_told_apart_by_what_a_trusted_proxy_says(trusted: bool, told: str, client: str) -> None:
    model = GatedModel("hello")
    with served(model, trust_proxy=trusted) as server, server.openai() as openai:
        asked = {"model": MODEL, "messages": HI["messages"], "stream": True}
        with openai.chat.completions.create(**asked, extra_headers={"x-forwarded-for": told}):
            assert set(server.service.admission.clients) == {client}
            model.gate.set()


def test_a_long_path_is_shortened(where: tuple[str, int]) -> None:
    for method, path in (("GET", "/" + "x" * 1500), ("GET", "/v1/models/" + "x" * 1500), ("M" * 1500, "/x")):
        with socket.create_connection(where, timeout=60) as sent:
            sent.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert len(received(sent)) < 1000


def test_what_is_answered_at_once_leaves_the_loop_to_others_and_takes_turns() -> None:
    order: list[str] = []

    async def ask(turns: Turns, client: str) -> None:
        await turns.take(client)
        order.append(client)

    async def all_of_them() -> None:
        turns = Turns()
        await asyncio.gather(*(ask(turns, client) for client in "aaaaab"))
        gone = asyncio.create_task(ask(turns, "c"))
        await asyncio.sleep(0)
        gone.cancel()
        await ask(turns, "d")

    asyncio.run(all_of_them())
    assert order[-1] == "d"
    assert order.index("b") == 1
    assert len(order) in (7, 8)
