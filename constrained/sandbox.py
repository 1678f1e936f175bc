"""Runs a function in a separate process with limits of time and memory; for constraints of people who are not trusted.

The process is a new interpreter that imports what the function needs and forks a child for each call, with all modules
loaded. So a call finds what is loaded and nothing that earlier calls left: its limits are its own, and its answer depends on it alone.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NoReturn

FORKS = hasattr(os, "fork")
"""Without fork, as on Windows, there is no sandbox."""

WALL = 6
"""Seconds by the clock that a call may take for each second of processor time: it also ends where it waits."""

_LOADING = 120.0
"""Seconds by the clock that the process may take to start; after them, and the time of the call, it is killed."""

_NO_MEMORY = 3
"""Exit status of a child whose call ran out of memory."""

_CLOSED = 4
"""Exit status of a child that got no call any more."""

_CRASHES = (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGFPE, -signal.SIGILL, -signal.SIGBUS) if FORKS else ()
"""Exit status of a child that crashed: an end of its stack, for instance, or a C++ exception in the wrong place."""

_NICE = 5
"""Calls get about a third of a processor that the other process wants too."""

_CHILD = "from constrained import sandbox; sandbox.main()"


class SandboxTimeout(Exception):
    """The call took longer than its time limit, and was ended."""


class SandboxFailed(Exception):
    """The process that ran the call ended.

    Attributes:
        code: its exit status; None if the sandbox is closed.
        crashed: the call has crashed, as a mistake in native code would; otherwise something else ended the process.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__(f"the process ended with {code}" if code is not None else "the sandbox is closed")
        self.code = code
        self.crashed = code in _CRASHES


class Sandbox:
    """A sandbox process; used by one thread at a time.

    Args:
        subject: the first argument of each call, sent once: a vocabulary, for instance.
        seconds: processor time that a call may take, so that a busy machine ends no call. By the clock it may take `WALL`
            times as long.
        memory: bytes of address space that a call may allocate.
        warm: called with the subject before the first fork, so that children inherit loaded modules and tables. A
            function of a module, as everything that is called here.
    """

    def __init__(self, subject: Any, seconds: float, memory: int, warm: Callable[[Any], None]) -> None:
        self._setup = (subject, seconds, memory, warm)
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
        try:
            pipe.send(self._setup)
        except OSError:
            pass  # the process has ended already: `run` notices
        except BaseException:  # it cannot be pickled: nothing can be called there
            self._drop()
            raise

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls ``function(subject, *arguments)`` in the sandbox.

        Returns:
            What it returns, pickled and unpickled.

        Raises:
            MemoryError: it needs more memory than it has.
            SandboxTimeout: it takes too long.
            SandboxFailed: the call raised another exception or crashed; the process does not start, does not answer or was
                killed; the sandbox is closed.
        """
        self.start()
        pipe, process = self._pipe, self._process
        if pipe is None or process is None:
            raise SandboxFailed(None)
        call = pickle.dumps((function, arguments), protocol=pickle.HIGHEST_PROTOCOL)
        outcome: tuple[Any] | int
        # The child ends itself at its limits. This is for what cannot: a process that hangs while it starts, one that is stopped, one
        # that was killed in the middle of its answer.
        watch = threading.Timer(_LOADING + WALL * self._setup[1], functools.partial(_kill, process))
        watch.daemon = True
        watch.start()
        try:
            while pipe.poll():
                pipe.recv()  # exit status of a child that died while idle
            pipe.send_bytes(call)
            outcome = pipe.recv()
        except (OSError, EOFError):  # the process died, not only its child
            outcome = -signal.SIGKILL
        finally:
            watch.cancel()
        if isinstance(outcome, tuple):
            return outcome[0]
        if outcome in (-signal.SIGPROF, -signal.SIGALRM):
            raise SandboxTimeout
        if outcome == _NO_MEMORY:
            raise MemoryError
        self._drop()
        self.start()  # the next call need not wait for all of it
        raise SandboxFailed(None if self._ended else outcome)  # `close` has killed it

    def close(self) -> None:
        """Kills the process; the sandbox cannot be used again."""
        with self._lock:
            self._ended = True
        self._drop()

    def _drop(self) -> None:
        with self._lock:
            process, self._process, self._pipe = self._process, None, None
        if process is not None:
            _kill(process)
            process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and its child."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


# ---------------------------------------------------------------- inside the sandbox process


def main() -> None:
    """Main loop of the sandbox process: forks a child for each call, before it comes, until the other process exits."""
    pipe = Connection(int(sys.argv[1]))
    os.nice(_NICE)  # one that starts again and again takes no more than that either
    try:
        subject, seconds, memory, warm = pipe.recv()
    except EOFError:
        return
    warm(subject)
    gc.collect()
    gc.freeze()  # children neither look through what is loaded nor copy its pages
    code = 0
    while code != _CLOSED:
        child = os.fork()
        if child == 0:
            _work(pipe, subject, seconds, memory)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code not in (0, _CLOSED):
            try:
                pipe.send(code)
            except OSError:
                return


def _work(pipe: Connection, subject: Any, seconds: float, memory: int) -> NoReturn:
    """Receives a call, answers it with ``(result,)`` and ends the process."""
    try:
        pickled = pipe.recv_bytes()
    except (EOFError, OSError):
        os._exit(_CLOSED)
    try:
        _limit(memory)
        _end_after(seconds)
        function, arguments = pickle.loads(pickled)
        outcome = pickle.dumps((function(subject, *arguments),))
        _end_after(0)
        pipe.send_bytes(outcome)
    except MemoryError:
        os._exit(_NO_MEMORY)
    except OSError:  # nobody waits for it
        os._exit(_CLOSED)
    except BaseException:
        os._exit(1)
    os._exit(0)


def _end_after(seconds: float) -> None:
    """Lets the process be killed after so much processor time, 0: not; there are no handlers of the signals."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, WALL * seconds)


def _limit(memory: int) -> None:
    """Limits the address space of the process to its present size plus `memory` bytes."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
        limit = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
