"""How fast large bodies come in: at a limited rate while several clients are about.

Receiving a body is work of the event loop, a millisecond or two for each MiB, and what a client sends is there as fast as it can be
taken. Whoever waits meanwhile for a step of the batch waits for the GIL with each of its turns. So the parts of all large bodies
together come at a rate that leaves most of the time to others; a client that is alone need not wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PACE = 32 << 20
"""Bytes of large bodies that are received in a second while several clients are about: a twentieth of the time, about."""


class Pace:
    """Says how long to wait before the next part of a body is received.

    Args:
        shared: whether several clients are about.
        clock: seconds, for tests.
    """

    def __init__(self, shared: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._shared = shared
        self._clock = clock
        self._next = 0.0  # when the parts so far are paid for

    def wait(self, size: int) -> float:
        """Counts a part that has been received; the seconds until the next one of its body may be."""
        now = self._clock()
        if not self._shared():
            self._next = now
            return 0.0
        self._next = max(self._next, now) + size / PACE
        return self._next - now

    async def after(self, size: int) -> None:
        """Waits as long as `wait` says."""
        if seconds := self.wait(size):
            await asyncio.sleep(seconds)
