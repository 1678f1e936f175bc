"""Texts of a limited number of tokens in structural tags, against a judge that tries every way to cut a text into parts."""

from __future__ import annotations

from typing import Any

import pytest

from constrained import (
    Automaton,
    ConstraintTooLarge,
    Generator,
    UnsupportedConstraint,
    Vocabulary,
    after,
    compile,
    lark,
    load,
    structural_tag,
)
from constrained.automaton import TokenAutomaton, counted
from constrained.automaton.bitmask import unpack_ids
from constrained.automaton.counted import CountedAutomaton
from constrained.bench.hostile.case import words
from constrained.decoding.speculation import Speculation
from tests.support.counted_texts import (
    EOS,
    PIECES,
    VOCABULARY,
    Part,
    check_limits,
    check_masks,
    judged,
    walks,
)
from tests.support.structural_tags import of
from tests.support.tiny_models import random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer


def any_text(most: int | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "any_text", "max_tokens": most, **more}


def between(begin: str, content: Any, end: str) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def const(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}


def sequence(*elements: Any) -> dict[str, Any]:
    return {"type": "sequence", "elements": elements}


OPEN, CLOSE = Part(b"<"), Part(b"/>")
ONE = between("<", any_text(2), "/>")
ONE_PARTS = (OPEN, Part(None, 2, (b"/>",)), CLOSE)
TOKEN = {"type": "exclude_token"}
OBJECT = {"type": "json_schema", "json_schema": {"type": "object"}}
CASES: dict[str, tuple[Any, list[tuple[Part, ...]]]] = {
    "alone": (any_text(2), [(Part(None, 2),)]),
    "one": (any_text(1), [(Part(None, 1),)]),
    "none": (sequence(const("a"), any_text(0), const("/")), [(Part(b"a/"),)]),
    "a tag": (ONE, [ONE_PARTS]),
    "any tokens": (between("<", {"type": "any_tokens", "max_tokens": 2}, "/>"), [ONE_PARTS]),
    "excludes": (
        between("<", any_text(3, excludes=["aa"]), "/>"),
        [(OPEN, Part(None, 3, (b"aa", b"/>")), CLOSE)],
    ),
    "then text": (sequence(ONE, any_text()), [(*ONE_PARTS, Part())]),
    "two limits": (
        {"type": "or", "elements": [ONE, between("<", any_text(1), "a")]},
        [ONE_PARTS, (OPEN, Part(None, 1, (b"a",)), Part(b"a"))],
    ),
    "side by side": (sequence(any_text(1), any_text(2)), [(Part(None, 1), Part(None, 2))]),
    "many": (
        {"type": "star", "content": ONE},
        [ONE_PARTS * count for count in range(5)],
    ),
    "again and again": (
        {"type": "repeat", "min": 2, "max": 2, "content": any_text(2, excludes=["a/"])},
        [(Part(None, 2, (b"a/",)),) * 2],
    ),
    "one of two, again and again": (
        {
            "type": "repeat",
            "min": 0,
            "max": 3,
            "content": {"type": "or", "elements": [any_text(1), any_text(1, excludes=["a"])]},
        },
        [(Part(None, 1),) * count for count in range(4)],
    ),
    "a token": (sequence(const("<"), TOKEN, const(">")), [(OPEN, Part(whole=True), Part(b">"))]),
    "a token in a tag": (between("<", TOKEN, "/>"), [(OPEN, Part(excludes=(b"/>",), whole=True), CLOSE)]),
    "tokens": (
        {"type": "repeat", "min": 1, "max": 2, "content": TOKEN},
        [(Part(whole=True),), (Part(whole=True),) * 2],
    ),
}


def automaton_of(case: str) -> Automaton:
    return compile(structural_tag(of(CASES[case][0])), VOCABULARY)


@pytest.mark.ci
@pytest.mark.parametrize("case", CASES)
def test_masks_are_those_of_the_judge(case: str) -> None:
    check_masks(automaton_of(case), CASES[case][1], case)


@pytest.mark.parametrize("case", CASES)
def test_within_a_limit_some_token_leads_to_the_end(case: str) -> None:
    check_limits(automaton_of(case), case)


