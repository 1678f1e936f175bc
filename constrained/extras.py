"""An import error that names the extra to install."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class MissingExtra(ImportError):
    """A library is missing that an extra of this package installs.

    Attributes:
        extra: name of the extra, for ``pip install 'constrained-generation[extra]'``.
    """

    def __init__(self, message: str, *, extra: str, name: str | None = None) -> None:
        super().__init__(message, name=name)
        self.extra = extra


@contextlib.contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Context manager for imports of optional libraries.

    Raises:
        MissingExtra: a library cannot be imported; names the extra that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{error.name} is not installed\n  -> pip install 'constrained-generation[{extra}]'",
            extra=extra,
            name=error.name,
        ) from error
