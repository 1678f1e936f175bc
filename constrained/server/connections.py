"""Connections of clients that are slow, or too many: uvicorn's protocol with limits that it does not have."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from constrained.server.settings import ServerSettings

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: 20\r\n\r\ntoo many connections"
)


class LimitedProtocol(H11Protocol):
    """A connection that ends when the head of its next request does not come in time, or when there are too many.

    Args:
        settings: the limits.
        arguments: uvicorn's.
    """

    def __init__(self, *, settings: ServerSettings, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._limits = settings
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuses the connection if there are too many."""
        super().connection_made(transport)
        # asyncio does it for sockets that it made itself. Otherwise the body of a response waits for the receipt of its
        # head, which the other side delays by 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.connections) > self._limits.max_connections:
            transport.write(_FULL)
            transport.close()
        else:
            self._expect_head()

    def handle_events(self) -> None:
        """A request that has begun has time for its body."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_timer()

    def on_response_complete(self) -> None:
        """The next request has to come in time."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(self._limits.header_seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
