"""Arrays of different items: all spellings of a value are one value, and the work of comparing them is counted and small."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest

from constrained import _core, json_schema
from constrained.automaton import DEAD, UniqueAutomaton, compile, compile_grammar, trial
from constrained.automaton.bitmask import unpack_ids
from tests.support.finite import byte_vocabulary

VOCABULARY = byte_vocabulary('{"', '":', '","', "},{", '"}', "00", ".0", "}]", "\\u", "],[", "a1", ',{"a":')


def automaton_of(
    schema: dict[str, Any], order: str = "schema", whitespace: str = "bounded"
) -> UniqueAutomaton:
    constraint = json_schema(schema, property_order=order, whitespace=whitespace)  # type: ignore[arg-type]
    automaton = compile(constraint, VOCABULARY)
    assert isinstance(automaton, UniqueAutomaton)
    return automaton


def array(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


def members(**properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return {**schema, "additionalProperties": False}


def after(automaton: UniqueAutomaton, text: str) -> int:
    state = automaton.start
    for byte in text.encode():
        state = automaton.next(state, byte)
    return state


def steps(automaton: UniqueAutomaton, state: int) -> tuple[int, int]:
    """Of the mask of a state, and of one near its token limit."""
    row = automaton.new_mask()
    automaton.fill_mask(state, row)
    plain = automaton.last_work
    automaton.fill_mask_within(state, row, automaton.shortest_completion(state) + 1)
    return plain, automaton.last_work


# ---------------------------------------------------------------- values


def value(rng: random.Random, depth: int = 0) -> Any:
    """A value of few, so that equal ones are frequent."""
    kind = rng.randrange(4 if depth > 1 else 6)
    if kind == 0:
        return rng.choice([True, False, None])
    if kind == 1:
        return rng.choice([Decimal(0), Decimal(1), Decimal("1.5"), Decimal("-1.05"), Decimal(10)])
    if kind in (2, 3):
        return "".join(rng.choices(["a", "é", "😀", "\n", "/", "1"], k=rng.randrange(3)))
    if kind == 4:
        return [value(rng, depth + 1) for _ in range(rng.randrange(3))]
    return {name: value(rng, depth + 1) for name in rng.sample(["a", "b", "é", "a1", "😀"], rng.randrange(3))}


def spelled(one: Any, rng: random.Random) -> str:
    """One of many texts of a value."""
    gap = rng.choice(["", "", " ", "\n\t"])
    if one is None or isinstance(one, bool):
        text = json.dumps(one)
    elif isinstance(one, Decimal):
        text = number(one, rng)
    elif isinstance(one, str):
        text = f'"{"".join(character(letter, rng) for letter in one)}"'
    elif isinstance(one, list):
        text = f"[{','.join(spelled(item, rng) for item in one)}]"
    else:
        names = rng.sample([*one], len(one))
        text = "{" + ",".join(f"{spelled(name, rng)}:{spelled(one[name], rng)}" for name in names) + "}"
    return gap + text + gap


def character(letter: str, rng: random.Random) -> str:
    if rng.random() < 0.4:
        units = letter.encode("utf-16-be").hex()
        units = units.upper() if rng.random() < 0.5 else units
        return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
    return json.dumps(letter, ensure_ascii=False)[1:-1] if letter != "/" else rng.choice(["/", "\\/"])


def number(one: Decimal, rng: random.Random) -> str:
    shift = rng.choice([0, 0, 1, -1, 3])
    text = f"{one.scaleb(-shift):f}"
    if rng.random() < 0.4:
        text += "00" if "." in text else ".0"
    if one == 0 and rng.random() < 0.3:
        text = "-" + text.lstrip("-")
    return text if shift == 0 else f"{text}{rng.choice('eE')}{shift if shift < 0 else f'+0{shift}'}"


def key(one: Any) -> Any:
    """Equal for equal values, as JSON Schema compares them."""
    if isinstance(one, list):
        return ("array", tuple(map(key, one)))
    if isinstance(one, dict):
        return ("object", frozenset((name, key(inner)) for name, inner in one.items()))
    return (type(one).__name__, one)


def test_all_spellings_of_a_value_are_one_value() -> None:
    automaton, rng, seen = automaton_of(array({}), whitespace="any"), random.Random(7), [0, 0]
    for _ in range(400):
        items = [value(rng) for _ in range(rng.randrange(2, 6))]
        different = len({key(item) for item in items}) == len(items)
        seen[different] += 1
        text = f"[{','.join(spelled(item, rng) for item in items)}]"
        state = after(automaton, text)
        assert (state != DEAD and automaton.accepts(state)) == different, text
    assert min(seen) > 50


def test_masks_between_the_bytes_of_a_spelling_hold_the_tokens_that_can_follow() -> None:
    automaton, rng = automaton_of(array(array({})), whitespace="any"), random.Random(11)
    for _ in range(12):
        item = value(rng)
        text = f"[[{spelled(item, rng)}],[{spelled(item, rng)}"
        state = after(automaton, text[: rng.randrange(len(text))])
        row = automaton.new_mask()
        automaton.fill_mask(state, row)
        tokens = range(VOCABULARY.size)
        assert set(unpack_ids(row)) == {token for token in tokens if automaton.next(state, token) != DEAD}


# ---------------------------------------------------------------- work

ONE = {"type": "number", "minimum": 1, "maximum": 1}
HALVES = {"type": "number", "multipleOf": 0.5, "minimum": 0, "maximum": 0.5}


@pytest.mark.parametrize(
    ("items", "written", "order"),
    [
        (members(a=ONE), '{"a":1.0}', "schema"),
        (members(a=ONE, b=ONE), '{"a":1,"b":1.00}', "schema"),
        (members(a=HALVES), '{"a":0.50},{"a":-0.0}', "schema"),
        ({"type": "array", "items": ONE, "minItems": 9, "maxItems": 9}, f"[{','.join('1' * 9)}]", "schema"),
        (
            members(**{name: {"const": 1} for name in "abcdef"}),
            '{"f":1,"a":1,"c":1,"b":1,"d":1,"e":1}',
            "any",
        ),
    ],
    ids=["zeros", "two numbers", "zero itself", "nine numbers", "members in any order"],
)
def test_endless_spellings_of_values_that_are_taken_end_in_a_proof(
    items: dict[str, Any], written: str, order: str
) -> None:
    """No text, however long, is a further item: only values that were written are left for it."""
    automaton = automaton_of(array(items), order)
    state, row = after(automaton, f"[{written}"), automaton.new_mask()
    automaton.fill_mask(state, row)
    assert automaton.last_work < 200_000
    assert not automaton.search_exhausted
    assert set(unpack_ids(row)) & {ord(","), ord("]")} == {ord("]")}


@pytest.mark.ci
def test_many_items_make_a_mask_hardly_more_work() -> None:
    items = [{"name": f"a common beginning {i}", "tags": ["a", "b"], "id": i} for i in range(800)]
    text = json.dumps(items, separators=(",", ":"))[:-1]
    automaton = automaton_of(array({"type": "object"}))
    few = after(automaton, json.dumps(items[:100], separators=(",", ":"))[:-1])
    many = after(automaton, text)
    for further in ",{", '"name":"a com', 'mon","tags":["a","b"],"id":15':
        for byte in further.encode():
            few, many = automaton.next(few, byte), automaton.next(many, byte)
        for before, now in zip(steps(automaton, few), steps(automaton, many), strict=True):
            assert now < before + 8 * len(items)


SIXTEEN = array(members(**{letter: {"enum": [1]} for letter in "abcdefghijklmnop"}))


def test_a_search_that_gives_up_leaves_a_token_out_and_its_work_is_counted() -> None:
    """2 ** 16 sets of members lead to one and the same item."""
    automaton = automaton_of(SIXTEEN, "any")
    item = json.dumps(dict.fromkeys("ponmlkjihgfedcba", 1), separators=(",", ":"))
    state = after(automaton, f"[{item}")
    row = automaton.new_mask()
    automaton.fill_mask(state, row)
    assert automaton.search_exhausted
    assert 100_000 < automaton.last_work < trial.WORK_LIMIT
    assert set(unpack_ids(row)) & {ord("]"), ord(",")} == {ord("]")}
    assert automaton.accepts(automaton.next(state, ord("]")))


def test_a_search_ends_at_the_limit_of_its_call() -> None:
    automaton = compile_grammar(json_schema(SIXTEEN, property_order="any").grammar, VOCABULARY)
    assert isinstance(automaton, UniqueAutomaton)
    item = json.dumps(dict.fromkeys("abcdefghijklmnop", 1), separators=(",", ":"))
    state = after(automaton, f"[{item}")
    automaton.limit_work(50_000)
    with pytest.raises(_core.TooLarge, match="too many steps"):
        automaton.fill_mask(state, automaton.new_mask())
    automaton.limit_work(None)
    assert automaton.next(state, ord("]")) != DEAD
