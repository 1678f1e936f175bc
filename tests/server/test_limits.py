"""Keys, origins, ids, logs, and clients that are slow, many or large: what a server does before a model is asked."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import logging
import re
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from constrained import InvalidArgument
from constrained.cli.serve import ServeOptions
from constrained.server import ServerSettings, serve
from constrained.server.logs import JsonFormatter
from tests.server.serving import MODEL, GatedModel, scripted, served, wait_until
from tests.support.paths import ROOT

HI = {"model": MODEL, "messages": [{"role": "user", "content": "secret words"}], "temperature": 0}


@contextlib.contextmanager
def process(model: Any, **settings: Any) -> Iterator[tuple[str, int]]:
    """`serve` in a thread; yields host and port. It ends with the thread that owns the model."""
    from constrained.server import run

    ready, where = threading.Event(), []
    servers: list[Any] = []

    class Kept(run._Server):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            servers.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_Server", Kept)

        def run_it() -> None:
            serve(
                model,
                ServerSettings(**{"name": MODEL, **settings}),
                port=0,
                on_ready=lambda url: (where.append(url), ready.set()),
            )

        thread = threading.Thread(target=run_it)
        thread.start()
        assert ready.wait(60)
        try:
            yield "127.0.0.1", int(where[0].rpartition(":")[2])
        finally:
            servers[0].should_exit = True
            thread.join()


def received(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.ci
def test_one_of_several_keys_is_needed() -> None:
    with served(scripted("hello"), api_key=("one", "zwei é")) as server:
        for shown, status in (
            *(("Bearer one", 200), ("Bearer zwei é", 200), ("bearer one", 200), ("BEARER  one", 200)),
            *(
                ("Bearer on", 401),
                ("Bearer one zwei é", 401),
                ("Bearer -", 401),
                ("one", 401),
                ("Basic one", 401),
            ),
        ):
            headers = {"authorization": shown.encode()}
            assert server.post("/v1/chat/completions", HI, headers=headers).status_code == status
            assert server.http.get("/metrics", headers=headers).status_code == status
        assert server.http.get("/metrics").status_code == 401
        assert server.http.get("/health").status_code == 200


def test_keys_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("b\nc\n")
    assert ServeOptions(api_key=("a",), api_key_file=file).keys == ("a", "b", "c")
    assert ServeOptions().keys is None
    file.write_text("\n")
    for bad in (file, tmp_path / "missing"):
        with pytest.raises(Exception, match=r"there is no key|cannot read the keys"):
            _ = ServeOptions(api_key_file=bad).keys


def test_a_client_has_so_many_requests() -> None:
    model = GatedModel("hello")
    with (
        served(model, api_key=("a", "b"), max_client_requests=2) as server,
        ThreadPoolExecutor(3) as pool,
    ):

        def ask(key: str) -> httpx.Response:
            return server.post("/v1/chat/completions", HI, headers={"authorization": f"Bearer {key}"})

        open_ones = [pool.submit(ask, "a") for _ in range(2)]
        wait_until(lambda: server.service.admission.open == 2)
        answer = ask("a")
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many_requests")
        other = pool.submit(ask, "b")
        wait_until(lambda: server.service.admission.open == 3)
        model.gate.set()
        assert [one.result().status_code for one in (*open_ones, other)] == [200] * 3
        wait_until(lambda: server.service.admission.open == 0)
        assert not server.service.admission.clients
        assert ask("a").status_code == 200


def test_new_constraints_are_compiled_in_turns_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(scripted("hello"), api_key=("a", "b")) as server:
        charged: list[str] = []
        pool = server.workers.threads
        submit = pool.submit
        monkeypatch.setattr(pool, "submit", lambda who, *job: (charged.append(who), submit(who, *job))[1])
        for key in ("a", "b", "a"):
            body = {**HI, "structured_outputs": {"regex": f"[a-z]+|{key}{len(charged)}"}}
            headers = {"authorization": f"Bearer {key}"}
            assert server.post("/v1/chat/completions", body, headers=headers).status_code == 200
        assert charged[0] == charged[2] != charged[1]


def test_origins() -> None:
    ask = {"origin": "https://a.example", "access-control-request-method": "POST"}
    with served(scripted("hello"), cors_origins=("https://a.example",)) as server:
        answer = server.http.options("/v1/chat/completions", headers=ask)
        assert answer.headers["access-control-allow-origin"] == "https://a.example"
        other = server.http.options("/v1/chat/completions", headers={**ask, "origin": "https://b.example"})
        assert "access-control-allow-origin" not in other.headers
    with served(scripted("hello")) as server:
        answer = server.post("/v1/chat/completions", HI, headers=ask)
        assert "access-control-allow-origin" not in answer.headers


def test_every_answer_has_an_id(caplog: pytest.LogCaptureFixture) -> None:
    with served(scripted("hello"), log_requests=True) as server, caplog.at_level(logging.INFO):
        given = server.post("/v1/chat/completions", HI, headers={"x-request-id": "my-id.1"})
        assert given.headers["x-request-id"] == "my-id.1"
        made = {
            server.http.get("/health", headers=headers).headers["x-request-id"]
            for headers in ({}, {}, {"x-request-id": "a b"}, {"x-request-id": "x" * 65})
        }
        assert len(made) == 4
        assert all(re.fullmatch("[0-9a-f]{32}", name) for name in made)
        server.http.get("/%0Aforged%1B%5B31m")
        records = [record for record in caplog.records if hasattr(record, "request")]
        lines = [JsonFormatter().format(record) for record in records]
        assert json.loads(lines[0])["id"] == "my-id.1"
        assert {"status": 200, "path": "/v1/chat/completions"}.items() <= json.loads(lines[0]).items()
        assert json.loads(lines[-1])["path"] == "/\nforged\x1b[31m"
        assert all(line.isprintable() and "secret" not in line for line in lines)


def test_an_error_is_logged_without_what_the_client_sent() -> None:
    try:
        raise ValueError("secret\nwords")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "a request failed", (), sys.exc_info())
    line = JsonFormatter().format(record)
    assert line.isprintable()
    assert "secret" not in line
    assert json.loads(line)["error"] == "ValueError"
    assert "test_an_error_is_logged" in json.loads(line)["frames"][-1]


@pytest.mark.ci
def test_a_connection_has_time_for_its_next_request() -> None:
    with process(scripted("hello"), header_seconds=0.3, body_seconds=0.3) as (host, port):
        url = f"http://{host}:{port}"
        with socket.create_connection((host, port)) as silent:
            assert received(silent) == b""
        with socket.create_connection((host, port)) as slow:
            slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Lo")
            assert received(slow) == b""
        with socket.create_connection((host, port)) as slow:
            slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
            answer = received(slow)
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"body_timeout" in answer
        with socket.create_connection((host, port)) as again:
            again.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /hea")
            assert received(again).startswith(b"HTTP/1.1 200 ")
        assert httpx.post(f"{url}/v1/chat/completions", json=HI).status_code == 200


@pytest.mark.ci
def test_a_large_body_is_refused_by_its_head() -> None:
    with (
        process(scripted("hello"), max_body=1000) as (host, port),
        socket.create_connection((host, port)) as sent,
    ):
        sent.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
        answer = received(sent)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"body_too_large" in answer


@pytest.mark.ci
def test_a_request_has_so_much_time() -> None:
    model = GatedModel("hello")
    with served(model, request_seconds=0.3) as server:
        answer = server.chat()
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "request_timeout")
        streamed = server.chat(stream=True)
        events = [line[6:] for line in streamed.text.splitlines() if line.startswith("data: ")]
        assert json.loads(events[-2])["error"]["code"] == "request_timeout"
        model.gate.set()
        wait_until(lambda: server.scheduler.running == server.service.admission.open == 0)


@pytest.mark.ci
def test_an_open_server_without_a_key_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from constrained.server import run

    monkeypatch.setattr(run._Server, "run", lambda self, sockets: None)
    for host, key, warned in (
        ("127.0.0.1", None, False),
        ("0.0.0.0", None, True),
        ("0.0.0.0", "key", False),
    ):
        caplog.clear()
        serve(scripted("x"), ServerSettings(api_key=key), host=host, port=0)
        assert ("everybody who reaches 0.0.0.0" in caplog.text) == warned


def test_settings_out_of_range_are_refused() -> None:
    for name in (
        "max_client_requests", "max_connections", "max_headers", "header_seconds", "body_seconds",
        "request_seconds", "draw_seconds",
    ):  # fmt: skip
        with pytest.raises(InvalidArgument, match=name):
            ServerSettings(**{name: 0})
    with pytest.raises(InvalidArgument, match="key"):
        ServerSettings(api_key=("a", ""))


@pytest.mark.skipif(sys.platform != "linux", reason="reads memory as Linux tells it")
def test_free_memory_is_the_least_of_system_and_control_group(tmp_path: Path) -> None:
    from constrained.server import memory

    assert (memory.free_bytes() or 0) > 0
    assert memory._cgroup(tmp_path) is None
    for name, text in (("max", "1000"), ("current", "900"), ("stat", "anon 1\ninactive_file 300\n")):
        (tmp_path / f"memory.{name}").write_text(text)
    assert memory._cgroup(tmp_path) == 400
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._cgroup(tmp_path) is None


def test_the_table_of_limits_is_that_of_the_code() -> None:
    """`SECURITY.md` names every limit of `ServerSettings` with its default."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
    units = {"MiB": 1 << 20, "KiB": 1 << 10, "s": 1}
    settings = ServerSettings()
    named = set()
    for name, shown in rows:
        number, _, unit = shown.strip().replace(",", "").partition(" ")
        wanted = None if number == "none" else float(number) * units.get(unit, 1)
        assert getattr(settings, name) == wanted, name
        named.add(name)
    limits = {name for name in ServerSettings.__slots__ if re.match("max_|min_|compile_|.*_seconds", name)}
    assert named == limits


