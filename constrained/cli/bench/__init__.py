"""`constrained bench`: measurements, of this library and of others beside it."""

from __future__ import annotations

from constrained.cli.bench import (
    device,
    extraction,
    fidelity,
    hostile,
    masks,
    quality,
    schemas,
    spans,
    speculation,
    speed,
    tools,
    values,
)
from constrained.cli.bench.common import bench

__all__ = [
    "bench",
    "device",
    "extraction",
    "fidelity",
    "hostile",
    "masks",
    "quality",
    "schemas",
    "spans",
    "speculation",
    "speed",
    "tools",
    "values",
]
