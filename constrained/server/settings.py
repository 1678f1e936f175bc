"""Settings of a server: limits, names, speculation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from constrained.errors import InvalidArgument
from constrained.options import check_ranges, documented, option

if TYPE_CHECKING:
    from constrained.decoding.speculation import Speculation


@documented
@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Limits and names of a server.

    Raises:
        InvalidArgument: a setting is out of range.
    """

    name: str = option("constrained-tiny", "Model name that clients send.", flag=None)
    api_key: str | tuple[str, ...] | None = option(
        None,
        "Required in `Authorization: Bearer ...`, one of them if they are several; None: no authentication.",
        flag=None,
    )
    trust_proxy: bool = option(
        False,
        "Clients reach the server through a proxy alone: their address is the last one in `X-Forwarded-For`.",
    )
    cors_origins: tuple[str, ...] = option(
        (),
        "An origin whose pages may call the server from a browser; several times for several; '*' for all.",
        flag="--cors-origin",
        metavar="ORIGIN",
    )
    log_requests: bool = option(False, "Log a line of JSON for each request, without its texts.")
    max_batch: int = option(32, "Sequences that are decoded in one batch.", least=1)
    max_queue: int = option(128, "Requests in the queue; further ones get 429.", least=0)
    max_client_requests: int = option(
        64, "Open requests of one client: of a key if there are several, else of an address.", least=1
    )
    max_connections: int = option(1024, "Open connections; further ones get 503.", least=1)
    max_headers: int = option(32 << 10, "Bytes of the head of a request.", least=1024, flag=None)
    max_body: int = option(8 << 20, "Size limit of a request.", least=1, unit=1 << 20, metavar="MIB")
    max_values: int = option(
        50_000, "Strings, objects and arrays in a request; four numbers count as one.", least=1
    )
    max_schema: int = option(
        1 << 20,
        "Size limit of a schema or the tools of a request, as JSON.",
        least=1,
        unit=1 << 20,
        metavar="MIB",
    )
    max_tokens: int | None = option(
        None, "Token limit of a completion, above the request's own, which is 512 by default.", least=1
    )
    max_digits: int | None = option(
        24,
        "Digits of a number that its schema does not bound, before its point and after it; 0: no limit.",
        least=1,
        most=10_000,
        none=0,
    )
    closed: bool = option(
        True,
        "Whether objects have the members alone that their schema declares, where it has no "
        "additionalProperties and the request does not say otherwise.",
        flag="--closed/--open",
    )
    show_schema: bool = option(
        True,
        "Show the schema of an answer to the model, behind the last message of the user, where the messages lack "
        "a name of its members.",
        flag="--show-schema/--hide-schema",
    )
    on_repeat: Literal["close"] | None = option(
        "close",
        "JSON in which the model repeats itself is closed, and a reply ends behind a call that it has made before.",
        none="off",
    )
    header_seconds: float = option(
        15.0,
        "Time for the head of a request, from the opening of the connection or the last response.",
        above=0,
        flag=None,
    )
    body_seconds: float = option(60.0, "Time for the body of a request.", above=0, flag=None)
    request_seconds: float = option(
        600.0,
        "Time limit of a whole request; then its completions end, and clients that read too slowly are cut off.",
        above=0,
        flag="--request-time",
        metavar="SECONDS",
    )
    min_free_memory: int = option(
        256 << 20,
        "Bytes; while less is left, caches are emptied and new requests get 503; while half of it is left, "
        "running ones are ended.",
        least=0,
        flag=None,
    )
    max_memory: int | None = option(
        None,
        "Memory of the process [default: what the system, or the process's cgroup, has].",
        least=1,
        unit=1 << 20,
        metavar="MIB",
    )
    draw_seconds: float = option(
        5.0,
        "Processor time of the slow draws (0.2 s and more) of a completion together; then it ends with an error.",
        above=0,
        flag=None,
    )
    sandbox: bool = option(
        True,
        "New constraints and large requests go to processes with limits first, where processes fork; False: "
        "clients are trusted.",
        flag=None,
    )
    compile_seconds: float = option(
        10.0,
        "Processor time for compiling a constraint, and how long it may wait for its turn.",
        above=0,
        flag="--compile-time",
        metavar="SECONDS",
    )
    compile_threads: int = option(
        2, "Worker processes, for new constraints and large requests; a client gets all but one.", least=1
    )
    compile_memory: int = option(
        1 << 30, "Memory limit for compiling a constraint.", least=1, unit=1 << 20, metavar="MIB"
    )
    speculation: str | Speculation | None = option(
        None, 'Draft tokens: "auto" or a `Speculation`, as for `Generator`; None: never.', flag=None
    )
    speculation_max_batch: int = option(4, "Largest batch in which tokens are drafted.", least=1, flag=None)
    grace_seconds: float = option(
        60.0,
        "Time for running requests to finish at shutdown.",
        least=0,
        flag="--grace",
        metavar="SECONDS",
    )

    def __post_init__(self) -> None:
        from constrained.decoding.speculation import resolve_speculation

        check_ranges(self)
        resolve_speculation(self.speculation)
        if self.max_memory is not None and self.max_memory <= self.min_free_memory:
            raise InvalidArgument(
                f"max_memory is {self.max_memory}",
                action=f"give more than min_free_memory, {self.min_free_memory}",
            )
        if self.on_repeat not in ("close", None):
            raise InvalidArgument(f"on_repeat is {self.on_repeat!r}", action='give "close" or None')
        if not self.name:
            raise InvalidArgument("the model has no name", action="pass a name")
        if not all(self.api_keys):
            raise InvalidArgument("the API key is empty", action="pass a key, or None")

    @property
    def api_keys(self) -> tuple[str, ...]:
        """The keys; none: no authentication."""
        return (self.api_key,) if isinstance(self.api_key, str) else tuple(self.api_key or ())
