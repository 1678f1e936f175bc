"""Walks over schemas of real use: whatever the masks allow, and however it is closed, validates.

Each byte is drawn uniformly from the allowed ones that leave enough of a budget. `jsonschema` judges the text, formats
included.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from jsonschema.validators import validator_for

from constrained.automaton import compile_grammar
from constrained.grammars.errors import ConstraintError, ConstraintTooLarge
from constrained.grammars.json_schema import lower_schema
from tests.grammars.json_schema.official_suite import VOCABULARY
from tests.support.json_walks import is_distinct, walk

_DATA = os.environ.get("CONSTRAINED_DATA")
needs_data = pytest.mark.skipif(
    not _DATA, reason="needs the folder CONSTRAINED_DATA with maskbench-dev.jsonl.gz"
)
FREE = 150
"""Tokens that a walk may spend before it goes straight to the end."""
HARD = [
    {
        "patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 3}},
        "propertyNames": {"pattern": "^...$"},
        "minProperties": 4,
    },
    {
        "type": "object",
        "not": {"patternProperties": {"a": {"not": {"type": "string", "pattern": "A"}}}},
        "propertyNames": {"pattern": "^....$"},
        "minProperties": 3,
    },
    {"type": "array", "uniqueItems": True, "items": {"type": "string", "maxLength": 1}, "minItems": 20},
    {"type": "array", "uniqueItems": True, "items": {"type": ["integer", "string"]}, "minItems": 9},
]
"""Different keys and items that are counted."""


def check(schema: Any, rng: random.Random, walks: int = 1) -> bool:
    """Walks over a schema; False if it is refused."""
    try:
        automaton = compile_grammar(lower_schema(schema).grammar, VOCABULARY)
    except (ConstraintError, ConstraintTooLarge):
        return False
    kind = validator_for(schema, default=jsonschema.Draft202012Validator)
    judge = kind(schema, format_checker=kind.FORMAT_CHECKER)
    for _ in range(walks):
        text = walk(automaton, rng, FREE)
        value = json.loads(text)
        try:
            errors = [error.message for error in judge.iter_errors(value) if not is_multiple(error)]
        except Exception:  # the judge itself fails on some references and patterns
            continue
        assert not errors or not is_distinct(schema, text), (schema, text, errors)
    return True


def is_multiple(error: jsonschema.ValidationError) -> bool:
    """Whether a number is the multiple that the judge, who divides floats, says it is not: 0.58 of 0.01."""
    if error.validator != "multipleOf":
        return False
    return Decimal(str(error.instance)) % Decimal(str(error.validator_value)) == 0


def schemas(every: int) -> Iterator[Any]:
    """One in so many of the schemas."""
    with gzip.open(Path(_DATA or "") / "maskbench-dev.jsonl.gz", "rt") as lines:
        for number, line in enumerate(lines):
            if number % every == 0:
                yield json.loads(line)["schema"]


def walk_all(every: int, most: int) -> None:
    """Walks over some of the schemas, of which hardly any may be refused."""
    rng = random.Random(5)
    taken = refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for schema in schemas(every):
            refused += not check(schema, rng)
            taken += 1
            if taken == most:
                break
    assert refused <= taken // 20


@pytest.mark.parametrize("schema", HARD, ids=range(len(HARD)))
def test_different_keys_and_items_are_found_to_the_end(schema: Any) -> None:
    assert check(schema, random.Random(1), walks=3)


@needs_data
def test_whatever_is_written_validates() -> None:
    walk_all(every=150, most=40)


@needs_data
@pytest.mark.slow
def test_whatever_is_written_validates_for_two_thousand_schemas() -> None:
    walk_all(every=3, most=2000)
