"""Rules of plain schemas wait for a text to come to them, and nobody can tell: not by a mask, a length or an error."""

from __future__ import annotations

import copy
import gzip
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import grammars.json_schema
from constrained.automaton import compile_grammar
from grammars import _core, ir
from grammars._core import DeferralAnalysis, copy_document
from grammars.errors import ConstraintError, ConstraintTooLarge, UnsupportedConstraint
from grammars.json_schema import LoweredSchema, lower_schema
from grammars.json_schema.source.dialects import SCHEMA_DIALECTS
from grammars.transform.lazy_rules import LazyRules, rules_built_so_far
from tests.grammars.json_schema.official_suite import VOCABULARY, archive, remotes, suite
from tests.support.finite import byte_vocabulary
from tests.support.paths import ROOT

_DATA = os.environ.get("CONSTRAINED_DATA")
needs_data = pytest.mark.skipif(
    not _DATA, reason="needs the folder CONSTRAINED_DATA with maskbench-dev.jsonl.gz"
)

THRESHOLD = grammars.json_schema.LAZY_RULES_THRESHOLD


@pytest.fixture(scope="module", autouse=True)
def even_small_schemas() -> Iterator[None]:
    """Rules are put off whatever the size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grammars.json_schema, "LAZY_RULES_THRESHOLD", 1)
        patch.setattr(grammars.json_schema, "WALK_LIMIT", 0)
        yield


def lower_whole(schema: Any, **options: Any) -> LoweredSchema:
    """The same with every body made at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grammars.json_schema, "LAZY_RULES_THRESHOLD", 2**60)
        return lower_schema(schema, **options)


def put_off(lowered: LoweredSchema) -> dict[str, int]:
    """The rules that were put off, with the bytes of their shortest texts."""
    rules = lowered.grammar.rules
    return dict(rules.min_lengths) if isinstance(rules, LazyRules) else {}


def error_of(schema: Any, lower: Any, **options: Any) -> tuple[type, str] | None:
    try:
        compile_grammar(lower(schema, **options).grammar, VOCABULARY)
    except (ConstraintError, ConstraintTooLarge) as error:
        return type(error), str(error)
    return None


def check(schema: Any, texts: tuple[bytes, ...] = (), every: int = 1, **options: Any) -> int:
    """That nobody can tell which bodies were made later; how many were."""
    failed = error_of(schema, lower_whole, **options)
    assert error_of(schema, lower_schema, **options) == failed
    if failed:
        return 0
    later, whole = lower_schema(schema, **options), lower_whole(schema, **options)
    a, b = (compile_grammar(lowered.grammar, VOCABULARY) for lowered in (later, whole))
    row, other = a.new_mask(), b.new_mask()
    for text in texts:
        state, twin = a.start, b.start
        for i, byte in enumerate(text):
            if i % every == 0:
                a.fill_mask(state, row)
                b.fill_mask(twin, other)
                assert row.tolist() == other.tolist()
                assert a.shortest_completion(state) == b.shortest_completion(twin)
            state, twin = a.next(state, byte), b.next(twin, byte)
            assert bool(state) == bool(twin)
            if not state:
                break
    rules = later.grammar.rules
    if isinstance(rules, LazyRules):
        bodies = rules.build_all()  # whatever is not plain would be refused here
        for name in itertools.islice(rules.min_lengths, 0, None, every):
            alone = compile_grammar(ir.Grammar(bodies, name), VOCABULARY)
            assert alone.shortest_completion(alone.start) == rules.min_lengths[name], name
    return len(put_off(later))


LARGE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        f"part_{i}": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "next": {"$ref": f"#/properties/part_{(i + 1) % 300}"},
                "deep": {"type": "array", "items": {"type": "object", "required": ["x"]}},
            },
            "required": ["name"],
        }
        for i in range(300)
    },
}


def test_a_far_corner_is_not_lowered_until_a_text_comes_there() -> None:
    lowered = lower_schema(LARGE_SCHEMA)
    automaton = compile_grammar(lowered.grammar, byte_vocabulary())
    assert len(put_off(lowered)) == 300 + 1  # and any other value
    assert automaton.memory["rules"] == len(rules_built_so_far(lowered.grammar)) == 1

    state = automaton.walk(automaton.start, list(b'{"part_7": {'))[-1]
    assert list(rules_built_so_far(lowered.grammar)) == ["#", "#/properties/part_7"]
    state = automaton.walk(state, list(b'"name": "", "next": {"name": "", "deep": [{'))[-1]
    deep = "#/properties/part_7/properties/deep"  # of the same text in all parts
    assert list(rules_built_so_far(lowered.grammar))[2:] == ["#/properties/part_8", deep, f"{deep}/items"]
    assert automaton.memory["rules"] == 5
    assert automaton.shortest_completion(state) == len('"x":0}]}}}')


