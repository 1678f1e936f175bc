"""Messages of a worker process: JSON lines on a private copy of its standard output."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any, TextIO

_LONGEST_MESSAGE = 500


def private_output() -> TextIO:
    """A file for messages; from now on standard output goes to standard error, whatever an engine prints."""
    own = os.dup(1)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):  # line by line: a worker that is killed does not flush
        sys.stdout.reconfigure(line_buffering=True)
    return os.fdopen(own, "w", encoding="utf-8")


def send(output: TextIO, message: dict[str, Any]) -> None:
    """Writes a message."""
    output.write(json.dumps(message, separators=(",", ":")) + "\n")
    output.flush()


def error_text(error: BaseException, *, with_type: bool = False) -> str:
    """The message of an error, shortened. `with_type` puts the type of the error before it."""
    text = str(error)[:_LONGEST_MESSAGE].encode("utf-8", "backslashreplace").decode()
    return f"{type(error).__name__}: {text}" if with_type else text
