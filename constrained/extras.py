"""What to install where a library is missing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class MissingExtra(ImportError):
    """A library that one of this package's extras brings is not installed.

    Attributes:
        extra: its name, for ``pip install 'constrained-generation[extra]'``.
    """

    def __init__(self, message: str, *, extra: str, name: str | None = None) -> None:
        super().__init__(message, name=name)
        self.extra = extra


@contextlib.contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Says which extra brings a library that cannot be imported.

    Raises:
        MissingExtra: it cannot.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{error.name} is not installed\n  -> pip install 'constrained-generation[{extra}]'",
            extra=extra,
            name=error.name,
        ) from error
