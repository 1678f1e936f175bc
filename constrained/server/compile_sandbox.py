"""Compiles a constraint in a separate process with limits of time and memory.

The process is a new interpreter that imports all modules and forks a child, which compiles. If the child is killed by its
alarm, runs out of memory or crashes, the process forks another one, with all modules loaded.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from constrained.automaton import compile
from constrained.chat.reply import reply_constraint
from constrained.constraint import gbnf, json_schema
from constrained.server import prepare
from constrained.server.errors import ApiError

if TYPE_CHECKING:
    from constrained.chat.tools import ToolFormat
    from constrained.server.requests import ApiRequest
    from constrained.vocabulary import Vocabulary

_CHILD = "from constrained.server import compile_sandbox; compile_sandbox.main()"


class CompileSandbox:
    """A sandbox process; used by one thread at a time.

    Args:
        vocabulary: vocabulary of the model.
        seconds: time limit of a compile.
        memory: bytes of address space that a compile may allocate.
    """

    def __init__(self, vocabulary: Vocabulary, seconds: float, memory: int) -> None:
        self._setup = (vocabulary.without_tokenizer(), seconds, memory)
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._ended = False
        self._lock = threading.Lock()  # guards _process, _pipe and _ended

    def start(self) -> None:
        """Starts the process if it is not running, without waiting for its imports."""
        with self._lock:
            if self._ended or self._process is not None:
                return
            pipe, theirs = multiprocessing.Pipe()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _CHILD, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # not interrupted by Ctrl-C, and killed with its children
                    env={**os.environ, "PYTHONSAFEPATH": "1"},
                )
            self._pipe = pipe
        with contextlib.suppress(OSError):  # the process has ended already: `__call__` notices
            pipe.send(self._setup)

    def __call__(self, request: ApiRequest, format: ToolFormat, param: str | None) -> None:
        """Compiles the constraint of a request in the sandbox.

        Args:
            request: the request; its prompt is not needed.
            format: format of tool calls.
            param: name of the request field with the constraint.

        Raises:
            ApiError: it cannot be compiled, or exceeds the limit of time or memory.
        """
        self.start()
        pipe, process = self._pipe, self._process
        if pipe is None or process is None:
            raise ApiError(503, "the server is stopping", code="stopping")
        outcome: dict[str, Any] | int | None
        try:
            while pipe.poll():
                pipe.recv()  # exit status of a child that died while idle
            pipe.send((request, format))
            outcome = pipe.recv()
        except (OSError, EOFError):  # the process died, not only its child
            outcome = -signal.SIGKILL
        if isinstance(outcome, dict):
            raise ApiError(**outcome)
        if outcome == -signal.SIGALRM:
            raise compile_timeout_error(self._seconds, param)
        if outcome is not None:
            self._drop()
            what = f"the process that compiled the constraint ended with {outcome}"
            raise ApiError(400, what, code="compile_failed", param=param)

    def close(self) -> None:
        """Kills the process; the sandbox cannot be used again."""
        with self._lock:
            self._ended = True
        self._drop()

    def _drop(self) -> None:
        with self._lock:
            process, self._process, self._pipe = self._process, None, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def compile_timeout_error(seconds: float, param: str | None) -> ApiError:
    """Error 400 for a constraint that was not compiled within the time limit."""
    what = f"the constraint was not compiled within {seconds:g} seconds"
    return ApiError(400, what, code="compile_timeout", param=param)


# ---------------------------------------------------------------- inside the sandbox process


def main() -> None:
    """Main loop of the sandbox process: forks a worker again whenever it dies, until the server exits."""
    pipe = Connection(int(sys.argv[1]))
    try:
        vocabulary, seconds, memory = pipe.recv()
    except EOFError:
        return
    for constraint in (
        json_schema({"properties": {"a": {"pattern": "a"}}}),
        gbnf('root ::= "a"'),
        reply_constraint(),
    ):
        compile(constraint, vocabulary)  # children inherit the loaded modules and tables
    while True:
        child = os.fork()
        if child == 0:
            _work(pipe, vocabulary, seconds, memory)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            return
        try:
            pipe.send(code)
        except OSError:
            return


def _work(pipe: Connection, vocabulary: Vocabulary, seconds: float, memory: int) -> None:
    """Compiles requests until the pipe is closed; sends None or the arguments of an `ApiError`."""
    _limit(memory)
    while True:
        try:
            request, format = pipe.recv()
        except (EOFError, OSError):
            return
        signal.setitimer(signal.ITIMER_REAL, seconds)  # no handler: SIGALRM kills the process
        outcome = _tried(request, vocabulary, format)
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            pipe.send(outcome)
        except OSError:
            return


def _tried(request: ApiRequest, vocabulary: Vocabulary, format: ToolFormat) -> dict[str, Any] | None:
    try:
        _, automaton = prepare.compile_constraint(request, vocabulary, format)
        # Decoding needs these before the first token.
        automaton.shortest_completion(automaton.start)
        automaton.fill_mask(automaton.start, automaton.new_mask())
    except MemoryError:
        return vars(
            ApiError(400, "compiling the constraint exceeds the memory limit", code="constraint_too_large")
        )
    except ApiError as refusal:
        return vars(refusal)
    return None


def _limit(memory: int) -> None:
    """Limits the address space of the process to its present size plus `memory` bytes."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
        limit = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
