"""outlines-core: the schema as one regular expression, an `Index` over the vocabulary, and a `Guide` a text."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import outlines_core as package
from outlines_core.json_schema import build_regex_from_schema

from constrained.bench.masks.engines.base import CompiledSchema, MaskTable
from constrained.bench.masks.workload import VocabularyData


class Outlines:
    """It knows one end of sequence: the first."""

    version = version("outlines_core")

    def __init__(self, tokens: VocabularyData, threads: int) -> None:
        ids: dict[bytes, list[int]] = {}
        for i, token in enumerate(tokens.tokens):
            if token:
                ids.setdefault(token, []).append(i)
        self.vocabulary = package.Vocabulary(tokens.eos_ids[0], ids)

    def compile(self, schema: Any, text: str) -> CompiledSchema:
        """A `Guide` over a new `Index`; white space as the package has it by default."""
        return self._compiled(build_regex_from_schema(text))

    def compile_source(self, notation: str, text: str) -> CompiledSchema:
        """A `Guide` of a regular expression; grammars are refused."""
        if notation != "regex":
            raise ValueError(f"outlines_core does not read {notation}")
        return self._compiled(text)

    def _compiled(self, regex: str) -> CompiledSchema:
        index = package.Index(regex, self.vocabulary)
        guide = package.Guide(index)

        def start() -> Any:
            guide.reset()
            return guide

        def commit(state: Any, token: int) -> None:
            state.advance(token, False)

        return CompiledSchema(
            start=start,
            fill=package.Guide.write_mask_into,
            commit=commit,
            in_place=True,
            targets=_targets,
        )


def _targets(rows: MaskTable) -> list[tuple[int, int, int]]:
    return [(row.ctypes.data, row.size, row.itemsize) for row in rows]
