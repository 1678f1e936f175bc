"""No engine at all: every token is allowed, everywhere. The baseline of what a constraint costs and gives."""

from __future__ import annotations

from typing import Any

from constrained.bench.masks.engines.base import CompiledSchema, MaskTable, mask_slices
from constrained.bench.masks.workload import VocabularyData

UNCONSTRAINED = "unconstrained"
"""Its name."""


class Unconstrained:
    """It takes every schema, and enforces none."""

    version = ""

    def __init__(self, tokens: VocabularyData, threads: int) -> None:
        self._last = tokens.size % 32

    def compile(self, schema: Any, text: str) -> CompiledSchema:
        """The schema is not read."""
        return CompiledSchema(
            start=lambda: 1,
            fill=self._fill,
            commit=lambda state, token: state,
            in_place=False,
            targets=mask_slices,
        )

    def _fill(self, state: Any, row: MaskTable) -> None:
        row[...] = -1
        if self._last:  # ids past the end of the vocabulary stay forbidden
            row[..., -1] = (1 << self._last) - 1
