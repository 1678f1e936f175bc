"""A server that OpenAI's clients talk to: `serve` as a process, `create_app` for a server of your own.

    requests.py     what comes over the wire
    asked.py        from a request to texts that are ready to be written
    compiling.py    the threads in which that is done, with a deadline
    trial.py        the processes in which constraints are tried out first, and ended
    writing.py      one text while it is written
    scheduler.py    the thread that owns the model: requests join between two steps
    memory.py       what is free goes back to the system
    answers.py      what goes over the wire
    stream.py       server-sent events, and clients that go away
    problems.py     errors as status and body
    metrics.py      figures for Prometheus
    app.py          the endpoints
    run.py          the process

Needs the extra ``server``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from constrained.extras import require_extra

if TYPE_CHECKING:
    from constrained.server.app import create_app as create_app
    from constrained.server.run import serve as serve
    from constrained.server.settings import ServerSettings as ServerSettings

__all__ = ["ServerSettings", "create_app", "serve"]

_HOMES = {"ServerSettings": "settings", "create_app": "app", "serve": "run"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with require_extra("server"):
        module = import_module(f"{__name__}.{_HOMES[name]}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
