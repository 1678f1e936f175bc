"""Constraints tried out in a process that may be ended: what takes too long or too much there is not begun here.

A trial is a whole compile of what a request asks for, with limits of time and memory. Its process is a fresh interpreter
that loads what it needs and then only waits for a child, which does the work. If the child dies, by its alarm, for want of
memory or by a crash, the next one is there at once, with everything loaded.
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
    """One process, for one thread at a time.

    Args:
        vocabulary: of the model.
        seconds: a compile may take.
        memory: bytes of address space that it may take, besides what the process has.
    """

    def __init__(self, vocabulary: Vocabulary, seconds: float, memory: int) -> None:
        self._told = (vocabulary.without_tokenizer(), seconds, memory)
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._ended = False
        self._lock = threading.Lock()  # of starting and ending

    def start(self) -> None:
        """Starts the process if there is none; what it loads, it loads while others go on."""
        with self._lock:
            if self._ended or self._process is not None:
                return
            pipe, theirs = multiprocessing.Pipe()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _CHILD, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for the server, and all of it can be killed as one
                    env={**os.environ, "PYTHONSAFEPATH": "1"},
                )
            self._pipe = pipe
        with contextlib.suppress(OSError):  # it is gone already: that is seen when it is asked
            pipe.send(self._told)

    def __call__(self, request: ApiRequest, format: ToolFormat, param: str | None) -> None:
        """Compiles what a request asks for.

        Args:
            request: the whole of it, or the part that is compiled.
            format: of calls.
            param: the field that holds the constraint.

        Raises:
            Refusal: it cannot be compiled, not in this time, or not in this memory.
        """
        self.start()
        pipe, process = self._pipe, self._process
        if pipe is None or process is None:
            raise ApiError(503, "the server is stopping", code="stopping")
        answer: dict[str, Any] | int | None
        try:
            while pipe.poll():
                pipe.recv()  # a child died that had nothing to do; there is another one
            pipe.send((request, format))
            answer = pipe.recv()
        except (OSError, EOFError):  # not the child alone
            answer = -signal.SIGKILL
        if isinstance(answer, dict):
            raise ApiError(**answer)
        if answer == -signal.SIGALRM:
            raise compile_timeout_error(self._seconds, param)
        if answer is not None:
            self._drop()
            what = f"the process that compiled the constraint ended with {answer}"
            raise ApiError(400, what, code="compile_failed", param=param)

    def close(self) -> None:
        """Ends the process, whatever it is doing; there will be no other one."""
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
    """The refusal of what was not compiled in time."""
    what = f"the constraint was not compiled within {seconds:g} seconds"
    return ApiError(400, what, code="compile_timeout", param=param)


# ---------------------------------------------------------------- in the process


def main() -> None:
    """The life of the process: keeps a child that works, until the server is gone."""
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
        compile(constraint, vocabulary)  # what it loads and builds, no child has to
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
    """Answers until the pipe is closed: None, or what the refusal says."""
    _limit(memory)
    while True:
        try:
            request, format = pipe.recv()
        except (EOFError, OSError):
            return
        signal.setitimer(signal.ITIMER_REAL, seconds)  # nobody waits for this signal: it ends the process
        answer = _tried(request, vocabulary, format)
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            pipe.send(answer)
        except OSError:
            return


def _tried(request: ApiRequest, vocabulary: Vocabulary, format: ToolFormat) -> dict[str, Any] | None:
    try:
        _, automaton = prepare.compile_constraint(request, vocabulary, format)
        # What is asked before the first token is part of it.
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
    """Lets the process take so much more address space than it has."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
        limit = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
