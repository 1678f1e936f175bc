"""The texts of a lowered schema are the JSON of its instances: cases as data, `jsonschema` and the naive judge."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.automaton import DEAD, compile_grammar
from constrained.grammars import ir
from constrained.grammars.errors import (
    ConstraintTooLarge,
    InvalidConstraint,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)
from constrained.grammars.json_schema import SchemaOptions, lower_schema
from constrained.grammars.json_schema.resolve.disjoint import EmptinessProver
from constrained.grammars.json_schema.resolve.expand import DnfExpansion
from constrained.grammars.json_schema.resolve.validate import InstanceValidator
from constrained.grammars.json_schema.source.dialects import select_dialect
from constrained.grammars.json_schema.source.document import SchemaDocument
from constrained.grammars.json_schema.text.numbers import (
    ANY_NUMBER,
    Bounds,
    decimal,
    decimal_spellings,
    exclude_numbers,
    integers,
    numbers_between,
)
from constrained.grammars.json_schema.text.patterns import FORMATS
from constrained.grammars.json_schema.text.strings import strings_excluding
from constrained.vocabulary import Vocabulary
from tests.support import paths
from tests.support.examples import examples
from tests.support.judge import ReferenceRecognizer
from tests.support.matching import matches

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

VOCABULARY = Vocabulary.from_bytes([*(bytes([byte]) for byte in range(256)), b""], [256])
CASES = paths.CASES / "json_schema"
VALIDATORS = {
    "4": jsonschema.Draft4Validator,
    "6": jsonschema.Draft6Validator,
    "7": jsonschema.Draft7Validator,
    "2019-09": jsonschema.Draft201909Validator,
    "2020-12": jsonschema.Draft202012Validator,
}
ERRORS = {
    "invalid": InvalidConstraint,
    "unsupported": UnsupportedConstraint,
    "unsatisfiable": UnsatisfiableConstraint,
}


def cases(refused: bool) -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.toml")):
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["case"]:
            if ("error" in row) == refused:
                found.append(pytest.param(row, id=f"{path.stem} {row['schema']}"[:70]))
    return found


def validator(schema: Any, draft: str | None = None) -> Any:
    kind = VALIDATORS[draft or "2020-12"]
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


class Recogniser:
    """The automaton over single bytes, for what is too much for the naive judge: entries that must differ, great counts."""

    def __init__(self, grammar: ir.Grammar) -> None:
        tokens = [*(bytes((byte,)) for byte in range(256)), b""]
        self.automaton = compile_grammar(grammar, Vocabulary.from_bytes(tokens, [256]))

    def accepts(self, text: bytes) -> bool:
        state = self.automaton.start
        for byte in text:
            if state != DEAD:
                state = self.automaton.next(state, byte)
        return state != DEAD and self.automaton.accepts(state)


def recogniser(grammar: ir.Grammar) -> ReferenceRecognizer | Recogniser:
    try:
        return ReferenceRecognizer(grammar)
    except (UnsupportedConstraint, ConstraintTooLarge):
        return Recogniser(grammar)


# ---------------------------------------------------------------- cases


@pytest.mark.parametrize("case", cases(refused=False))
def test_a_case_accepts_its_instances_and_no_others(case: dict[str, Any]) -> None:
    schema, draft = json.loads(case["schema"]), case.get("draft")
    options = {name: case[name] for name in ("whitespace", "property_order") if name in case}
    judge = recogniser(lower_schema(schema, SchemaOptions(draft=draft, **options)).grammar)
    valid = validator(schema, draft).is_valid
    for text in case["accepted"]:
        assert judge.accepts(text.encode()), text
        assert valid(json.loads(text)), f"jsonschema: {text}"
    for text in case.get("beyond", ()):
        assert judge.accepts(text.encode()), text
    for text in case.get("rejected", ()):
        assert not judge.accepts(text.encode()), text
        assert not valid(json.loads(text)), f"jsonschema: {text}"
    for text in case.get("unwritten", ()):
        assert not judge.accepts(text.encode()), text


@pytest.mark.parametrize("case", cases(refused=False))
def test_the_small_validator_agrees(case: dict[str, Any]) -> None:
    schema = json.loads(case["schema"])
    document = SchemaDocument(schema, select_dialect(schema, case.get("draft")))
    admits = InstanceValidator(DnfExpansion(document, EmptinessProver))
    for text in case["accepted"]:
        assert admits.satisfies_all((document.root,), json.loads(text)), text
    for text in case.get("rejected", ()):
        assert not admits.satisfies_all((document.root,), json.loads(text)), text


@pytest.mark.parametrize("case", cases(refused=True))
def test_a_case_is_refused_with_its_places(case: dict[str, Any]) -> None:
    with pytest.raises(ERRORS[case["error"]]) as caught:
        lower_schema(json.loads(case["schema"]), SchemaOptions(draft=case.get("draft")))
    places = [problem.place for problem in caught.value.problems]
    if "places" in case:
        assert sorted(places) == sorted(case["places"])
    assert case.get("reason", "") in str(caught.value)
    assert "->" in str(caught.value)


# ---------------------------------------------------------------- the report


def test_the_report_lists_every_keyword_that_a_value_can_meet() -> None:
    schema = {
        "title": "t",
        "type": "object",
        "properties": {"a": {"type": "string", "format": "odd", "nullable": True}},
        "dependencies": {},
        "$defs": {"unused": {"type": "string"}},
    }
    entries = {entry.pointer: entry for entry in lower_schema(schema).report}
    assert entries["#/type"].status == "enforced"
    assert entries["#/properties/a/type"].status == "enforced"
    assert entries["#/properties/a/format"].note == "unknown format 'odd'"
    assert entries["#/properties/a/nullable"].note == "unknown to draft 2020-12"
    assert "dependentRequired" in entries["#/dependencies"].note
    assert entries["#/title"].status == "annotation"
    assert not any(pointer.startswith("#/$defs/") for pointer in entries)


# ---------------------------------------------------------------- parts, against simple judges

_numbers = st.one_of(
    st.integers(-1200, 1200),
    st.builds(lambda n, p: n / 10**p, st.integers(-20000, 20000), st.integers(1, 4)),
    st.sampled_from([0, 0.5, 1e-7, 9.999, 10, 99.5]),
)
_limits = st.one_of(st.none(), _numbers.map(decimal))


@given(_limits, st.booleans(), _limits, st.booleans(), st.lists(_numbers, min_size=12, max_size=12))
@settings(max_examples=examples(80))
def test_number_ranges_are_exact(
    low: Any, low_strict: bool, high: Any, high_strict: bool, values: Any
) -> None:
    bounds = Bounds(low, low_strict, high, high_strict)
    if bounds.empty():
        return
    whole, every = integers(bounds), numbers_between(bounds)
    edges = [limit for limit in (low, high) if limit is not None]
    for value in [*map(decimal, values), *edges]:
        text = format(value, "f")
        for sign in ("", "-") if value == 0 else ("",):
            for spelled in (text, text + ("0" if "." in text else ".0")):
                assert matches(every, sign + spelled) == bounds.contains_number(value), spelled
            assert matches(whole, sign + text) == ("." not in text and bounds.contains_number(value)), text


@given(_numbers.map(decimal), st.lists(_numbers.map(decimal), min_size=8, max_size=8))
@settings(max_examples=examples(60))
def test_the_texts_of_one_number_and_of_all_others(number: Any, others: Any) -> None:
    same = decimal_spellings(number)
    rest = exclude_numbers(ANY_NUMBER, [same])
    for other in [number, *others]:
        text = format(other, "f")
        for spelled in (text, text + ("00" if "." in text else ".0")):
            assert matches(same, spelled) == (other == number), spelled
            assert matches(rest, spelled) == (other != number), spelled
    if number == 0:
        assert all(matches(same, text) for text in ("-0", "-0.0"))
    assert not any(matches(language, "1e2") for language in (same, rest))


_keys = st.text('abé"\\/\n😀', max_size=4)


@given(st.sets(_keys, max_size=8), st.lists(_keys, min_size=4, max_size=4))
@settings(max_examples=examples(50))
def test_other_keys_are_distinguished_in_every_spelling(names: set[str], keys: list[str]) -> None:
    regex = strings_excluding(names)
    for key in [*names, *keys]:
        units = key.encode("utf-16-be")
        escaped = "".join(f"\\u{units[i]:02X}{units[i + 1]:02x}" for i in range(0, len(units), 2))
        for text in (json.dumps(key), json.dumps(key, ensure_ascii=False), f'"{escaped}"'):
            assert matches(regex, text) == (key not in names), text


_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
ANY_VALUE = ReferenceRecognizer(lower_schema(True).grammar)


@given(_values, st.sampled_from([None, 1, 2, 4, 8, "\t"]), st.booleans())
@settings(max_examples=examples(40))
def test_whatever_python_writes_is_json(value: Any, indent: Any, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert ANY_VALUE.accepts(text.encode())


@given(_values)
@settings(max_examples=examples(40))
def test_a_constant_is_written_as_itself(value: Any) -> None:
    judge = ReferenceRecognizer(lower_schema({"const": value}).grammar)
    assert judge.accepts(json.dumps(value).encode())
    text = judge.sample(random.Random(0))
    assert json.loads(text) == value


# ---------------------------------------------------------------- size and depth


@pytest.mark.parametrize("keyword", ["minItems", "minProperties"])
def test_too_many_values_that_must_differ_are_refused_by_name(keyword: str) -> None:
    schema = {"items": {"type": "string"}, "uniqueItems": True, keyword: 10**9}
    with pytest.raises(ConstraintTooLarge) as caught:
        lower_schema({"properties": {"a": schema}})
    assert [problem.place for problem in caught.value.problems] == [f"#/properties/a/{keyword}"]


def nested(depth: int, around: Any) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(depth):
        schema = around(schema)
    return schema


@pytest.mark.ci
@pytest.mark.parametrize(
    "around",
    [
        lambda inner: {"type": "array", "items": inner},
        lambda inner: {"type": "object", "properties": {"a": inner}, "required": ["a"]},
        lambda inner: {"anyOf": [inner, {"type": "null"}]},
        lambda inner: {"allOf": [inner]},
    ],
    ids=["arrays", "objects", "anyOf", "allOf"],
)
def test_deep_schemas_cost_no_recursion(around: Any) -> None:
    lower_schema(nested(1200, around))


def test_thousands_of_properties_are_linear() -> None:
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(3000)}}
    grammar = lower_schema(schema).grammar
    seen: set[int] = set()
    stack: list[Any] = list(grammar.rules.values())
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            stack.extend(node.parts if isinstance(node, (ir.Sequence, ir.Choice)) else ())
    assert len(seen) < 12 * 3000


def test_too_many_combinations_name_their_place() -> None:
    choices = [{"anyOf": [{"minimum": i}, {"maximum": -i}]} for i in range(20)]
    with pytest.raises(ConstraintTooLarge, match="#/properties/a"):
        lower_schema({"properties": {"a": {"allOf": choices}}})


def test_a_count_beyond_any_text_is_refused() -> None:
    lower_schema({"type": "array", "minItems": 10**9})
    with pytest.raises(ConstraintTooLarge):
        lower_schema({"type": "array", "minItems": 10**12})


def test_a_deep_listed_value_is_refused() -> None:
    value: Any = 1
    for _ in range(5000):
        value = [value]
    with pytest.raises(ConstraintTooLarge, match="#"):
        lower_schema({"enum": [value]})


# ---------------------------------------------------------------- real schemas

_DATA = os.environ.get("CONSTRAINED_DATA")


@pytest.mark.skipif(not _DATA, reason="CONSTRAINED_DATA is not set")
def test_real_instances_are_accepted_exactly_when_valid() -> None:
    """A valid instance may be refused only for the order of its keys; an invalid one never passes."""
    path = Path(_DATA or "") / "maskbench-dev.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for i, line in enumerate(lines) if i % 60 == 7]
    judged = 0
    for row in rows:
        if not row["tests"] or len(json.dumps(row["schema"])) > 4000:
            continue
        try:
            grammar = lower_schema(row["schema"]).grammar
        except UnsupportedConstraint:
            continue
        judge = recogniser(grammar)
        document = SchemaDocument(row["schema"], select_dialect(row["schema"]))
        admits = InstanceValidator(DnfExpansion(document, EmptinessProver))
        for test in row["tests"]:
            judged += 1
            assert admits.satisfies_all((document.root,), test["data"]) == test["valid"], row["id"]
            text = json.dumps(test["data"]).encode()
            if len(text) < 400:
                accepted = judge.accepts(text)
                assert test["valid"] or not accepted, row["id"]
                if test["valid"] and not accepted:
                    assert b"{" in text, row["id"]  # only the order of keys can be at fault
    assert judged > 100


def test_what_cannot_be_enforced_is_listed_in_the_order_of_the_document() -> None:
    schema = {
        "properties": {"b": {"pattern": r"(b)\1"}, "a": {"$ref": "#/$defs/y"}},
        "$defs": {"y": {"pattern": r"(y)\1"}},
        "allOf": [{"properties": {"b": {"pattern": r"(c)\1"}}}, {"properties": {"a": {"pattern": r"(a)\1"}}}],
    }
    with pytest.raises(UnsupportedConstraint) as caught:
        lower_schema(schema)
    assert [problem.place for problem in caught.value.problems] == [
        "#/properties/b/pattern",
        "#/$defs/y/pattern",
        "#/allOf/0/properties/b/pattern",
        "#/allOf/1/properties/a/pattern",
    ]


def test_what_takes_too_long_to_decide_is_named() -> None:
    both = [{"pattern": "^[ab]*a[ab]{20}$"}, {"pattern": "^[ab]*b[ab]{20}$"}]
    schema = {"properties": {"a": {"pattern": "^a+$"}, "z": {"items": {"type": "string", "allOf": both}}}}
    with pytest.raises(ConstraintTooLarge, match="empty") as caught:
        compile_grammar(lower_schema(schema).grammar, VOCABULARY)
    assert [problem.place for problem in caught.value.problems] == ["#/properties/z"]


@pytest.mark.parametrize("keyword", ["not", "oneOf", "if", "propertyNames"])
def test_a_listed_value_that_may_have_a_format_is_not_denied(keyword: str) -> None:
    """Whether a regex is valid is not regular: some texts are neither surely so nor surely not."""
    found = FORMATS["regex"]
    text = "(" * 40 + ")" * 40
    assert found.superset is not None
    assert matches(found.superset(), text)
    assert not matches(found.build(), text)
    statuses = {"format": "regex"}
    schema: dict[str, object] = {
        "not": {"enum": [text, "b"], "not": statuses},
        "oneOf": {"enum": [text, "b"], "oneOf": [statuses, {"const": text}]},
        "if": {"enum": [text, "b"], "if": statuses, "else": True, "then": {"const": "b"}},
        "propertyNames": {"enum": [{text: 1}, {}], "not": {"propertyNames": statuses}},
    }[keyword]
    try:
        automaton = compile_grammar(lower_schema(schema).grammar, VOCABULARY)
    except UnsatisfiableConstraint:
        return
    for value in (text, {text: 1}):
        state = automaton.start
        for byte in json.dumps(value).encode():
            state = automaton.next(state, byte)
        assert not automaton.accepts(state)
