"""Server-sent events, and clients that disconnect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")


class ClientDisconnected(Exception):
    """The client disconnected."""


async def cancel_on_disconnect(receive: Receive, work: Awaitable[T]) -> T:
    """Awaits work, and cancels it when the client disconnects.

    Args:
        receive: ASGI channel of a request whose body has been read.
        work: what is awaited.

    Raises:
        ClientDisconnected: the client disconnected first.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnected
        return task.result()
    finally:
        for one in (task, watch):
            one.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events, one for each chunk, then ``[DONE]``.

    Chunks with a ``type`` are events of that name, as in the Responses API, and no ``[DONE]`` follows.

    Args:
        chunks: JSON values.
        close: called once at the end of the stream with True if the client disconnected.
        seconds: after which a client is cut off that has not read the stream.
        stopped: makes the last chunk of a stream that the server cuts off because it ends.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        chunks: AsyncIterator[dict[str, Any]],
        close: Callable[[bool], None],
        seconds: float,
        stopped: Callable[[], dict[str, Any]],
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._chunks = chunks
        self._close = close
        self._seconds = seconds
        self._stopped = stopped

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends until the chunks end or the client goes away."""
        gone = True
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            await asyncio.wait_for(cancel_on_disconnect(receive, self._send(send)), self._seconds)
            gone = False
        except (ClientDisconnected, OSError, TimeoutError, asyncio.TimeoutError):
            pass
        except asyncio.CancelledError:
            last = self._stopped()
            body = _event(last) + _done(last)
            await send({"type": "http.response.body", "body": body, "more_body": False})
        finally:
            self._close(gone)

    async def _send(self, send: Send) -> None:
        last: dict[str, Any] = {}
        async for chunk in self._chunks:
            await send({"type": "http.response.body", "body": _event(chunk), "more_body": True})
            last = chunk
        await send({"type": "http.response.body", "body": _done(last), "more_body": False})


def _event(chunk: dict[str, Any]) -> bytes:
    data = json.dumps(chunk, ensure_ascii=False, separators=(",", ":")).encode()
    name = f"event: {chunk['type']}\n".encode() if "type" in chunk else b""
    return name + b"data: " + data + b"\n\n"


def _done(last: dict[str, Any]) -> bytes:
    """What follows the last chunk."""
    return b"" if "type" in last else b"data: [DONE]\n\n"
