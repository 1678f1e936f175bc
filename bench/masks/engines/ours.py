"""This library, through its public Python interface."""

from __future__ import annotations

from typing import Any

import constrained
from constrained.automaton import compile as compile_automaton
from constrained.bench.masks.engines.base import CompiledSchema, mask_slices
from constrained.bench.masks.workload import VocabularyData, is_structural_tag
from constrained.constraint import gbnf, json_schema, regex, structural_tag
from constrained.vocabulary import Vocabulary


class ConstrainedEngine:
    """States are ints; nothing is copied, nothing changes in place."""

    version = constrained.__version__
    structural_tags = True

    def __init__(self, tokens: VocabularyData, threads: int) -> None:
        self.vocabulary = Vocabulary.from_bytes(tokens.tokens, tokens.eos_ids)
        _ = self.vocabulary.core
        compile_automaton({"type": "object"}, self.vocabulary)  # imports what is imported at first use

    def constraint(self, schema: Any) -> Any:
        """What is compiled: the schema as it is, which bounds white space."""
        return schema

    def compile(self, schema: Any, text: str) -> CompiledSchema:
        """An `Automaton`."""
        return self._compiled(
            structural_tag(schema) if is_structural_tag(schema) else self.constraint(schema)
        )

    def compile_source(self, notation: str, text: str) -> CompiledSchema:
        """An `Automaton` of a regular expression or a grammar."""
        return self._compiled(regex(text) if notation == "regex" else gbnf(text))

    def _compiled(self, constraint: Any) -> CompiledSchema:
        automaton = compile_automaton(constraint, self.vocabulary)
        return CompiledSchema(
            start=lambda: automaton.start,
            fill=automaton.fill_mask,
            commit=automaton.next,
            in_place=False,
            targets=mask_slices,
            fill_many=automaton.fill_masks,
            memory=lambda: int(automaton.memory["bytes"]),
            fill_within=automaton.fill_mask_within,
            shortest=automaton.shortest_completion,
        )


class ConstrainedAnyWhitespace(ConstrainedEngine):
    """JSON with white space of any kind and length between tokens, as other engines have it by default."""

    def constraint(self, schema: Any) -> Any:
        """The schema with that white space."""
        return json_schema(schema, whitespace="any")


class ConstrainedAnyOrder(ConstrainedEngine):
    """Members of objects in any order, as JSON Schema has it; by default they come in the order of the schema."""

    def constraint(self, schema: Any) -> Any:
        """The schema with that order."""
        return json_schema(schema, property_order="any")
