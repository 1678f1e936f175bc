"""How a command ends: what it writes, its exit code, and a message a person can act on."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

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

NOT_ENFORCEABLE = 1
BAD_INPUT = 2
DOES_NOT_FIT = 3
REJECTED = 4
INTERNAL = 70
INTERRUPTED = 128 + signal.SIGINT
PIPE_CLOSED = 128 + 13  # SIGPIPE, which Windows has no name for

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
    3  no room: max_tokens or the model's context is too small for any complete answer
    4  the type's own validation refused a complete answer
   70  a mistake in this program
  130  interrupted (Ctrl-C)
  141  the reader of the output went away"""


class BadInput(ConstrainedError, ValueError):
    """What was given on the command line cannot be used."""


class CommandFailed(Exception):
    """A command has said all there is to say, and ends with this code."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(code)


def exit_code_for(error: ConstrainedError) -> int:
    """The exit code for an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), BAD_INPUT)


def emit(text: str) -> None:
    """Writes a result and a line end to standard output, in UTF-8 whatever the locale, in one piece.

    Raises:
        BadInput: it cannot be written.
        BrokenPipeError: nobody reads it any more.
    """
    if sys.stdout is None:
        raise BadInput("there is no standard output to write to")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8") + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _abandon(sys.stdout.fileno())
        raise BadInput(f"the result cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def report_errors(*, traceback: bool) -> Iterator[None]:
    """Turns whatever ends a command into a message on standard error and an exit code.

    Args:
        traceback: let exceptions through as they are, for whoever works on this program.

    Raises:
        SystemExit: with a code out of `EXIT_CODES`.
    """
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one must not disturb the way out
        _complain("interrupted")
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        _abandon(1)
        raise SystemExit(PIPE_CLOSED) from None
    except CommandFailed as error:
        raise SystemExit(error.code) from None
    except ConstrainedError as error:
        if traceback:
            raise
        _complain(f"error: {error}")
        raise SystemExit(exit_code_for(error)) from None
    except Exception as error:
        # typer ends a command with exceptions of its own, and knows what to do with them.
        if traceback or type(error).__module__.startswith(("typer", "click")):
            raise
        reason = " ".join(str(error).split())
        _complain(
            f"error: unexpected {type(error).__name__}: {reason}\n"
            "  -> run it again as `constrained --traceback ...`, and report what that shows"
        )
        raise SystemExit(INTERNAL) from None


def _complain(message: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody may be listening there either
        data = message.encode("utf-8", "backslashreplace") + b"\n"
        sys.stderr.flush()
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()


def _abandon(descriptor: int) -> None:
    """Lets what is still buffered for a dead descriptor go nowhere when the interpreter ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