@pytest.mark.parametrize("case", ["side by side", "again and again", "two limits"])
def test_a_state_with_too_many_readings_keeps_some(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is allowed then is less, and still ends in time."""
    automaton = automaton_of(case)
    assert isinstance(automaton, CountedAutomaton)
    assert max(len(automaton._states[state].readings) for state, _ in walks(automaton, case, 20, 6)) > 1
    automaton = automaton_of(case)
    assert isinstance(automaton, CountedAutomaton)
    monkeypatch.setattr(counted, "MAX_READINGS", 1)
    for state, tokens in walks(automaton, case, 20, 6):
        mask = automaton.new_mask()
        automaton.fill_mask(state, mask)
        allowed = set(unpack_ids(mask).tolist())
        assert allowed == {token for token in range(EOS + 1) if automaton.next(state, token)}
        for token in allowed - {EOS}:
            ways = CASES[case][1]
            assert judged(ways, [*tokens, token], ended=False) or judged(ways, [*tokens, token], ended=True)
        automaton.fill_mask_within(state, mask, automaton.shortest_completion(state))
        assert unpack_ids(mask).size
        assert not tokens or len(automaton._states[state].readings) == 1


def inside(out: Any, vocabulary: Vocabulary) -> list[int]:
    """The tokens that begin in the text between ``<t>`` and ``</t>``."""
    begins, at = [], 0
    start, end = out.text.encode().index(b"<t>") + 3, out.text.encode().index(b"</t>")
    for token in out.tokens:
        if start <= at < end:
            begins.append(token)
        at += len(vocabulary.tokens[token])
    return begins


@pytest.mark.ci
def test_random_texts_of_a_model_are_the_same_with_draft_tokens() -> None:
    model = load(random_llama(), small_bpe_tokenizer())
    content = {
        "type": "json_schema",
        "json_schema": {
            "type": "object",
            "properties": {"number": {"type": "integer"}},
            "required": ["number"],
        },
    }
    wanted = structural_tag(of(sequence(between("<t>", any_text(7), "</t>"), content)))
    drafted = Generator(model, wanted, chat=False, speculation=Speculation(nodes=12, adapts=False))
    plain = Generator(model, wanted, chat=False, speculation=None)
    lengths = set()
    for seed in range(3):
        settings: dict[str, Any] = {"seed": seed, "temperature": float(seed % 3), "max_tokens": 40}
        out = drafted("some numbers", **settings)
        assert out.text == plain("some numbers", **settings).text
        assert out.stats.accepted > 0
        assert len(inside(out, model.vocabulary)) <= 7
        lengths.add(len(inside(out, model.vocabulary)))
    assert 7 in lengths


def test_many_tokens_take_few_states_and_no_time_to_compile() -> None:
    automaton = compile(structural_tag(of(between("<", any_text(100_000), "/>"))), VOCABULARY)
    assert isinstance(automaton, CountedAutomaton)
    state = automaton.walk(automaton.start, [PIECES.index(b"<"), *[PIECES.index(b"aa")] * 2_000])[-1]
    assert automaton.memory["counted_states"] < 2_010
    assert automaton.memory["states"] < 100
    assert automaton.shortest_completion(state) == 1


@pytest.mark.parametrize(
    "form",
    [
        {"type": "star", "content": any_text(1000)},
        {"type": "or", "elements": [any_text(1000), any_text(), {"type": "regex", "pattern": "[a-z]*"}]},
        {"type": "repeat", "min": 2, "max": 50, "content": any_text()},
        {"type": "star", "content": {"type": "or", "elements": [any_text(1000), OBJECT]}},
        {"type": "star", "content": {"type": "or", "elements": [{"type": "regex", "pattern": ".*"}, OBJECT]}},
    ],
    ids=["star", "or", "repeat", "star of or", "star of patterns"],
)
def test_free_text_that_repeats_is_read_once(form: Any) -> None:
    """Masks of texts that can be divided in many ways took 4 million steps over 131,072 tokens: 0.3 s."""
    vocabulary = words.__wrapped__()
    native = compile(structural_tag(of(form)), vocabulary).relaxed_automaton
    assert isinstance(native, TokenAutomaton)
    (*_, state) = native.walk(native.start, vocabulary.encode(b"ab"))
    native.fill_mask(state, native.new_mask())
    assert native.last_work < 3000


def test_a_text_that_several_readings_have_begun_is_looked_at_once() -> None:
    """With up to 50 texts in each other's place a mask near a limit took 0.9 s: each reading had one of its own."""
    repeated = {"type": "repeat", "min": 2, "max": 50, "content": any_text(7, max_chars=100)}
    automaton = compile(structural_tag(of(repeated)), words())
    assert isinstance(automaton, CountedAutomaton)
    (inner,) = automaton._inner
    assert isinstance(inner, TokenAutomaton)
    (*_, state) = automaton.walk(automaton.start, words().encode(b"ab, ab"))
    readings = automaton._states[state].readings
    begun = {place.inside for place, _ in readings if place.text >= 0}
    assert len(begun) < 20 < len(readings)
    asked: list[int] = []

    class Recorded(TokenAutomaton):
        def fill_mask_within(self, state: int, mask: Any, budget: int) -> None:
            asked.append(state)
            super().fill_mask_within(state, mask, budget)

    automaton.fill_mask(state, automaton.new_mask())  # tokens that cross an end are found
    inner.__class__ = Recorded
    automaton.fill_mask_within(state, automaton.new_mask(), automaton.shortest_completion(state) + 1)
    assert 0 < len(asked) == len(set(asked)) <= len(begun)


def test_what_counts_tokens_is_no_part_of_another_constraint() -> None:
    counted = structural_tag(of(ONE))
    for make in (lambda: after("so", counted), lambda: lark("start: @it", embed={"it": counted})):
        with pytest.raises(UnsupportedConstraint, match="limited number of tokens"):
            compile(make(), VOCABULARY)


def test_only_so_many_limits_can_be_told_apart() -> None:
    many = sequence(*(between("<", any_text(count), "/>") for count in range(1, 15)))
    with pytest.raises(ConstraintTooLarge, match="#/format/elements/13/content"):
        compile(structural_tag(of(many)), VOCABULARY)
