"""Servers on the loopback, with scripted models."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from openai import OpenAI

from constrained import LanguageModel, Vocabulary
from constrained.sandbox import Sandbox
from constrained.server import ServerSettings, create_app
from constrained.testing import ScriptedModel

BYTES = Vocabulary.from_bytes([*(bytes([i]) for i in range(256)), b""], [256])
"""A token a byte, and an end."""
MODEL = "told"


class Served:
    """A running server.

    Attributes:
        url: of its root.
        service: what the application holds.
    """

    def __init__(self, url: str, service: Any, server: uvicorn.Server, thread: threading.Thread) -> None:
        self.url = url
        self.service = service
        self.server = server
        self.thread = thread
        self.http = httpx.Client(
            base_url=url, timeout=60, verify=False, limits=httpx.Limits(max_connections=None)
        )

    @property
    def scheduler(self) -> Any:
        return self.service.models.named(None).scheduler

    @property
    def workers(self) -> Any:
        return self.service.models.workers

    def openai(self, **options: Any) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", max_retries=0, timeout=60, **{"api_key": "none", **options})

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return self.http.post(path, json=body, **options)

    def chat(self, text: str = "hello", **more: Any) -> httpx.Response:
        body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "temperature": 0, **more}
        return self.post("/v1/chat/completions", body)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.http.close()


@contextlib.contextmanager
def served(
    model: LanguageModel | Mapping[str, LanguageModel],
    *,
    grace: int = 60,
    format: Any = None,
    sandbox: bool = False,
    **settings: Any,
) -> Iterator[Served]:
    """A server; without `sandbox` it compiles in its own process, as where processes cannot fork."""
    limits = ServerSettings(**{"name": MODEL, "sandbox": sandbox, **settings})
    app = create_app(model, limits, format=format)
    config = uvicorn.Config(
        app, log_level="error", lifespan="on", timeout_graceful_shutdown=grace, proxy_headers=False
    )
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    wait_until(lambda: server.started or not thread.is_alive())
    running = Served(f"http://127.0.0.1:{listening.getsockname()[1]}", app.state.service, server, thread)
    try:
        yield running
    finally:
        running.stop()
        listening.close()


def scripted(script: Any) -> ScriptedModel:
    return ScriptedModel(BYTES, script)


class GatedModel(ScriptedModel):
    """Reads nothing until the gate is opened; tells when somebody waits at it."""

    def __init__(self, script: Any, **options: Any) -> None:
        super().__init__(BYTES, script, **options)
        self.gate = threading.Event()
        self.reached = threading.Event()
        self.forwards = 0

    def forward(self, *inputs: Any) -> Any:
        self.reached.set()
        assert self.gate.wait(60)
        self.forwards += 1
        return super().forward(*inputs)

    def forward_trees(self, *inputs: Any) -> Any:
        assert self.gate.wait(60)
        self.forwards += 1
        return super().forward_trees(*inputs)


def wait_until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits for something that has to come; how long it takes says nothing."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to this"
        time.sleep(0.002)


def lives(pid: int) -> bool:
    """Whether a process runs, and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def processes_of(sandbox: Sandbox) -> list[int]:
    """The process of a sandbox and its child."""
    process = sandbox._process
    if process is None:
        return []
    return [
        process.pid,
        *map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()),
    ]


def family(sandbox: Sandbox) -> tuple[int, int]:
    """The process of a sandbox, and its child when it waits for a call."""
    found: list[int] = []

    def both() -> bool:  # between two calls there is no child
        found[:] = processes_of(sandbox)
        return len(found) == 2

    wait_until(both)
    process, child = found
    return process, child
