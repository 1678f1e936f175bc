"""Random schemas over every keyword of five drafts, judged by two validators that share no code with this library.

A text that both validators call valid must be accepted, in any order of members; one that both call invalid must be
refused; whatever a walk writes must be valid. Where the two differ there is no judge: they do on numbers that a float does
not hold, and `jsonschema` forgets in 2019-09 that additionalProperties evaluates what unevaluatedProperties would (9.3.2.3).
"""

from __future__ import annotations

import json
import random
import warnings
from collections import Counter
from typing import Any

import jsonschema
import jsonschema_rs
import pytest

from constrained.automaton import compile_grammar
from constrained.grammars.errors import (
    ConstraintError,
    ConstraintTooLarge,
    InvalidConstraint,
    UnsatisfiableConstraint,
)
from constrained.grammars.json_schema import SchemaOptions, lower_schema
from tests.grammars.json_schema.official_suite import VOCABULARY
from tests.support.json_walks import is_distinct, walk
from tests.support.random_schemas import RandomSchemas
from tests.support.reading import accepts

JUDGES: dict[str, tuple[Any, Any]] = {
    "4": (jsonschema.Draft4Validator, jsonschema_rs.Draft4Validator),
    "6": (jsonschema.Draft6Validator, jsonschema_rs.Draft6Validator),
    "7": (jsonschema.Draft7Validator, jsonschema_rs.Draft7Validator),
    "2019-09": (jsonschema.Draft201909Validator, jsonschema_rs.Draft201909Validator),
    "2020-12": (jsonschema.Draft202012Validator, jsonschema_rs.Draft202012Validator),
}
FREE = 30
"""Tokens that a walk may spend before it goes straight to the end."""


class Judges:
    """Two validators of one schema."""

    def __init__(self, schema: Any, draft: str) -> None:
        one, other = JUDGES[draft]
        # Formats of all drafts: that of draft 4 does not check a date, and the other validator does.
        self._one = one(schema, format_checker=jsonschema.FormatChecker())
        self._other = other(schema, validate_formats=True)

    def verdict(self, value: Any) -> bool | None:
        """Whether a value is valid; None where they differ, or do not compute with it."""
        try:
            one = self._one.is_valid(value)
        except (
            OverflowError
        ):  # of a number that is infinite as a float, which the other does not take for a number at all
            return None
        except TypeError as error:  # additionalItems beside items: true, which `jsonschema` takes for a list
            if "'bool' has no len" not in str(error):
                raise
            return bool(self._other.is_valid(value))
        return one if one == self._other.is_valid(value) else None


def without_zero_fractions(value: Any) -> Any:
    """The value with whole floats as integers."""
    if isinstance(value, dict):
        return {key: without_zero_fractions(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_zero_fractions(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def judge(draft: str, seed: int, *, instances: int = 12, walks: int = 2) -> Counter[str]:
    """Draws a schema and compares; what came of it, by kind."""
    rng = random.Random(f"{draft} {seed}")
    drawn = RandomSchemas(rng, draft)
    schema = drawn.schema()
    judges = Judges(schema, draft)
    values = [drawn.near(schema) if i % 3 else drawn.instance() for i in range(instances)]
    try:
        automaton = compile_grammar(
            lower_schema(schema, SchemaOptions(draft=draft, property_order="any")).grammar, VOCABULARY
        )
    except UnsatisfiableConstraint:
        valid = [value for value in values if judges.verdict(value)]
        assert not valid, (draft, seed, schema, "is called unsatisfiable", valid)
        return Counter({"unsatisfiable": 1})
    except InvalidConstraint as refusal:
        if "circular" not in str(refusal):
            raise
        return Counter({"circular": 1})
    except (ConstraintError, ConstraintTooLarge) as refusal:
        return Counter({type(refusal).__name__: 1})
    found = Counter({"compiled": 1})
    for value in values:
        verdict = judges.verdict(value)
        found[f"text {verdict}"] += 1
        # A whole number is written without a fraction, which in draft 4 makes it another value.
        text = json.dumps(value if draft == "4" else without_zero_fractions(value), ensure_ascii=False)
        if verdict is not None:
            assert accepts(automaton, text) == verdict, (draft, seed, schema, text, verdict)
    for _ in range(walks):
        text = walk(automaton, rng, FREE)
        verdict = judges.verdict(json.loads(text))
        found[f"walk {verdict}"] += 1
        assert verdict is not False or not is_distinct(schema, text), (draft, seed, schema, text)
    return found


def test_the_judges_find_a_constraint_that_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    anything = lower_schema(True)
    monkeypatch.setitem(globals(), "lower_schema", lambda schema, options: anything)
    with pytest.raises(AssertionError, match="False"):
        judge_all("7", range(5))


def judge_all(draft: str, seeds: range) -> Counter[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sum((judge(draft, seed) for seed in seeds), Counter())


@pytest.mark.parametrize("draft", JUDGES)
def test_random_schemas_admit_what_two_validators_admit(draft: str) -> None:
    found = judge_all(draft, range(60))
    assert found["compiled"] >= 25
    assert min(found["text True"], found["text False"], found["walk True"]) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("draft", JUDGES)
def test_twenty_thousand_random_schemas_admit_what_two_validators_admit(draft: str, part: int) -> None:
    judge_all(draft, range(1000 + 400 * part, 1400 + 400 * part))
