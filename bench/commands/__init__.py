"""`constrained bench`: measurements, of this library and of others beside it.

A wheel has those that compare engines on a user's own models and schemas, and their commands; a checkout has all.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from constrained.bench.commands.common import bench

__all__ = ["bench"]

for _name in ("engines", "studies"):
    if find_spec(f"{__name__}.{_name}"):
        import_module(f"{__name__}.{_name}")
