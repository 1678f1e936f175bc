"""The server as a process, or in a thread of a program: listens, serves, and drains running requests before it ends."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import ipaddress
import logging
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import uvicorn
from fastapi import FastAPI

from constrained.chat.tools import ToolFormat
from constrained.errors import InvalidArgument
from constrained.models import LanguageModel
from constrained.server.app import create_app
from constrained.server.connections import LimitedProtocol, LoopErrors, fit_connections
from constrained.server.logs import logging_as_json
from constrained.server.served_model import ServedModels
from constrained.server.settings import ServerSettings

_log = logging.getLogger(__name__)

_SWITCH_SECONDS = 0.0005
"""Seconds for which a thread may keep the GIL while another one waits for it; Python's own value is ten times that. A step of
the batch hands the GIL from thread to thread several times, each time behind whoever lowers a new constraint in Python."""


_BACKLOG = 1024
"""Connections that wait until they are accepted."""

_ACCEPTED = 16
"""Connections that the loop accepts before it looks at any: each has a descriptor, those beyond the limit as well."""


_COLLECT_SECONDS = 60.0
"""Seconds between two garbage collections of all that was not there at the start: tens of milliseconds each."""

_NEVER = 1_000_000_000
"""Collections of younger objects before Python makes a whole one."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[str], None], where: str) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._where = where

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(LoopErrors())
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(_BACKLOG)  # the loop has set it to what it accepts at a time
        if self.started:
            self._on_ready(self._where)


def serve(
    model: LanguageModel | Mapping[str, LanguageModel],
    settings: ServerSettings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    format: ToolFormat | None = None,
    on_ready: Callable[[str], None] = lambda where: None,
) -> None:
    """Serves until SIGTERM or SIGINT, then finishes running requests.

    A second SIGINT exits at once. If the thread that owns the model fails, the server exits as well, so that its
    supervisor can restart the process.

    Args:
        model: the served model, or models by name.
        settings: limits and names.
        host: address to bind.
        port: TCP port; 0: a free one.
        format: format of tool calls; None: detected from the chat template.
        on_ready: called with the URL when the server accepts requests.

    Raises:
        InvalidArgument: the address cannot be bound.
        RuntimeError: the thread that owns the model failed.
    """
    settings = settings or ServerSettings()
    listening = _listen(host, port)
    app = create_app(model, settings, format=format)
    models: ServedModels = app.state.service.models
    shown = f"[{host}]" if ":" in host else host
    with listening, logging_as_json(requests=settings.log_requests), _handled_signals(), _prompt_threads():
        app.state.service.start()  # its errors are the caller's here, and lines of a log in the application
        if not settings.api_keys and not _is_loopback(host):
            _log.warning("everybody who reaches %s can use the server: it has no API key", host)
        app.state.service.admission.local = _is_loopback(host)
        where = f"http://{shown}:{listening.getsockname()[1]}"
        config = _config(app, fit_connections(settings), settings.grace_seconds)
        server = _Server(config, on_ready, where)
        for one in models.distinct:
            one.scheduler.on_failure = lambda: setattr(server, "should_exit", True)
        server.run(sockets=[listening])
    if models.failure is not None:
        raise RuntimeError(f"the server stopped because its scheduler failed: {models.failure}")


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server in a thread of this program.

    Attributes:
        base_url: what clients of OpenAI's API take as their ``base_url``.
        api_key: drawn for this server: other users of the machine do not know it.
        model: name of the model, of several that of the first one.
    """

    base_url: str
    api_key: str
    model: str


@contextlib.contextmanager
def serve_in_thread(
    model: LanguageModel | Mapping[str, LanguageModel],
    settings: ServerSettings | None = None,
    *,
    format: ToolFormat | None = None,
) -> Iterator[LocalServer]:
    """Serves to the clients of this program until the block ends: for frameworks that speak OpenAI's API.

        with serve_in_thread(constrained.load("Qwen/Qwen3-8B")) as server:
            client = openai.OpenAI(base_url=server.base_url, api_key=server.api_key)

    It listens on the loopback, at a free port. Requests that still run at the end of the block have a second.

    Args:
        model: the served model, or models by name.
        settings: limits and names; by default constraints are not tried in a sandbox first, since they are the program's own.
        format: format of tool calls; None: detected from the chat template.

    Raises:
        RuntimeError: the server did not start.
    """
    settings = settings or ServerSettings(sandbox=False)
    settings = settings if settings.api_keys else replace(settings, api_key=secrets.token_urlsafe())
    app = create_app(model, settings, format=format)
    ready = threading.Event()
    with _listen("127.0.0.1", 0) as listening:
        server = _Server(_config(app, settings, 1.0), lambda where: ready.set(), "")

        def work() -> None:
            try:
                server.run(sockets=[listening])
            finally:
                ready.set()

        thread = threading.Thread(target=work, name="server", daemon=True)
        thread.start()
        ready.wait()
        if not server.started:
            thread.join()
            raise RuntimeError("the server did not start; its log says why")
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
            yield LocalServer(url, settings.api_keys[0], app.state.service.models.named(None).name)
        finally:
            server.should_exit = True
            thread.join()


def _config(app: FastAPI, settings: ServerSettings, grace: float) -> uvicorn.Config:
    """Settings of uvicorn; `grace`: seconds for running requests at the end."""
    return uvicorn.Config(
        app,
        http=functools.partial(LimitedProtocol, settings=settings),  # type: ignore[arg-type]
        ws="none",
        backlog=_ACCEPTED,
        proxy_headers=False,  # see `RequestLog`
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(grace)),
        lifespan="on",
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise InvalidArgument(
            f"cannot listen at {host} port {port}: {error}", action="name another --port or --host"
        ) from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextlib.contextmanager
def _prompt_threads() -> Iterator[None]:
    """No thread holds the GIL for long.

    It is handed over within `_SWITCH_SECONDS`, and garbage collections leave out what is loaded now: with torch and a model they
    take .3 s otherwise. Whole collections come at a time of their own, and not where lowering a large schema causes one.
    """
    before, frozen, threshold = sys.getswitchinterval(), gc.get_freeze_count(), gc.get_threshold()
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*threshold[:2], _NEVER)
    ended = threading.Event()
    collecting = threading.Thread(target=_collect, args=(ended,), name="garbage", daemon=True)
    collecting.start()
    try:
        yield
    finally:
        ended.set()
        gc.set_threshold(*threshold)
        if not frozen:
            gc.unfreeze()
        sys.setswitchinterval(before)


def _collect(ended: threading.Event) -> None:
    while not ended.wait(_COLLECT_SECONDS):
        gc.collect()


@contextlib.contextmanager
def _handled_signals() -> Iterator[None]:
    """Ignores the signals that uvicorn raises again after it has shut down."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.signal(one, signal.SIG_IGN) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
