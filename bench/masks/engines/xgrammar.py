"""XGrammar: its compiler with the caches it has by default, any white space, and the schema's own openness."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import xgrammar as package

from constrained.bench.masks.engines.base import CompiledSchema, MaskTable, table_indices
from constrained.bench.masks.workload import VocabularyData, is_structural_tag


class XGrammar:
    """``strict_mode=False``: objects stay open unless the schema closes them, as JSON Schema has it."""

    version = version("xgrammar")
    structural_tags = True

    def __init__(self, tokens: VocabularyData, threads: int) -> None:
        info = package.TokenizerInfo(
            tokens.tokens,
            package.VocabType.RAW,
            vocab_size=tokens.size,
            stop_token_ids=list(tokens.eos_ids),
        )
        self.compiler = package.GrammarCompiler(info, max_threads=threads)
        self.batch = package.BatchGrammarMatcher(threads)

    def compile(self, schema: Any, text: str) -> CompiledSchema:
        """A compiled grammar, with one matcher for all texts."""
        if is_structural_tag(schema):
            compiled = self.compiler.compile_structural_tag(schema)
        else:
            compiled = self.compiler.compile_json_schema(text, any_whitespace=True, strict_mode=False)
        return self._compiled(compiled)

    def compile_source(self, notation: str, text: str) -> CompiledSchema:
        """A compiled regular expression or grammar."""
        if notation == "regex":
            return self._compiled(self.compiler.compile_regex(text))
        return self._compiled(self.compiler.compile_grammar(text))

    def _compiled(self, compiled: Any) -> CompiledSchema:
        matcher = package.GrammarMatcher(compiled)

        def start() -> Any:
            matcher.reset()
            return matcher

        def fill_many(states: list[Any], rows: MaskTable) -> None:
            self.batch.batch_fill_next_token_bitmask(states, rows)

        return CompiledSchema(
            start=start,
            fill=package.GrammarMatcher.fill_next_token_bitmask,
            commit=package.GrammarMatcher.accept_token,
            in_place=True,
            targets=table_indices,
            fork=package.GrammarMatcher.fork,
            rollback=package.GrammarMatcher.rollback,
            fill_many=fill_many,
            memory=lambda: int(compiled.memory_size_bytes),
        )
