"""Bags (entries in any order, at most one to a slot, counted): the core, the unfolded rules and the definition agree."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import constrained
from constrained.automaton import DEAD, TokenAutomaton
from constrained.automaton.bitmask import unpack_ids
from constrained.errors import ConstraintTooLarge, UnsatisfiableConstraint, UnsupportedConstraint
from constrained.grammars import ir
from constrained.grammars.json_schema import SchemaOptions, lower_schema
from constrained.grammars.transform.interleave import interleave
from constrained.grammars.transform.productive import prune_unproductive
from constrained.vocabulary import Vocabulary
from tests.support import strategies as some
from tests.support.examples import examples
from tests.support.interleaves import expand_interleaves
from tests.support.tokenizers_fixtures import small_bpe_vocabulary
from tests.testing.test_differential import Expected, check_grammar, check_walk, vocabularies

BYTES = Vocabulary.from_bytes([*(bytes((byte,)) for byte in range(256)), b""], [256])
COMMA = ir.terminal(",")

bodies = st.one_of(
    st.just(ir.EPSILON),
    st.just(ir.EMPTY_LANGUAGE),
    st.sampled_from("aé").map(ir.terminal),
    some.bags(st.just(ir.terminal("é"))),
)


def entry(text: str, slot: int | None = None, discharges: int = 0) -> ir.InterleaveEntry:
    return ir.InterleaveEntry(ir.terminal(text), ir.EPSILON, slot, discharges)


def texts(expr: ir.Expr, alphabet: bytes = b"abc,", length: int = 6) -> set[str]:
    """What the automaton accepts of all short texts."""
    automaton = TokenAutomaton(ir.Grammar.of(expr), BYTES)
    found = set()
    for size in range(length + 1):
        for text in itertools.product(alphabet, repeat=size):
            state = automaton.start
            for byte in text:
                state = automaton.next(state, byte)
            if state != DEAD and automaton.accepts(state):
                found.add(bytes(text).decode())
    return found


def follow(automaton: TokenAutomaton, text: bytes, state: int | None = None) -> int:
    """The state after a text, from the start or this state on, or DEAD."""
    state = automaton.start if state is None else state
    for byte in text:
        if state != DEAD:
            state = automaton.next(state, byte)
    return state


# ---------------------------------------------------------------- what a bag says


def test_entries_come_in_any_order_and_once() -> None:
    both = interleave([entry("a", 0), entry("b", 1)], required=[0], separator=COMMA)
    assert texts(both) == {"a", "a,b", "b,a"}


def test_slots_may_be_filled_in_their_order_alone() -> None:
    ordered = interleave([entry("a", 0), entry("b", 1), entry("c")], separator=COMMA, ordered=True)
    assert texts(ordered, length=5) == {
        "",
        "a",
        "b",
        "c",
        "a,b",
        "a,c",
        "b,c",
        "c,c",
        "a,b,c",
        "a,c,c",
        "b,c,c",
        "c,c,c",
    }


def test_numbers_of_entries_are_kept() -> None:
    counted = interleave([entry("a", 0), entry("b", 1), entry("c", 2)], low=2, high=2, separator=COMMA)
    assert texts(counted) == {f"{x},{y}" for x, y in itertools.permutations("abc", 2)}


def test_an_entry_with_the_mark_must_come() -> None:
    marked = interleave([entry("a"), entry("b", discharges=1)], obligations=1, high=3, separator=COMMA)
    assert texts(marked) == {
        ",".join(t) for n in (1, 2, 3) for t in itertools.product("ab", repeat=n) if "b" in t
    }


def test_what_cannot_be_completed_is_never() -> None:
    assert interleave([entry("a", 0)], low=2) is ir.EMPTY_LANGUAGE
    assert interleave([entry("a", 0)], required=[1]) is ir.EMPTY_LANGUAGE
    assert interleave([entry("a")], obligations=1) is ir.EMPTY_LANGUAGE
    assert (
        interleave([entry("a"), entry("b", 1, 1)], obligations=1, required=[1], low=2, high=1)
        is ir.EMPTY_LANGUAGE
    )
    assert interleave([entry("a")], low=2, separator=ir.EMPTY_LANGUAGE) is ir.EMPTY_LANGUAGE
    assert interleave([ir.InterleaveEntry(ir.terminal("a"), ir.EMPTY_LANGUAGE, 0)]) is ir.EPSILON


def test_so_many_entries_beside_marks_that_no_table_holds_them_are_refused() -> None:
    marked = interleave([entry("a"), entry("b", discharges=1)], obligations=1, low=10**9, separator=COMMA)
    with pytest.raises(ConstraintTooLarge, match="too many entries with obligations"):
        TokenAutomaton(ir.Grammar.of(marked), BYTES)


def test_too_many_marks_are_refused() -> None:
    with pytest.raises(ConstraintTooLarge):
        interleave([entry("a", discharges=1 << 20)], obligations=1 << 20)


def test_an_entry_that_may_be_empty_is_refused_by_the_core() -> None:
    silent = ir.InterleaveEntry(ir.terminal(ir.repeat(ir.literal("a"))), ir.EPSILON)
    with pytest.raises(ValueError, match="nullable head"):
        TokenAutomaton(ir.Grammar.of(interleave([silent])), BYTES)


# ---------------------------------------------------------------- random bags, against the other judges


def grammars() -> st.SearchStrategy[ir.Grammar]:
    return some.bags(bodies).map(ir.Grammar.of)


@given(grammars(), vocabularies(), st.integers(0, 2**32))
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
def test_every_answer_about_random_bags(grammar: ir.Grammar, vocabulary: Vocabulary, seed: int) -> None:
    check_grammar(grammar, vocabulary, seed)


@given(grammars())
@settings(max_examples=examples(100))
def test_unfolding_keeps_the_texts(grammar: ir.Grammar) -> None:
    languages = some.Languages(some.ALPHABET[:4], 4)
    wanted = languages.grammar(grammar)
    assert languages.grammar(expand_interleaves(grammar)) == wanted
    kept = prune_unproductive(grammar)
    assert (languages.grammar(kept) if kept else frozenset()) == wanted


@pytest.mark.parametrize("seed", range(examples(60)))
def test_the_shortest_rest_after_every_entry_is_that_of_some_set_of_entries(seed: int) -> None:
    """The core leaves each alternative out of the others by tables; the judge tries all sets of entries."""
    rng = random.Random(seed)
    slots = [slot for slot in range(4) for _ in range(rng.randint(1, 2))] + [None] * rng.randint(0, 2)
    tails = {chr(ord("a") + i): "z" * rng.randint(0, 5) for i in range(len(slots))}
    entries = {
        head: ir.InterleaveEntry(
            ir.terminal(head),
            ir.terminal(tail) if tail else ir.EPSILON,
            slot,
            rng.choice([0, 1, 2, 3, 4, 6]),
        )
        for (head, tail), slot in zip(tails.items(), slots, strict=True)
    }
    due, required = rng.choice([3, 5, 7, 7]), set(rng.sample(range(4), rng.randint(0, 2)))
    low, high = rng.choice([0, 0, 0, 1, 4]), rng.choice([None, None, 6, 4])

    def least(before: str, more: str) -> float:
        """Bytes of the shortest rest, each entry with a comma, after these entries and with at most these others."""
        best = float("inf")
        kinds = [
            [""] + [head for head, entry in entries.items() if entry.slot == slot and head in more]
            for slot in range(4)
        ]
        kinds += [
            [head * count for count in range(4)] for head, entry in entries.items() if entry.slot is None
        ]
        for chosen in map("".join, itertools.product(*kinds)):
            used = [entries[head] for head in before + chosen]
            met = 0
            for entry in used:
                met |= entry.discharges
            filled = {entry.slot for entry in used}
            if due & ~met == 0 and required <= filled and low <= len(used) <= (99 if high is None else high):
                best = min(best, sum(2 + len(tails[head]) for head in chosen))
        return best

    def open_after(before: str) -> str:
        filled = {entries[head].slot for head in before} - {None}
        return "".join(head for head, entry in entries.items() if entry.slot not in filled)

    whole = interleave(
        entries.values(), required=required, obligations=due, low=low, high=high, separator=COMMA
    )
    if least("", open_after("")) == float("inf"):
        assert whole is ir.EMPTY_LANGUAGE
        return
    automaton = TokenAutomaton(ir.Grammar.of(whole), BYTES)
    assert automaton.shortest_completion(automaton.start) == least("", open_after("")) - 1
    state, before = automaton.start, ""
    for _ in range(6):
        ways = []
        for head in open_after(before):
            rest = least(before + head, open_after(before + head))
            after = automaton.next(state, ord(head))
            assert (after != DEAD) == (rest < float("inf")), (before, head)
            if after != DEAD:
                assert automaton.shortest_completion(after) == len(tails[head]) + rest, (before, head)
                ways.append((head, after))
        if not ways:
            return
        head, state = rng.choice(ways)
        before += head
        state = follow(automaton, tails[head].encode(), state)
        if (comma := automaton.next(state, ord(","))) == DEAD:
            assert automaton.accepts(state)
            return
        state = comma


@pytest.mark.parametrize("seed", range(examples(60)))
def test_the_shortest_rest_in_order_is_that_of_the_cheapest_entries_left(seed: int) -> None:
    """The core knows the rests after all entries of a state by one pass; the judge tries all sets of later entries."""
    rng = random.Random(seed)
    count = rng.randint(1, 7)
    tails = {chr(ord("a") + slot): "z" * rng.randint(0, 5) for slot in range(count)}
    entries = [
        ir.InterleaveEntry(ir.terminal(head), ir.terminal(tail) if tail else ir.EPSILON, slot)
        for slot, (head, tail) in enumerate(tails.items())
    ]
    further = rng.choice([None, None, "", "zz", "zzzz"])
    if further is not None:
        tails["x"] = further
        entries.append(ir.InterleaveEntry(ir.terminal("x"), ir.terminal(further) if further else ir.EPSILON))
    required = set(rng.sample(range(count), rng.choice([0, 0, 1, min(2, count)])))
    low, high = rng.randint(0, count + 1), rng.choice([None, None, count, count + 2])

    def least(before: str) -> float:
        """Bytes of the shortest rest, each entry with a comma, after these entries."""
        best = float("inf")
        first = count if "x" in before else ord(before[-1]) - ord("a") + 1 if before else 0
        for size in range(count - first + 1):
            for slots in itertools.combinations(range(first, count), size):
                chosen = before + "".join(chr(ord("a") + slot) for slot in slots)
                if required <= {ord(head) - ord("a") for head in chosen}:
                    missing = max(0, low - len(chosen))
                    if (missing and further is None) or (high is not None and len(chosen) + missing > high):
                        continue
                    best = min(
                        best, sum(2 + len(tails[head]) for head in (chosen + "x" * missing)[len(before) :])
                    )
        return best

    whole = interleave(entries, required=required, low=low, high=high, separator=COMMA, ordered=True)
    if least("") == float("inf"):
        assert whole is ir.EMPTY_LANGUAGE
        return
    automaton = TokenAutomaton(ir.Grammar.of(whole), BYTES)
    state, before = automaton.start, ""
    while True:
        ways = []
        for head in tails:
            left = head > before[-1] or head == "x" if before else True
            rest = least(before + head) if left and (high is None or len(before) < high) else float("inf")
            after = automaton.next(state, ord(head))
            assert (after != DEAD) == (rest < float("inf")), (before, head)
            if after != DEAD:
                assert automaton.shortest_completion(after) == len(tails[head]) + rest, (before, head)
                ways.append((head, after))
        if not ways or len(before) > 9:
            return
        head, state = rng.choice(ways)
        before += head
        state = follow(automaton, tails[head].encode(), state)
        if (comma := automaton.next(state, ord(","))) == DEAD:
            assert automaton.accepts(state)
            return
        state = comma


# ---------------------------------------------------------------- heads that must differ

STRINGS = ['""', '"a"', r'"\u0061"', '"é"', r'"\u00E9"', r'"\u00e9"', '"aa"', r'"a\u0061"', '"aé"']
NUMBERS = ["0", "-0", "0.0", "1", "1.0", "10", "1.5", "1.50", "-1", "-1.00", "0.1"]
SPELLING = [
    *(bytes((byte,)) for byte in sorted(set("".join([*STRINGS, *NUMBERS, ",x"]).encode()))),
    *(
        text.encode()
        for text in [
            '",',
            '","a',
            '"a"',
            'a","',
            '"aa',
            "1,1",
            "1.",
            ",1",
            "0,",
            'é"',
            r"\u00",
            "0061",
            "5,1.5",
        ]
    ),
]  # fmt: skip
SPELLED = Vocabulary.from_bytes([*SPELLING, b""], [len(SPELLING)])


@st.composite
def different(draw: st.DrawFn) -> tuple[ir.Grammar, ir.Grammar]:
    """A bag of scalars that must differ; and the same bag with a slot for each value, which the judge can read."""
    texts = {
        kind: draw(st.sets(st.sampled_from(kind), min_size=1, max_size=3))
        for kind in (tuple(STRINGS), tuple(NUMBERS))
    }
    low, high = draw(st.integers(0, 4)), draw(st.sampled_from([None, 2, 4]))
    obligations = draw(st.sampled_from([0, 0, 1]))
    others = [ir.InterleaveEntry(ir.terminal("x"), ir.EPSILON, 100, 1)] if draw(st.booleans()) else []
    kept: list[ir.InterleaveEntry] = list(others)
    slots: list[ir.InterleaveEntry] = list(others)
    for number, group in enumerate(draw(st.sampled_from([[*texts.values()], [next(iter(texts.values()))]]))):
        language = ir.union(*map(ir.literal, sorted(group)))
        values: dict[object, list[str]] = {}
        for text in sorted(group):
            values.setdefault(json.loads(text), []).append(text)
        for brought, body in draw(st.sampled_from([[(0, "")], [(1, "")], [(0, ""), (1, "x")]])):
            then = ir.terminal(body) if body else ir.EPSILON
            kept.append(ir.InterleaveEntry(ir.Terminal(language), then, None, brought, distinct=True))
            for slot, spelled in enumerate(values.values()):
                head = ir.Terminal(ir.union(*map(ir.literal, spelled)))
                slots.append(ir.InterleaveEntry(head, then, 20 * number + slot, brought))
    made = [
        interleave(entries, obligations=obligations, low=low, high=high, separator=COMMA)
        for entries in (kept, slots)
    ]
    return ir.Grammar.of(made[0]), ir.Grammar.of(made[1])


@given(different(), st.integers(0, 2**32))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
def test_heads_that_differ_are_as_slots_of_their_values(
    grammars: tuple[ir.Grammar, ir.Grammar], seed: int
) -> None:
    grammar, slots = grammars
    try:
        expected = Expected(slots, SPELLED)
    except ConstraintTooLarge:
        return
    if expected.judge.start() is None:
        with pytest.raises(UnsatisfiableConstraint):
            TokenAutomaton(grammar, SPELLED)
    else:
        check_walk(TokenAutomaton(grammar, SPELLED), expected, random.Random(seed))


_items = st.one_of(st.text('ab"\\é😀\n/', max_size=2), st.integers(-3, 3), st.sampled_from([0.5, 1.5, -0.25]))


@given(st.lists(_items, max_size=5), st.booleans())
@settings(max_examples=examples(150))
def test_items_differ_as_the_specification_says(items: list[object], ascii_only: bool) -> None:
    schema = {"items": {"type": ["string", "number"]}, "uniqueItems": True, "minItems": 2}
    automaton = TokenAutomaton(lower_schema(schema).grammar, BYTES)
    text = json.dumps(items, ensure_ascii=ascii_only).encode()
    valid = jsonschema.Draft202012Validator(schema).is_valid(items)
    state = follow(automaton, text)
    assert (state != DEAD and automaton.accepts(state)) == valid, text


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (
            {"items": {"type": "string"}, "uniqueItems": True},
            '["a","b", "the quick brown fox", "b2", "", "the quick brown"]',
        ),
        ({"items": {"type": "integer"}, "uniqueItems": True, "minItems": 5}, "[1, 11, 111, 2, 12,0,100]"),
        (
            {"items": {"type": "string", "pattern": "^[ab]{0,2}$"}, "uniqueItems": True},
            '["a","b","ab", "ba", "", "aa", "bb"]',
        ),
    ],
)
def test_a_row_is_the_tokens_that_lead_on(schema: object, text: str) -> None:
    vocabulary = small_bpe_vocabulary()
    automaton = TokenAutomaton(lower_schema(schema).grammar, vocabulary)
    row = automaton.new_mask()
    state = automaton.start
    for place, byte in enumerate(text.encode()):
        automaton.fill_mask(state, row)
        allowed = unpack_ids(row).tolist()
        assert allowed
        if place % 5 == 4:
            assert allowed == [t for t in range(vocabulary.size) if automaton.next(state, t) != DEAD]
            left = automaton.shortest_completion(state)
            assert min(automaton.shortest_completion(automaton.next(state, t)) for t in allowed) < left
        state = automaton.next(state, vocabulary.tokens.index(bytes((byte,))))
        assert state != DEAD
    assert automaton.accepts(state)


def test_no_token_repeats_an_item() -> None:
    """Tokens that end at the closing quote of an item that was there before, which no other byte excludes."""
    pieces = '"a","a","","","ab","a"]'
    tokens = {
        pieces[i:j].encode() for i in range(len(pieces)) for j in range(i + 2, min(i + 9, len(pieces)) + 1)
    }
    words = [*(bytes((byte,)) for byte in range(256)), *sorted(tokens)]
    vocabulary = Vocabulary.from_bytes([*words, b""], [len(words)])
    automaton = TokenAutomaton(
        lower_schema({"items": {"type": "string"}, "uniqueItems": True}).grammar, vocabulary
    )
    row, state, excluded = automaton.new_mask(), automaton.start, 0
    for byte in b'["a","","ab"]':
        automaton.fill_mask(state, row)
        allowed = set(unpack_ids(row).tolist())
        assert allowed == {t for t in range(vocabulary.size) if automaton.next(state, t) != DEAD}
        excluded += sum(
            word.startswith(b'","') and 256 + i not in allowed for i, word in enumerate(words[256:])
        )
        state = automaton.next(state, byte)
    assert automaton.accepts(state)
    assert excluded


def test_a_number_that_begins_another_is_left_out_of_the_rest() -> None:
    head = ir.Terminal(ir.union(ir.literal("1"), ir.literal("10")))
    both = interleave([ir.InterleaveEntry(head, ir.EPSILON, distinct=True)], low=2, separator=COMMA)
    assert texts(both, b"10,") == {"1,10", "10,1"}
    automaton = TokenAutomaton(ir.Grammar.of(both), BYTES)
    for prefix, left in {b"": 4, b"1": 3, b"1,": 2, b"1,1": 1, b"10": 2, b"10,": 1}.items():
        assert automaton.shortest_completion(follow(automaton, prefix)) == left, prefix


@pytest.mark.parametrize(
    ("items", "spelled", "least"),
    [
        ({"enum": [1, 10, "0", "a"]}, ["1", "10", '"0"', '"a"'], 3),
        (
            {"type": "number", "minimum": 0, "maximum": 100, "multipleOf": 100},
            ["0", "-0", "0.0", "-0.0", "100", "100.0"],
            2,
        ),
        ({"type": ["boolean", "null"]}, ["true", "false", "null"], 2),
        ({"type": "string", "pattern": "^a?b?$"}, ['""', '"a"', '"b"', '"ab"'], 3),
    ],
    ids=["mixed", "spellings of zero", "words", "strings"],
)
def test_the_shortest_rest_leaves_out_the_value_that_is_being_read(
    items: object, spelled: list[str], least: int
) -> None:
    """The judge writes all arrays of as many items, and `jsonschema` says which are valid."""
    schema = {"type": "array", "items": items, "uniqueItems": True, "minItems": least}
    validator = jsonschema.Draft202012Validator(schema)
    texts = [f"[{','.join(written)}]" for written in itertools.product(spelled, repeat=least)]
    shortest: dict[str, int] = {}
    for text in texts:
        if validator.is_valid(json.loads(text)):
            for end in range(len(text) + 1):
                shortest[text[:end]] = min(len(text) - end, shortest.get(text[:end], len(text)))
    automaton = TokenAutomaton(lower_schema(schema, SchemaOptions(whitespace="none")).grammar, BYTES)
    for prefix, left in shortest.items():
        state = follow(automaton, prefix.encode())
        assert state != DEAD, prefix
        assert automaton.shortest_completion(state) == left, prefix


_SHORT_NAMES = {"propertyNames": {"pattern": "^[ab]{1,2}$"}, "additionalProperties": {"enum": [1, 22]}}


_CONDITIONS: dict[str, dict[str, Any]] = {
    "patterns that overlap": {
        "patternProperties": {"a": {"enum": [22]}, "b$": {"enum": [1, 22]}},
        "minProperties": 3,
    },
    "conditions": {
        "minProperties": 2,
        "allOf": [
            {"not": {"patternProperties": {"^a": {"const": 1}}}},
            {"not": {"patternProperties": {"b$": {"const": 22}}}},
        ],
    },
    "conditions beside known names": {
        "properties": {"ab": {"enum": [1, 22]}, "b": {"enum": [22]}},
        "required": ["b"],
        "minProperties": 3,
        "allOf": [
            {"not": {"patternProperties": {"^a": {"const": 1}}}},
            {"not": {"patternProperties": {"a$": {"const": 22}}}},
        ],
    },
    "one of two conditions": {
        "oneOf": [
            {"not": {"patternProperties": {"a": {"const": 1}}}},
            {"not": {"patternProperties": {"b": {"const": 22}}}},
        ]
    },
}


@pytest.mark.parametrize(
    ("name", "property_order"),
    [*((name, "any") for name in _CONDITIONS), ("conditions beside known names", "schema")],
)
def test_the_shortest_rest_of_names_under_conditions(name: str, property_order: Any) -> None:
    """The judge writes all objects of a few short names, and `jsonschema` says which are valid."""
    keywords = _CONDITIONS[name]
    schema = {"type": "object", **_SHORT_NAMES, **keywords}
    valid = jsonschema.Draft202012Validator(schema).is_valid
    known = list(keywords.get("properties", ())) if property_order == "schema" else []
    shortest: dict[str, int] = {}
    for count in range(4):
        for names in itertools.permutations(("a", "b", "aa", "ab", "ba", "bb"), count):
            places = [known.index(name) if name in known else len(known) for name in names]
            if places != sorted(places):
                continue
            for values in itertools.product((1, 22), repeat=count):
                value = dict(zip(names, values, strict=True))
                if valid(value):
                    text = json.dumps(value, separators=(",", ":"))
                    for end in range(len(text) + 1):
                        shortest[text[:end]] = min(len(text) - end, shortest.get(text[:end], len(text)))
    grammar = lower_schema(schema, SchemaOptions(whitespace="none", property_order=property_order)).grammar
    automaton = TokenAutomaton(grammar, BYTES)
    assert len(shortest) > 100
    for prefix, left in shortest.items():
        state = follow(automaton, prefix.encode())
        assert state != DEAD, prefix
        assert automaton.shortest_completion(state) == left, prefix


# ---------------------------------------------------------------- objects, against jsonschema

_KEYS = ["a", "b", "c", "xa", "é"]
_VALUES = st.sampled_from([None, 1, "s", {}, {"a": 1}])
_SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(
            st.sampled_from(_KEYS),
            st.sampled_from([True, False, {"type": "null"}, {"type": "integer"}]),
            max_size=3,
        ),
        "required": st.lists(st.sampled_from(_KEYS), max_size=2, unique=True),
        "minProperties": st.integers(0, 4),
        "maxProperties": st.integers(0, 4),
        "additionalProperties": st.sampled_from([True, False, {"type": ["null", "integer"]}]),
        "patternProperties": st.sampled_from(
            [{"^x": {"type": "integer"}}, {"a": {"type": ["integer", "object"]}}]
        ),
        "propertyNames": st.sampled_from([{"maxLength": 1}, {"enum": ["a", "b", "q"]}]),
    },
)


@given(
    _SCHEMAS,
    st.lists(st.dictionaries(st.sampled_from([*_KEYS, "q"]), _VALUES, max_size=5), max_size=4),
    st.integers(0, 2**32),
)
@settings(max_examples=examples(40))
def test_objects_are_valid_in_any_order(
    schema: dict[str, object], values: list[dict[str, object]], seed: int
) -> None:
    rng = random.Random(seed)
    valid = jsonschema.Draft202012Validator(schema).is_valid
    try:
        automaton = TokenAutomaton(lower_schema(schema, SchemaOptions(property_order="any")).grammar, BYTES)
    except UnsatisfiableConstraint:
        assert not any(map(valid, values))
        return
    for value in values:
        state = follow(automaton, json.dumps(value, ensure_ascii=rng.random() < 0.5).encode())
        assert (state != DEAD and automaton.accepts(state)) == valid(value), (schema, value)
    state, text = automaton.start, b""
    row = automaton.new_mask()
    while not automaton.accepts(state):  # a random text, closed by its shortest completion
        budget = automaton.shortest_completion(state) + 1 + (len(text) < 20) * 30
        automaton.fill_mask_within(state, row, budget)
        token = rng.choice(unpack_ids(row).tolist())
        state, text = automaton.next(state, token), text + BYTES.tokens[token]
    pairs: list[list[str]] = []
    found = json.loads(
        text, object_pairs_hook=lambda pair: pairs.append([key for key, _ in pair]) or dict(pair)
    )
    assert valid(found), (schema, text)
    assert all(len(set(keys)) == len(keys) for keys in pairs), text


# ---------------------------------------------------------------- inside other grammars


def test_members_are_counted_inside_a_lark_grammar_whatever_its_lexer() -> None:
    text = 'start: "x" %json {"properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "maxProperties": 1, "additionalProperties": false}'
    for lexer in ("contextual", "dynamic"):
        automaton = constrained.compile(constrained.lark(text, lexer=lexer), BYTES)
        for member, allowed in (('x{"a":null}', True), ("x{}", True), ('x{"a":null,"b":null}', False)):
            state = follow(automaton, member.encode())
            assert (state != DEAD and automaton.accepts(state)) == allowed, (lexer, member)


def test_items_that_must_differ_are_refused_behind_a_lexer_alone() -> None:
    text = 'start: "x" %json {"type": "array", "items": {"type": "string"}, "uniqueItems": true}'
    with pytest.raises(UnsupportedConstraint, match="must be distinct"):
        _ = constrained.lark(text).grammar
    automaton = constrained.compile(constrained.lark(text, lexer="dynamic"), BYTES)
    for items, allowed in (('x["a","b"]', True), ('x["a","a"]', False)):
        state = follow(automaton, items.encode())
        assert (state != DEAD and automaton.accepts(state)) == allowed


# ---------------------------------------------------------------- sizes


def test_three_hundred_keys_in_any_order_cost_no_more_than_their_number() -> None:
    names = [f"key {i}" for i in range(300)]
    schema = {
        "properties": {name: {"type": "null"} for name in names},
        "required": names[::2],
        "additionalProperties": False,
    }
    automaton = TokenAutomaton(
        lower_schema(schema, SchemaOptions(property_order="any", whitespace="none")).grammar, BYTES
    )
    random.Random(0).shuffle(names)
    text = json.dumps(dict.fromkeys(names), separators=(",", ":")).encode()
    state = automaton.start
    for byte in text:
        state = automaton.next(state, byte)
    assert automaton.accepts(state)
    assert automaton.memory["expressions"] < 2 * len(names) ** 2  # (open slots, next entry), along one text


def test_a_count_of_a_billion_is_a_number_like_others() -> None:
    schema = {"properties": {"a": True}, "maxProperties": 10**9, "minProperties": 1}
    automaton = TokenAutomaton(lower_schema(schema).grammar, BYTES)
    for text, complete in ((b"{}", False), (b'{"a": 1}', True), (b'{"b": 1}', True)):
        state = automaton.start
        for byte in text:
            state = automaton.next(state, byte)
        assert (state != DEAD and automaton.accepts(state)) == complete


def test_a_count_of_entries_with_and_without_a_slot_is_as_long_as_both_together():
    item = ir.terminal("x")
    entries = (ir.InterleaveEntry(item, item, 0), ir.InterleaveEntry(item, item))
    rule = ir.Interleave(entries, (), 0, 3, None, ir.terminal(","), False)
    vocabulary = Vocabulary.from_bytes([b"x", b",", b""], [2])
    automaton = TokenAutomaton(ir.Grammar({"r": rule}, "r"), vocabulary)
    state = automaton.start
    for left, token in zip(range(8, 0, -1), [0, 0, 1, 0, 0, 1, 0, 0], strict=True):
        assert automaton.shortest_completion(state) == left
        state = automaton.next(state, token)
    assert automaton.accepts(state)
