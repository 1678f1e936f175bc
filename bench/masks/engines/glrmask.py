"""GLRMask: a compiled `Constraint`, and a `ConstraintState` a text."""

from __future__ import annotations

from typing import Any

import glrmask as package

from constrained.bench.masks.engines.base import CompiledSchema, mask_slices
from constrained.bench.masks.workload import VocabularyData


class GLRMask:
    """Default settings; its masks have no end of sequence; the state tells whether the text is complete."""

    version: str = package.__version__

    def __init__(self, tokens: VocabularyData, threads: int) -> None:
        self.vocabulary = package.Vocab.from_id_to_bytes({i: t for i, t in enumerate(tokens.tokens) if t})

    def compile(self, schema: Any, text: str) -> CompiledSchema:
        """A `Constraint` with the strategy that the package chooses."""
        constraint = package.Grammar.from_json_schema(text).compile(self.vocabulary)
        return CompiledSchema(
            start=constraint.start,
            fill=package.ConstraintState.fill_mask,
            commit=package.ConstraintState.commit_token,
            in_place=True,
            targets=mask_slices,
            complete=package.ConstraintState.is_accepting,
        )
