"""The body of a request: read in parts, counted, and parsed in a thread if it is large.

A parser keeps the GIL until it is done, and so holds all requests up: 2 s for 8 MiB of small messages. What that costs is the number
of values, and hardly their size. So values are counted first, without the GIL, and a body that has too many is refused.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from pydantic_core import from_json
from starlette.requests import Request

from constrained.server.errors import ApiError
from constrained.server.fair_pool import FairPool
from constrained.server.requests import ModelT, checked
from constrained.server.settings import ServerSettings
from constrained.server.stream import cancel_on_disconnect
from grammars._core import count_json_values

_SMALL = 16 << 10
"""Bytes of a body that is parsed at once: some milliseconds at most."""

ELSEWHERE = 64 << 10
"""Bytes of a body above which its request is prepared in a process of its own, if there is one."""

_LARGE = 1 << 20
"""Bytes above which a client has few bodies at a time."""

_LARGE_AT_ONCE = 4
"""Large bodies of one client that are read at a time; further ones wait."""

_NUMBERS = 4
"""Numbers that count as one value."""

_Result = TypeVar("_Result")


class Bodies:
    """Reads the bodies of requests, and parses them.

    Args:
        settings: limits.
        elsewhere: the thread that calls what is done in another process.
    """

    def __init__(self, settings: ServerSettings, elsewhere: FairPool) -> None:
        self._settings = settings
        self._pool = FairPool(1, "bodies")
        self._elsewhere = elsewhere
        self._large: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    async def read(
        self,
        request: Request,
        client: str,
        understand: Callable[[bytes], _Result],
        elsewhere: Callable[[bytes], _Result] | None = None,
    ) -> _Result:
        """What `understand` makes of the body of a request, in a thread if the body is large.

        Args:
            request: whose body has not been read.
            client: whose it is.
            understand: calls `parse`.
            elsewhere: does it in another process, for bodies of more than `ELSEWHERE` bytes; called by one thread at a time.

        Raises:
            ApiError: it is compressed, is too large or has too many values, or takes too long.
            ClientDisconnected: the client has gone.
            Exception: of `understand`.
        """
        coding = request.headers.get("content-encoding", "identity")
        if coding.lower() != "identity":
            what = f"the body has the encoding {coding!r:.100}: send it without one"
            raise ApiError(415, what, code="unsupported_encoding", headers={"Connection": "close"})
        async with self._turn(request, client):
            body = await self._bytes(request)
            if len(body) <= _SMALL:
                return understand(body)
            return await cancel_on_disconnect(
                request.receive, self._in_thread(client, body, understand, elsewhere)
            )

    def close(self) -> None:
        """Ends the thread."""
        self._pool.close()

    async def _in_thread(
        self,
        client: str,
        body: bytes,
        understand: Callable[[bytes], _Result],
        elsewhere: Callable[[bytes], _Result] | None,
    ) -> _Result:
        if elsewhere is None or len(body) <= ELSEWHERE:
            job = self._pool.submit(client, self._counted, body, understand)
        else:
            job = self._elsewhere.submit(client, self._counted, body, elsewhere)
        return await asyncio.wrap_future(job)

    def _counted(self, body: bytes, understand: Callable[[bytes], _Result]) -> _Result:
        most = self._settings.max_values
        if count_json_values(body, _NUMBERS, most) > most:
            what = f"the body has more than {most} values"
            raise ApiError(413, what, code="too_many_values")
        return understand(body)

    @asynccontextmanager
    async def _turn(self, request: Request, client: str) -> AsyncIterator[None]:
        """Waits while the client has enough large bodies in the works."""
        if (_announced(request) or 0) <= _LARGE and "transfer-encoding" not in request.headers:
            yield
            return
        async with self._changed:
            await self._changed.wait_for(lambda: self._large[client] < _LARGE_AT_ONCE)
            self._large[client] += 1
        try:
            yield
        finally:
            async with self._changed:
                self._large -= Counter((client,))  # without clients that have none
                self._changed.notify_all()

    async def _bytes(self, request: Request) -> bytes:
        settings = self._settings
        try:
            read = await asyncio.wait_for(_read(request, settings.max_body), settings.body_seconds)
        except (TimeoutError, asyncio.TimeoutError):
            what = f"the body did not come within {settings.body_seconds:g} seconds"
            raise ApiError(408, what, code="body_timeout", headers={"Connection": "close"}) from None
        if read is None:
            raise ApiError(
                413,
                f"the body is larger than {settings.max_body} bytes",
                code="body_too_large",
                headers={"Connection": "close"},
            )
        return read


def parse(kind: type[ModelT], body: bytes) -> ModelT:
    """A request out of its body.

    Raises:
        ValidationError: it is none.
    """
    if len(body) <= _SMALL:
        return kind.model_validate_json(body)
    try:
        value = from_json(body, allow_inf_nan=True, cache_strings="keys")
    except ValueError:
        return kind.model_validate_json(body)  # raises it as an error of the body
    return checked(kind, value)


def _announced(request: Request) -> int | None:
    length = request.headers.get("content-length", "")
    return int(length[:20]) if length.isdecimal() else None


async def _read(request: Request, limit: int) -> bytes | None:
    """The body of a request; None if it is longer than the limit, at once if its head says so.

    Of a longer body as much again is read and dropped: a connection that is closed while its client still writes is reset,
    and the client does not see the refusal.
    """
    if (_announced(request) or 0) > limit:
        return None
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > 2 * limit:
            return None
        if size <= limit:
            parts.append(part)
        else:
            parts.clear()
    return b"".join(parts) if size <= limit else None
