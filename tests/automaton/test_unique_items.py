"""Arrays whose items differ as JSON values: masks, limits and texts against `jsonschema` and against single tokens."""

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


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (array({"type": "object"}, minItems=2), "where two items that are compared are required"),
        (array(True, contains={"const": {}}), "next to contains"),
        (
            array({"type": "null"}, **{"not": {"prefixItems": [{"type": "object"}]}}),
            "next to contains, or where an item must violate a schema",
        ),
        ({"type": "array", "not": {"uniqueItems": True}}, "under `not`"),
    ],
    ids=["two required", "contains", "an item to violate", "not"],
)
def test_what_no_search_can_promise_is_refused(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedConstraint, match=f"uniqueItems: true *is not supported {reason}"):
        _ = json_schema(schema).grammar


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
