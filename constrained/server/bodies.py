"""The body of a request: read in parts, counted, and parsed in a thread or in another process if it is large.

A parser keeps the GIL until it is done, and so holds all requests up: 2 s for 8 MiB of small messages. What that costs is the number
of values, and hardly their size. So values are counted first, without the GIL, and a body that has too many is refused. What goes to
another process goes there in its parts: to join them, or to pickle them, takes milliseconds in one go.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import TypeVar

from pydantic_core import from_json
from starlette.requests import Request

from constrained.grammars._core import count_json_values
from constrained.server.errors import ApiError
from constrained.server.fair_pool import FairPool
from constrained.server.pace import Pace
from constrained.server.requests import ModelT, checked
from constrained.server.settings import ServerSettings
from constrained.server.stream import cancel_on_disconnect

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
        shared: whether several clients are about.
    """

    def __init__(self, settings: ServerSettings, elsewhere: FairPool, shared: Callable[[], bool]) -> None:
        self._settings = settings
        self._pace = Pace(shared)
        self._pool = FairPool(1, "bodies")
        self._elsewhere = elsewhere
        self._large: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    async def read(
        self,
        request: Request,
        client: str,
        understand: Callable[[bytes], _Result],
        elsewhere: Callable[[Sequence[bytes]], _Result] | None = None,
    ) -> _Result:
        """What `understand` makes of the body of a request, in a thread if the body is large.

        Args:
            request: whose body has not been read.
            client: whose it is.
            understand: calls `parse`.
            elsewhere: does it in another process, from the parts of bodies of more than `ELSEWHERE` bytes, and checks with
                `check_values`; called by one thread at a time.

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
            parts = await self._parts(request)
            size = sum(map(len, parts))
            if size <= _SMALL:
                return understand(b"".join(parts))
            if elsewhere is None or size <= ELSEWHERE:
                work = self._pool.submit(client, self._understood, parts, understand)
            else:
                work = self._elsewhere.submit(client, elsewhere, parts)
            return await cancel_on_disconnect(request.receive, _result(work))

    def close(self) -> None:
        """Ends the thread."""
        self._pool.close()

    def _understood(self, parts: Sequence[bytes], understand: Callable[[bytes], _Result]) -> _Result:
        body = b"".join(parts)
        check_values(body, self._settings.max_values)
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

    async def _parts(self, request: Request) -> list[bytes]:
        settings = self._settings
        reading = _read(request, settings.max_body, self._pace)
        try:
            read = await asyncio.wait_for(reading, settings.body_seconds)
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


async def _result(work: Future[_Result]) -> _Result:
    return await asyncio.wrap_future(work)


def check_values(body: bytes, most: int) -> None:
    """Counts the values of a body; to be called before it is parsed.

    Raises:
        ApiError: there are too many.
    """
    if count_json_values(body, _NUMBERS, most) > most:
        raise ApiError(413, f"the body has more than {most} values", code="too_many_values")


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


async def _read(request: Request, limit: int, pace: Pace) -> list[bytes] | None:
    """The parts of a request's body; None if it is longer than the limit, at once if its head says that it is twice as long.

    Of a longer body as much again is read and dropped: a connection that is closed while its client still writes is reset,
    and the client does not see the refusal.
    """
    if (_announced(request) or 0) > 2 * limit:
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
        if size > ELSEWHERE:
            await pace.after(len(part))
    return parts if size <= limit else None
