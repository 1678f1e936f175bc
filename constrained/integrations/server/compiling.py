"""Everything that is done before a model is asked, in threads of its own: a hostile schema blocks nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from constrained.integrations.server.problems import Refusal

T = TypeVar("T")


class Compiling:
    """A pool with a deadline.

    A thread cannot be stopped: work that misses the deadline goes on until the budgets of the compiler end it, and
    keeps its place in the pool so long.

    Args:
        threads: how many.
        seconds: a request waits at most so long.
    """

    def __init__(self, threads: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="compile")
        self._seconds = seconds

    async def __call__(self, work: Callable[[], T], param: str | None) -> T:
        """The result of some work.

        Args:
            work: is called in a thread.
            param: the part of the request it is about.

        Raises:
            Refusal: it did not end in time: 400 if it had begun, 503 if others were before it.
            Exception: whatever the work raises.
        """
        future = self._pool.submit(work)
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), self._seconds)
        except asyncio.TimeoutError:
            if future.cancel():
                raise Refusal(
                    503,
                    "other constraints are being compiled; try again",
                    code="compile_queue_full",
                    headers={"Retry-After": str(max(1, round(self._seconds)))},
                ) from None
            raise Refusal(
                400,
                f"the constraint was not compiled within {self._seconds:g} seconds",
                code="compile_timeout",
                param=param,
            ) from None

    def close(self) -> None:
        """Takes no more work, and waits for none."""
        self._pool.shutdown(wait=False, cancel_futures=True)
