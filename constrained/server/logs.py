"""Log lines as JSON: no control characters, and no texts of requests."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import re
import time
import traceback
import uuid
from collections.abc import Iterator
from types import TracebackType

from starlette.types import ASGIApp, Message, Receive, Scope, Send

ACCESS = logging.getLogger("constrained.server.access")
"""One record for each request, at the level INFO; its fields are in `record.request`."""

SHOWN = 200
"""Characters of a path that answers and the log show."""

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_LOGGERS = ("constrained", "uvicorn", "asyncio")


class RequestLog:
    """ASGI middleware: gives each request an id, sends it back in ``X-Request-Id``, and logs how the request ended.

    Args:
        app: the application.
        enabled: whether to log.
        trust_proxy: see `ServerSettings`.
    """

    def __init__(self, app: ASGIApp, enabled: bool, trust_proxy: bool) -> None:
        self._app = app
        self._enabled = enabled
        self._trust_proxy = trust_proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the class."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if self._trust_proxy and (told := _last_address(headers.get(b"x-forwarded-for", b""))):
            scope["client"] = (told, 0)
        given = headers.get(b"x-request-id", b"")
        name = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex.encode()
        began, status, size = time.perf_counter(), 0, 0

        async def note(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", name)]
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            if self._enabled:
                client = scope.get("client") or ("", 0)
                fields = {
                    "id": name.decode(),
                    "client": client[0],
                    "method": scope["method"][:SHOWN],
                    "path": scope["path"][:SHOWN],
                    "status": status,
                    "bytes": size,
                    "seconds": round(time.perf_counter() - began, 6),
                }
                ACCESS.info("request", extra={"request": fields})


def _last_address(forwarded: bytes) -> str | None:
    """The last address of ``X-Forwarded-For``, which the proxy has added; those before it are what the client sent."""
    try:
        return str(ipaddress.ip_address(forwarded.rpartition(b",")[2].strip().decode("ascii")))
    except ValueError:
        return None


class JsonFormatter(logging.Formatter):
    """A record as one line of ASCII JSON; of an exception its class and where it was raised, not its message.

    A message of an exception can quote what a client sent.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See the class."""
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "request", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["frames"] = frames_of(record.exc_info[2])
        return json.dumps(line)


def frames_of(raised: TracebackType | None) -> list[str]:
    """Where an exception was raised, without its message and the lines of code."""
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(raised)]


@contextlib.contextmanager
def logging_as_json(*, requests: bool) -> Iterator[None]:
    """Writes the records of this library and of uvicorn to standard error: warnings, and requests if they are logged."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    level = ACCESS.level
    for logger in loggers:
        logger.addHandler(handler)
    if requests:
        ACCESS.setLevel(logging.INFO)
    try:
        yield
    finally:
        ACCESS.setLevel(level)
        for logger in loggers:
            logger.removeHandler(handler)
