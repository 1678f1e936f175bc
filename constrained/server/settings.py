"""Settings of a server: limits, names, speculation."""

from __future__ import annotations

from dataclasses import dataclass

from constrained.decoding.speculation import Speculation, resolve_speculation
from constrained.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Limits and names of a server.

    Attributes:
        name: model name that clients send.
        api_key: required in ``Authorization: Bearer ...``; None: no authentication.
        max_batch: greatest number of sequences in a batch.
        max_queue: greatest number of waiting requests; more are refused with 429.
        max_body: bytes of a request body.
        max_schema: bytes of JSON of the constraint or the tools of a request.
        max_tokens: greatest number of tokens of a completion; None: the model's context.
        compile_seconds: time limit for compiling the constraint of a request.
        compile_threads: number of compile threads, each with a sandbox process.
        compile_memory: bytes that a sandbox may allocate for a constraint.
        speculation: ``"auto"`` or a `Speculation`, as for `Generator`; None: one token per pass. Completions do not change.
        speculation_max_batch: largest batch in which tokens are drafted.
        grace_seconds: time for running requests after SIGTERM.

    Raises:
        InvalidArgument: a setting is out of range.
    """

    name: str = "constrained-tiny"
    api_key: str | None = None
    max_batch: int = 32
    max_queue: int = 128
    max_body: int = 8 << 20
    max_schema: int = 1 << 20
    max_tokens: int | None = None
    compile_seconds: float = 10.0
    compile_threads: int = 2
    compile_memory: int = 1 << 30
    speculation: str | Speculation | None = None
    speculation_max_batch: int = 4
    grace_seconds: float = 60.0

    def __post_init__(self) -> None:
        for name, least in (
            ("max_batch", 1),
            ("max_queue", 0),
            ("max_body", 1),
            ("max_schema", 1),
            ("compile_threads", 1),
            ("compile_memory", 1),
            ("speculation_max_batch", 1),
            ("grace_seconds", 0),
        ):
            if getattr(self, name) < least:
                raise InvalidArgument(f"{name} is {getattr(self, name)}", action=f"give at least {least}")
        resolve_speculation(self.speculation)
        if self.compile_seconds <= 0:
            raise InvalidArgument(f"compile_seconds is {self.compile_seconds}", action="give a positive time")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InvalidArgument(f"max_tokens is {self.max_tokens}", action="give at least 1, or None")
        if not self.name:
            raise InvalidArgument("the model has no name", action="pass a name")
        if self.api_key == "":
            raise InvalidArgument("the API key is empty", action="pass a key, or None")
