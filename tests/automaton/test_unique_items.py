"""Arrays whose items differ as JSON values, or of which two are equal: masks, limits and texts against `jsonschema` and against single tokens."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import jsonschema
import pytest

from constrained import json_schema
from constrained.automaton import DEAD, Automaton, UniqueAutomaton, compile
from constrained.automaton.bitmask import unpack_ids
from constrained.errors import UnsupportedConstraint
from constrained.vocabulary import Vocabulary
from tests.support.finite import byte_vocabulary

PIECES = [
    '"a"', '":{', "},{", "}},{", ',{"a":', "true", "false", "[{", "}]", "}],", "[]", "{}", "{},{}", '"b":1',
    "1.0", "\\u0061", "ab", "],[", "]]", "[[]", "}}", '":{"', "[[],[]", ',"a":1}', "1,",
]  # fmt: skip
VOCABULARY = Vocabulary.from_bytes(
    [*(bytes((byte,)) for byte in range(256)), *map(str.encode, PIECES), b""], [256 + len(PIECES)]
)


def array(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


def members(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


SCHEMAS: dict[str, dict[str, Any]] = {
    "names around the items": {
        "type": "object",
        "properties": {"ids": array({"type": "object"}, maxItems=2), "n": {"enum": [1, 2]}},
        "required": ["n"],
    },
    "few objects": array({**members(a={"type": "boolean"}), "required": ["a"]}),
    "members in two orders": array(members(a={"enum": [1, 2]}, b={"const": 1}), maxItems=4),
    "any object": array({"type": "object"}),
    "anything": array({}),
    "few arrays": array({"type": "array", "items": {"type": "boolean"}, "maxItems": 1}),
    "within each other": array(array(members(a={"type": "boolean"}))),
    "in a member": members(x=array({"type": "object", "properties": {"a": {"type": "number"}}})),
    "first items": {
        "type": "array",
        "prefixItems": [{"type": "boolean"}] * 2,
        "items": False,
        "uniqueItems": True,
    },
    "one contained": array({"type": "object", "maxProperties": 1}, contains=members(a={"const": 1})),
    "one contained of few": array(
        {"enum": [1, 2, [1], [1.0, 1]]}, contains={"type": "array"}, minItems=1, maxContains=1
    ),
    "two contained": array(
        {"type": ["object", "boolean"]},
        allOf=[{"contains": {"required": ["a"]}}, {"contains": {"required": ["b"]}}],
    ),
    "three of four": array(
        {**members(a={"type": "boolean"}, b={"type": "boolean"}), "required": ["a", "b"]}, minItems=3
    ),
    "all of two": array({**members(a={"type": "boolean"}), "required": ["a"]}, minItems=2),
    "two of two each": array(array(members(a={"type": "boolean"}), minItems=2), minItems=2),
    "three in a member": {
        **members(n={"enum": [1, 2]}, x=array(members(a={"enum": [1, "longer", {}]}), minItems=3)),
        "required": ["x"],
    },
    "first items that may be equal": {
        "type": "array",
        "prefixItems": [members(a={"const": 1}), members(a={"enum": [1, 2]}), {"type": "boolean"}],
        "items": members(b={"enum": [1, 2, "longer"]}),
        "minItems": 5,
        "uniqueItems": True,
    },
    "two of a kind": array(
        {"anyOf": [members(a={"type": "boolean"}), {"type": "boolean"}]},
        contains={"type": "object", "required": ["a"]},
        minContains=2,
        minItems=3,
    ),
    "two equal items": {"type": "array", "not": {"uniqueItems": True}},
    "two equal objects of three": {
        "type": "array",
        "items": {"type": "object", "properties": {"a": {"type": "number"}}},
        "minItems": 3,
        "not": {"uniqueItems": True},
    },
    "beside an array without": {
        "anyOf": [
            array({"type": "object", "maxProperties": 1}, maxItems=3),
            {"type": "array", "items": {"type": "object", "maxProperties": 0}, "minItems": 4},
        ]
    },
}


def automaton_of(schema: dict[str, Any], order: str = "any") -> Automaton:
    automaton = compile(json_schema(schema, property_order=order), VOCABULARY)  # type: ignore[arg-type]
    assert isinstance(automaton, UniqueAutomaton)
    return automaton


def after(automaton: Automaton, text: str) -> int:
    state = automaton.start
    for byte in text.encode():
        state = automaton.next(state, byte)
    return state


def accepts(automaton: Automaton, text: str) -> bool:
    state = after(automaton, text)
    return state != DEAD and automaton.accepts(state)


def mask(automaton: Automaton, state: int, budget: int | None = None) -> set[int]:
    row = automaton.new_mask()
    if budget is None:
        automaton.fill_mask(state, row)
    else:
        automaton.fill_mask_within(state, row, budget)
    return set(unpack_ids(row).tolist())


def fitting(automaton: Automaton, state: int, budget: int) -> set[int]:
    """What a mask within a budget should have, from every state that can follow."""
    after = {token: automaton.next(state, token) for token in range(VOCABULARY.size)}
    ends = set(VOCABULARY.eos_ids)
    return {
        token
        for token, reached in after.items()
        if reached != DEAD and (token in ends or automaton.shortest_completion(reached) < budget)
    }


@pytest.mark.parametrize("order", ["any", "schema"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_every_mask_holds_the_tokens_that_can_be_completed_and_every_text_is_valid(
    name: str, order: str
) -> None:
    automaton, rng = automaton_of(SCHEMAS[name], order), random.Random(1)
    judge = jsonschema.Draft202012Validator(SCHEMAS[name])
    for _ in range(3):
        state, text, free = automaton.start, b"", rng.randrange(10, 80)
        while True:
            allowed = mask(automaton, state)
            assert allowed
            assert allowed == {t for t in range(VOCABULARY.size) if automaton.next(state, t) != DEAD}
            left = automaton.shortest_completion(state)
            assert automaton.accepts(state) == (left == 0)
            if len(text) % 4 == 0:
                for budget in {left, left + 2} - {0}:
                    assert mask(automaton, state, budget) == fitting(automaton, state, budget)
            if len(text) > free:
                allowed = mask(automaton, state, left + 1)
            signs = [t for t in sorted(allowed) if (t < 256 and chr(t) in '{}[],:"1tf') or t > 255]
            token = rng.choice(signs or sorted(allowed))
            if token in VOCABULARY.eos_ids:
                break
            state, text = automaton.next(state, token), text + VOCABULARY.tokens[token]
        assert judge.is_valid(json.loads(text)), text


VALUES = [
    "1", "1.0", '{"a":1}', '{"a": 1.0}', '{"a":1,"b":[]}', '{"b":[],"a":1}', "[1]", "[ 10e-1 ]", "true",
    '"1"', '["\\u0031"]', '["1"]', "{}",
]  # fmt: skip


def test_items_are_compared_as_the_specification_says() -> None:
    schema = array({})
    automaton, judge = automaton_of(schema), jsonschema.Draft202012Validator(schema)
    for items in itertools.product(VALUES, repeat=2):
        text = f"[null, {', '.join(items)}]"
        assert accepts(automaton, text) == judge.is_valid(json.loads(text)), text


@pytest.mark.parametrize(
    "items",
    [
        {"type": "object"},
        {},
        members(x={}),
        {"type": "object", "patternProperties": {"^a": {"type": "integer"}}},
        {"type": "object", "not": {"required": ["b"]}},
        {"$ref": "#/$defs/one"},
    ],
    ids=["any object", "anything", "in a member", "names by a pattern", "negated", "by reference"],
)
def test_no_name_comes_twice_where_items_are_compared(items: dict[str, Any]) -> None:
    """Its last member would count, so that an item which differs could become equal to another one again."""
    schema = {
        **array(items),
        "$defs": {"one": {"type": "object", "additionalProperties": {"type": "integer"}}},
    }
    automaton = automaton_of(schema, "schema")
    begin, end = ('{"x":', "}") if "properties" in items else ("", "")
    first = begin + '{"a":1}' + end
    assert accepts(automaton, f'[{first},{begin}{{"a":2,"ab":1}}{end}]')
    assert not accepts(automaton, f'[{first},{begin}{{"a":2,"a":1}}{end}]')
    assert after(automaton, f'[{first},{begin}{{"a":2,"a"') == DEAD


def test_an_item_begins_only_if_one_is_left() -> None:
    automaton = automaton_of(SCHEMAS["few objects"])
    assert accepts(automaton, '[{"a":true},{"a":false}]')
    both = after(automaton, '[{"a":true},{"a":false}')
    assert automaton.next(both, ord(",")) == DEAD
    assert automaton.next(both, ord("]")) != DEAD
    second = after(automaton, '[{"a":true},{"a":')
    assert automaton.next(second, ord("t")) == DEAD
    assert automaton.forced(automaton.next(second, ord("f"))) == b"alse"


CONTAINED: list[dict[str, Any]] = [
    {"contains": {"type": "object"}},
    {"contains": {"required": ["a"]}, "maxContains": 1},
    {"contains": {"type": "number"}, "minContains": 0, "maxContains": 1},
    {"not": {"prefixItems": [{"type": "object"}]}},
    {"not": {"prefixItems": [{"type": "array"}, {"type": "array"}]}},
    {
        "contains": {"type": "object", "required": ["b"]},
        "minItems": 1,
        "items": {"type": ["object", "array"]},
    },
]


REQUIRED: list[dict[str, Any]] = [
    {"minItems": 2},
    {"minItems": 3, "items": {"type": ["object", "array"]}},
    {"minItems": 2, "contains": {"type": "object"}},
    {"minContains": 2, "contains": {"type": "object"}},
    {"minContains": 2, "maxContains": 2, "contains": {"type": "object"}, "minItems": 3},
    {"allOf": [{"contains": {"type": "object"}, "minContains": 2}, {"contains": {"type": "array"}}]},
    {"prefixItems": [{"type": "object"}, True], "minItems": 3, "maxItems": 3},
    {"prefixItems": [{"const": {}}, {"type": "array"}, {"type": "object"}], "minItems": 3},
]


@pytest.mark.parametrize("number", range(len(CONTAINED + REQUIRED)))
def test_arrays_that_require_something_are_those_of_jsonschema(number: int) -> None:
    schema = array(True) | (CONTAINED + REQUIRED)[number]
    automaton, judge = automaton_of(schema), jsonschema.Draft202012Validator(schema)
    for count in range(4):
        for items in itertools.product(VALUES[:7], repeat=count):
            text = f"[{','.join(items)}]"
            assert accepts(automaton, text) == judge.is_valid(json.loads(text)), text


@pytest.mark.parametrize(
    ("schema", "known"),
    [
        (array({**members(a={"type": "boolean"}), "required": ["a"]}, minItems=3), "found for it: 2"),
        (array({"type": "array", "maxItems": 0}, minItems=2), "found for it: 1"),
        (array({"type": "object"}, minItems=1_000), "at most 20"),
        (array(True, contains={"const": {}}, minContains=2), "found for it: 1"),
    ],
    ids=["of two", "of one", "of many", "contained"],
)
def test_more_different_items_than_are_known_are_refused(schema: dict[str, Any], known: str) -> None:
    with pytest.raises(UnsupportedConstraint, match=f"from .* earlier ones; .*{known}"):
        _ = json_schema(schema).grammar


def test_an_item_that_violates_by_its_position_is_refused() -> None:
    # A second item is required and has to differ from the first, and null is the only one.
    with pytest.raises(UnsupportedConstraint, match="what an item has to violate by its position"):
        _ = json_schema(array({"type": "null"}, **{"not": {"prefixItems": [True], "items": False}})).grammar


def test_the_last_different_item_is_the_only_one_left() -> None:
    """A search among all texts of items would give up; the listed values are tried one by one."""
    names = "abcd"
    items = {**members(**{name: {"type": "boolean"} for name in names}), "required": [*names]}
    automaton = compile(json_schema(array(items, minItems=16), whitespace="none"), VOCABULARY)
    values = [{name: bool(i >> k & 1) for k, name in enumerate(names)} for i in range(16)]
    random.Random(2).shuffle(values)
    text = "[" + ",".join(json.dumps(value, separators=(",", ":")) for value in values[:15])
    state = after(automaton, text)
    assert automaton.next(state, ord("]")) == DEAD
    assert json.loads(text + automaton.forced(state).decode()) == values
    assert automaton.forced(after(automaton, text + automaton.forced(state).decode())) == b""


def test_many_tokens_near_the_limit_are_few_where_items_are_required() -> None:
    words = [f'{first}{second}"' for first in "abcdefghijklmnopqrst" for second in "abcdefghijklmnopqrst"]
    automaton = compile(json_schema(array({"type": "object"}, minItems=2)), byte_vocabulary(*words))
    state = after(automaton, '[{"')
    budget = automaton.shortest_completion(state) + 2
    allowed = mask(automaton, state, budget)
    assert allowed <= mask(automaton, state)
    assert all(automaton.shortest_completion(automaton.next(state, token)) < budget for token in allowed)


def test_the_states_of_long_arrays_are_collected() -> None:
    automaton = compile(json_schema(array({"type": "object"})), VOCABULARY, memory_limit=1 << 18)
    text = "[" + ",".join(f'{{"id":{n}}}' for n in range(200))
    assert accepts(automaton, text + ',{"id":207}]')
    assert not accepts(automaton, text + ',{"id":7}]')
    assert automaton.memory["collections"] > 1


def test_names_around_the_items_are_forgotten_where_they_cannot_matter() -> None:
    """Each name had a state of its own: a mask within a budget made one for each token of a vocabulary."""
    pairs = [chr(first) + chr(second) for first in range(97, 123) for second in range(97, 123)]
    schema = {"properties": {"ids": array({"type": "object"})}, "required": ["ids"], "type": "object"}
    automaton = compile(json_schema(schema, property_order="any"), byte_vocabulary(*pairs))
    state = after(automaton, '{"name')
    automaton.fill_mask_within(state, automaton.new_mask(), automaton.shortest_completion(state) + 1)
    before = automaton.memory["states"]
    state = after(automaton, '{"named')
    automaton.fill_mask_within(state, automaton.new_mask(), automaton.shortest_completion(state) + 1)
    assert automaton.memory["states"] - before < 60


def test_arrays_within_each_other_cost_the_same_at_every_depth() -> None:
    automaton = automaton_of({"type": "array", "items": {"$ref": "#"}, "uniqueItems": True})
    state, before = automaton.start, 0
    sizes = []
    for _ in range(3):
        for _ in range(500):
            state = automaton.next(state, ord("["))
        sizes.append(automaton.memory["bytes"] - before)  # type: ignore[attr-defined]
        before += sizes[-1]
    assert state != DEAD
    assert sizes[-1] < 4 * sizes[0]


def test_a_vocabulary_that_cannot_say_each_byte_is_refused() -> None:
    tokens = [bytes((byte,)) for byte in range(256) if byte != ord("{")] + [b'{"', b"[{", b""]
    vocabulary = Vocabulary.from_bytes(tokens, [len(tokens) - 1])
    with pytest.raises(UnsupportedConstraint, match="uniqueItems"):
        compile(json_schema(array({"type": "object"})), vocabulary)
    compile(json_schema(array({"type": "string"})), vocabulary)
