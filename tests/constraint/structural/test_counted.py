"""Texts of a limited number of tokens in structural tags, against a judge that tries every way to cut a text into parts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import pytest

from constrained import (
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
from constrained.automaton import counted
from constrained.automaton.bitmask import unpack_ids
from constrained.automaton.counted import CountedAutomaton
from constrained.decoding.speculation import Speculation
from tests.support.structural_tags import of
from tests.support.tiny_models import random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

PIECES = [
    *(bytes([one]) for one in b"a<>/"), "é".encode()[:1], "é".encode()[1:],
    b"aa", b"a/", b"/>", b"/>a", b"<a", b"</", b"a<", "aé".encode()[:2], "é/".encode()[1:], "é".encode(), b"/></", b"><",
]  # fmt: skip
EOS = len(PIECES)
VOCABULARY = Vocabulary.from_bytes([*PIECES, b""], [EOS])


class Part(NamedTuple):
    """A part of a text: exactly `text`, or free text of at most `most` tokens without `excludes`; `whole`: one token."""

    text: bytes | None = None
    most: int | None = None
    excludes: tuple[bytes, ...] = ()
    whole: bool = False


def is_free(part: Part, data: bytes) -> bool:
    """Whether a text is one of a free part, tokens not counted."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return not any(text in data for text in part.excludes)


@lru_cache(None)
def fewest(part: Part, data: bytes) -> int:
    """The fewest tokens that complete a free text, at most 2 in this vocabulary; 9: there are none."""
    for count in range(3):
        for tokens in product(PIECES, repeat=count):
            if is_free(part, data + b"".join(tokens)):
                return count
    return 9


def holds(part: Part, data: bytes, start: int, end: int, begins: list[int], *, ended: bool) -> bool:
    """Whether a part is `data[start:end]`, or begins so. `begins`: where tokens begin, and where the last one ends."""
    text = data[start:end]
    if part.text is not None:
        return text == part.text if ended else part.text.startswith(text) and text != part.text
    inside = [at for at in begins if start <= at < end]
    if part.whole:
        if not ended:
            return start == end and start in begins
        return is_free(part, text) and len(inside) == 1 and start in begins and end in begins
    if part.most is None:
        return is_free(part, text) if ended else fewest(part, text) < 9
    between = [at for at in begins if start < at <= end and (at < end or not ended)]
    counted = [(at, sum(one < at for one in inside)) for at in between]
    if any(fewest(part, data[start:at]) > part.most - used for at, used in counted):
        return False
    return len(inside) <= part.most and (not ended or is_free(part, text))


def cuts(parts: tuple[Part, ...], data: bytes, begins: list[int], *, ended: bool) -> bool:
    """Whether tokens are a text of these parts, or (not `ended`) begin one."""

    def rest(number: int, start: int) -> bool:
        if number == len(parts):
            return start == len(data)
        for end in range(start, len(data) + 1):
            if holds(parts[number], data, start, end, begins, ended=True) and rest(number + 1, end):
                return True
        return not ended and holds(parts[number], data, start, len(data), begins, ended=False)

    return rest(0, 0)


def judged(ways: list[tuple[Part, ...]], tokens: list[int], *, ended: bool) -> bool:
    """Whether one of several sequences of parts allows these tokens."""
    data = b"".join(PIECES[token] for token in tokens)
    begins = [sum(len(PIECES[token]) for token in tokens[:at]) for at in range(len(tokens) + 1)]
    return any(cuts(parts, data, begins, ended=ended) for parts in ways)


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
    "a token": (sequence(const("<"), TOKEN, const(">")), [(OPEN, Part(whole=True), Part(b">"))]),
    "a token in a tag": (between("<", TOKEN, "/>"), [(OPEN, Part(excludes=(b"/>",), whole=True), CLOSE)]),
    "tokens": (
        {"type": "repeat", "min": 1, "max": 2, "content": TOKEN},
        [(Part(whole=True),), (Part(whole=True),) * 2],
    ),
}


def walks(case: str, count: int, length: int) -> Iterator[tuple[CountedAutomaton, int, list[int]]]:
    """The states of random walks, with the tokens that led there."""
    automaton = compile(structural_tag(of(CASES[case][0])), VOCABULARY)
    chance = random.Random(case)
    mask = automaton.new_mask()
    for _ in range(count):
        state, tokens = automaton.start, list[int]()
        while len(tokens) < length:
            yield automaton, state, tokens
            automaton.fill_mask(state, mask)
            allowed = [token for token in unpack_ids(mask).tolist() if token != EOS]
            if not allowed:
                break
            tokens.append(chance.choice(allowed))
            state = automaton.next(state, tokens[-1])


@pytest.mark.parametrize("case", CASES)
def test_masks_are_those_of_the_judge(case: str) -> None:
    ways = CASES[case][1]
    known: dict[tuple[int, ...], set[int]] = {}
    for automaton, state, tokens in walks(case, 40, 6):
        if (key := tuple(tokens)) not in known:
            known[key] = {
                token
                for token in range(EOS)
                if judged(ways, [*tokens, token], ended=False) or judged(ways, [*tokens, token], ended=True)
            }
            if judged(ways, tokens, ended=True):
                known[key].add(EOS)
        mask = automaton.new_mask()
        automaton.fill_mask(state, mask)
        assert set(unpack_ids(mask).tolist()) == known[key], (case, [PIECES[one] for one in tokens])
        assert {token for token in range(EOS + 1) if automaton.next(state, token)} == known[key]


@pytest.mark.parametrize("case", CASES)
def test_within_a_limit_some_token_leads_to_the_end(case: str) -> None:
    for automaton, state, _ in walks(case, 20, 6):
        for budget in range(automaton.shortest_completion(state), automaton.shortest_completion(state) + 3):
            mask = automaton.new_mask()
            automaton.fill_mask_within(state, mask, budget)
            allowed = unpack_ids(mask).tolist()
            assert allowed
            within = {token for token in range(EOS + 1) if automaton.next_within(state, token, budget)}
            assert set(allowed) <= within
            assert any(
                token == EOS or automaton.shortest_completion(automaton.next(state, token)) < budget
                for token in allowed
            )


@pytest.mark.parametrize("case", ["side by side", "again and again", "two limits"])
def test_a_state_with_too_many_readings_keeps_some(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is allowed then is less, and still ends in time."""
    assert max(len(automaton._states[state].readings) for automaton, state, _ in walks(case, 20, 6)) > 1
    monkeypatch.setattr(counted, "MAX_READINGS", 1)
    for automaton, state, tokens in walks(case, 20, 6):
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


def test_what_counts_tokens_is_no_part_of_another_constraint() -> None:
    counted = structural_tag(of(ONE))
    for make in (lambda: after("so", counted), lambda: lark("start: @it", embed={"it": counted})):
        with pytest.raises(UnsupportedConstraint, match="limited number of tokens"):
            compile(make(), VOCABULARY)


def test_every_byte_has_to_be_a_token() -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"<", b"/>", b">", b""], [4])
    with pytest.raises(UnsupportedConstraint, match="cannot be limited over this vocabulary"):
        compile(structural_tag(of(ONE)), vocabulary)


def test_only_so_many_limits_can_be_told_apart() -> None:
    many = sequence(*(between("<", any_text(count), "/>") for count in range(1, 15)))
    with pytest.raises(ConstraintTooLarge, match="#/format/elements/13/content"):
        compile(structural_tag(of(many)), VOCABULARY)
