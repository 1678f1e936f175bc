"""What is fuzzed, by name: a strategy, and how its values become constraints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from constrained.constraint import Constraint, ebnf, gbnf, json_schema, python_type, regex
from tests.fuzz import strategies as some

Target = tuple[st.SearchStrategy[Any], Callable[[Any], Constraint]]

TARGETS: dict[str, Target] = {
    "schema": (some.schemas, json_schema),
    "schema, free spaces": (some.schemas, lambda schema: json_schema(schema, whitespace="any")),
    "regex": (some.patterns, regex),
    "regex, ecma": (some.patterns, lambda pattern: regex(pattern, dialect="ecma")),
    "regex, rust": (some.patterns, lambda pattern: regex(pattern, dialect="rust", flags="i")),
    "gbnf": (some.grammars, gbnf),
    "ebnf": (some.grammars, ebnf),
    "python type": (some.python_types, python_type),
}
