"""Which requests are let in: the key, the requests of one client, the queue and free memory."""

from __future__ import annotations

import hmac
import ipaddress
import math
import re
import socket
from collections import Counter, deque

from starlette.requests import Request

from constrained.server.errors import ApiError
from constrained.server.memory import MemoryWatch
from constrained.server.settings import ServerSettings


class Admission:
    """Counts open requests, and refuses those for which there is no room.

    Attributes:
        open: open requests.
        clients: open requests of each client.
        local: the server listens to this machine alone.

    Args:
        settings: limits.
        memory: says whether there is enough.
        models: how many there are: each has a batch, the queue is one.
    """

    def __init__(self, settings: ServerSettings, memory: MemoryWatch, models: int = 1) -> None:
        self.open = 0
        self.clients: Counter[str] = Counter()
        self.local = False
        self._settings = settings
        self._memory = memory
        self._places = settings.max_batch * models
        self._recent: deque[float] = deque(maxlen=32)  # seconds of the last answers

    def check_key(self, request: Request) -> str:
        """The client of a request: its key if there are several, else its address.

        Raises:
            ApiError: 401; all keys are compared, each in constant time. 403: a page of the web asks a server that has no key
                and listens to this machine alone, by a name of its own for it.
        """
        keys = self._settings.api_keys
        if self.local and not keys and not self._settings.trust_proxy:
            _check_host(request.headers.get("host", ""))
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not scheme:  # Anthropic's clients
            scheme, token = "bearer", request.headers.get("x-api-key", "")
        shown = (
            token.strip(" ").encode("latin-1") if scheme.lower() == "bearer" else b""
        )  # the bytes of the header
        equal = [hmac.compare_digest(shown, key.encode()) for key in keys]
        if keys and not any(equal):
            raise ApiError(
                401,
                "the API key is missing or wrong",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if len(keys) > 1:
            return f"key {equal.index(True)}"
        return client_address(request)

    def check_room(self, client: str) -> None:
        """Raises 429 if the queue is full or the client has too many requests, and 503 if memory is low."""
        settings = self._settings
        if self.clients[client] >= settings.max_client_requests:
            raise ApiError(
                429,
                f"{settings.max_client_requests} requests of this client are open; try again later",
                code="too_many_requests",
                headers={"Retry-After": "1"},
            )
        if self.open >= self._places + settings.max_queue:
            mean = sum(self._recent) / len(self._recent) if self._recent else 1.0
            rounds = 1 + settings.max_queue / self._places
            raise ApiError(
                429,
                f"{self.open} requests are running or queued; try again later",
                code="queue_full",
                headers={"Retry-After": str(max(1, math.ceil(mean * rounds)))},
            )
        if self._memory.low:
            raise ApiError(
                503,
                "the server has too little free memory; try again later",
                code="low_memory",
                headers={"Retry-After": "5"},
            )

    def enter(self, client: str) -> None:
        """Counts a request of a client."""
        self.open += 1
        self.clients[client] += 1

    def leave(self, client: str) -> None:
        """Counts the end of a request."""
        self.open -= 1
        self.clients -= Counter((client,))  # without clients that have no request

    def answered(self, seconds: float) -> None:
        """Notes how long an answer took; later refusals say by it when to try again."""
        self._recent.append(seconds)


def client_address(request: Request) -> str:
    """The address of a client."""
    return request.client.host if request.client else ""


_LOCAL_NAMES = re.compile(r"[^.]*|.*\.(localhost|local|internal)", re.IGNORECASE)
"""Names that nobody can register: no page of the web has one of them."""


def _check_host(host: str) -> None:
    """Refuses a name of the public DNS, which its owner may let point here: then pages under it could read answers.

    Raises:
        ApiError: 403.
    """
    name = host.rpartition(":")[0] if re.search(r":[0-9]*$", host) and not host.endswith("]") else host
    name = name.removeprefix("[").removesuffix("]")
    if name.lower() == socket.gethostname().lower() or _LOCAL_NAMES.fullmatch(name):
        return
    try:
        ipaddress.ip_address(name)
    except ValueError:
        what = f"the server has no key and answers this machine alone, not {name!r:.200}"
        action = "ask localhost; behind a proxy, start it with --trust-proxy; or give it a key"
        raise ApiError(403, f"{what}\n  -> {action}", code="host_not_allowed") from None
