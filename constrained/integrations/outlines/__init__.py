"""Constraints inside Outlines: its models, its loops, our masks."""

from __future__ import annotations

from constrained.extras import require_extra

with require_extra("outlines"):
    import outlines.backends  # noqa: F401

from constrained.integrations.outlines.backend import ConstrainedBackend, logits_processor

__all__ = ["ConstrainedBackend", "logits_processor"]
