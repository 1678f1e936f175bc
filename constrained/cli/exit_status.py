"""The end of a command: its result, its exit code, and its error message."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from constrained.errors import (
    BudgetExhausted,
    ConstrainedError,
    ConstraintTooLarge,
    DoesNotFit,
    InvalidConstraint,
    PromptTooLong,
    RejectedValue,
    Truncated,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)
from constrained.extras import MissingExtra
from constrained.native_modules import native_problem

if TYPE_CHECKING:
    from rich.console import Console

NOT_ENFORCEABLE = 1
BAD_INPUT = 2
DOES_NOT_FIT = 3
REJECTED = 4
FAILED_DOCUMENTS = 5
INTERNAL = 70
INTERRUPTED = 128 + signal.SIGINT
PIPE_CLOSED = 128 + 13  # SIGPIPE, which Windows does not define

_CODES: tuple[tuple[type[ConstrainedError], int], ...] = (
    (InvalidConstraint, BAD_INPUT),
    (UnsupportedConstraint, NOT_ENFORCEABLE),
    (UnsatisfiableConstraint, NOT_ENFORCEABLE),
    (ConstraintTooLarge, NOT_ENFORCEABLE),
    (DoesNotFit, DOES_NOT_FIT),
    (PromptTooLong, DOES_NOT_FIT),
    (BudgetExhausted, DOES_NOT_FIT),
    (Truncated, DOES_NOT_FIT),
    (RejectedValue, REJECTED),
)

EXIT_CODES = """\
Exit codes:
    0  done
    1  the constraint cannot be enforced: unsupported, unsatisfiable or too large
    2  bad input: wrong usage, an invalid schema or pattern, a file or model that cannot be read
    3  token limit: max_tokens or the model's context cut the result (unless --on-limit close), or is too small for any complete one
    4  the type's own validation rejected a complete result
    5  a run over files of documents: not every file could be read, or not every document has a value; see their errors
   70  an error in this program
  130  interrupted (Ctrl-C)
  141  the reader of the output went away"""


class BadInput(ConstrainedError, ValueError):
    """An argument or option of the command line, or a file it names, cannot be used."""


class CommandFailed(Exception):
    """Ends a command that has already reported its error.

    Attributes:
        code: the exit code.
    """

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(code)


def exit_code_for(error: ConstrainedError) -> int:
    """The exit code for an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), BAD_INPUT)


def emit(text: str) -> None:
    """Writes a result and a newline to standard output in one call, in UTF-8 under any locale.

    Raises:
        BadInput: the result cannot be written.
        BrokenPipeError: the reader has closed the pipe.
    """
    if sys.stdout is None:
        raise BadInput("standard output is closed")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8") + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _abandon(sys.stdout.fileno())
        raise BadInput(f"the result cannot be written: {error.strerror}") from None


def result_console(file: IO[str] | None = None) -> Console:
    """A console of rich on standard output; where the reader has closed it, printing raises `BrokenPipeError`.

    A console of rich itself ends the process with the exit code 1.

    Args:
        file: another file than standard output.
    """
    from rich.console import Console

    class ResultConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return ResultConsole(file=file)


_ARGUMENTS = re.compile(
    r"\b(max_tokens|max_batch_tokens|batch_size|on_limit|on_repeat|long|temperature|retries|seed|speculation|require_grounding|draft_first|max_string_length|max_items)\b"
    r"(?:=(\"[a-z]+\"|[\w.]+))?"
)


def in_options(message: str) -> str:
    """The next step of an error in options of the command line: ``--max-tokens`` for ``max_tokens``."""
    head, arrow, action = message.partition("\n  -> ")
    return head + arrow + _ARGUMENTS.sub(_option, action)


def _option(match: re.Match[str]) -> str:
    name, value = match.groups()
    if name == "long":
        return "--split" if value else "long"
    value = "" if value in (None, "True") else value.strip('"')
    return f"--{name.replace('_', '-')} {value}".rstrip()


@contextlib.contextmanager
def report_errors(*, traceback: bool) -> Iterator[None]:
    """Turns the exceptions of a command into a message on standard error and an exit code.

    Args:
        traceback: do not catch exceptions, so that developers see their tracebacks.

    Raises:
        SystemExit: with a code of `EXIT_CODES`.
    """
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the exit
        _print_error("interrupted")
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        _abandon(1)
        raise SystemExit(PIPE_CLOSED) from None
    except CommandFailed as error:
        raise SystemExit(error.code) from None
    except (ConstrainedError, MissingExtra) as error:
        if traceback:
            raise
        _print_error(f"error: {in_options(str(error))}")
        code = exit_code_for(error) if isinstance(error, ConstrainedError) else BAD_INPUT
        raise SystemExit(code) from None
    except Exception as error:
        # typer handles its own exceptions: errors of usage and exits.
        if traceback or type(error).__module__.startswith(("typer", "click")):
            raise
        reason = " ".join(str(error).split())
        if (stale := native_problem()) is not None:
            _print_error(f"error: {stale}\n  it failed with {type(error).__name__}: {reason}")
        else:
            _print_error(
                f"error: unexpected {type(error).__name__}: {reason}\n"
                "  -> run it again as `constrained --traceback ...`, and report the traceback"
            )
        raise SystemExit(INTERNAL) from None


def _print_error(message: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # standard error may be closed, too
        data = message.encode("utf-8", "backslashreplace") + b"\n"
        sys.stderr.flush()
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()


def _abandon(descriptor: int) -> None:
    """Redirects a dead descriptor to null, so that flushing its buffer at exit raises no error."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
