"""Token limits: masks within a budget agree with the lengths of completions, and no constraint makes them expensive.

The judge of a mask asks about every token by itself. The judge of a length writes texts out. Work is measured by counters:
states that a call creates, and bytes.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from constrained.automaton import DEAD, Automaton, compile
from constrained.automaton.bitmask import unpack_ids
from constrained.constraint import Constraint, choice, json_schema, lark, regex
from constrained.vocabulary import Vocabulary
from tests.support.finite import FiniteAutomaton, byte_vocabulary

PIECES = (
    '{"', '":', '":"', '","', '"}', '""', ",", '["', '"]', "]", "ab", "abc", "a1", "1,", "22", "tr", "true",
    "word",
)  # fmt: skip


def within(automaton: Automaton, state: int, budget: int) -> set[int]:
    mask = automaton.new_mask()
    automaton.fill_mask_within(state, mask, budget)
    return set(unpack_ids(mask).tolist())


def allowed(automaton: Automaton, state: int) -> set[int]:
    mask = automaton.new_mask()
    automaton.fill_mask(state, mask)
    return set(unpack_ids(mask).tolist())


def judged(automaton: Automaton, state: int, budget: int) -> set[int]:
    """The tokens after which a budget suffices, each by itself."""
    tokens = range(automaton.vocabulary.size)
    return {token for token in tokens if automaton.next_within(state, token, budget) != DEAD}


def walk(automaton: Automaton, seed: int, steps: int) -> Iterator[tuple[int, int]]:
    """States of a random text that ends in time, and the tokens left in each."""
    random_ = random.Random(seed)
    state = automaton.start
    left = automaton.shortest_completion(state) + random_.choice([0, 1, 3, 10])
    for _ in range(steps):
        yield state, left
        text = sorted(within(automaton, state, left) - set(automaton.vocabulary.eos_ids))
        if not text:
            assert automaton.accepts(state), "a dead end"
            return
        state, left = automaton.next(state, random_.choice(text)), left - 1


def schema(**keywords: Any) -> Constraint:
    return json_schema(keywords)


ENUM = ["a", "ab", "abc", "word", "b", 1, 22, True]
NAMES = {"propertyNames": {"pattern": "^[ab1]{1,4}$"}, "additionalProperties": {"type": "boolean"}}
CONSTRAINTS: dict[str, Constraint] = {
    "two members of any name": schema(type="object", minProperties=2),
    "three members of short names": schema(type="object", minProperties=3, **NAMES),
    "members of any name beside known ones": schema(
        type="object", properties={"ab": {"type": "integer"}, "a": {}}, required=["a"], minProperties=3
    ),
    "conditions on members of any name": schema(
        type="object",
        minProperties=3,
        allOf=[
            {"not": {"additionalProperties": {"type": "string"}}},
            {"not": {"patternProperties": {"b": {"type": "string", "format": "date"}}}},
        ],
    ),
    "members whose names match patterns that overlap": schema(
        type="object",
        minProperties=4,
        patternProperties={"a": {"type": "integer"}, "b": {"minimum": 1}, "^1|d$": {"maxLength": 2}},
    ),
    "one of two conditions on names": schema(
        type="object",
        oneOf=[
            {"not": {"patternProperties": {"a": {"type": "integer"}}}},
            {"patternProperties": {"b": {}}, "not": {"patternProperties": {"b": {"type": "string"}}}},
        ],
    ),
    "conditions and a count beside known names": schema(
        type="object",
        properties={"ab": {"type": "integer"}, "word": {}, "a": {}},
        minProperties=4,
        allOf=[{"not": {"patternProperties": {name: {"type": "string"}}}} for name in ("a", "b", "^1")],
    ),
    "required in any order": json_schema(
        {"type": "object", "required": ["a", "ab"], "dependentRequired": {"a": ["word"]}},
        property_order="any",
    ),
    "distinct strings": schema(type="array", uniqueItems=True, items={"type": "string"}, minItems=3),
    "distinct values of a list": schema(type="array", uniqueItems=True, items={"enum": ENUM}, minItems=6),
    "long strings": schema(type="array", items={"type": "string", "minLength": 40}, minItems=1),
    "one of several lengths": regex("(abc){3}|1{2}word|a*b{7}"),
    "nested arrays": schema(type="array", minItems=2),
    "behind a lexer": lark('start: A B\nA: /a+/\nB: /b+(word)?/\n%ignore " "'),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_mask_within_a_budget_holds_the_tokens_whose_lengths_fit(name: str) -> None:
    automaton = compile(CONSTRAINTS[name], byte_vocabulary(*PIECES))
    for seed in range(2):
        for state, left in walk(automaton, seed, 12):
            need = automaton.shortest_completion(state)
            for budget in {left, need, need + 1, need + 4} - {0}:
                assert within(automaton, state, budget) == judged(automaton, state, budget)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_masks_do_not_depend_on_what_was_asked_before(name: str) -> None:
    vocabulary = byte_vocabulary(*PIECES)
    asked = compile(CONSTRAINTS[name], vocabulary)
    tokens: list[int] = []
    found = []
    for state, left in itertools.islice(walk(asked, 5, 8), 8):
        need = asked.shortest_completion(state)
        found.append((left, need, within(asked, state, need + 1)))
        if fits := sorted(within(asked, state, left) - set(vocabulary.eos_ids)):
            tokens.append(fits[0])
    fresh = compile(CONSTRAINTS[name], byte_vocabulary(*PIECES))
    states = [state for state, _ in itertools.islice(walk(fresh, 5, 8), 8)]
    for state, (_, need, mask) in reversed(list(zip(states, found, strict=True))):
        assert within(fresh, state, need + 1) == mask
        assert fresh.shortest_completion(state) == need


# ---------------------------------------------------------------- against texts written out


@cache
def objects() -> list[str]:
    """All objects of two or three of these members, in any order."""
    members = [f'"{name}":{value}' for name in ("", "a", "b", "ab") for value in ("1", "22")]
    made = []
    for count in (2, 3):
        for chosen in itertools.permutations(members, count):
            if len({member.split(":")[0] for member in chosen}) == count:
                made.append("{" + ",".join(chosen) + "}")
    return made


def test_lengths_are_those_of_texts_and_no_budget_leads_to_a_dead_end() -> None:
    """A length is that of some text, and at most that of the text with the fewest bytes."""
    vocabulary = byte_vocabulary('{"', '":', '":1', ',"', "22", '":22}', "ab", '","a')
    constraint = json_schema(
        {
            "type": "object",
            "minProperties": 2,
            "maxProperties": 3,
            "propertyNames": {"enum": ["", "a", "b", "ab"]},
            "additionalProperties": {"enum": [1, 22]},
        },
        property_order="any",
    )
    automaton = compile(constraint, vocabulary)
    judge = FiniteAutomaton(objects(), vocabulary)
    for seed in range(6):
        random_ = random.Random(seed)
        state, other = automaton.start, judge.start
        left = automaton.shortest_completion(state) + seed
        while True:
            assert automaton.shortest_completion(state) >= judge.shortest_completion(other)
            fits = within(automaton, state, left)
            fits -= {
                vocabulary.ids_by_bytes[space] for space in (b" ", b"\n")
            }  # not in the texts written out
            assert fits <= within(judge, other, left)
            fits -= set(vocabulary.eos_ids)
            if not fits:
                assert automaton.accepts(state)
                break
            token = random_.choice(sorted(fits))
            state, other, left = automaton.next(state, token), judge.next(other, token), left - 1


@pytest.mark.ci
def test_an_escape_may_spell_a_name_that_the_shortest_text_has() -> None:
    """As long as it is open, the name is told from others by the characters that are read, however they are written."""
    written = {"é": r"\u00e9", "ü": r"\u00fc", "𝄞": r"\ud834\udd1e"}
    names = ["", "é", "𝄞", "üüü", "𝄞𝄞𝄞𝄞"]
    texts = []
    for count in (4, 5):
        for chosen in itertools.permutations(names, count):
            for spelled in itertools.product(
                *({name, "".join(map(written.__getitem__, name))} for name in chosen)
            ):
                texts.append("{" + ",".join(f'"{name}":1' for name in spelled) + "}")
    vocabulary = byte_vocabulary(
        '{"', '":1', ',"', '":1,"', '""', *written, r"\u00", r"\ud834", r"\udd1e", "e9"
    )
    constraint = schema(
        type="object",
        minProperties=4,
        maxProperties=5,
        propertyNames={"enum": names},
        additionalProperties={"const": 1},
    )
    automaton = compile(constraint, vocabulary)
    judge = FiniteAutomaton(texts, vocabulary)
    ends = 0
    for seed in range(8):
        random_ = random.Random(seed)
        state, other = automaton.start, judge.start
        left = judge.shortest_completion(other) + seed % 4
        while True:
            assert automaton.shortest_completion(state) >= judge.shortest_completion(other)
            fits = within(automaton, state, left)
            assert fits == judged(automaton, state, left)
            fits &= allowed(judge, other)  # without white space, which is not in the texts written out
            assert fits <= within(judge, other, left)
            if not (text := sorted(fits - set(vocabulary.eos_ids))):
                ends += automaton.accepts(state)
                break
            token = random_.choice(text)
            state, other, left = automaton.next(state, token), judge.next(other, token), left - 1
    assert ends == 8


SHORT = ("a", "b", "ab", "ba", "aaa", "bbbbb", "aabb")


def words(random_: random.Random) -> list[str]:
    return sorted(
        {"".join(random_.choices("ab", k=random_.randint(1, 9))) for _ in range(random_.randint(1, 8))}
    )


@pytest.mark.parametrize("seed", range(12))
def test_where_few_texts_follow_counts_and_masks_are_exact(seed: int) -> None:
    """Also where the text with the fewest tokens is not the one with the fewest bytes."""
    random_ = random.Random(seed)
    vocabulary = byte_vocabulary(*random_.sample(SHORT, 4))
    texts = words(random_)
    judge = FiniteAutomaton(texts, vocabulary)
    for constraint in (regex("|".join(texts)), choice(texts)):
        automaton = compile(constraint, vocabulary)
        work = [(automaton.start, judge.start)]
        for state, other in work:
            assert automaton.shortest_completion(state) == judge.shortest_completion(other)
            for budget in range(1, 5):
                assert within(automaton, state, budget) == within(judge, other, budget)
            following = allowed(automaton, state) - set(vocabulary.eos_ids)
            after = {(automaton.next(state, token), judge.next(other, token)) for token in following}
            work += sorted(after - set(work))


def test_an_automaton_says_where_its_counts_are_exact() -> None:
    """Where many texts can follow, one with more bytes than the shortest may take fewer tokens."""
    for constraint, exact, count in (
        (regex("[a-c]*qx"), True, 1),
        (regex("[ -~]*qx"), False, 2),
        (lark("start: X Y\nX: /[a-c]+/\nY: /qx/"), True, 1),
        (lark("start: X Y\nX: /[ -p]+/\nY: /qx/"), False, 3),
    ):
        automaton = compile(constraint, byte_vocabulary("aqx"))
        assert automaton.counts_exactly(automaton.start) == exact
        assert automaton.shortest_completion(automaton.start) == count
        after = automaton.next(automaton.start, ord("a"))
        assert automaton.counts_exactly(after) == exact
    closed = compile(regex("[ -~]*\nend"), byte_vocabulary())
    after = closed.walk(closed.start, [ord("a"), ord("\n")])[-1]
    assert (closed.counts_exactly(closed.start), closed.counts_exactly(after)) == (False, True)
    with pytest.raises(ValueError, match="dead state"):
        closed.counts_exactly(0)


def fewest_by_tokens(automaton: Automaton) -> dict[int, int]:
    """The fewest tokens from each state to the end, by walking all tokens backwards."""
    states, before = [automaton.start], dict[int, set[int]]()
    for state in states:
        for token in allowed(automaton, state) - set(automaton.vocabulary.eos_ids):
            after = automaton.next(state, token)
            if after not in before and after != automaton.start:
                states.append(after)
            before.setdefault(after, set()).add(state)
    fewest = {state: 0 for state in states if automaton.accepts(state)}
    reached = list(fewest)
    for state in reached:
        for earlier in before.get(state, set()) - set(fewest):
            fewest[earlier] = fewest[state] + 1
            reached.append(earlier)
    return fewest


@pytest.mark.parametrize(
    "constraint",
    [
        regex("[ -~]{7}"),
        regex(".{5}x?"),
        regex("([ -~]q){2}|[!-~]{1,2}b"),
        regex("[ -~]*qx"),
        lark("start: X Y\nX: /[ -p]+/\nY: /qx/"),
        lark('start: (X ";")~2\nX: /[ -~]{3}/\n%ignore " "'),
    ],
    ids=range(6),
)
@pytest.mark.parametrize("memory_limit", [1 << 26, 0])
def test_many_texts_are_counted_exactly_where_it_is_asked_for(
    constraint: Constraint, memory_limit: int
) -> None:
    vocabulary = byte_vocabulary("aqx", "aab", "zq", "zqzq", "bé", "abc;", " ab", "~~~~", "x;")
    automaton = compile(constraint, vocabulary, memory_limit=memory_limit)
    plain = compile(constraint, vocabulary)
    assert not plain.counts_exactly(plain.start)
    assert automaton.count_thoroughly(automaton.start)
    judge = fewest_by_tokens(plain)
    work = [(automaton.start, plain.start)]
    known = set(work)
    differ = False
    for state, other in work:
        differ |= automaton.shortest_completion(state) < plain.shortest_completion(other)
        assert automaton.shortest_completion(state) == judge[other]
        assert automaton.counts_exactly(state)
        following = sorted(allowed(plain, other) - set(vocabulary.eos_ids))
        for budget in range(1, 5):
            fitting = {token for token in following if judge[plain.next(other, token)] < budget}
            assert within(automaton, state, budget) - set(vocabulary.eos_ids) == fitting
        for token in following:
            after = automaton.next(state, token), plain.next(other, token)
            if after not in known:
                known.add(after)
                work.append(after)
    assert differ


def test_where_there_are_too_many_texts_counts_stay_bounds() -> None:
    automaton = compile(json_schema({"type": "object"}), byte_vocabulary(*PIECES))
    before = automaton.shortest_completion(automaton.start)
    assert not automaton.count_thoroughly(automaton.start)
    assert not automaton.counts_exactly(automaton.start)
    assert automaton.shortest_completion(automaton.start) == before
    with pytest.raises(ValueError, match="dead state"):
        automaton.count_thoroughly(0)


def test_a_longer_text_may_take_fewer_tokens() -> None:
    automaton = compile(regex("aaaa|bbbbb"), byte_vocabulary("bbbbb"))
    assert automaton.shortest_completion(automaton.start) == 1
    assert within(automaton, automaton.start, 1) == {256}
    assert within(automaton, automaton.start, 4) == {ord("a"), 256}
    lexed = compile(lark("start: X Y\nX: /a+/\nY: /b+c/"), byte_vocabulary("ab", "abc", "aa"))
    after = lexed.next(lexed.start, ord("a"))
    assert (lexed.shortest_completion(lexed.start), lexed.shortest_completion(after)) == (1, 1)


# ---------------------------------------------------------------- work


@cache
def many_words() -> Vocabulary:
    """Every byte and 18,954 tokens of letters, some behind or before the marks of JSON."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(word) for n in (2, 3) for word in itertools.product(letters, repeat=n)]
    return byte_vocabulary(
        *words, *(f'{word}":' for word in words[:350]), *(f',"{word}' for word in words[:350])
    )


