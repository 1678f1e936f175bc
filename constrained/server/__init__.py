"""An HTTP server with OpenAI's API: `serve` is a process, `serve_in_thread` a thread, `create_app` an ASGI application.

    bodies.py            reads and parses request bodies
    pace.py              how fast large bodies come in
    requests.py          what is in them
    tool_names.py        names of tools with dots and slashes
    request_constraint.py which field has the constraint, and how it is compiled
    prepare.py           from a request to prompts and sequences
    compile_pool.py      the thread pool for that, with a deadline
    fair_pool.py         threads that clients share fairly
    compile_sandbox.py   processes that compile a new constraint first, with limits of time and memory
    sequence_stream.py   one sequence while it is decoded
    stop_strings.py      stop strings where a constraint permits the end
    told_tokens.py       tokens with log-probabilities, as far as their text is told
    speculation.py       draft tables of the served constraints
    lane.py              draws tokens in a thread that is left behind with a slow one
    seats.py             which clients and sequences take part in a step
    scheduler.py         the thread that owns the model; requests join the batch between two steps
    responses.py         response bodies and chunks
    stream.py            server-sent events, and clients that disconnect
    errors.py            errors as status and body
    metrics.py           Prometheus metrics
    memory.py            whether enough memory is free
    connections.py       limits of connections
    logs.py              request ids, and log lines as JSON
    settings.py          limits and names
    admission.py         keys, requests of a client, the queue: which requests are let in
    request_lifecycle.py one request from its body to the end of its response
    served_model.py      the models by name
    service.py           the endpoints
    app.py               the ASGI application: routes and middleware
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
