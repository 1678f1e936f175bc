"""Clients in turn (round robin): a queue with a part for each client, and threads that take jobs from it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_REST = 3
"""Requests that are answered at once take a quarter of the event loop's time at most."""


class RoundRobin(Generic[T]):
    """A queue with a part for each client. Not thread-safe.

    The next item is the oldest one of the client whose turn it is, which then goes behind the other clients.
    """

    def __init__(self) -> None:
        self._queues: dict[str, deque[T]] = {}  # by client, in the order of their turns

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __iter__(self) -> Iterator[T]:
        return (item for queue in self._queues.values() for item in queue)

    def put(self, client: str, item: T) -> None:
        """Adds an item behind the others of its client."""
        self._queues.setdefault(client, deque()).append(item)

    def next(self, ready: Callable[[str], bool] = lambda client: True) -> str | None:
        """The client whose turn it is, of those that are ready; None: nobody waits."""
        return next((client for client in self._queues if ready(client)), None)

    def first(self, client: str) -> T:
        """The oldest item of a client that waits."""
        return self._queues[client][0]

    def pop(self, client: str) -> T:
        """Takes the oldest item of a client out; its next one waits for those of all others."""
        queue = self._queues.pop(client)
        item = queue.popleft()
        if queue:
            self._queues[client] = queue
        return item

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        """Removes items."""
        for client, queue in list(self._queues.items()):
            kept = deque(item for item in queue if not unwanted(item))
            if kept:
                self._queues[client] = kept
            else:
                del self._queues[client]


class Turns:
    """Turns of clients in the event loop, one at a time, for requests that are answered at once.

    After each one the loop has time for other things, `_REST` times as long as it took.
    """

    def __init__(self) -> None:
        self._waiting: RoundRobin[asyncio.Future[None]] = RoundRobin()
        self._giving: asyncio.Task[None] | None = None

    async def take(self, client: str) -> None:
        """Returns when it is the turn of a client."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(client, turn)
        if self._giving is None:
            self._giving = asyncio.create_task(self._give())
        await turn

    async def _give(self) -> None:
        while (client := self._waiting.next()) is not None:
            turn = self._waiting.pop(client)
            if turn.cancelled():
                continue
            began = time.thread_time()
            turn.set_result(None)
            await asyncio.sleep(0)  # who waited for it is next
            await asyncio.sleep(_REST * (time.thread_time() - began))
        self._giving = None


class ClientThreads:
    """A thread pool that runs jobs in turns of clients. No client has all threads, if there are several.

    Args:
        threads: how many jobs run at a time.
        name: of the threads.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._size = threads
        self._name = name
        self._waiting: RoundRobin[tuple[Future[Any], Callable[[], Any]]] = RoundRobin()
        self._running: Counter[str] = Counter()
        self._changed = threading.Condition()  # guards what is above and below
        self._threads = self._idle = 0
        self._closed = False

    def submit(self, client: str, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Calls ``function(*arguments)`` in a thread; a cancelled job that waits is dropped with its arguments.

        Raises:
            RuntimeError: the pool is closed.
        """
        future: Future[T] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("the pool is closed")
            self._waiting.put(client, (future, lambda: function(*arguments)))
            if not self._idle and self._threads < self._size:
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
            self._changed.notify_all()
        future.add_done_callback(self._drop)
        return future

    async def run(self, client: str, function: Callable[..., T], *arguments: Any) -> T:
        """As `submit`; cancels the job if the caller is cancelled."""
        return await asyncio.wrap_future(self.submit(client, function, *arguments))

    def close(self) -> None:
        """Cancels the jobs that wait, without waiting for those that run."""
        with self._changed:
            self._closed = True
            for future, _ in list(self._waiting):
                future.cancel()
            self._changed.notify_all()

    def _drop(self, done: Future[Any]) -> None:
        """Frees a cancelled job at once: a client that disconnects again and again would fill the queue."""
        if done.cancelled():
            with self._changed:
                self._waiting.drop(lambda job: job[0] is done)

    def _work(self) -> None:
        while True:
            with self._changed:
                while (client := self._waiting.next(self._may_run)) is None:
                    if self._closed:
                        return
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                future, job = self._waiting.pop(client)
                self._running[client] += 1
            if future.set_running_or_notify_cancel():
                try:
                    result = job()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del future, job  # a thread that waits keeps no request alive
            with self._changed:
                self._running -= Counter((client,))  # without clients that have none
                self._changed.notify_all()

    def _may_run(self, client: str) -> bool:
        return self._running[client] < max(1, self._size - 1)
