"""The ASGI application: routes, middleware and handlers of errors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from constrained.chat.tools import ToolFormat
from constrained.models import LanguageModel
from constrained.server.errors import ApiError
from constrained.server.logs import SHOWN, RequestLog
from constrained.server.service import Service
from constrained.server.settings import ServerSettings

_READ = ["GET", "HEAD"]
"""Methods of what is only read; monitors ask with HEAD."""


def create_app(
    model: LanguageModel | Mapping[str, LanguageModel],
    settings: ServerSettings | None = None,
    *,
    format: ToolFormat | None = None,
) -> FastAPI:
    """Returns an ASGI application with OpenAI's API for a model, or for several.

    Args:
        model: used by one thread of the application while it runs; or models by the names that requests give them, each with a
            batch of its own.
        settings: limits and names.
        format: format of tool calls; None: detected from the chat template, see `detect_tool_format`.
    """
    service = Service(model, settings or ServerSettings(), format)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(service.start)
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(title="constrained", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = service
    app.add_api_route("/health", service.health, methods=_READ)
    app.add_api_route("/metrics", service.metrics_page, methods=_READ)
    app.add_api_route("/v1/models", service.model_list, methods=_READ)
    app.add_api_route("/v1/models/{name:path}", service.model, methods=_READ)
    for path, answer in service.posts.items():
        app.add_route(path, answer, methods=["POST"])
    if service.settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-Request-Id"],
            expose_headers=["X-Request-Id"],
        )
    log, trust = service.settings.log_requests, service.settings.trust_proxy
    app.add_middleware(RequestLog, enabled=log, trust_proxy=trust)
    app.add_exception_handler(ApiError, _refusal)
    app.add_exception_handler(HTTPException, _http)
    return app


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    if error.status < 500:  # a server that ends waits for nobody
        await request.app.state.service.turn(request)
    return JSONResponse(error.body, error.status, headers=error.headers)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    await request.app.state.service.turn(request)
    what = f"{request.method:.{SHOWN}} {request.url.path:.{SHOWN}}: {error.detail}"
    if error.status_code == 404 and not request.url.path.startswith("/v1/"):
        what += "\n  -> the endpoints of OpenAI's API are below /v1: end the client's base_url with /v1"
    return JSONResponse(
        ApiError(error.status_code, what, code="no_such_endpoint").body, error.status_code, error.headers
    )
