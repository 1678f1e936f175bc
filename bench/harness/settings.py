"""Ranges of a bench's settings, and how it reports progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from constrained.errors import InvalidArgument

Progress = Callable[[str, int, int], None]
"""Called with the present step, how many parts of it are done, and how many there are (0: unknown)."""


def no_progress(step: str, done: int, total: int) -> None:
    """Shows no progress."""


def check_minimum(settings: Any, **minimum: int) -> None:
    """Checks numbers of a dataclass of settings.

    Args:
        settings: the dataclass.
        minimum: the least value of each attribute.

    Raises:
        InvalidArgument: a value is below its minimum.
    """
    for name, least in minimum.items():
        if getattr(settings, name) < least:
            raise InvalidArgument(f"{name} is {getattr(settings, name)}", action=f"pass {least} or more")


def check_positive(settings: Any, *names: str) -> None:
    """Checks limits of a dataclass of settings.

    Raises:
        InvalidArgument: a limit is not positive.
    """
    for name in names:
        if not getattr(settings, name) > 0:
            raise InvalidArgument(f"{name} is {getattr(settings, name)}", action="pass a positive limit")


def check_distinct(names: Collection[str], what: str) -> None:
    """Checks that there are names, and that they are distinct.

    Raises:
        InvalidArgument: there is no name, or one is there twice.
    """
    if not names or len(set(names)) != len(names):
        raise InvalidArgument(f"no {what} is named, or one is named twice", action=f"name each {what} once")


def check_names(names: Iterable[str], known: Collection[str]) -> None:
    """Checks names of what is to be measured.

    Raises:
        InvalidArgument: a name is not known.
    """
    unknown = set(names) - set(known)
    if unknown:
        raise InvalidArgument(
            f"{min(unknown)!r} is not measured here", action=f"name some of: {'; '.join(known)}"
        )