def test_small_schemas_are_lowered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"properties": {"a": {"type": "object"}}}
    assert put_off(lower_schema(small))
    monkeypatch.setattr(grammars.json_schema, "LAZY_RULES_THRESHOLD", THRESHOLD)
    assert not put_off(lower_schema(small))


def test_what_the_caller_does_to_the_schema_afterwards_changes_nothing() -> None:
    schema = copy.deepcopy(LARGE_SCHEMA)
    lowered = lower_schema(schema)
    schema["properties"]["part_7"]["properties"]["name"]["type"] = "nonsense"
    schema["properties"]["part_7"]["required"].clear()
    automaton = compile_grammar(lowered.grammar, byte_vocabulary())
    assert not automaton.walk(automaton.start, list(b'{"part_7": {}'))[12:]
    assert len(automaton.walk(automaton.start, list(b'{"part_7": {"name": ""}}'))) == 24
    assert "nonsense" not in str(lowered.report.entries)


def test_an_object_in_two_places_is_two_schemas() -> None:
    """Python objects may be shared where JSON text never is; then nothing is put off."""
    shared: dict[str, Any] = {"type": "object", "properties": {"a": {"pattern": "(a)\\1"}}}
    assert copy_document({"properties": {"a": shared, "b": shared}}) is None
    with pytest.raises(UnsupportedConstraint):
        lower_schema({"properties": {"a": {"type": "object", "properties": {"b": shared}}, "c": shared}})
    assert not put_off(lower_schema({"properties": {"a": (one := {"type": "object"}), "b": one}}))


@pytest.mark.parametrize(
    "corner",
    [
        {"pattern": "(a)\\1"},
        {"pattern": "("},
        {"type": "string", "allOf": [{"pattern": "^[ab]*a[ab]{20}$"}, {"pattern": "^[ab]*b[ab]{20}$"}]},
        {"type": "string", "allOf": [{"pattern": "^[ab]*a$"}, {"pattern": "^[ab]*b$"}]},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"$ref": "#/nowhere"},
        {"$ref": "#/$defs/circle"},
        {"$ref": "#/$defs/endless"},
        {
            "type": "array",
            "items": {"type": "object", "maxProperties": 0},
            "uniqueItems": True,
            "minItems": 2,
        },
        {"type": "array", "minItems": 3, "maxItems": 2},
        {"enum": [{"a": 1}], "type": "array"},
        {"required": ["a"], "additionalProperties": False},
        {"multipleOf": 0.1234567891234567, "type": "integer"},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"$id": "http://elsewhere/", "properties": {"a": {"$ref": "#/$defs/circle"}}},
        {"minimum": 3, "exclusiveMaximum": 3, "type": "integer"},
        False,
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("reached", [False, True])
def test_an_error_in_a_lazy_part_is_raised_at_once(corner: Any, reached: bool) -> None:
    deep: dict[str, Any] = {"type": "object", "properties": {"corner": corner}}
    if reached:
        deep["required"] = ["corner"]
    schema = {
        "type": "object",
        "properties": {"far": {"type": "object", "properties": {"away": {"type": "array", "items": deep}}}},
        "$defs": {
            "circle": {"$ref": "#/$defs/circle"},
            "endless": {
                "type": "object",
                "properties": {"more": {"$ref": "#/$defs/endless"}},
                "required": ["more"],
            },
        },
    }
    check(schema, (b'{"far": {"away": [{}, {"corner": {', b'{"far": {"away": [{"corner": "a'))
    check(schema, unsupported="check")


SCALARS: list[Any] = [
    True, {}, {"description": "anything"}, {"type": "string"}, {"type": "integer"}, {"type": "null"}, {"type": "boolean"},
    {"type": ["null", "string"]}, {"type": "string", "minLength": 3}, {"type": "string", "maxLength": 0}, {"minLength": 2},
    {"type": "integer", "minimum": 10}, {"type": "integer", "maximum": -10}, {"type": "number", "exclusiveMinimum": 99},
    {"type": "number", "exclusiveMaximum": -9, "minimum": -12}, {"type": "number", "minimum": 0.5, "maximum": 0.75},
    {"type": "integer", "minimum": -1, "maximum": 1}, {"maximum": -1}, {"type": "integer", "maximum": 0},
    {"type": "integer", "minimum": 100, "maximum": 20}, {"type": "string", "format": "date"}, {"format": "uuid"},
    {"type": "string", "format": "no such format"}, {"type": "string", "pattern": "^a+$"}, {"enum": ["a", "bcd"]},
    {"enum": ["é\u0001\"", 12345]}, {"const": "\U0001f600"}, {"const": -17}, {"enum": [True, None]}, {"const": 1.5},
    {"type": "string", "enum": ["a", 1]}, {"type": "string", "enum": []}, {"const": {"a": [1]}}, False,
    {"type": "integer", "multipleOf": 7}, {"not": {"type": "string"}},
]  # fmt: skip
NAMES = ["a", "b", "long name", 'é"\n', ""]


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    counts = st.integers(0, 3)
    objects = st.fixed_dictionaries(
        {"type": st.sampled_from(["object", ["object", "null"], ["array", "object"]])},
        optional={
            "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
            "required": st.lists(st.sampled_from(NAMES), unique=True, max_size=3),
            "additionalProperties": inner,
        },
    )
    arrays = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "minItems": counts,
            "maxItems": counts,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
        },
    )
    ways = st.lists(inner, min_size=1, max_size=3)
    references = st.sampled_from(["#", "#/$defs/x", "#/$defs/y"]).map(lambda reference: {"$ref": reference})
    others = st.one_of(
        ways.map(lambda branches: {"anyOf": branches}),
        inner.map(lambda branch: {"allOf": [branch], "description": "one"}),
        ways.map(lambda branches: {"oneOf": branches}),
        st.tuples(references, inner).map(lambda pair: {**pair[0], "properties": {"a": pair[1]}}),
    )
    return st.one_of(objects, objects, arrays, references, others)


