"""Constraints inside `mlx-lm`: a logits processor for ``generate``, ``stream_generate`` and ``BatchGenerator``."""

from __future__ import annotations

from constrained.extras import require_extra

with require_extra("mlx"):
    import mlx.core  # noqa: F401

from constrained.integrations.mlx.processor import MlxLogitsProcessor

__all__ = ["MlxLogitsProcessor"]
