"""The native module of this package, or None where it was not built: what it does is then done in Python, slower."""

from __future__ import annotations

from typing import Any

core: Any
try:
    from spec import _core as core

    core.Drafter  # noqa: B018 - a source folder without what was built from it can be imported, too
except (ImportError, AttributeError):
    core = None
