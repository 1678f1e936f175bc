"""Connections of clients that are slow, too many, or speak no clean HTTP: uvicorn's protocol with limits that it does not have."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from constrained.server.errors import ApiError
from constrained.server.settings import ServerSettings

_log = logging.getLogger(__name__)

_OTHER_FILES = 128
"""Descriptors for what is no connection of a client: pipes of worker processes, files, other sockets."""

_QUIET = 1.0
"""Seconds between two lines of the log about errors of the event loop."""


class LimitedProtocol(H11Protocol):
    """A connection that ends when the head of its next request does not come in time, or when there are too many.

    Attributes:
        address: of the other side.

    Args:
        settings: the limits.
        arguments: uvicorn's.
    """

    connections: set[LimitedProtocol]  # type: ignore[assignment]  # of one server: all of this class
    _numbers = itertools.count()

    def __init__(self, *, settings: ServerSettings, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.conn = self._strict = _StrictConnection(settings.max_headers)
        self.address = ""
        self._limits = settings
        self._number = next(self._numbers)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether it has no request, or its client does not read the response."""
        return self.cycle is None or self.cycle.response_complete or self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Where there are too many, closes the one that is missed least, or refuses this one."""
        super().connection_made(transport)
        # asyncio does it for sockets that it made itself. Otherwise the body of a response waits for the receipt of its
        # head, which the other side delays by 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = self.client[0] if self.client else ""
        if len(self.connections) > self._limits.max_connections:
            other = self._least_missed()
            if other is None:
                self.connections.discard(self)
                transport.write(_too_many())
                transport.close()
                return
            self.connections.discard(other)  # its end is seen later
            other.transport.abort()
        self._expect_head()

    def _least_missed(self) -> LimitedProtocol | None:
        """The oldest idle one among the other connections, of the address that has most; None: all are busy."""
        counts = Counter(one.address for one in self.connections)
        idle = (one for one in self.connections if one.idle and one is not self)
        return min(idle, key=lambda one: (-counts[one.address], one._number), default=None)

    def handle_events(self) -> None:
        """A request that has begun has time for its body."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_timer()

    def on_response_complete(self) -> None:
        """The next request has to come in time."""
        super().on_response_complete()
        if (
            not self.transport.is_closing() and self.cycle.response_complete
        ):  # no other request was there already
            self._expect_head()

    def pause_writing(self) -> None:
        """The client has to read what waits for it in time."""
        super().pause_writing()
        self._after(self._limits.request_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        if self.idle:
            self._expect_head()
        else:
            self._stop_timer()

    def send_400_response(self, msg: str) -> None:
        """Refuses what is no clean HTTP, and closes the connection."""
        error = ApiError(400, f"{msg} {self._strict.problem}".strip(), code="invalid_http")
        self.transport.write(_refusal(400, "Bad Request", error))
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._after(self._limits.header_seconds, self._end)

    def _end(self) -> None:
        """Closes the connection when its client has read what it still has to read, for which it has time."""
        self.transport.close()
        self._after(self._limits.request_seconds, self.transport.abort)

    def _after(self, seconds: float, then: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, then)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _StrictConnection(h11.Connection):
    """Refuses a head that is too large although it came at once, and one that two servers could read in two ways.

    Attributes:
        problem: what is wrong with such a head.
    """

    problem = ""

    def __init__(self, limit: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=limit)
        self._limit = limit

    def next_event(self) -> Any:
        """The next event.

        Raises:
            RemoteProtocolError: it is no clean HTTP.
        """
        before = len(self._receive_buffer)
        event = super().next_event()
        if isinstance(event, h11.Request):
            if before - len(self._receive_buffer) > self._limit:
                self.problem = f"The head has more than {self._limit} bytes."
            elif {b"content-length", b"transfer-encoding"} <= {name for name, _ in event.headers}:
                self.problem = "Its body has both a Content-Length and a Transfer-Encoding: send one of them."
            if self.problem:
                raise h11.RemoteProtocolError(self.problem)
        return event


def fit_connections(settings: ServerSettings) -> ServerSettings:
    """Settings whose connections have descriptors.

    The soft limit of the process is raised to the hard one if it is too low; if that is too low as well, there are fewer connections.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return settings
    needed = settings.max_connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not 0 <= soft < needed:
        return settings
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    except (OSError, ValueError):  # macOS has a lower limit than the one that it tells
        pass
    if not 0 <= soft < needed:
        return settings
    most = max(1, soft - _OTHER_FILES)
    _log.warning(
        "at most %d connections: the process may have %d open files; raise its limit (ulimit -n) to %d",
        *(most, soft, needed),
    )
    return replace(settings, max_connections=most)


class LoopErrors:
    """The exception handler of the event loop: at most one line of the log a second, which counts the others.

    Where accepting a connection fails, asyncio reports it thousands of times in a second.
    """

    def __init__(self) -> None:
        self._logged = -_QUIET
        self._others = 0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """See `asyncio.loop.set_exception_handler`."""
        self._others += 1
        if time.monotonic() - self._logged >= _QUIET:
            what = f"{context['message']} ({self._others} since the last such line)"
            self._logged, self._others = time.monotonic(), 0
            _log.error(what, exc_info=context.get("exception"))


def _too_many() -> bytes:
    what = "the server has too many connections; try again later"
    refused = ApiError(503, what, code="too_many_connections", headers={"Retry-After": "1"})
    return _refusal(503, "Service Unavailable", refused)


def _refusal(status: int, reason: str, error: ApiError) -> bytes:
    """A whole response, after which the connection is closed."""
    body = json.dumps(error.body).encode()
    fields = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **error.headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} {reason}\r\n{head}\r\n".encode() + body
