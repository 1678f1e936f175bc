"""A thread pool that is shared fairly: its next job is that of the client that has had least of its time lately."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

_Result = TypeVar("_Result")

_HALF_LIFE = 30.0
"""Seconds after which half of the time that a client has had is forgotten."""

_FORGOTTEN = 0.01
"""Seconds that a client has had below which it counts as one that was never there."""


@dataclass(slots=True)
class _Client:
    waiting: deque[tuple[Future[Any], Callable[[], Any]]] = field(default_factory=deque)
    began: list[float] = field(default_factory=list)  # of its running jobs
    had: float = 0.0  # seconds of its jobs that have ended, at `told`
    told: float = 0.0


class FairPool:
    """Threads that run jobs of several clients.

    A job waits behind those of clients that have had less time of the threads lately. While several clients are about,
    none of them has all threads: the job of another one need not wait for a slow one.

    Args:
        threads: how many jobs run at a time.
        name: of the threads.
        clock: seconds, for tests.
        spare: whether no client has all threads in any case: one that comes now and then is not about while it is away.
    """

    def __init__(
        self, threads: int, name: str, clock: Callable[[], float] = time.monotonic, *, spare: bool = False
    ) -> None:
        self._size = threads
        self._spare = spare
        self._name = name
        self._clock = clock
        self._clients: dict[str, _Client] = {}
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._closed = False

    def submit(self, client: str, function: Callable[..., _Result], *arguments: Any) -> Future[_Result]:
        """Calls ``function(*arguments)`` in a thread; if the future is cancelled before, the job is dropped with its arguments.

        Raises:
            RuntimeError: the pool is closed.
        """
        future: Future[_Result] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("the pool is closed")
            known = self._clients.setdefault(client, _Client(told=self._clock()))
            known.waiting.append((future, lambda: function(*arguments)))
            if not self._idle and self._threads < self._size:
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
            self._changed.notify()
        future.add_done_callback(lambda done: self._drop(known, done))
        return future

    def close(self) -> None:
        """Cancels the jobs that wait, without waiting for those that run."""
        with self._changed:
            self._closed = True
            for client in self._clients.values():
                for future, _ in list(client.waiting):
                    future.cancel()
            self._changed.notify_all()

    def _drop(self, client: _Client, done: Future[Any]) -> None:
        """Takes a job out of the queue that nobody waits for: a client that hangs up again and again would fill it."""
        if done.cancelled():
            with self._changed:
                client.waiting = deque(job for job in client.waiting if job[0] is not done)

    def _work(self) -> None:
        while True:
            with self._changed:
                while (name := self._next()) is None:
                    if self._closed:
                        return
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                client = self._clients[name]
                future, job = client.waiting.popleft()
                began = self._clock()
                client.began.append(began)
            if future.set_running_or_notify_cancel():
                try:
                    result = job()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
            del future, job
            with self._changed:
                self._had(client)
                client.had += client.told - began
                client.began.remove(began)
                self._changed.notify_all()  # a job may run now that had to leave a thread to others

    def _next(self) -> str | None:
        """The client whose job runs next, under the lock."""
        best, least = None, float("inf")
        for name, client in list(self._clients.items()):
            had = self._had(client)
            if not client.waiting:
                if not client.began and had < _FORGOTTEN:
                    del self._clients[name]
                continue
            if (self._spare or len(self._clients) > 1) and len(client.began) >= max(1, self._size - 1):
                continue
            if had < least:
                best, least = name, had
        return best

    def _had(self, client: _Client) -> float:
        """Seconds that a client has had, those of its running jobs included; sets `told` to now."""
        now = self._clock()
        client.had *= 0.5 ** ((now - client.told) / _HALF_LIFE)
        client.told = now
        return client.had + sum(now - began for began in client.began)