def test_the_log_is_written_while_the_server_runs() -> None:
    from constrained.server.logs import ACCESS, logging_as_json

    stream = io.StringIO()
    with contextlib.redirect_stderr(stream), logging_as_json(requests=True):
        ACCESS.info("request", extra={"request": {"id": "x"}})
    ACCESS.info("request", extra={"request": {"id": "y"}})
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["id"] == "x"


@pytest.mark.ci
@pytest.mark.parametrize(("limit", "written"), [(24, 24), (3, 3), (None, 200)])
def test_numbers_without_bounds_end(limit: int | None, written: int) -> None:
    """In arguments of tools and in JSON under every name; what a schema bounds is exact."""
    digits = "1" * 200
    said = {"text": digits}
    integer = {"type": "integer"}
    parameters = {"type": "object", "properties": {"a": integer}, "required": ["a"]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    with served(scripted(lambda prompt: said["text"]), max_digits=limit) as server:
        for more in (
            {"guided_json": integer},
            {"structured_outputs": {"json": integer}},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": integer}}},
        ):
            answer = server.chat(max_tokens=400, **more).json()
            assert answer["choices"][0]["message"]["content"] == digits[:written]
        bounded = server.chat(
            max_tokens=400, guided_json={"type": "integer", "minimum": 0, "maximum": int(digits)}
        )
        assert bounded.json()["choices"][0]["message"]["content"] == digits
        said["text"] = f'<tool_call>\n{{"name": "f", "arguments": {{"a": {digits}}}}}\n</tool_call>'
        answer = server.chat(
            max_tokens=400, tools=tools, tool_choice="required", parallel_tool_calls=False
        ).json()
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        assert call["function"]["arguments"] == f'{{"a": {digits[:written]}}}'


@pytest.mark.ci
def test_responses_do_not_wait_for_receipts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nagle's algorithm holds the body of a response until the other side has confirmed its head: 40 ms a response."""
    from constrained.server.connections import LimitedProtocol

    seen: list[int] = []
    begins = LimitedProtocol.connection_made

    def made(self: Any, transport: Any) -> None:
        begins(self, transport)
        seen.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(LimitedProtocol, "connection_made", made)
    with process(scripted("hello")) as (host, port):
        assert httpx.get(f"http://{host}:{port}/health").status_code == 200
    assert seen
    assert all(seen)


@pytest.mark.ci
def test_no_thread_keeps_the_others_from_running_while_the_server_serves() -> None:
    from constrained.server import run

    gc.unfreeze()  # what another library froze
    settings = gc.get_freeze_count(), sys.getswitchinterval(), gc.get_threshold()
    with run._prompt_threads():
        assert gc.get_freeze_count() > 10_000
        assert sys.getswitchinterval() < 0.001
        assert gc.get_threshold()[2] > 1_000_000
    assert (gc.get_freeze_count(), sys.getswitchinterval(), gc.get_threshold()) == settings
