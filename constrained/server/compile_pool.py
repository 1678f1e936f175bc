"""Thread pool that compiles constraints and encodes prompts, with a deadline.

A new constraint is compiled in a sandbox process first, which is killed at the deadline. Only if that succeeded it is
compiled in the pool, so a hostile constraint blocks a thread for a bounded time. Known ones have threads of their own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import LifoQueue
from typing import Any, TypeVar

from constrained.chat.detect import ReplyFormats
from constrained.chat.tools import ToolFormat
from constrained.lru_cache import LRUCache
from constrained.models import LanguageModel
from constrained.sandbox import FORKS, WALL
from constrained.server import prepare
from constrained.server.compile_sandbox import CompileSandbox, compile_timeout_error
from constrained.server.errors import ApiError
from constrained.server.fair_pool import FairPool
from constrained.server.lane import PATIENCE
from constrained.server.prepare import EncodedPrompts, PreparedRequest
from constrained.server.request_constraint import constraint_field
from constrained.server.requests import ApiRequest
from constrained.server.settings import ServerSettings
from constrained.server.speculation import SpeculationCache
from constrained.server.stream import ClientDisconnected

_Result = TypeVar("_Result")

_TRIED = 4096
"""Digests of constraints that passed the sandbox; the least recently used one is evicted."""

_SHARDS = 16
"""Automata of different shards never wait for each other: a slow mask holds those of its shard only."""

_LOADING = 30.0
"""Seconds that a sandbox process may take to start."""


class CompileThreads:
    """The threads of a server that prepare requests, for all of its models.

    Attributes:
        new: try constraints that nobody knows yet.
        known: prepare the requests of the other ones; of one client at most `count` at a time, so that others need not wait for it.
    """

    def __init__(self, count: int) -> None:
        self.new = FairPool(count, "compile")
        self.known = FairPool(count + 1, "prepare", spare=True)

    async def run(self, client: str, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Calls ``function(*arguments)`` in a thread for what is known."""
        return await asyncio.wrap_future(self.known.submit(client, function, *arguments))

    def close(self) -> None:
        """Refuses new work, without waiting for running jobs."""
        self.new.close()
        self.known.close()


class CompilePool:
    """Compiles the constraints of requests with a deadline.

    Attributes:
        vocabulary: the model's, with shards for constraints of many clients.

    Args:
        model: encodes the prompts; constraints are compiled for its vocabulary.
        settings: limits of time and memory.
        threads: shared with other models.
        format: format of tool calls; None: detected from the chat template.
        drafts: draft tables; None: no speculation.
    """

    def __init__(
        self,
        model: LanguageModel,
        settings: ServerSettings,
        threads: CompileThreads,
        format: ToolFormat | None = None,
        drafts: SpeculationCache | None = None,
    ) -> None:
        self._model = model
        self._drafts = drafts
        self._settings = settings
        self._format = format
        self._threads = threads
        self._sandboxes = [
            CompileSandbox(model.vocabulary, settings.compile_seconds, settings.compile_memory)
            for _ in range(settings.compile_threads if FORKS and settings.sandbox else 0)
        ]
        self._free: LifoQueue[CompileSandbox] = LifoQueue()  # LIFO: started sandboxes are used first
        for sandbox in self._sandboxes:
            self._free.put(sandbox)
        self._tried: LRUCache[bytes, float] = LRUCache(_TRIED)  # seconds of the slowest mask
        self.vocabulary = model.vocabulary.with_shards(_SHARDS)

    def warm(self) -> None:
        """Starts a sandbox process in advance."""
        if self._sandboxes:
            self._sandboxes[-1].start()

    async def __call__(
        self,
        request: ApiRequest,
        client: str,
        digest: bytes | None,
        prompts: EncodedPrompts | None = None,
    ) -> PreparedRequest:
        """Prepares a request for decoding.

        Args:
            request: what the client wants.
            client: whom the time is charged to.
            digest: of its constraint, see `constraint_digest`; None: free text.
            prompts: where they are encoded already; the request has none then.

        Where the caller is cancelled, because its client has gone, a job that waits is dropped, and one that tries a constraint
        ends with the trial.

        Raises:
            ApiError: 400 if the constraint is refused or not compiled in time, 503 if the pool is busy.
        """
        gone = threading.Event()
        slowest = 0.0 if digest is None else self._tried.get(digest)
        if slowest is None:
            future = self._threads.new.submit(client, self._try, request, digest or b"", gone, prompts)
        else:  # does not wait for constraints that nobody knows yet
            future = self._threads.known.submit(client, self._prepare, request, slowest, prompts)
        try:
            return await self._result(future, constraint_field(request))
        finally:
            gone.set()
            future.cancel()

    async def _result(self, future: Future[PreparedRequest], param: str | None) -> PreparedRequest:
        """What a job returns, within its time."""
        seconds = self._settings.compile_seconds
        waited = asyncio.wrap_future(future)
        waited.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # retrieve it, since the caller may have stopped waiting
        await asyncio.wait((waited,), timeout=seconds)
        if not waited.done():
            if future.cancel():
                raise ApiError(
                    503,
                    "the compile queue is full; try again",
                    code="compile_queue_full",
                    headers={"Retry-After": str(max(1, round(seconds)))},
                )
            # The job has started: wait for the sandboxed compile, which is bounded, and one compile in this process.
            await asyncio.wait((waited,), timeout=(WALL + 1) * seconds + _LOADING)
        if not waited.done():
            raise compile_timeout_error(seconds, param)
        return waited.result()

    def _try(
        self,
        request: ApiRequest,
        digest: bytes,
        gone: threading.Event,
        prompts: EncodedPrompts | None,
    ) -> PreparedRequest:
        """Tries a new constraint in a sandbox first, and compiles it unless its client has `gone`; runs in a thread of the pool."""
        slowest = 0.0
        if self._sandboxes:
            param = constraint_field(request)
            max_tokens = prepare.max_tokens(request, self._settings)
            formats = self._formats_for(request) if prompts is None else prompts.formats
            sandbox = self._free.get()  # never blocks: one sandbox per thread
            try:
                slowest = sandbox(
                    prepare.without_prompt(request), formats, param, max_tokens, self._settings.max_digits
                )
            finally:
                self._free.put(sandbox)
            if slowest > self._settings.mask_seconds:
                raise ApiError(
                    400,
                    f"a mask of the constraint took {slowest:.2g} s; {self._settings.mask_seconds:g} s are allowed",
                    code="constraint_too_slow",
                    param=param,
                )
        if gone.is_set():
            raise ClientDisconnected
        ready = self._prepare(request, slowest, prompts)
        self._tried.put(digest, slowest)
        return ready

    def _prepare(
        self, request: ApiRequest, slowest: float, prompts: EncodedPrompts | None
    ) -> PreparedRequest:
        return prepare.prepare_request(
            request,
            self._model,
            self._settings,
            self._formats_for(request) if prompts is None else prompts.formats,
            self._drafts,
            vocabulary=self.vocabulary,
            slow=slowest > PATIENCE,
            prompts=None if prompts is None else prompts.ids,
        )

    def _formats_for(self, request: ApiRequest) -> ReplyFormats:
        return prepare.formats_for(request, self._model, self._format)

    def close(self) -> None:
        """Kills the sandboxes."""
        for sandbox in self._sandboxes:
            sandbox.close()
