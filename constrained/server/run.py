"""The server as a process: listens, serves, and drains running requests before it exits."""

from __future__ import annotations

import contextlib
import functools
import gc
import ipaddress
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator

import uvicorn

from constrained.chat.tools import ToolFormat
from constrained.errors import InvalidArgument
from constrained.models import LanguageModel
from constrained.server.app import create_app
from constrained.server.connections import LimitedProtocol
from constrained.server.logs import logging_as_json
from constrained.server.settings import ServerSettings

_log = logging.getLogger(__name__)

_SWITCH_SECONDS = 0.0005
"""Seconds for which a thread may keep the GIL while another one waits for it; Python's own value is ten times that. A step of
the batch hands the GIL from thread to thread several times, each time behind whoever lowers a new constraint in Python."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[str], None], where: str) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._where = where

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready(self._where)


def serve(
    model: LanguageModel,
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
        model: the served model.
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
    scheduler = app.state.service.scheduler
    config = uvicorn.Config(
        app,
        http=functools.partial(LimitedProtocol, settings=settings),  # type: ignore[arg-type]
        h11_max_incomplete_event_size=settings.max_headers,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(settings.grace_seconds)),
        lifespan="on",
    )
    shown = f"[{host}]" if ":" in host else host
    with listening, logging_as_json(requests=settings.log_requests), _handled_signals(), _prompt_threads():
        if not settings.api_keys and not _is_loopback(host):
            _log.warning("everybody who reaches %s can use the server: it has no API key", host)
        server = _Server(config, on_ready, f"http://{shown}:{listening.getsockname()[1]}")
        scheduler.on_failure = lambda: setattr(server, "should_exit", True)
        server.run(sockets=[listening])
    if scheduler.failure is not None:
        raise RuntimeError(f"the server stopped because its scheduler failed: {scheduler.failure}")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
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
    take .3 s otherwise, and lowering a large schema causes one.
    """
    before, frozen = sys.getswitchinterval(), gc.get_freeze_count()
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not frozen:
            gc.unfreeze()
        sys.setswitchinterval(before)


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
