"""An HTTP server with OpenAI's API: `serve` is a process, `serve_in_thread` a thread, `create_app` an ASGI application.

    app.py               the ASGI application: routes and middleware
    service.py           the endpoints
    admission.py         keys, requests of a client, the queue: which requests are let in
    request_lifecycle.py one request from its body to the end of its response
    read_request.py      receives, parses and checks bodies
    requests.py          what is in them
    other_servers.py     parameters of vLLM, SGLang, llama.cpp and Ollama
    reasoning.py         the fields about reasoning
    tokenization.py      ``/tokenize`` and ``/detokenize``
    decisions.py         ``/v1/decisions`` and ``/v1/systemone``
    request_constraint.py which field has the constraint, and how it is compiled
    prepare.py           from a request to prompts and sequences
    compiler.py          compiles constraints with a deadline
    workers.py           processes with limits of time and memory, for new constraints and large requests
    round_robin.py       queues and threads that serve clients in turn
    served_model.py      the models by name
    scheduler.py         the thread that owns the model; requests join the batch between two steps
    jobs.py              what that thread is asked to do
    sequence_stream.py   one sequence while it is decoded
    stop_strings.py      stop strings where a constraint permits the end
    captures.py          captures of completions
    responses.py         response bodies and chunks
    responses_api.py     the Responses API
    messages_api.py      Anthropic's Messages API: requests
    messages_builder.py  its answers
    stream.py            server-sent events, and clients that disconnect
    errors.py            errors as status and body
    metrics.py           Prometheus metrics
    memory.py            whether enough memory is free
    connections.py       limits of connections and of the heads of requests
    logs.py              request ids, and log lines as JSON
    settings.py          limits and names
    run.py               the process, or the thread

Needs the extra ``server``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from constrained.extras import require_extra

if TYPE_CHECKING:
    from constrained.server.app import create_app as create_app
    from constrained.server.run import LocalServer as LocalServer
    from constrained.server.run import serve as serve
    from constrained.server.run import serve_in_thread as serve_in_thread
    from constrained.server.settings import ServerSettings as ServerSettings

__all__ = ["LocalServer", "ServerSettings", "create_app", "serve", "serve_in_thread"]

_HOMES = {
    "LocalServer": "run",
    "ServerSettings": "settings",
    "create_app": "app",
    "serve": "run",
    "serve_in_thread": "run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with require_extra("server"):
        module = import_module(f"{__name__}.{_HOMES[name]}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
