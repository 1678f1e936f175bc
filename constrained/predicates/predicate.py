"""What a predicate is asked, and what counts as an answer."""

from __future__ import annotations

import codecs
import itertools
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from constrained.errors import PredicateError, Problem
from constrained.predicates.memo import VerdictCache

if TYPE_CHECKING:
    from constrained.predicates.workers import WorkerPool

CheckKind = Literal["prefix", "complete"]
"""``prefix``: can this text still become a good one? ``complete``: is it one?"""

Function = Callable[[Any], Any]

_SHOWN = 60


class PredicateTimeout(TimeoutError):
    """A call took longer than it may."""


class WorkerCrashed(RuntimeError):
    """A call ended its process."""


class Predicate:
    """A function of the user, or two, and how to call them. What it is never changes; what it knows grows.

    Attributes:
        name: for messages.
        functions: the function that answers each question. One that is missing is answered by another: a prefix
            without a function is good, a complete text is good if it is a good prefix.
        on: what the functions take, `str` or `bytes`. A character that is not there with all its bytes is held back
            from a `str`.
        batch: whether they take a list of texts and give a list of answers.
        workers: how many processes call them; 0 calls them in this one.
        timeout: seconds that a call may take in a worker; None for any time.
        memory_limit: bytes of answers that are remembered.
        key: no other predicate has it.
        calls: texts that the functions have been asked about in this process; what was known is not counted.
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
        """See the attributes; without a key it gets a fresh one."""
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
        """Answers for some texts. What is known is not asked again, and equal texts are asked about once.

        Raises:
            PredicateError: a function raised, gave no bool, took too long, or ended its process.
        """
        asked: CheckKind = question if question in self.functions else "prefix"
        if asked not in self.functions:
            return [True] * len(texts)
        seen = [self._as_seen(text, question) for text in texts]
        answers = {text: self._memo.get(asked, text) for text in seen}
        unknown = [text for text, answer in answers.items() if answer is None]
        for text, answer in self._call(asked, unknown):
            answers[text] = answer
            self._memo.put(asked, text, answer)
        return [bool(answers[text]) for text in seen]

    def close(self) -> None:
        """Ends the worker processes; they are started again when something is asked."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()
            self._pool = None

    def _as_seen(self, text: bytes, question: CheckKind) -> str | bytes:
        if self.on is bytes:
            return text
        return codecs.utf_8_decode(text, "strict", question == "complete")[0]

    def _call(self, question: CheckKind, texts: list[str | bytes]) -> Iterator[tuple[str | bytes, bool]]:
        """Yields (text, answer) for texts of which nothing is known."""
        if not texts:
            return
        self.calls += len(texts)
        jobs: list[Any] = _parts(texts, self.workers) if self.batch else list(texts)
        for job, given in self._results(question, jobs):
            if not self.batch:
                yield job, self._answer(given, job)
                continue
            if isinstance(given, str | bytes) or not hasattr(given, "__len__") or len(given) != len(job):
                raise self._error(
                    job[0],
                    f"was asked about {len(job)} texts and gave {_shown(given)}, not a list of as many",
                )
            yield from ((text, self._answer(one, text)) for text, one in zip(job, given, strict=True))

    def _results(self, question: CheckKind, jobs: list[Any]) -> Iterator[tuple[Any, Any]]:
        if self.workers:
            yield from self._workers().run(question, jobs, self._failed)
            return
        function = self.functions[question]
        for job in jobs:
            try:
                given = function(job)
            except Exception as error:
                raise self._failed(job, error) from error
            yield job, given

    def _workers(self) -> WorkerPool:
        with self._lock:
            if self._pool is None:
                from constrained.predicates.workers import WorkerPool  # processes cost time to import

                self._pool = WorkerPool(self.name, self.functions, self.workers, self.timeout)
            return self._pool

    def _answer(self, given: Any, text: str | bytes) -> bool:
        if type(given).__module__ == "numpy" and type(given).__name__ in ("bool", "bool_"):
            given = bool(given)  # comparisons of arrays give these
        if not isinstance(given, bool):
            raise self._error(text, f"gave {_shown(given)}, not True or False")
        return given

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
            f"the predicate {self.name} did not answer",
            Problem(f"after {_shown(text)}", reason),
            action=action or "return True or False for every text, also for the beginnings of texts",
            predicate=self.name,
            text=text,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # What it has learned, and its processes, stay here.
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
    """About equal lists, one for each worker that has something to do."""
    count = max(1, min(workers, len(texts)))
    size = -(-len(texts) // count)
    return [texts[i : i + size] for i in itertools.islice(range(0, len(texts), size), count)]


def _shown(value: Any) -> str:
    line = repr(value)
    if len(line) <= _SHOWN:
        return line
    if isinstance(value, str | bytes):
        return "..." + repr(value[-_SHOWN // 2 :])  # of a text the end is what was just added
    return line[: _SHOWN - 3] + "..."
