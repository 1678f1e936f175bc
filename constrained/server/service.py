"""The endpoints and their shared state."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from constrained.chat.tools import ToolFormat
from constrained.errors import ConstraintTooLarge
from constrained.models import LanguageModel
from constrained.server.admission import Admission, client_address
from constrained.server.captures import answer_captures, emitted_pieces
from constrained.server.decisions import Decisions, DecisionsRequest, SystemOneRequest, prepare_decision
from constrained.server.errors import ApiError, stopping_error, to_api_error
from constrained.server.jobs import QueuedRequest, QueuedSteps, extraction_delta
from constrained.server.memory import MemoryWatch
from constrained.server.messages_api import CountTokensRequest, MessagesRequest, in_messages
from constrained.server.messages_builder import MessagesBuilder
from constrained.server.metrics import Metrics
from constrained.server.prepare import top_logprobs
from constrained.server.read_request import (
    LARGE,
    SMALL,
    Body,
    ReadRequest,
    joined,
    read_request,
    receive_body,
)
from constrained.server.request_lifecycle import CLIENT_GONE, RequestLifecycle, within
from constrained.server.requests import ChatRequest, CompletionRequest
from constrained.server.responses import ResponseBuilder
from constrained.server.responses_api import ResponsesBuilder, ResponsesRequest, in_responses
from constrained.server.round_robin import Turns
from constrained.server.sequence_stream import SequenceDelta, SequenceStream
from constrained.server.served_model import ServedModel, ServedModels
from constrained.server.settings import ServerSettings
from constrained.server.stream import ClientDisconnected, EventStream, cancel_on_disconnect
from constrained.server.tokenization import (
    Answer,
    DetokenizeRequest,
    TokenizeRequest,
    TokensRequest,
    count_tokens,
    detokenize,
    tokenize,
)
from constrained.server.workers import CAPTURES, READ, TOKENS, Task

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")


def _log_failure(what: str, error: Exception, refusal: ApiError) -> None:
    """Logs an error that is no fault of the client; one of a worker or a thread comes as an `ApiError` already."""
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
        self._turns = Turns()
        self._workers = self.models.workers
        self._started = False
        self._created = int(time.time())

    def start(self) -> None:
        """Loads what the first requests need, and starts the threads; a second call does nothing."""
        if self._started:
            return
        self._started = True
        self.memory.start()
        self.models.start()

    def close(self) -> None:
        """Ends all requests, then the threads."""
        self.memory.stop()
        self.models.stop()

    async def turn(self, request: Request) -> None:
        """Waits for the turn of a client; for what is answered at once, and refusals."""
        await self._turns.take(client_address(request))

    async def health(self, request: Request) -> Response:
        """``GET /health``: status, running and waiting requests; 503 if the scheduler failed. Probes have no key."""
        await self.turn(request)
        schedulers = [one.scheduler for one in self.models.distinct]
        counts = {name: sum(getattr(one, name) for one in schedulers) for name in ("running", "waiting")}
        if self.models.failure is None:
            return JSONResponse({"status": "ok", **counts})
        return JSONResponse({"status": "dead", **counts, "reason": self.models.failure}, 503)

    async def metrics_page(self, request: Request) -> Response:
        """``GET /metrics`` in the Prometheus text format."""
        self.admission.check_key(request)
        await self.turn(request)
        return Response(self.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def model_list(self, request: Request) -> dict[str, Any]:
        """``GET /v1/models``: a list of the served models."""
        self.admission.check_key(request)
        await self.turn(request)
        return {"object": "list", "data": [self._described(one) for one in self.models.by_name.values()]}

    async def model(self, request: Request, name: str) -> dict[str, Any]:
        """``GET /v1/models/{name}``."""
        self.admission.check_key(request)
        await self.turn(request)
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

    @property
    def posts(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """What answers a ``POST``, by its path."""
        answer, generate, decide, tokens = self._answer, self._generate, self._decide, self._tokens
        counted = partial(tokens, CountTokensRequest, count_tokens)
        return {
            "/v1/chat/completions": partial(answer, respond=partial(generate, ChatRequest)),
            "/v1/completions": partial(answer, respond=partial(generate, CompletionRequest)),
            "/v1/responses": partial(
                answer, respond=partial(generate, ResponsesRequest), in_api=in_responses
            ),
            "/v1/messages": partial(answer, respond=partial(generate, MessagesRequest), in_api=in_messages),
            "/v1/messages/count_tokens": partial(answer, respond=counted, in_api=in_messages),
            "/v1/decisions": partial(answer, respond=partial(decide, DecisionsRequest)),
            "/v1/systemone": partial(answer, respond=partial(decide, SystemOneRequest)),
            "/tokenize": partial(answer, respond=partial(tokens, TokenizeRequest, tokenize)),
            "/detokenize": partial(answer, respond=partial(tokens, DetokenizeRequest, detokenize)),
        }

    async def _answer(
        self,
        request: Request,
        respond: Callable[[RequestLifecycle, Request], Awaitable[Response]],
        in_api: Callable[[ApiError], ApiError] = lambda error: error,
    ) -> Response:
        """The response to a request, if it is let in and within its time.

        Args:
            request: whose body has not been received.
            respond: makes the response.
            in_api: names the fields of an error as the endpoint has them.

        Raises:
            ApiError: what is wrong with the request.
        """
        endpoint = request.url.path
        try:
            client = self.admission.check_key(request)
            self.admission.check_room(client)
        except ApiError as refused_at_once:
            self.metrics.requests.labels(endpoint, str(refused_at_once.status)).inc()
            raise in_api(refused_at_once) from None
        lifecycle = RequestLifecycle(
            endpoint,
            client,
            settings=self.settings,
            admission=self.admission,
            metrics=self.metrics,
        )
        status = 500
        try:
            response = await within(self.settings.request_seconds, respond(lifecycle, request))
            status = response.status_code
            if isinstance(response, EventStream):
                return response  # closes the lifecycle at its end
        except (ClientDisconnected, ClientDisconnect):
            status, response = CLIENT_GONE, Response(status_code=CLIENT_GONE)
        except Exception as error:
            refusal = in_api(to_api_error(error))
            status = refusal.status
            _log_failure("a request failed", error, refusal)
            raise refusal from error
        finally:
            if status != 200 or not isinstance(response, EventStream):
                lifecycle.close(status)
        return response

    async def _tokens(
        self,
        kind: type[TokensRequest],
        answer: Answer[TokensRequest],
        lifecycle: RequestLifecycle,
        request: Request,
    ) -> Response:
        """The answer to a request that needs no forward pass."""
        client = lifecycle.client
        read: TokensRequest | bytes = await self._read(
            request, client, kind.model_validate_json, TOKENS, kind, answer
        )
        if isinstance(read, bytes):
            return Response(read, media_type="application/json")
        model = self.models.named(read.model).language_model
        work = self._workers.prepare_threads.run(client, answer, read, model)
        return JSONResponse(await cancel_on_disconnect(request.receive, work))

    async def _decide(self, kind: type[Decisions], lifecycle: RequestLifecycle, request: Request) -> Response:
        """The answers to closed questions, which the thread of the model reads."""
        client = lifecycle.client
        body: Decisions = await self._read(request, client, kind.model_validate_json, None)
        lifecycle.model = model = self.models.named(body.model)
        preparing = self._workers.prepare_threads.run(
            client, prepare_decision, body, model.language_model, self.settings
        )
        steps, tokens = await cancel_on_disconnect(request.receive, preparing)
        self.metrics.prompt_tokens.labels(model.name).inc(tokens)
        reading = QueuedSteps(steps, model.scheduler.beside, tokens, client)
        model.scheduler.submit(reading)
        answers = await cancel_on_disconnect(request.receive, asyncio.wrap_future(reading.answer))
        return JSONResponse(body.body(model.name, answers, tokens))

    async def _read(
        self,
        request: Request,
        client: str,
        here: Callable[[bytes], _Result],
        task: Task | None,
        *arguments: Any,
    ) -> _Result:
        """Receives a body and reads it: a small one at once, a larger one in a thread or in a worker process.

        Args:
            request: whose body has not been received.
            client: whose turn it takes.
            here: reads a body in this process.
            task: does it in a worker; None: a thread does.
            arguments: of the task, before the body.

        Raises:
            ApiError: the body exceeds a limit.
            ClientDisconnected: the client disconnected.
            Exception: of `here` or of the task.
        """
        parts = await receive_body(request, self.settings)
        size = sum(map(len, parts))
        if size <= SMALL:
            return here(b"".join(parts))
        if size > LARGE and self._workers.prepares and task is not None:
            work = self._workers.run(client, task, *arguments, parts)
        else:
            work = self._workers.prepare_threads.run(
                client, lambda: here(joined(parts, self.settings.max_values))
            )
        return await cancel_on_disconnect(request.receive, work)

    async def _generate(self, kind: type[Body], lifecycle: RequestLifecycle, request: Request) -> Response:
        """The completions that a request asks for, or their stream."""
        settings, by_name = self.settings, self.models.by_name
        read: ReadRequest = await self._read(
            request,
            lifecycle.client,
            lambda body: read_request(kind, body, by_name, settings),
            READ,
            kind,
        )
        body, wanted = read.body, read.request
        lifecycle.model = model = self.models.named(wanted.model)
        preparing = model.compiler(wanted, lifecycle.client, read.digest, read.prompts)
        ready = await cancel_on_disconnect(request.receive, preparing)
        self.metrics.compile.labels(model.name).observe(time.perf_counter() - lifecycle.began)
        self.metrics.prompt_tokens.labels(model.name).inc(ready.prompt_tokens)
        options = wanted.stream_options
        make: Callable[..., ResponseBuilder] = ResponseBuilder
        if isinstance(body, ResponsesRequest):
            make = partial(ResponsesBuilder, body)
        elif isinstance(body, MessagesRequest):
            make = MessagesBuilder
        builder = make(
            model.name,
            ready.constraint,
            ready.count,
            ready.prompt_tokens,
            chat=isinstance(wanted, ChatRequest),
            logprobs=top_logprobs(wanted) is not None,
            usage=options is not None and options.include_usage,
            reasoning=not isinstance(wanted, ChatRequest) or wanted.include_reasoning is not False,
            tool_names=read.tool_names,
        )
        streams = bool(wanted.stream) or builder.reasons
        lifecycle.captures = ready.has_captures
        send, client = lifecycle.send, lifecycle.client
        if ready.extraction is not None:
            reading = QueuedSteps(ready.extraction, model.scheduler.beside, ready.prompt_tokens, client)
            reading.answer.add_done_callback(
                lambda done: None if done.cancelled() else send([extraction_delta(done)])
            )
            lifecycle.jobs = [reading]
        else:
            lifecycle.jobs = [QueuedRequest(texts, send, client, streams=streams) for texts in ready.groups]
        for job in lifecycle.jobs:
            model.scheduler.submit(job)
        if wanted.stream:
            return EventStream(
                self._chunks(lifecycle, builder),
                lambda gone: lifecycle.close(CLIENT_GONE if gone else 200),
                settings.request_seconds + 1,
                lambda: builder.error_chunk(stopping_error()),
            )
        return JSONResponse(await cancel_on_disconnect(request.receive, self._whole(lifecycle, builder)))

    async def _pieces(
        self, lifecycle: RequestLifecycle, builder: ResponseBuilder
    ) -> AsyncIterator[SequenceDelta]:
        """All pieces of a request, until each of its texts has ended.

        Raises:
            ApiError: one of them failed.
        """
        assert lifecycle.model is not None
        left = len(builder.choices)
        began = False
        while left:
            for piece in await lifecycle.deltas.get():
                if piece.error is not None:
                    raise piece.error
                if not began and piece.count:
                    self.metrics.first_token.labels(lifecycle.model.name).observe(
                        time.perf_counter() - lifecycle.began
                    )
                    began = True
                if piece.finish is not None:
                    if lifecycle.captures:
                        piece.captures = await self._captures(lifecycle, lifecycle.text(piece.index))
                    left -= 1
                    self.metrics.tokens.labels(lifecycle.model.name).inc(piece.count)
                yield piece

    async def _captures(self, lifecycle: RequestLifecycle, text: SequenceStream) -> dict[str, Any]:
        """The captures of a finished sequence: in a thread, and in a worker where that takes many steps."""
        automaton, tokens = text.sequence.params.automaton, tuple(text.sequence.tokens)
        constraint, client = automaton.constraint, lifecycle.client
        threads, has_workers = self._workers.prepare_threads, self._workers.count > 0
        assert constraint is not None
        pieces = await threads.run(client, emitted_pieces, automaton, tokens, text.emitted_bytes)
        try:
            return await threads.run(client, answer_captures, constraint, pieces, has_workers)
        except ConstraintTooLarge:
            if not has_workers:
                raise
        found: dict[str, Any] = await self._workers.run(client, CAPTURES, constraint, pieces)
        return found

    async def _whole(self, lifecycle: RequestLifecycle, builder: ResponseBuilder) -> dict[str, Any]:
        async for piece in self._pieces(lifecycle, builder):
            builder.chunks(piece)
        return builder.build_response()

    async def _chunks(
        self, lifecycle: RequestLifecycle, builder: ResponseBuilder
    ) -> AsyncIterator[dict[str, Any]]:
        """The chunks of a stream; an error after the first chunk is a chunk of its own."""
        for chunk in builder.opening_chunks():
            yield chunk
        try:
            async for piece in self._pieces(lifecycle, builder):
                for chunk in builder.chunks(piece):
                    yield chunk
        except Exception as error:
            refusal = to_api_error(error)
            _log_failure("a stream failed", error, refusal)
            yield builder.error_chunk(refusal)
            return
        for chunk in builder.closing_chunks():
            yield chunk
