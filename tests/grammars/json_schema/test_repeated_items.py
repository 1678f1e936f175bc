"""`not` around `uniqueItems`: arrays with two equal items, judged by `jsonschema`, along random texts and over all short arrays."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from constrained.automaton import DEAD, compile_grammar
from constrained.grammars.errors import UnsatisfiableConstraint, UnsupportedConstraint
from constrained.grammars.json_schema import SchemaOptions, lower_schema
from constrained.grammars.json_schema.emit.repeated_items import MAX_COUNTED, MAX_VALUES
from tests.grammars.json_schema.official_suite import VOCABULARY
from tests.support.examples import examples
from tests.support.json_walks import is_distinct, walk
from tests.support.reading import accepts

EQUAL: dict[str, Any] = {"not": {"uniqueItems": True}}
FEW: dict[str, dict[str, Any]] = {
    "booleans": {"items": {"type": "boolean"}},
    "listed values of all types": {"items": {"enum": [1, True, "a", "b", None, {"x": 1}, [1], [1, 2]]}},
    "few integers, many of them": {"items": {"type": "integer", "minimum": 1, "maximum": 3}, "minItems": 4},
    "at most three": {"items": {"enum": [1, "a", None]}, "maxItems": 3},
    "each with its own values": {
        "prefixItems": [{"enum": [1, 2]}, {"enum": [2, 3]}, {"enum": [1, 3]}],
        "items": False,
    },
    "with a counted value": {"items": {"enum": [1, 2, "a"]}, "contains": {"const": 2}, "maxContains": 1},
    "two lists that overlap": {"items": {"anyOf": [{"enum": [1, "a"]}, {"enum": ["a", "b"]}]}},
}
COMPARED: dict[str, dict[str, Any]] = {
    "strings": {"items": {"type": "string"}},
    "numbers": {"items": {"type": "number"}},
    "any values": {},
    "lists": {"items": {"type": "array", "items": {"type": ["integer", "string"]}}},
    "objects": {"items": {"type": "object", "additionalProperties": {"type": ["integer", "string"]}}},
    "five and more": {"items": {"type": ["string", "integer"]}, "minItems": 5},
    "long strings": {"items": {"type": "string", "minLength": 1, "pattern": "^(a|b|ab)+$"}, "minItems": 2},
    "others at first": {"prefixItems": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
    "others at first, and several": {
        "prefixItems": [{"type": ["string", "integer"]}, {"type": "integer"}],
        "items": {"type": ["integer", "boolean"]},
        "minItems": 3,
    },
    "equal items of equal items": {"items": {"type": "array", "items": {"type": "integer"}, **EQUAL}},
    "equal items of different ones": {"items": {"type": "array", "uniqueItems": True}},
}
TEXTS = [
    *(
        '"a"',
        '"\\u0061"',
        '"ab"',
        '"b"',
        "1",
        "1.0",
        "10e-1",
        "2",
        "-0",
        "0",
        "true",
        "null",
        "[]",
        "{}",
        "[1, 1]",
    ),
    *('[ "a" ]', '["a"]', '{"a": 1, "b": 2}', '{"b": 2, "a": 1}', '{"a": 1}', "[1,1 ]", "[[], []]", "[2, 1]"),
]  # fmt: skip
"""Of items, some of equal values."""
ITEMS = {
    **{name: ["1", "2", "3", "true", "null", '"a"', '"b"', "[1]", "[1, 2]"] for name in FEW},
    "booleans": ["true", "false"],
    "few integers, many of them": ["1", "2", "3", "4"],
    "five and more": ['"a"', '"\\u0061"', "1", "2", '"b"', "-1", '"c"'],
    "long strings": ['"a"', '"ab"', '"ba"', '"aab"', '"c"'],
}
"""Texts of items that make arrays of a schema likely."""
ARRAYS = {
    "others at first": [
        f'["a", 1, null{rest}]' for rest in ("", ', "a"', ", 2", ", 1", ", null", ", 2, 2", ", [], 3, []")
    ],
    "others at first, and several": [
        f"[{rest}]" for rest in ("1, 1, 2", "1, 2", '"a", 1, 1', '"a", 1, true, true', "2, 2", "1, 2, 3")
    ],
    "with a counted value": [f"[{rest}]" for rest in ("1, 2, 1", "2, 2, 1", '"a", "a", 2', "1, 1")],
}


def texts(rng: random.Random, some: list[str]) -> list[str]:
    """Arrays of few items: all of two, and random ones of few of the texts."""
    found = [f"[{first}, {second}]" for first, second in itertools.product(TEXTS, repeat=2)]
    for _ in range(examples(1000)):
        few = rng.sample(some, min(len(some), 4))
        found.append(f"[{', '.join(rng.choice(few) for _ in range(rng.randrange(7)))}]")
    return ["[]", "1", "{}", *found]


@pytest.mark.parametrize("name", [*FEW, *COMPARED])
def test_two_items_are_equal(name: str) -> None:
    schema = {"type": "array", **FEW.get(name, {}), **COMPARED.get(name, {})}
    rng = random.Random(name)
    judge = Draft202012Validator({**schema, **EQUAL})
    # `jsonschema` compares an exponent's float like any number; whether a text of a number is written at all the plain schema says
    plain = compile_grammar(lower_schema(schema, SchemaOptions(property_order="any")).grammar, VOCABULARY)
    automaton = compile_grammar(
        lower_schema({**schema, **EQUAL}, SchemaOptions(property_order="any")).grammar, VOCABULARY
    )
    taken = 0
    for text in (*texts(rng, ITEMS.get(name, TEXTS)), *ARRAYS.get(name, ())):
        written = accepts(plain, text)
        valid = written and judge.is_valid(json.loads(text))
        assert accepts(automaton, text) == valid, text
        taken += valid
    assert taken >= 2
    for _ in range(examples(40)):
        text = walk(automaton, rng, rng.randrange(60))
        assert judge.is_valid(json.loads(text)) or not is_distinct(schema, text), text


@pytest.mark.parametrize("name", COMPARED)
def test_the_shortest_way_to_the_end_is_one(name: str) -> None:
    schema = {"type": "array", **COMPARED[name], **EQUAL}
    automaton = compile_grammar(lower_schema(schema).grammar, VOCABULARY)
    rng, row = random.Random(name), automaton.new_mask()
    for _ in range(examples(20)):
        state, free = automaton.start, rng.randrange(30)
        while not automaton.accepts(state):
            left = automaton.shortest_completion(state)
            automaton.fill_mask_within(state, row, left + max(0, free))
            allowed = [t for t in range(len(VOCABULARY.tokens)) if row[t // 32] >> (t % 32) & 1]
            assert allowed
            after = [automaton.next(state, token) for token in allowed]
            assert DEAD not in after
            assert min(map(automaton.shortest_completion, after)) < left
            state = rng.choice(after) if free > 0 else min(after, key=automaton.shortest_completion)
            free -= 1


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"uniqueItems": True, "items": {"type": "integer"}}},
        {"not": {"uniqueItems": True, "minItems": 2}},
        {"if": {"uniqueItems": True}, "then": {"maxItems": 2}, "else": {"minItems": 3}},
        {"oneOf": [{"uniqueItems": True}, {"minItems": 3}]},
        {"not": {"not": {"uniqueItems": True}}},
        {"not": {"anyOf": [{"uniqueItems": True}, {"minItems": 4}]}, "items": {"type": "boolean"}},
        {"anyOf": [EQUAL, {"items": {"type": "null"}}], "uniqueItems": True},
        {"type": "object", "additionalProperties": {"type": "array", **EQUAL}},
        {"type": "array", "uniqueItems": True, "items": {"type": "array", **EQUAL}},
    ],
    ids=str,
)
def test_other_keywords_stand_beside_it(schema: dict[str, Any]) -> None:
    rng = random.Random(1)
    judge = Draft202012Validator(schema)
    automaton = compile_grammar(lower_schema(schema, SchemaOptions(property_order="any")).grammar, VOCABULARY)
    plain = compile_grammar(lower_schema(True, SchemaOptions(property_order="any")).grammar, VOCABULARY)
    for text in (
        *texts(rng, TEXTS),
        '{"x": [1, 1.0]}',
        '{"x": [1, 2]}',
        "[[1, 1], [2, 2]]",
        "[[1, 1], [1, 1]]",
    ):
        assert accepts(automaton, text) == (accepts(plain, text) and judge.is_valid(json.loads(text))), text
    for _ in range(examples(40)):
        text = walk(automaton, rng, rng.randrange(60))
        assert judge.is_valid(json.loads(text)) or not is_distinct(schema, text), text


@pytest.mark.parametrize(
    "schema",
    [
        {"maxItems": 1},
        {"uniqueItems": True},
        {"items": False},
        {"prefixItems": [{"const": 1}, {"const": 2}], "items": False},
        {"prefixItems": [True], "items": False},
    ],
    ids=str,
)
def test_no_two_items_can_be_equal(schema: dict[str, Any]) -> None:
    with pytest.raises(UnsatisfiableConstraint):
        lower_schema({"type": "array", **schema, **EQUAL})


@pytest.mark.parametrize(
    "schema",
    [
        {"maxItems": 3},
        {"contains": {"type": "string"}},
        {"minItems": MAX_COUNTED + 1},
        {"prefixItems": [True, True], "items": False},
        {"items": {"type": "integer", "minimum": 0, "maximum": MAX_VALUES}, "maxItems": 9},
        {"items": {"type": "string", "pattern": "^(x{30}|y{30}){3}z$", "minLength": 91}},
    ],
    ids=str,
)
def test_what_is_refused_names_the_keyword(schema: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedConstraint, match=r"#/not/uniqueItems.*is not supported under `not`"):
        lower_schema({"type": "array", **schema, **EQUAL})
