"""Fewer garbage collections while a grammar is made.

A grammar is many small objects that stay. CPython looks for cycles once 700 (in 3.12 and later 2,000) containers were made
more than freed, and now and then goes through all objects of the process: with a few hundred compiled schemas and torch loaded
that took half of the time of compiling.
"""

from __future__ import annotations

import gc
import os
import threading
from contextlib import ContextDecorator

_RARE = 50_000
"""Containers made before the next collection, meanwhile: some megabytes, if all of them were garbage."""


class _Thresholds:
    """Raises the collector's first threshold while some thread asks for it.

    The collector stays on, for all threads: an endless row of overlapping requests costs `_RARE` containers of garbage and
    no more. A threshold that is higher already, zero (which means off) or changed meanwhile by others is left alone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._askers = 0
        self._before: tuple[int, int, int] | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def raise_(self) -> None:
        with self._lock:
            self._askers += 1
            before = gc.get_threshold()
            if self._askers == 1 and 0 < before[0] < _RARE:
                self._before = before
                gc.set_threshold(_RARE, *before[1:])

    def lower(self) -> None:
        with self._lock:
            self._askers = max(self._askers - 1, 0)  # after a fork nobody has asked
            if self._askers == 0:
                self._restore()

    def _restore(self) -> None:
        if self._before is not None and gc.get_threshold()[0] == _RARE:
            gc.set_threshold(*self._before)
        self._before = None

    def _forked(self) -> None:
        """In a child: the threads that asked are not there, and one of them may have held the lock."""
        self._lock = threading.Lock()
        self._askers = 0
        self._restore()


_thresholds = _Thresholds()


class rare_collections(ContextDecorator):  # noqa: N801  used as a function, like those of contextlib
    """Garbage collections are rare inside, in all threads; may be nested, in any number of threads. Also a decorator."""

    def __enter__(self) -> None:
        _thresholds.raise_()

    def __exit__(self, *error: object) -> None:
        _thresholds.lower()
