"""Everything that is done before a model is asked, in threads of its own: a hostile schema blocks nobody else.

What has never been compiled is first tried out in a process that can be ended. Only what came to an end there is compiled
here: a thread is back soon after its deadline, whatever it was given.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from queue import LifoQueue

from constrained.chat.tool_format_probe import detect_tool_format
from constrained.chat.tools import HERMES, ToolFormat
from constrained.errors import InvalidArgument
from constrained.models import LanguageModel
from constrained.server import prepare
from constrained.server.compile_sandbox import CompileSandbox, compile_timeout_error
from constrained.server.errors import ApiError, to_api_error
from constrained.server.prepare import PreparedRequest
from constrained.server.requests import ApiRequest
from constrained.server.settings import ServerSettings
from constrained.server.speculation import SpeculationCache

_TRIED = 4096
"""Digests of what was compiled before; the one that was not seen for longest goes first."""

_FORKS = hasattr(os, "fork")
"""Where there are no forks, as on Windows, nothing is tried out: a thread is kept until the compiler's own limits."""

_LOADING = 30.0
"""Seconds after which a process for trials that is not ready never will be."""


class CompilePool:
    """A pool with a deadline.

    Args:
        model: whose prompts and masks.
        settings: how many threads, and how long and how much one compile may take.
        format: how the model writes calls of tools; None: as its chat template does.
        drafts: what texts guess ahead.
    """

    def __init__(
        self,
        model: LanguageModel,
        settings: ServerSettings,
        format: ToolFormat | None = None,
        drafts: SpeculationCache | None = None,
    ) -> None:
        self._model = model
        self._drafts = drafts
        self._settings = settings
        self._format = format
        self._pool = ThreadPoolExecutor(settings.compile_threads, thread_name_prefix="compile")
        self._trials = [
            CompileSandbox(model.vocabulary, settings.compile_seconds, settings.compile_memory)
            for _ in range(settings.compile_threads)
        ]
        self._free: LifoQueue[CompileSandbox] = (
            LifoQueue()
        )  # those that have loaded what they need come first
        for trial in self._trials:
            self._free.put(trial)
        self._tried: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()

    def warm(self) -> None:
        """Starts a process, so that the first constraint does not wait for it."""
        if _FORKS:
            self._trials[-1].start()

    async def __call__(self, request: ApiRequest) -> PreparedRequest:
        """What a request asks for, ready to be written.

        Raises:
            Refusal: it cannot be done; 400 if it did not end in time, 503 if others were before it.
        """
        seconds = self._settings.compile_seconds
        future = self._pool.submit(self._prepared, request)
        waited = asyncio.wrap_future(future)
        waited.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # maybe nobody waits any more
        await asyncio.wait((waited,), timeout=seconds)
        if not waited.done():
            if future.cancel():
                raise ApiError(
                    503,
                    "other constraints are being compiled; try again",
                    code="compile_queue_full",
                    headers={"Retry-After": str(max(1, round(seconds)))},
                )
            # It has begun, maybe not long ago. Its trial ends in time; then it is done once more, here.
            await asyncio.wait((waited,), timeout=2 * seconds + _LOADING)
        if not waited.done():
            raise compile_timeout_error(seconds, prepare.constraint_field(request))
        return waited.result()

    def _prepared(self, request: ApiRequest) -> PreparedRequest:
        """What a thread does."""
        format = self._format_for(request)
        digest = prepare.constraint_digest(request)
        if _FORKS and digest is not None and not self._known(digest):
            trial = self._free.get()  # there are as many as threads
            try:
                trial(prepare.without_prompt(request), format, prepare.constraint_field(request))
            finally:
                self._free.put(trial)
            with self._lock:
                self._tried[digest] = None
                while len(self._tried) > _TRIED:
                    self._tried.popitem(last=False)
        return prepare.prepare_request(request, self._model, self._settings, format, self._drafts)

    def _format_for(self, request: ApiRequest) -> ToolFormat:
        if not prepare.uses_tool_format(request):
            return HERMES
        try:
            return detect_tool_format(self._model) if self._format is None else self._format
        except InvalidArgument as error:
            raise to_api_error(error, "tools") from error

    def _known(self, digest: bytes) -> bool:
        with self._lock:
            if digest not in self._tried:
                return False
            self._tried.move_to_end(digest)
            return True

    def close(self) -> None:
        """Takes no more work, ends what is being tried, and waits for nothing else."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for trial in self._trials:
            trial.close()
