"""Which requests are let in: the key, the requests of one client, the queue and free memory."""

from __future__ import annotations

import hmac
import math
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

    Args:
        settings: limits.
        memory: says whether there is enough.
        models: how many there are: each has a batch, the queue is one.
    """

    def __init__(self, settings: ServerSettings, memory: MemoryWatch, models: int = 1) -> None:
        self.open = 0
        self.clients: Counter[str] = Counter()
        self._settings = settings
        self._memory = memory
        self._places = settings.max_batch * models
        self._recent: deque[float] = deque(maxlen=32)  # seconds of the last answers

    def check_key(self, request: Request) -> str:
        """The client of a request: its key if there are several, else its address.

        Raises:
            ApiError: 401; all keys are compared, each in constant time.
        """
        keys = self._settings.api_keys
        shown_key = request.headers.get("authorization") or f"Bearer {request.headers.get('x-api-key', '')}"
        shown = shown_key.encode("latin-1")  # the bytes of the header
        equal = [hmac.compare_digest(shown, f"Bearer {key}".encode()) for key in keys]
        if keys and not any(equal):
            raise ApiError(
                401,
                "the API key is missing or wrong",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if len(keys) > 1:
            return f"key {equal.index(True)}"
        return request.client.host if request.client else ""

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
