"""What can be written is what some sequence of tokens spells, by trying all sequences of tokens."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

import constrained
from constrained.automaton import SpelledAutomaton, TokenAutomaton, trial
from constrained.automaton.bitmask import unpack_ids
from constrained.errors import ConstraintTooLarge, UnsatisfiableConstraint
from constrained.vocabulary import Vocabulary
from tests.exactness.enumerate import TableModel

LONGEST = 6
NEVER = 99


def needs(
    pieces: list[bytes], pattern: str, depth: int, longest: int = LONGEST
) -> dict[tuple[int, ...], int]:
    """For each sequence of at most `depth` tokens: how many more a shortest completion takes, up to `longest` in all."""
    whole = re.compile(pattern.encode())
    found = dict.fromkeys(
        (ids for n in range(depth + 1) for ids in itertools.product(range(len(pieces)), repeat=n)), NEVER
    )
    for length in range(longest + 1):
        for ids in itertools.product(range(len(pieces)), repeat=length):
            if whole.fullmatch(b"".join(pieces[i] for i in ids)):
                for n in range(min(depth, length) + 1):
                    found[ids[:n]] = min(found[ids[:n]], length - n)
    return found


CASES = [
    ([b"yes", b"y", b"no", b"n", b"o"], "yes|no"),
    ([b"ab"], "ab"),
    ([b"ab", b"c"], "(ab)*c?"),
    ([b"ab", b"bc", b"a"], "a*b(cb)*c"),
    ([b"aa", b"aaa"], "a{5}|a{7}"),
    ([b"xa", b"ax", b"x"], "(xa|ax|x){2,4}"),
    (["é".encode(), b"e", b"ca", b"f"], "ca?f(é|e)"),
    ([b"(", b"))", b"()", b"x"], r"\((x|\(\)|\(x\))\)"),
    ([b"abc", b"b", b"ca"], "(abc)+|b(ca)*"),
]


@pytest.mark.parametrize(("pieces", "pattern"), CASES)
def test_masks_and_lengths_are_those_of_all_sequences_of_tokens(pieces, pattern):
    exact = needs(pieces, pattern, 3)
    vocabulary = Vocabulary.from_bytes([*pieces, b""], [len(pieces)])
    automaton = constrained.compile(constrained.regex(pattern), vocabulary)
    assert isinstance(automaton, SpelledAutomaton)
    for ids, need in exact.items():
        states = automaton.walk(automaton.start, ids)
        assert (len(states) == len(ids)) == (need < NEVER), ids
        if need == NEVER:
            continue
        state = states[-1] if states else automaton.start
        assert automaton.shortest_completion(state) == need
        assert automaton.accepts(state) == (need == 0)
        if len(ids) == 3:
            continue
        for budget in (1, 2, 3, 1 << 30):
            mask = automaton.new_mask()
            automaton.fill_mask_within(state, mask, budget)
            allowed = {t for t in range(vocabulary.size) if mask[t // 32] >> (t % 32) & 1}
            wanted = {t for t in range(len(pieces)) if exact[(*ids, t)] < min(budget, NEVER)}
            assert allowed == wanted | ({len(pieces)} if need == 0 else set())
            for token in range(len(pieces)):
                assert (automaton.next_within(state, token, budget) != 0) == (token in wanted)


@pytest.mark.parametrize(
    ("pieces", "pattern"),
    [([b"ab"], "a"), ([b"ab", b"yz"], "(ab)*z"), ([b"aa"], "a{3}"), ([b"ab", b"a"], "ba*")],
)
def test_what_no_tokens_spell_is_unsatisfiable(pieces, pattern):
    assert set(needs(pieces, pattern, 0).values()) == {NEVER}
    with pytest.raises(UnsatisfiableConstraint):
        constrained.compile(constrained.regex(pattern), Vocabulary.from_bytes([*pieces, b""], [len(pieces)]))


def test_characters_without_byte_fallback_can_be_written():
    characters = [chr(c) for c in range(32, 127)] + ["é", "日本", "日", "本"]
    vocabulary = Vocabulary.from_bytes([*(c.encode() for c in characters), b""], [len(characters)])
    for constraint, length in (
        (constrained.choice(["café", "tea"]), 3),
        (constrained.choice(["日本"]), 1),
        (constrained.json_schema({"enum": ["é", "ee"]}), 3),
        (constrained.regex("[é日]{3}"), 3),
        (constrained.json_schema({"type": "string", "minLength": 3}), 4),
    ):
        automaton = constrained.compile(constraint, vocabulary)
        assert automaton.shortest_completion(automaton.start) == length
    state = constrained.compile(constrained.json_schema({"type": "string"}), vocabulary)
    quote, accent, kanji = (characters.index(c) for c in ('"', "é", "日本"))
    states = state.walk(state.start, [quote, accent, kanji, quote])
    assert state.accepts(states[-1])


def test_a_grammar_with_a_lexer_and_a_json_schema_too():
    pieces = [b"true", b"false", b"{", b"}", b'"a"', b": ", b":", b"+", b"1", b"12"]
    vocabulary = Vocabulary.from_bytes([*pieces, b""], [len(pieces)])
    boolean = constrained.compile(constrained.json_schema({"type": "boolean"}), vocabulary)
    assert boolean.shortest_completion(boolean.start) == 1
    lark = constrained.compile(constrained.lark('start: N ("+" N)*\nN: /1+2?/'), vocabulary)
    ids = [pieces.index(p) for p in (b"12", b"+", b"1")]
    assert lark.accepts(lark.walk(lark.start, ids)[-1])
    mask = lark.new_mask()
    lark.fill_mask(lark.start, mask)
    assert int(mask[0]) == (1 << pieces.index(b"1")) | (1 << pieces.index(b"12"))


PRINTABLE = [bytes([byte]) for byte in range(32, 127)]


def masked(automaton, state, budget) -> set[int]:
    mask = automaton.new_mask()
    automaton.fill_mask_within(state, mask, budget)
    return set(unpack_ids(mask).tolist())


def test_a_longer_text_in_fewer_tokens_is_counted_where_many_texts_can_follow():
    """The text with the fewest bytes is Bcccc: it takes five tokens, and a longer one takes two."""
    pieces = [*PRINTABLE, "é".encode(), b"~zzzzzz"]
    pattern = "A[ -~]*z{6}|B[ -~]*c{4}"
    exact = needs(pieces, pattern, 1, longest=2)
    vocabulary = Vocabulary.from_bytes([*pieces, b""], [len(pieces)])
    automaton = constrained.compile(constrained.regex(pattern), vocabulary)
    assert isinstance(automaton, SpelledAutomaton)
    assert automaton.shortest_completion(automaton.start) == exact[()] == 2
    assert masked(automaton, automaton.start, 2) == {t for t in range(len(pieces)) if exact[t,] < 2} != set()


def test_counts_and_masks_do_not_depend_on_earlier_questions_and_leave_no_dead_end():
    """Over a vocabulary so large that counts are upper bounds."""
    letters = "abcdefghijklmnopqrstuvwxyzéèüöäñç日本語"
    words = [a + b for a in letters for b in letters] + ["true", '": ', '", "', '{"', '"}']
    pieces = [*PRINTABLE, *(word.encode() for word in words), *(c.encode() for c in "日本語é")]
    vocabulary = Vocabulary.from_bytes([*pieces, b""], [len(pieces)])
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 5}, "é": {"enum": ["日本語", "été", True]}},
        "required": ["name", "é"],
        "additionalProperties": False,
    }
    walks = []
    for seed in range(4):
        automaton = constrained.compile(constrained.json_schema(schema), vocabulary)
        assert isinstance(automaton, SpelledAutomaton)
        random = np.random.default_rng(seed)
        state, budget, walk = automaton.start, automaton.shortest_completion(automaton.start) + 2, []
        while not automaton.accepts(state):
            allowed = masked(automaton, state, budget)
            assert allowed
            walk.append((token := int(random.choice(sorted(allowed))), budget))
            state, budget = automaton.next(state, token), budget - 1
            assert automaton.shortest_completion(state) <= budget
        walks.append(walk)

    def answers(order):
        automaton = constrained.compile(constrained.json_schema(schema), vocabulary)
        found = {}
        for walk, length in order:
            state = [automaton.start, *automaton.walk(automaton.start, [t for t, _ in walks[walk]])][length]
            budget = [*(budget for _, budget in walks[walk]), 1][length]
            found[walk, length] = automaton.shortest_completion(state), masked(automaton, state, budget)
        return found

    order = [(walk, length) for walk in range(4) for length in range(len(walks[walk]) + 1)]
    assert len(order) > 30
    assert answers(order) == answers(order[::-1])


def test_generation_over_such_a_vocabulary_draws_every_text():
    from tests.exactness.enumerate import TableModel, random_tables

    pieces = [b"yes", b"y", b"no", b"n", b"o"]
    model = TableModel(pieces, random_tables(1, 6))
    gen = constrained.Generator(model, constrained.choice(["yes", "no"]), sampler="cars")
    drawn = gen.sample("", 200, seed=1)
    yes, no = (
        sum(
            math.prod(float(model.distribution(ids[:n])[token]) for n, token in enumerate(ids))
            for ids in spelled
        )
        for spelled in ([(0, model.end)], [(2, model.end), (3, 4, model.end)])
    )
    assert drawn.bounds[0] * (1 - 1e-9) <= yes + no <= drawn.bounds[1] * (1 + 1e-9)
    assert drawn.posterior["yes"] == pytest.approx(yes / (yes + no), abs=0.12)


def test_ordinary_vocabularies_have_the_native_automaton():
    vocabulary = Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"yes", b""], [257])
    assert vocabulary.unspelled_bytes == b""
    assert isinstance(constrained.compile(constrained.choice(["yes"]), vocabulary), TokenAutomaton)
    assert Vocabulary.from_bytes([b"a", b"ab", b"bc", b""], [3]).unspelled_bytes == b"bc"


def test_draft_tokens_are_those_of_the_vocabulary_and_save_passes():
    """Letters without a byte of their own, forced texts, and draft tokens that lead to where no token goes on."""
    pieces = ["x", "é", "é日", "日", "本", "日本", "-é", "xé"]
    rows = np.random.default_rng(5).normal(size=(200, len(pieces) + 1))
    model = TableModel(
        [piece.encode() for piece in pieces],
        lambda said: np.exp(r := rows[hash(said) % 200]) / np.exp(r).sum(),
    )
    gen = [
        constrained.Generator(
            model, constrained.regex("(x-é){4}日本(日|xé)-é"), sampler="local", speculation=drafts
        )
        for drafts in (None, constrained.Speculation(nodes=8, adapts=False))
    ]
    alone, drafted = ([one("", seed=seed, temperature=1.0) for seed in range(6)] for one in gen)
    assert [out.tokens for out in alone] == [out.tokens for out in drafted]
    assert len({out.tokens for out in alone}) > 1
    assert {token < len(pieces) for out in drafted for token in out.tokens} == {True}
    assert sum(out.stats.forwards for out in drafted) < 0.7 * sum(out.stats.forwards for out in alone)


HARD = "[ab]*a[ab]{20}é"
"""There are two million states, and no token of `UNSPELLED` writes é at the end."""
UNSPELLED = ["x", "y", "w", "a", "b", "éq", "wa"]


def test_where_a_search_gives_up_behind_a_token_masks_leave_that_token_out():
    """No limit is an error after the first token; the trial does not come behind so many letters."""
    pieces = [piece.encode() for piece in UNSPELLED]
    vocabulary = Vocabulary.from_bytes([*pieces, b""], [len(pieces)])
    automaton = constrained.compile(constrained.regex(f"w{{12}}(x+|y{HARD}|wa?b)"), vocabulary)
    assert isinstance(automaton, SpelledAutomaton)
    state = automaton.walk(automaton.start, [2] * 12)[-1]
    exact = needs(pieces, "x+|wa?b", 1, longest=3)
    for budget in (1 << 30, 2, 3, 1 << 30):
        wanted = {t for t in range(len(pieces)) if exact[t,] < min(budget, NEVER)}
        assert masked(automaton, state, budget) == wanted
        assert automaton.last_work < trial.START_LIMIT
    assert automaton.accepts(automaton.walk(state, [6, 4])[-1])


@pytest.mark.ci
def test_a_search_that_takes_too_long_at_the_start_refuses_the_constraint():
    vocabulary = Vocabulary.from_bytes([*(piece.encode() for piece in UNSPELLED), b""], [len(UNSPELLED)])
    with pytest.raises(
        ConstraintTooLarge, match="no completion that tokens of the vocabulary spell was found"
    ):
        constrained.compile(constrained.regex(HARD), vocabulary)


def test_the_work_of_searches_is_counted_and_limited():
    vocabulary = Vocabulary.from_bytes([*(piece.encode() for piece in UNSPELLED), b""], [len(UNSPELLED)])
    automaton = constrained.compile(constrained.regex(f"w{{12}}(x+|y{HARD}|wa?b)"), vocabulary)
    state = automaton.walk(automaton.start, [2] * 12)[-1]
    automaton.limit_work(50_000)
    with pytest.raises(constrained._core.TooLarge, match="too many steps"):
        automaton.fill_mask(state, automaton.new_mask())
    automaton.limit_work(None)
    assert masked(automaton, state, 1 << 30) == {UNSPELLED.index(piece) for piece in ("x", "w", "wa")}


def test_such_an_automaton_is_tried(monkeypatch):
    monkeypatch.setattr(trial.try_out, "__kwdefaults__", {"start_limit": 3, "written": False})
    with pytest.raises(
        ConstraintTooLarge, match="the masks of the constraint take too long\\n  at the start"
    ):
        constrained.compile(constrained.regex("é+"), Vocabulary.from_bytes(["é".encode(), b""], [1]))
