"""The endpoints and their shared state."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from constrained.chat.tools import ToolFormat
from constrained.errors import ConstraintTooLarge
from constrained.models import LanguageModel
from constrained.server.admission import Admission
from constrained.server.bodies import Bodies, parse
from constrained.server.captured import answer_captures, told_pieces
from constrained.server.errors import ApiError, stopping_error, to_api_error
from constrained.server.fair_pool import FairPool
from constrained.server.large_requests import LargeRequests
from constrained.server.memory import MemoryWatch
from constrained.server.metrics import Metrics
from constrained.server.read_request import Body, read_request
from constrained.server.request_lifecycle import CLIENT_GONE, RequestLifecycle, within
from constrained.server.requests import ApiRequest, ChatRequest, CompletionRequest
from constrained.server.responses import ResponseBuilder
from constrained.server.responses_api import ResponsesBuilder, ResponsesRequest, in_responses
from constrained.server.scheduler import QueuedRequest, ServerStopped
from constrained.server.sequence_stream import SequenceDelta, SequenceStream
from constrained.server.served_model import ServedModel, ServedModels
from constrained.server.settings import ServerSettings
from constrained.server.stream import ClientDisconnected, EventStream, cancel_on_disconnect
from constrained.server.tokenization import (
    Asked,
    DetokenizeRequest,
    Tell,
    TokenizeRequest,
    detokenize,
    tokenize,
)

_log = logging.getLogger(__name__)


def _wants_logprobs(request: ApiRequest) -> bool:
    if isinstance(request, ChatRequest):
        return bool(request.logprobs)
    return isinstance(request, CompletionRequest) and request.logprobs is not None


def _stopped(error: ServerStopped) -> ApiError:
    return ApiError(503, str(error), code="dead" if error.dead else "stopping", headers={"Retry-After": "1"})


def _log_failure(what: str, error: Exception, refusal: ApiError) -> None:
    """Logs an error that is no fault of the client; one of another process, or of a thread, comes as a refusal already."""
    if refusal.status >= 500 and not isinstance(error, ApiError):
        _log.exception(what, exc_info=error)
    elif refusal.code == "internal_error":
        _log.error(what, extra={"request": {"error": refusal.message, "frames": refusal.frames}})


class Service:
    """What all endpoints share: the models, the metrics, and who is let in."""

    def __init__(
        self,
        models: LanguageModel | Mapping[str, LanguageModel],
        settings: ServerSettings,
        format: ToolFormat | None,
    ) -> None:
        self.settings = settings
        self.models = ServedModels(models, settings, format)
        self.memory = MemoryWatch(settings, self.models.shed)
        self.metrics = Metrics({one.name: one.scheduler for one in self.models.distinct}, self.memory)
        self.admission = Admission(settings, self.memory, len(self.models.distinct))
        self.large = LargeRequests.of(
            {name: one.language_model for name, one in self.models.by_name.items()}, settings, format
        )
        self._elsewhere = FairPool(1, "elsewhere")
        self._bodies = Bodies(settings, self._elsewhere, lambda: self.admission.shared)
        self._started = False
        self._created = int(time.time())

    def start(self) -> None:
        """Loads what the first requests need, and starts the threads; a second call does nothing."""
        if self._started:
            return
        self._started = True
        self.memory.start()
        self.models.start()
        if self.large is not None:
            threading.Thread(target=self.large.try_out, name="large", daemon=True).start()

    def close(self) -> None:
        """Ends all requests, then the threads."""
        self.memory.stop()
        self._bodies.close()
        self._elsewhere.close()
        if self.large is not None:
            self.large.close()
        self.models.stop()

    @property
    def _ready_process(self) -> LargeRequests | None:
        """The process for large requests, if there is one and it has started."""
        return self.large if self.large is not None and self.large.ready else None

    async def health(self) -> Response:
        """``GET /health``: status, running and waiting requests; 503 if the scheduler failed."""
        schedulers = [one.scheduler for one in self.models.distinct]
        counts = {name: sum(getattr(one, name) for one in schedulers) for name in ("running", "waiting")}
        if self.models.failure is None:
            return JSONResponse({"status": "ok", **counts})
        return JSONResponse({"status": "dead", **counts, "reason": self.models.failure}, 503)

    async def metrics_page(self, request: Request) -> Response:
        """``GET /metrics`` in the Prometheus text format."""
        if self.settings.protect_metrics:
            self.admission.check_key(request)
        return Response(self.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def model_list(self, request: Request) -> dict[str, Any]:
        """``GET /v1/models``: a list of the served models."""
        self.admission.check_key(request)
        return {"object": "list", "data": [self._described(one) for one in self.models.by_name.values()]}

    async def model(self, request: Request, name: str) -> dict[str, Any]:
        """``GET /v1/models/{name}``."""
        self.admission.check_key(request)
        return self._described(self.models.named(name))

    def _described(self, model: ServedModel) -> dict[str, Any]:
        return {
            "id": model.name,
            "object": "model",
            "created": self._created,
            "owned_by": "constrained",
            "parent": self.models.parent(model),
            "max_model_len": model.language_model.context,
        }

    async def chat(self, request: Request) -> Response:
        """``POST /v1/chat/completions``."""
        return await self._answer(request, ChatRequest)

    async def completions(self, request: Request) -> Response:
        """``POST /v1/completions``."""
        return await self._answer(request, CompletionRequest)

    async def responses(self, request: Request) -> Response:
        """``POST /v1/responses``."""
        return await self._answer(request, ResponsesRequest)

    async def tokenize(self, request: Request) -> Response:
        """``POST /tokenize``."""
        return await self._told(request, TokenizeRequest, tokenize)

    async def detokenize(self, request: Request) -> Response:
        """``POST /detokenize``."""
        return await self._told(request, DetokenizeRequest, detokenize)

    async def _told(self, request: Request, kind: type[Asked], tell: Tell[Asked]) -> Response:
        """The answer to a request that needs no forward pass."""
        client = self.admission.check_key(request)
        self.admission.check_room(client)
        self.admission.enter(client)
        try:
            return await within(self.settings.request_seconds, self._tell(request, client, kind, tell))
        except (ClientDisconnected, ClientDisconnect):
            return Response(status_code=CLIENT_GONE)
        except Exception as error:
            refusal = to_api_error(error)
            _log_failure("a request failed", error, refusal)
            raise refusal from error
        finally:
            self.admission.leave(client)

    async def _tell(self, request: Request, client: str, kind: type[Asked], tell: Tell[Asked]) -> Response:
        large = self._ready_process
        understand: Callable[[bytes], Asked | bytes] = partial(parse, kind)
        asked = await self._bodies.read(
            request,
            client,
            understand,
            None if large is None else partial(large.tell, kind, tell),
        )
        if isinstance(asked, bytes):
            return Response(asked, media_type="application/json")
        model = self.models.named(asked.model).language_model
        work = self.models.threads.run(client, tell, asked, model)
        return JSONResponse(await cancel_on_disconnect(request.receive, work))

    async def _answer(self, request: Request, kind: type[Body]) -> Response:
        endpoint = request.url.path
        try:
            client = self.admission.check_key(request)
            self.admission.check_room(client)
        except ApiError as refused_at_once:
            self.metrics.requests.labels(endpoint, str(refused_at_once.status)).inc()
            raise
        mine = RequestLifecycle(
            endpoint,
            client,
            settings=self.settings,
            admission=self.admission,
            metrics=self.metrics,
        )
        status = 500
        try:
            opened = self._opened(mine, request, kind)
            response = await within(self.settings.request_seconds, opened)
            status = response.status_code
            if isinstance(response, EventStream):
                return response  # closes the lifecycle at its end
        except (ClientDisconnected, ClientDisconnect):
            status, response = CLIENT_GONE, Response(status_code=CLIENT_GONE)
        except Exception as error:
            refusal = to_api_error(error)
            if kind is ResponsesRequest:
                refusal = in_responses(refusal)
            status = refusal.status
            _log_failure("a request failed", error, refusal)
            raise refusal from error
        finally:
            if status != 200 or not isinstance(response, EventStream):
                mine.close(status)
        return response

    async def _opened(self, mine: RequestLifecycle, request: Request, kind: type[Body]) -> Response:
        settings = self.settings
        by_name, large = self.models.by_name, self._ready_process
        read = await self._bodies.read(
            request,
            mine.client,
            lambda body: read_request(kind, body, by_name, settings),
            None if large is None else partial(large.read, kind),
        )
        asked, wanted = read.asked, read.wanted
        mine.model = model = self.models.named(wanted.model)
        prepared = model.compile_pool(wanted, mine.client, read.digest, read.prompts)
        ready = await cancel_on_disconnect(request.receive, prepared)
        self.metrics.compile.labels(model.name).observe(time.perf_counter() - mine.began)
        self.metrics.prompt_tokens.labels(model.name).inc(ready.prompt_tokens)
        options = wanted.stream_options
        make = partial(ResponsesBuilder, asked) if isinstance(asked, ResponsesRequest) else ResponseBuilder
        wire = make(
            model.name,
            ready.constraint,
            sum(map(len, ready.groups)),
            ready.prompt_tokens,
            chat=isinstance(wanted, ChatRequest),
            logprobs=_wants_logprobs(wanted),
            usage=options is not None and options.include_usage,
            reasoning=not isinstance(wanted, ChatRequest) or wanted.include_reasoning is not False,
            tool_names=read.tool_names,
        )
        streams = bool(wanted.stream) or wire.reasons
        mine.captures = ready.has_captures
        mine.jobs = [QueuedRequest(texts, mine.tell, mine.client, streams=streams) for texts in ready.groups]
        try:
            for job in mine.jobs:
                model.scheduler.submit(job)
        except ServerStopped as error:
            raise _stopped(error) from None
        if wanted.stream:
            return EventStream(
                self._chunks(mine, wire),
                lambda gone: mine.close(CLIENT_GONE if gone else 200),
                settings.request_seconds + 1,
                lambda: wire.error_chunk(stopping_error()),
            )
        return JSONResponse(await cancel_on_disconnect(request.receive, self._whole(mine, wire)))

    async def _pieces(self, mine: RequestLifecycle, wire: ResponseBuilder) -> AsyncIterator[SequenceDelta]:
        """All pieces of a request, until each of its texts has ended.

        Raises:
            ApiError: one of them failed.
        """
        assert mine.model is not None
        left = len(wire.choices)
        began = False
        while left:
            for piece in await mine.deltas.get():
                if piece.error is not None:
                    if isinstance(piece.error, ServerStopped):
                        raise _stopped(piece.error)
                    raise piece.error
                if not began and piece.count:
                    self.metrics.first_token.labels(mine.model.name).observe(time.perf_counter() - mine.began)
                    began = True
                if piece.finish is not None:
                    if mine.captures:
                        piece.captures = await self._captures(mine, mine.text(piece.index))
                    left -= 1
                    self.metrics.tokens.labels(mine.model.name).inc(piece.count)
                yield piece

    async def _captures(self, mine: RequestLifecycle, text: SequenceStream) -> dict[str, Any]:
        """The captures of a finished sequence; finding them can take long: it is tried in a thread, and then done elsewhere."""
        automaton, tokens = text.sequence.params.automaton, tuple(text.sequence.tokens)
        constraint, large, threads = automaton.constraint, self._ready_process, self.models.threads
        assert constraint is not None
        pieces = await threads.run(mine.client, told_pieces, automaton, tokens, text.told_bytes)
        try:
            return await threads.run(mine.client, answer_captures, constraint, pieces, large is not None)
        except ConstraintTooLarge:
            if large is None:
                raise
        found = self._elsewhere.submit(mine.client, large.captures, constraint, pieces)
        return await asyncio.wrap_future(found)

    async def _whole(self, mine: RequestLifecycle, wire: ResponseBuilder) -> dict[str, Any]:
        async for piece in self._pieces(mine, wire):
            wire.add_delta(piece)
        return wire.build_response()

    async def _chunks(self, mine: RequestLifecycle, wire: ResponseBuilder) -> AsyncIterator[dict[str, Any]]:
        """The chunks of a stream; an error after the first chunk is a chunk of its own."""
        for chunk in wire.opening_chunks():
            yield chunk
        try:
            async for piece in self._pieces(mine, wire):
                for chunk in wire.chunks(piece):
                    yield chunk
        except Exception as error:
            refusal = to_api_error(error)
            _log_failure("a stream failed", error, refusal)
            yield wire.error_chunk(refusal)
            return
        for chunk in wire.closing_chunks():
            yield chunk
