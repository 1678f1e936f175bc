"""Settings of a server: limits, names, speculation."""

from __future__ import annotations

from dataclasses import dataclass

from constrained.constraint.json import MAX_DIGITS
from constrained.decoding.repetition import OnRepeat
from constrained.decoding.speculation import Speculation, resolve_speculation
from constrained.errors import InvalidArgument
from constrained.server.request_constraint import JsonForm

_TIMES = (
    "header_seconds",
    "body_seconds",
    "request_seconds",
    "draw_seconds",
    "compile_seconds",
)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Limits and names of a server.

    Attributes:
        name: model name that clients send.
        api_key: required in ``Authorization: Bearer ...``, one of them if they are several; None: no authentication.
        protect_metrics: ``/metrics`` needs a key too.
        cors_origins: origins whose pages may call the server from a browser; ``"*"``: all.
        max_batch: greatest number of sequences in a batch.
        max_queue: greatest number of waiting requests; more are refused with 429.
        max_client_requests: greatest number of open requests of a client: of a key if there are several, else of an address.
        max_connections: open connections; further ones get 503.
        max_headers: bytes of the head of a request.
        max_body: bytes of a request body.
        max_values: strings, objects and arrays in a request body; four numbers count as one.
        header_seconds: time for the head of a request, from the opening of the connection or the last response.
        body_seconds: time for the body of a request.
        request_seconds: time for a request in all; then its completions end, and clients that read too slowly are cut off.
        min_free_memory: bytes; while less is left, caches are emptied and new requests get 503; while half of it is left, running
            ones are ended.
        max_memory: resident bytes of the process; None: what the system, or the process's cgroup, has.
        max_schema: bytes of JSON of the constraint or the tools of a request.
        max_tokens: greatest number of tokens of a completion; None: the model's context.
        max_digits: digits of a number that its schema does not bound, before its point and after it; None: no limit.
        closed: objects of a schema that declare members have no others, unless the schema has ``additionalProperties`` or the request
            says otherwise (``structured_outputs.disable_additional_properties``).
        show_schema: the schema of a chat's answer stands behind the last message of the user, in the notation of `extract`, where the
            messages lack a name of its members.
        on_repeat: JSON in which the model repeats itself is closed, and a reply ends behind a call that it has made before; None: not.
        draw_seconds: processor time of the slow draws (0.2 s and more) of a completion together; then it ends with an error.
        sandbox: new constraints and large requests go to processes with limits first, where processes fork; False: clients are
            trusted.
        compile_seconds: processor time for compiling the constraint of a request, and how long it may wait for its turn.
        compile_threads: number of threads that compile new constraints, each with a process; a client gets all but one.
        compile_memory: bytes that such a process may allocate for a constraint.
        speculation: ``"auto"`` or a `Speculation`, as for `Generator`; None: one token per pass. Completions do not change.
        speculation_max_batch: largest batch in which tokens are drafted.
        grace_seconds: time for running requests after SIGTERM.
        log_requests: a line of JSON for each request, without its texts.

    Raises:
        InvalidArgument: a setting is out of range.
    """

    name: str = "constrained-tiny"
    api_key: str | tuple[str, ...] | None = None
    protect_metrics: bool = False
    cors_origins: tuple[str, ...] = ()
    max_batch: int = 32
    max_queue: int = 128
    max_client_requests: int = 64
    max_connections: int = 1024
    max_headers: int = 32 << 10
    max_body: int = 8 << 20
    max_values: int = 50_000
    max_schema: int = 1 << 20
    max_tokens: int | None = None
    max_digits: int | None = MAX_DIGITS
    closed: bool = True
    show_schema: bool = True
    on_repeat: OnRepeat = "close"
    header_seconds: float = 15.0
    body_seconds: float = 60.0
    request_seconds: float = 600.0
    min_free_memory: int = 256 << 20
    max_memory: int | None = None
    draw_seconds: float = 5.0
    sandbox: bool = True
    compile_seconds: float = 10.0
    compile_threads: int = 2
    compile_memory: int = 1 << 30
    speculation: str | Speculation | None = None
    speculation_max_batch: int = 4
    grace_seconds: float = 60.0
    log_requests: bool = False

    def __post_init__(self) -> None:
        for name, least in (
            ("max_batch", 1),
            ("max_queue", 0),
            ("max_client_requests", 1),
            ("max_connections", 1),
            ("max_headers", 1024),
            ("max_body", 1),
            ("max_values", 1),
            ("min_free_memory", 0),
            ("max_schema", 1),
            ("compile_threads", 1),
            ("compile_memory", 1),
            ("speculation_max_batch", 1),
            ("grace_seconds", 0),
        ):
            if getattr(self, name) < least:
                raise InvalidArgument(f"{name} is {getattr(self, name)}", action=f"give at least {least}")
        resolve_speculation(self.speculation)
        for name in _TIMES:
            if not getattr(self, name) > 0:
                raise InvalidArgument(f"{name} is {getattr(self, name)}", action="give a positive time")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InvalidArgument(f"max_tokens is {self.max_tokens}", action="give at least 1, or None")
        if self.max_memory is not None and self.max_memory <= self.min_free_memory:
            raise InvalidArgument(
                f"max_memory is {self.max_memory}",
                action=f"give more than min_free_memory, {self.min_free_memory}",
            )
        if self.max_digits is not None and not 1 <= self.max_digits <= 10_000:
            raise InvalidArgument(f"max_digits is {self.max_digits}", action="give 1 to 10,000, or None")
        if self.on_repeat not in ("close", None):
            raise InvalidArgument(f"on_repeat is {self.on_repeat!r}", action='give "close" or None')
        if not self.name:
            raise InvalidArgument("the model has no name", action="pass a name")
        if not all(self.api_keys):
            raise InvalidArgument("the API key is empty", action="pass a key, or None")

    @property
    def json_form(self) -> JsonForm:
        """How JSON is written."""
        return JsonForm(self.max_digits, self.closed)

    @property
    def api_keys(self) -> tuple[str, ...]:
        """The keys; none: no authentication."""
        return (self.api_key,) if isinstance(self.api_key, str) else tuple(self.api_key or ())
