"""Draft 4: the texts 3 and 3.0 are equal values of two types, wherever schemas are combined; two validators judge each pair.

Not every valid number with a fraction is written: an enumerated 3 is written without one.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from constrained.automaton import compile_grammar
from constrained.grammars.errors import UnsatisfiableConstraint
from constrained.grammars.json_schema import SchemaOptions, lower_schema
from tests.grammars.json_schema.official_suite import VOCABULARY
from tests.grammars.json_schema.test_random_schemas import Judges
from tests.support.reading import accepts

PARTS: list[dict[str, Any]] = [
    {"enum": [True, 3.0]},
    {"enum": [3]},
    {"enum": [[3.0], 4.0]},
    {"enum": [{"a": 3.0}, 3.0]},
    {"type": "integer"},
    {"type": "number"},
    {"not": {"type": "integer"}},
    {"items": {"type": "integer"}},
    {"properties": {"a": {"not": {"type": "integer"}}}},
    {"multipleOf": 3.0},
    {"type": "array", "items": {"enum": [3.0]}},
]
TEXTS = ("3", "3.0", "4", "4.0", "true", "[3]", "[3.0]", '{"a": 3}', '{"a": 3.0}', '"x"')


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf", "allOf", "not"])
def test_a_whole_number_is_judged_as_it_is_written(keyword: str) -> None:
    for one, other in itertools.product(PARTS, repeat=2):
        schema = {keyword: [one, other]} if keyword != "not" else {"allOf": [one], "not": other}
        judges = Judges(schema, "4")
        verdicts = {text: judges.verdict(json.loads(text)) for text in TEXTS}
        try:
            automaton = compile_grammar(
                lower_schema(schema, SchemaOptions(draft="4", property_order="any")).grammar, VOCABULARY
            )
        except UnsatisfiableConstraint:
            assert not any(verdict for text, verdict in verdicts.items() if ".0" not in text), schema
            continue
        for text, verdict in verdicts.items():
            taken = accepts(automaton, text)
            assert not taken if verdict is False else taken or ".0" in text, (schema, text)