HOSTILE: dict[str, tuple[Constraint, str]] = {
    "two members of any name": (schema(type="object", minProperties=2), '{"'),
    "twenty members of any name": (schema(type="object", minProperties=20), '{"ab":1,"'),
    "two hundred members": (schema(type="object", minProperties=200), '{"ab":1,"'),
    "members of short names": (
        schema(type="object", minProperties=2, propertyNames={"pattern": "^[a-z]{1,8}$"}),
        '{"',
    ),
    "distinct strings": (
        schema(type="array", uniqueItems=True, items={"type": "string", "maxLength": 200}, minItems=3),
        '["ab","',
    ),
    "distinct values of a long list": (
        schema(type="array", uniqueItems=True, minItems=90, items={"enum": [f"w{i}" for i in range(100)]}),
        '["w1","w',
    ),
    "a long string": (schema(type="string", minLength=20_000), '"ab'),
    "any three items": (schema(type="array", minItems=3), '["'),
    "required in any order": (
        json_schema({"type": "object", "required": ["a", "b"]}, property_order="any"),
        '{"',
    ),
}
STATES = 25_000
"""A call may create a state for each byte of a completion that it spells, and some around it."""


@pytest.mark.parametrize("name", HOSTILE)
def test_the_work_of_a_mask_within_a_budget_is_bounded(name: str) -> None:
    constraint, text = HOSTILE[name]
    automaton = compile(constraint, many_words())
    state = automaton.start
    for byte in text.encode():
        state = automaton.next(state, byte)
    need = automaton.shortest_completion(state)
    for budget in (10, 50, need, need + 1, 2 * need):
        before = automaton.memory
        fits = within(automaton, state, budget)
        after = automaton.memory
        assert after["states"] - before["states"] < STATES
        assert after["bytes"] - before["bytes"] < 32 << 20
        if budget >= need:
            assert fits


