"""Compiles the constraints of requests for one model, with a deadline, and prepares their sequences.

A new constraint is compiled in a worker process first, which is killed at the deadline, and only if that succeeded
in a thread of the server. So a hostile one holds a thread for a bounded time. Known ones have threads of their own.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

from constrained.chat.detect import ReplyFormats
from constrained.chat.reply import ReplyConstraint
from constrained.chat.tools import ToolFormat
from constrained.decoding.speculation import DraftSchedulers
from constrained.lru_cache import LRUCache
from constrained.models import LanguageModel
from constrained.sandbox import WALL
from constrained.server import prepare
from constrained.server.errors import ApiError
from constrained.server.extractions import Extractors, has_tools
from constrained.server.jobs import PreparedRequest
from constrained.server.prepare import EncodedPrompts
from constrained.server.request_constraint import compile_constraint, constraint_field
from constrained.server.requests import ApiRequest, ChatRequest
from constrained.server.settings import ServerSettings
from constrained.server.stream import ClientDisconnected
from constrained.server.workers import COMPILE, Workers

_KNOWN = 4096
"""Digests of constraints that a worker has compiled; the least recently used one is evicted."""

_SHARDS = 16
"""Automata of different shards never wait for each other: a slow mask holds those of its shard only."""

_LOADING = 30.0
"""Seconds that a worker process may take to start."""


class Compiler:
    """Compiles the constraints of requests with a deadline.

    Attributes:
        vocabulary: the model's, with shards for constraints of many clients.

    Args:
        name: of the model.
        model: encodes the prompts; constraints are compiled for its vocabulary.
        settings: limits of time and memory.
        workers: shared with other models.
        format: format of tool calls; None: detected from the chat template.
        drafts: draft tables; None: no speculation.
    """

    def __init__(
        self,
        name: str,
        model: LanguageModel,
        settings: ServerSettings,
        workers: Workers,
        format: ToolFormat | None = None,
        drafts: DraftSchedulers | None = None,
    ) -> None:
        self._name = name
        self._model = model
        self._drafts = drafts
        self._settings = settings
        self._format = format
        self._workers = workers
        self._extractors = Extractors(model, None if drafts is None else drafts.speculation)
        self._known: LRUCache[bytes, bool] = LRUCache(_KNOWN)
        self.vocabulary = model.vocabulary.with_shards(_SHARDS)

    async def __call__(
        self,
        request: ApiRequest,
        client: str,
        digest: bytes | None,
        prompts: EncodedPrompts | None = None,
    ) -> PreparedRequest:
        """Prepares a request for decoding.

        If the caller is cancelled, because its client disconnected, a job that waits is dropped, and one that is in a
        worker ends with it.

        Args:
            request: what the client wants.
            client: whose turn it takes.
            digest: of its constraint, see `constraint_digest`; None: free text.
            prompts: where they are encoded already; the request has none then.

        Raises:
            ApiError: 400 if the constraint is refused or not compiled in time, 503 if the queue is too long.
        """
        gone = threading.Event()
        if digest is None or self._known.get(digest):
            future = self._workers.prepare_threads.submit(client, self._prepare, request, prompts)
        else:  # others do not wait for it
            future = self._workers.threads.submit(client, self._compile_first, request, digest, gone, prompts)
        try:
            return await self._result(future, constraint_field(request, self._settings))
        finally:
            gone.set()
            future.cancel()

    async def _result(self, future: Future[PreparedRequest], param: str | None) -> PreparedRequest:
        """What a job returns, within its time."""
        seconds = self._settings.compile_seconds
        waited = asyncio.wrap_future(future)
        # Retrieves the error, since the caller may have stopped waiting.
        waited.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait((waited,), timeout=seconds)
        if not waited.done():
            if future.cancel():
                raise ApiError(
                    503,
                    "the compile queue is full; try again",
                    code="compile_queue_full",
                    headers={"Retry-After": str(max(1, round(seconds)))},
                )
            # The job has started: wait for the worker, whose time is bounded, and for one compile in this process.
            await asyncio.wait((waited,), timeout=(WALL + 1) * seconds + _LOADING)
        if not waited.done():
            what = f"{COMPILE.late} within {seconds:g} seconds"
            raise ApiError(400, what, code=COMPILE.late_code, param=param)
        return waited.result()

    def _compile_first(
        self, request: ApiRequest, digest: bytes, gone: threading.Event, prompts: EncodedPrompts | None
    ) -> PreparedRequest:
        """Compiles a new constraint in a worker, and then here unless its client has `gone`."""
        if self._workers.count:
            short, formats = prepare.without_prompt(request), self._formats(request, prompts)
            self._workers.call(
                COMPILE, self._name, short, formats, param=constraint_field(request, self._settings)
            )
        if gone.is_set():
            raise ClientDisconnected
        prepared = self._prepare(request, prompts)
        self._known.put(digest, True)
        return prepared

    def _prepare(self, request: ApiRequest, prompts: EncodedPrompts | None) -> PreparedRequest:
        if isinstance(request, ChatRequest) and request.extraction:
            limit = prepare.max_tokens(request, self._settings)
            limit = self._settings.max_tokens if limit is None else limit
            if has_tools(request):
                return self._prepare_reply(request, limit)
            return self._extractors.prepare(request, limit)
        return prepare.prepare_request(
            request,
            self._model,
            self._settings,
            self._formats(request, prompts),
            self._drafts,
            vocabulary=self.vocabulary,
            prompts=None if prompts is None else prompts.ids,
        )

    def _prepare_reply(self, request: ChatRequest, limit: int | None) -> PreparedRequest:
        """The reply to a request with tools whose call has arguments that are read."""
        formats = self._formats(request, None)
        constraint, _ = compile_constraint(request, self._model.vocabulary, formats, self._settings)
        assert isinstance(constraint, ReplyConstraint)
        tools = constraint.callable_tools
        (prompt,) = prepare.encode_prompts(request, self._model, self._settings, formats, tools)
        return self._extractors.prepare_reply(request, limit, constraint, prompt)

    def _formats(self, request: ApiRequest, prompts: EncodedPrompts | None) -> ReplyFormats:
        return prepare.formats_for(request, self._model, self._format) if prompts is None else prompts.formats