SCHEMAS = st.recursive(st.sampled_from(SCALARS), _schemas, max_leaves=8)
DOCUMENTS = st.builds(
    lambda root, x, y: json.loads(
        json.dumps({**(root if isinstance(root, dict) else {"type": "object"}), "$defs": {"x": x, "y": y}})
    ),
    SCHEMAS,
    SCHEMAS,
    SCHEMAS,
)


@given(
    DOCUMENTS,
    st.sampled_from([{}, {"whitespace": "none"}, {"whitespace": "indent"}, {"property_order": "any"},
                     {"draft": "7"}, {"separators": (", ", " : ")}, {"additional_properties_default": False}]),
)  # fmt: skip
def test_lengths_and_masks_are_those_of_the_whole(schema: Any, options: dict[str, Any]) -> None:
    check(schema, (b'{"a": {"a": [{"b": 1, ', b'[{"a":[[], {"a": {', b'{\n "a": [\n  {'), **options)


def test_most_keywords_of_objects_are_plain() -> None:
    """Or the tests above would test nothing."""
    schema = {
        "properties": {
            f"p{i}": {
                "type": "object",
                "properties": {"a": scalar, "b": {"anyOf": [scalar, {"type": "array", "items": scalar}]}},
            }
            for i, scalar in enumerate(SCALARS)
        }
    }
    lowered = lower_schema(json.loads(json.dumps(schema)), unsupported="check")
    waiting = [name for name in put_off(lowered) if name.count("/") == 2]
    assert len(waiting) == len(SCALARS)


def test_the_analysis_follows_references_as_the_specification_does() -> None:
    """Escapes in pointers, indices, and what an identifier hides."""
    document = {
        "properties": {
            "slash": {"$ref": "#/$defs/a~1b~0c"},
            "index": {"$ref": "#/list/1"},
            "percent": {"$ref": "#/$defs/p%25"},
            "hidden": {"$ref": "#/$defs/other/properties/a"},
        },
        "list": [{}, {"type": "object"}],
        "$defs": {
            "a/b~c": {"type": "object"},
            "p%": {"type": "object"},
            "other": {"$id": "http://elsewhere/", "properties": {"a": {"type": "object"}}},
        },
    }
    analysis = DeferralAnalysis(
        document, SCHEMA_DIALECTS["2020-12"].native_keywords, (1, 1, 2, 1, 1, 2, 1, 1)
    )
    led = {
        name: analysis.deferrable_reference(value, f"#/properties/{name}")
        for name, value in document["properties"].items()
    }
    assert led == {"slash": "#/$defs/a~1b~0c", "index": "#/list/1", "percent": None, "hidden": None}
    check(document, (b'{"slash": {', b'{"index": {', b'{"percent": {"', b'{"hidden": {"'))


def test_the_stub_is_that_of_the_build() -> None:
    built = Path(_core.__file__).with_name("_core.pyi")
    committed = ROOT / "grammars" / "_core.pyi"
    assert committed.read_text() == built.read_text()


@pytest.mark.skipif(archive() is None, reason="CONSTRAINED_DATA is not set")
def test_the_official_suite_is_read_alike() -> None:
    path = archive()
    assert path is not None
    registry = remotes(path)
    seen: set[str] = set()
    waited = 0
    for case in itertools.islice(suite(path), 0, None, 4):
        key = json.dumps([case.draft, case.schema])
        if key not in seen:
            seen.add(key)
            waited += check(case.schema, draft=case.draft, registry=registry)
    assert waited > 50


@needs_data
@pytest.mark.slow
def test_real_schemas_are_read_alike() -> None:
    waited = 0
    with gzip.open(Path(str(_DATA)) / "maskbench-dev.jsonl.gz", "rt") as lines:
        for line in itertools.islice(lines, 0, None, 13):
            row = json.loads(line)
            texts = (json.dumps(test["data"]).encode() for test in row["tests"][:3])
            waited += check(row["schema"], tuple(texts), every=7)
    assert waited > 1000
