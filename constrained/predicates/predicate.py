"""Checks of texts by functions of the user."""

from __future__ import annotations

import codecs
import itertools
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from constrained.errors import PredicateError, Problem
from constrained.predicates.failures import PredicateTimeout, WorkerCrashed
from constrained.predicates.memo import VerdictCache

if TYPE_CHECKING:
    from constrained.predicates.workers import WorkerPool

CheckKind = Literal["prefix", "complete"]
"""``prefix``: the text has a valid completion; ``complete``: the text is valid."""

Function = Callable[[Any], Any]

_SHOWN = 60


class Predicate:
    """One or two functions of the user, their settings, and a cache of their verdicts.

    Attributes:
        name: for error messages.
        functions: the function of each kind of check. Without a prefix function every prefix is valid; without a
            function for complete texts, a text is valid if it is a valid prefix.
        on: type of the argument, `str` or `bytes`. A `str` leaves out a last character whose bytes are incomplete.
        batch: the functions take a list of texts and return a list of bools.
        workers: number of worker processes; 0: calls run in this process.
        timeout: time limit of a call in a worker, in seconds; None: no limit.
        memory_limit: bytes of cached verdicts.
        key: unique identifier.
        calls: number of texts that were checked in this process without the cache.
    """

    def __init__(
        self,
        name: str,
        functions: dict[CheckKind, Function],
        *,
        on: type[str] | type[bytes] = str,
        batch: bool = False,
        workers: int = 0,
        timeout: float | None = None,
        memory_limit: int = 64 << 20,
        key: str | None = None,
    ) -> None:
        """See the attributes; by default `key` is random."""
        self.name = name
        self.functions = functions
        self.on = on
        self.batch = batch
        self.workers = workers
        self.timeout = timeout
        self.memory_limit = memory_limit
        self.key = key or uuid.uuid4().hex
        self.calls = 0
        self._memo = VerdictCache(memory_limit)
        self._lock = threading.Lock()
        self._pool: WorkerPool | None = None

    def check(self, question: CheckKind, texts: Sequence[bytes]) -> list[bool]:
        """The verdicts on texts, from the cache where possible; equal texts are checked once.

        Raises:
            PredicateError: a function raised, did not return a bool, timed out, or crashed its process.
        """
        kind: CheckKind = question if question in self.functions else "prefix"
        if kind not in self.functions:
            return [True] * len(texts)
        seen = [self._argument(text, question) for text in texts]
        verdicts = {text: self._memo.get(kind, text) for text in seen}
        unknown = [text for text, verdict in verdicts.items() if verdict is None]
        for text, verdict in self._call(kind, unknown):
            verdicts[text] = verdict
            self._memo.put(kind, text, verdict)
        return [bool(verdicts[text]) for text in seen]

    def close(self) -> None:
        """Ends the worker processes; the next check starts new ones."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()
            self._pool = None

    def _argument(self, text: bytes, question: CheckKind) -> str | bytes:
        if self.on is bytes:
            return text
        return codecs.utf_8_decode(text, "strict", question == "complete")[0]

    def _call(self, question: CheckKind, texts: list[str | bytes]) -> Iterator[tuple[str | bytes, bool]]:
        """Yields (text, verdict) for texts that are not cached."""
        if not texts:
            return
        self.calls += len(texts)
        jobs: list[Any] = _parts(texts, self.workers) if self.batch else list(texts)
        for job, result in self._results(question, jobs):
            if not self.batch:
                yield job, self._verdict(result, job)
                continue
            if isinstance(result, str | bytes) or not hasattr(result, "__len__") or len(result) != len(job):
                raise self._error(
                    job[0],
                    f"got {len(job)} texts and returned {_shown(result)}, not a list of {len(job)} values",
                )
            yield from ((text, self._verdict(one, text)) for text, one in zip(job, result, strict=True))

    def _results(self, question: CheckKind, jobs: list[Any]) -> Iterator[tuple[Any, Any]]:
        if self.workers:
            yield from self._workers().run(question, jobs, self._failed)
            return
        function = self.functions[question]
        for job in jobs:
            try:
                result = function(job)
            except Exception as error:
                raise self._failed(job, error) from error
            yield job, result

    def _workers(self) -> WorkerPool:
        with self._lock:
            if self._pool is None:
                from constrained.predicates.workers import WorkerPool  # multiprocessing takes time to import

                self._pool = WorkerPool(self.name, self.functions, self.workers, self.timeout)
            return self._pool

    def _verdict(self, result: Any, text: str | bytes) -> bool:
        if type(result).__module__ == "numpy" and type(result).__name__ in ("bool", "bool_"):
            result = bool(result)  # the results of array comparisons
        if not isinstance(result, bool):
            raise self._error(text, f"returned {_shown(result)}, not True or False")
        return result

    def _failed(self, job: Any, error: BaseException) -> PredicateError:
        text = job[0] if self.batch else job
        if isinstance(error, PredicateTimeout):
            return self._error(
                text,
                f"took longer than {self.timeout:g} s",
                action="make it faster, or pass a longer timeout",
            )
        if isinstance(error, WorkerCrashed):
            return self._error(text, str(error))
        return self._error(text, f"raised {type(error).__name__}: {error}")

    def _error(self, text: str | bytes, reason: str, action: str | None = None) -> PredicateError:
        return PredicateError(
            f"the predicate {self.name} failed",
            Problem(f"after {_shown(text)}", reason),
            action=action or "return True or False for every text, also for prefixes",
            predicate=self.name,
            text=text,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The cache and the processes are not pickled.
        return _restore, (
            self.name,
            self.functions,
            {
                name: getattr(self, name)
                for name in ("on", "batch", "workers", "timeout", "memory_limit", "key")
            },
        )


def _restore(name: str, functions: dict[CheckKind, Function], settings: dict[str, Any]) -> Predicate:
    return Predicate(name, functions, **settings)


def _parts(texts: list[str | bytes], workers: int) -> list[list[str | bytes]]:
    """Splits texts into lists of about equal length, at most one for each worker."""
    count = max(1, min(workers, len(texts)))
    size = -(-len(texts) // count)
    return [texts[i : i + size] for i in itertools.islice(range(0, len(texts), size), count)]


def _shown(value: Any) -> str:
    line = repr(value)
    if len(line) <= _SHOWN:
        return line
    if isinstance(value, str | bytes):
        return "..." + repr(value[-_SHOWN // 2 :])  # the newest part of a text is its end
    return line[: _SHOWN - 3] + "..."
