"""Keys by the patterns that they match: only combinations that some key has are written out."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from constrained.automaton import compile_grammar
from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, UnsatisfiableConstraint
from constrained.grammars.json_schema import lower_schema
from constrained.grammars.json_schema.source.members import partition_keys
from constrained.grammars.json_schema.text.patterns import ecma_pattern
from constrained.grammars.regex.languages import RegularLanguages
from tests.grammars.json_schema.official_suite import VOCABULARY, accepts
from tests.support.matching import matches

SOURCES = [
    "^a", "a$", "^a+$", "b", "^[ab]{2}$", "^$", "ab|ba", "^(ab)*$", "^.{3,}$", "^(?!a)", "c", "^[^c]*$",
]  # fmt: skip
KEYS = ["", "a", "b", "c", "aa", "ab", "ba", "bb", "aab", "abab", "cab", "aaa", "bab"]


def languages(inner: st.SearchStrategy[ir.Regex]) -> st.SearchStrategy[ir.Regex]:
    return st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: ir.intersection(*parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: ir.union(*parts)),
        st.lists(inner, min_size=2, max_size=2).map(lambda parts: ir.concat(*parts)),
        inner.map(lambda part: ir.difference(ir.TEXT, part)),
        st.builds(ir.repeat, inner, st.integers(0, 2), st.sampled_from([2, 3, None])),
    )


regexes = st.recursive(
    st.sampled_from(
        [ecma_pattern(source).value_language for source in SOURCES] + [ir.EMPTY_SET, ir.literal("ab")]
    ),
    languages,
    max_leaves=4,
)


@given(regexes, regexes)
def test_what_is_apart_has_no_text_in_common(a: ir.Regex, b: ir.Regex) -> None:
    for apart, texts in (
        (RegularLanguages().provably_disjoint([a, b]), lambda key: matches(a, key) and matches(b, key)),
        (
            RegularLanguages().provably_disjoint([a], [b]),
            lambda key: matches(a, key) and not matches(b, key),
        ),
    ):
        assert not (apart and any(map(texts, KEYS)))


@pytest.mark.parametrize(
    ("within", "without", "apart"),
    [
        (["^x-", "^y-"], [], True),
        (["^x-", "y"], [], False),
        (["^[a-z]+$", "[0-9]"], [], True),
        (["^ab$"], ["^a"], True),
        (["^a"], ["^ab$"], False),
        (["^.{5}$", "^.{0,4}$"], [], True),
    ],
)
def test_disjoint_classes_are_recognised(within: list[str], without: list[str], apart: bool) -> None:
    texts = [[ecma_pattern(source).value_language for source in sources] for sources in (within, without)]
    assert RegularLanguages().provably_disjoint(*texts) is apart


@given(st.lists(st.sampled_from(SOURCES), max_size=6, unique=True), st.integers(0, 63))
def test_every_key_is_in_one_class(sources: list[str], chosen: int) -> None:
    patterns = [ecma_pattern(source) for source in sources]
    forbidden = [p for i, p in enumerate(patterns) if chosen >> i & 1]
    found = partition_keys(patterns, forbidden, "#")
    for key in KEYS:
        matched = {p for p in patterns if p.matches(key)}
        holding = [
            keys.matched
            for keys in found
            if all(p.matches(key) for p in keys.matched)
            and not any(p.matches(key) for p in keys.excluded_patterns)
        ]
        expected = [] if matched & set(forbidden) else [matched]
        assert list(map(set, holding)) == expected, key


@given(
    st.lists(st.sampled_from(SOURCES), min_size=5, max_size=8, unique=True),
    st.lists(
        st.dictionaries(st.sampled_from(KEYS), st.sampled_from([1, 2, "x", None]), max_size=3), max_size=8
    ),
    st.booleans(),
    st.integers(0, 2**32),
)
@settings(max_examples=15)
def test_many_patterns_on_one_object(sources: list[str], values: list[Any], denied: bool, seed: int) -> None:
    rng = random.Random(seed)
    schemas = [{"type": "integer"}, {"minimum": 2}, {"type": ["string", "null"]}, True, {"not": {"const": 1}}]
    schema: dict[str, Any] = {"patternProperties": {source: rng.choice(schemas) for source in sources}}
    schema["additionalProperties"] = rng.choice([True, False])
    if denied:
        schema = {"type": "object", "not": schema}
    judge = Draft202012Validator(schema)
    try:
        automaton = compile_grammar(lower_schema(schema).grammar, VOCABULARY)
    except UnsatisfiableConstraint:
        assert not any(map(judge.is_valid, values))
        return
    for value in values:
        assert accepts(automaton, value, True) == judge.is_valid(value), (schema, value)


def test_names_and_numbers_of_patterns_do_not_matter_where_they_exclude_each_other() -> None:
    schema = {"patternProperties": {f"^key{i}(a|b)$": {"const": i} for i in range(60)}}
    automaton = compile_grammar(lower_schema(schema).grammar, VOCABULARY)
    assert accepts(automaton, {"key7a": 7, "key59b": 59, "other": None}, False)
    assert not accepts(automaton, {"key7a": 8}, False)


def test_too_many_classes_are_refused_by_name() -> None:
    letters = "abcdefghij"
    schema = {"properties": {"x": {"patternProperties": {letter: {"const": letter} for letter in letters}}}}
    with pytest.raises(ConstraintTooLarge, match=r"#/properties/x/patternProperties.*10 patterns"):
        lower_schema(json.loads(json.dumps(schema)))
