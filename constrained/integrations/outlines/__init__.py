"""Constraints inside Outlines: its models, its loops, our masks."""

from __future__ import annotations

from constrained.extras import require_extra

with require_extra("outlines"):
    import outlines.backends  # noqa: F401

from constrained.integrations.outlines.backend import OutlinesBackend, logits_processor

__all__ = ["OutlinesBackend", "logits_processor"]
