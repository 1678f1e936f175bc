"""Shows a completion on standard error while it is generated: its partial JSON value on a terminal, else its text."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from constrained.decoding.partial_json import partial_json

if TYPE_CHECKING:
    from rich.console import Console

TextCallback = Callable[[str], None]
"""Shows a completion as far as it is."""


class _Value:
    """The partial JSON value; parsed only when the terminal is redrawn."""

    text = ""

    def __rich__(self) -> Any:
        from rich.json import JSON
        from rich.text import Text

        value = partial_json(self.text)
        return Text("") if value is None else JSON.from_data(value, indent=2, ensure_ascii=False)


@contextlib.contextmanager
def live_display(*, shown: bool, is_json: bool, console: Console | None = None) -> Iterator[TextCallback]:
    """Shows a completion that grows.

    Args:
        shown: False: shows nothing.
        is_json: the completion is JSON: a terminal shows its partial value instead of its text.
        console: target; standard error by default.
    """
    if not shown:
        yield lambda text: None
        return
    if console is None:
        from rich.console import Console

        console = Console(stderr=True)
    if not (is_json and console.is_terminal):
        written = 0

        def write(text: str) -> None:
            nonlocal written
            sys.stderr.write(text[written:])
            sys.stderr.flush()
            written = len(text)

        yield write
        sys.stderr.write("\n")
        return
    from rich.live import Live

    value = _Value()
    with Live(value, console=console, refresh_per_second=12, vertical_overflow="visible"):

        def show(text: str) -> None:
            value.text = text

        yield show