def test_many_clients_with_constraints_of_their_own_do_not_add_up() -> None:
    """Each names its schema differently; what a mask near the limit needs is small for each."""
    states = 0
    for client in range(8):
        automaton = compile(schema(type="object", minProperties=2, title=f"client {client}"), many_words())
        state, left = automaton.start, automaton.shortest_completion(automaton.start) + 1
        while fits := within(automaton, state, left) - set(many_words().eos_ids):
            state, left = automaton.next(state, max(fits)), left - 1
        states += automaton.memory["states"]
    assert states < 8 * 5_000


def test_where_the_work_of_a_mask_runs_out_a_completion_is_left() -> None:
    """Each of 90 different values excludes itself from the rest: the counts of few tokens are found, one always."""
    constraint, _ = HOSTILE["distinct values of a long list"]
    automaton = compile(constraint, many_words())
    state, left = automaton.start, automaton.shortest_completion(automaton.start) + 2
    values: list[int] = []
    while left:
        fits = within(automaton, state, left)
        assert fits <= judged(automaton, state, left) if left % 40 == 0 else fits
        text = sorted(fits - set(automaton.vocabulary.eos_ids))
        if not text:
            break
        values.append(text[left % len(text)])
        state, left = automaton.next(state, values[-1]), left - 1
    assert automaton.accepts(state)
    items = json.loads(b"".join(automaton.vocabulary.tokens[token] for token in values))
    assert len(set(items)) == len(items) >= 90
