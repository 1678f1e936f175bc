"""What plug-ins for engines share: random walks against the automaton, limits, masks of a step, refusals."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import numpy as np
import pytest

import constrained
from constrained import Vocabulary
from constrained.automaton.bitmask import unpack_ids
from constrained.errors import ConstrainedError, DoesNotFit, InvalidArgument, VocabularyError
from constrained.integrations.engines.automata import Automata
from constrained.integrations.engines.request_constraint import request_constraint
from constrained.integrations.engines.request_grammar import RequestGrammar
from constrained.integrations.engines.settings import VllmSettings
from constrained.integrations.engines.step_masks import StepMasks
from constrained.integrations.engines.trial import Trial
from tests.support.finite import FiniteAutomaton

BYTES = Vocabulary.from_bytes([bytes([i]) for i in range(256)] + [b"<e>", b"ab", b'":', b"true"], [256])
SCHEMA = {
    "properties": {"a": {"type": "array", "items": {"type": "boolean"}}, "b": {"enum": ["ab", "c"]}},
    "required": ["b"],
}
GIVEN: list[dict[str, Any]] = [
    {"json": SCHEMA},
    {"json_object": True},
    {"regex": "(ab|c)+[0-9]{2,4}"},
    {"choice": ["yes", "no", "maybe"]},
    {"grammar": 'root ::= "a" root "b" | "c"'},
    {"grammar": 'start: "x" start | WORD\nWORD: /[ab]{1,3}/'},
]


class FakeTensor:
    """A tensor as `StepMasks` uses it."""

    def __init__(self, rows: int, words: int) -> None:
        self.array = np.full((rows, words), -1, dtype=np.int32)

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.array


def allowed(grammar: RequestGrammar) -> list[int]:
    """Judged one token at a time, not by masks."""
    automaton, eos = grammar.automaton, grammar.automaton.vocabulary.eos_ids
    return [
        token
        for token in range(automaton.vocabulary.size)
        if (
            automaton.accepts(grammar.state)
            if token in eos
            else automaton.next_within(grammar.state, token, grammar.budget)
        )
    ]


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: next(iter(given)))
@pytest.mark.parametrize("limit", [None, 40])
def test_random_walks_agree_with_the_automaton(given: dict[str, Any], limit: int | None) -> None:
    automaton = Automata(BYTES, VllmSettings()).compile(given)
    masks = StepMasks()
    for seed in range(6):
        rng = random.Random(seed)
        grammar = RequestGrammar(automaton, limit)
        written: list[int] = []
        for _ in range(limit or 30):
            if grammar.is_terminated():
                break
            row = FakeTensor(3, BYTES.size // 32 + 1)
            masks.add(grammar, row, 1)
            ids = unpack_ids(row.array[1]).tolist()
            assert ids == allowed(grammar)
            assert (row.array[[0, 2]] == -1).all()
            token = rng.choice(ids)
            wrong = rng.choice(sorted(set(range(BYTES.size)) - set(ids)))
            assert not grammar.validate_tokens([wrong])
            if automaton.next(grammar.state, wrong) == 0:  # not only beyond the limit
                assert not grammar.append([wrong])
            drafts = [token, *(rng.choices(range(BYTES.size), k=3)), -1, token]
            valid = grammar.validate_tokens(drafts)
            assert valid == drafts[: len(valid)]
            assert valid[:1] == [token]
            before = (grammar.state, grammar.accepted)
            assert grammar.append(valid)
            grammar.rollback(len(valid))
            assert (grammar.state, grammar.accepted) == before
            assert not grammar.is_terminated()
            assert grammar.append([token, -1])
            written.append(token)
        fresh = RequestGrammar(automaton, limit)
        assert fresh.append(written)
        assert (fresh.state, fresh.is_terminated()) == (grammar.state, grammar.is_terminated())
        if limit is not None:
            assert len(written) <= limit
            assert written[-1] == 256 or automaton.accepts(grammar.state)
            assert request_constraint(given).problems(BYTES.decode(written).decode()) == []
        fresh.reset()
        assert (fresh.state, fresh.accepted, fresh.is_terminated()) == (automaton.start, 0, False)
        fresh.rollback(0)
        assert fresh.state == automaton.start


def test_nothing_follows_the_end_but_further_ends() -> None:
    grammar = RequestGrammar(Automata(BYTES, VllmSettings()).compile({"choice": ["a"]}))
    assert grammar.validate_tokens([97, 256, 97]) == [97, 256]
    assert grammar.append([97, 256])
    assert grammar.is_terminated()
    assert grammar.validate_tokens([97]) == []
    assert not grammar.append([97])
    grammar.rollback(1)
    assert not grammar.is_terminated()
    assert grammar.validate_tokens([256]) == [256]


@pytest.mark.parametrize("token", [-2, 260, 1 << 40])
def test_ids_outside_the_vocabulary_are_refused(token: int) -> None:
    grammar = RequestGrammar(Automata(BYTES, VllmSettings()).compile({"regex": "a+"}))
    assert not grammar.append([97, token])
    assert grammar.accepted == 0
    assert grammar.validate_tokens([97, token]) == [97]


@pytest.mark.parametrize(
    ("limit", "tokens_before", "budget"),
    [(None, 0, 1 << 30), (10, 0, 9), (4, 0, 3), (3, 0, 3), (10, 6, 3), (10, 7, 3), (10, 8, 1 << 30)],
)
def test_the_budget_keeps_a_token_for_the_end(limit: int | None, tokens_before: int, budget: int) -> None:
    grammar = RequestGrammar(Automata(BYTES, VllmSettings()).compile({"regex": "a{3,}"}), limit)
    grammar.tokens_before = tokens_before
    assert grammar.budget == budget


def test_a_limit_below_the_shortest_completion_is_refused() -> None:
    automaton = Automata(BYTES, VllmSettings()).compile({"regex": "a{3,}"})
    with pytest.raises(DoesNotFit, match="max_tokens is 2") as refused:
        RequestGrammar(automaton, 2)
    assert (refused.value.needed, refused.value.limit) == (3, 2)


def test_stop_ids_are_those_of_the_request_and_no_others() -> None:
    automata = Automata(BYTES, VllmSettings())
    for stop in ([10], [10, 256], [97, 9999]):
        automaton = automata.compile({"regex": "[ab\n]{2}"}, stop)
        assert automaton is automata.compile({"regex": "[ab\n]{2}"}, reversed(stop))
        ends = {token for token in stop if token < BYTES.size}
        assert set(automaton.vocabulary.eos_ids) == ends
        assert not any(
            automaton.next(automaton.start, token) for token in ends
        )  # never text, as vLLM would stop there
        assert automaton.next(automaton.start, ord("b"))
    with pytest.raises(VocabularyError, match="no token ends the sequence"):
        automata.compile({"regex": "a"}, [])


def test_automata_are_shared_and_bounded() -> None:
    automata = Automata(BYTES, VllmSettings(automata=2))
    first = automata.compile({"regex": "a"})
    assert automata.compile({"regex": "a"}) is first
    for pattern in "bc":
        automata.compile({"regex": pattern})
    assert automata.compile({"regex": "a"}) is not first


def test_the_masks_of_a_step_are_those_of_single_calls() -> None:
    """Rows out of order, two vocabularies, limits, a state that occurs twice."""
    automata = Automata(BYTES, VllmSettings())
    made = [automata.compile(given) for given in GIVEN] + [automata.compile(GIVEN[0], [10])]
    grammars = {
        7: RequestGrammar(made[0], 30),
        0: RequestGrammar(made[1], 9),
        3: RequestGrammar(made[2], 4),
        4: RequestGrammar(made[0]),
        5: RequestGrammar(made[6], 12),
        9: RequestGrammar(made[4], 1),
    }
    tensor = FakeTensor(10, BYTES.size // 32 + 1)
    masks = StepMasks()
    with masks.step():
        for row, grammar in grammars.items():
            masks.add(grammar, tensor, row)
        assert (tensor.array == -1).all()
    for row, grammar in grammars.items():
        alone = grammar.automaton.new_mask()
        grammar.automaton.fill_mask_within(grammar.state, alone, grammar.budget)
        assert (tensor.array[row] == alone).all()
    assert (tensor.array[[1, 2, 6, 8]] == -1).all()


def test_masks_go_to_the_tensor_that_is_named() -> None:
    """The last one is remembered; another one may follow, and the first again."""
    grammar = RequestGrammar(Automata(BYTES, VllmSettings()).compile({"regex": "a"}))
    masks = StepMasks()
    first, second = FakeTensor(1, BYTES.size // 32 + 1), FakeTensor(3, BYTES.size // 32 + 1)
    masks.add(grammar, first, 0)
    with masks.step():
        masks.add(grammar, second, 2)
    assert unpack_ids(first.array[0]).tolist() == unpack_ids(second.array[2]).tolist() == [ord("a")]
    assert (second.array[:2] == -1).all()
    first.array[:] = -1
    masks.add(grammar, first, 0)
    assert unpack_ids(first.array[0]).tolist() == [ord("a")]


def test_a_step_that_fails_leaves_nothing_to_the_next_one() -> None:
    grammar = RequestGrammar(Automata(BYTES, VllmSettings()).compile({"regex": "a"}))
    masks, tensor = StepMasks(), FakeTensor(2, BYTES.size // 32 + 1)

    def failing_step() -> None:
        with masks.step():
            masks.add(grammar, tensor, 0)
            raise KeyError

    with pytest.raises(KeyError):
        failing_step()
    with masks.step():
        pass
    assert (tensor.array == -1).all()


class Broken(FiniteAutomaton):
    """Fails in the state after a `b`."""

    def next(self, state: int, token: int) -> int:
        if self.prefixes[state - 2] == b"b":
            raise RuntimeError("too large")
        return super().next(state, token)


def test_a_request_that_fails_disturbs_no_other_one() -> None:
    good = RequestGrammar(Automata(BYTES, VllmSettings()).compile({"regex": "a+"}))
    bad = RequestGrammar(Broken(["abc", "bcd"], BYTES))
    masks, tensor = StepMasks(), FakeTensor(2, BYTES.size // 32 + 1)
    assert bad.append([ord("b")])
    assert bad.validate_tokens([ord("c")]) == []
    bad.failure = None
    with masks.step():
        masks.add(bad, tensor, 0)
        masks.add(good, tensor, 1)
    assert (tensor.array[0] == -1).all()
    assert unpack_ids(tensor.array[1]).tolist() == [ord("a")]
    assert "too large" in str(bad.failure)
    assert not bad.append([ord("c")])
    assert bad.validate_tokens([ord("c")]) == []
    assert good.failure is None
    assert good.append([ord("a")])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "has 0 constraints"),
        ({"regex": "a", "choice": ["a"]}, "has 2 constraints"),
        ({"json": "{"}, "json is not JSON"),
        ({"json": "[" * 100_000}, "json is not JSON"),
        ({"json": {"type": "text"}}, "#/type"),
        ({"json": {"properties": {"a": {"pattern": "(a)\\1"}}}}, "#/properties/a/pattern"),
        ({"json": {"properties": {"a": {"$ref": "https://example.org/a"}}}}, "#/properties/a/\\$ref"),
        ({"json": {"type": "object"}, "whitespace_pattern": " *"}, "whitespace_pattern"),
        ({"json_object": False}, "json_object is False"),
        ({"choice": []}, "choice"),
        ({"choice": "no JSON"}, "choice is not JSON"),
        ({"regex": "("}, "regular expression"),
        ({"regex": 5}, "regex"),
        ({"grammar": ""}, "grammar"),
        ({"grammar": "root ::= x"}, "x"),
        ({"grammar": 'value: "a"'}, "no rule start"),
        ({"structural_tag": "{}"}, "structural tag"),
        ({"json": False}, "allows no value"),
    ],
    ids=str,
)
def test_refusals_name_what_is_wrong(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConstrainedError, match="(?i)" + message.replace("(", r"\(")) as error:
        constrained.compile(request_constraint(given), BYTES)
    # Clients of a server do not have the arguments of Python.
    assert not re.search("(?<!in Python )(pass .*=|make it with)", str(error.value))


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", None),
        ("0", None),
        ("1", VllmSettings()),
        ('{"compile_seconds": 2, "automata": 3}', VllmSettings(compile_seconds=2, automata=3)),
    ],
)
def test_settings(text: str, settings: VllmSettings | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSTRAINED_VLLM", text)
    assert VllmSettings.from_environment() == settings


@pytest.mark.parametrize(
    "text", ["yes", "[]", '{"seconds": 1}', '{"automata": 0}', '{"automata": true}', '{"automata": "3"}']
)
def test_settings_that_cannot_be_read(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSTRAINED_VLLM", text)
    with pytest.raises(InvalidArgument):
        VllmSettings.from_environment()


@pytest.mark.ci
def test_costly_constraints_cost_a_bounded_time_once() -> None:
    trial = Trial(BYTES, VllmSettings(compile_seconds=0.001))
    try:
        chain = "\n".join(f'r{i} ::= r{i + 1} | "a{i}"' for i in range(5000))
        costly = {"grammar": f'root ::= r0\n{chain}\nr5000 ::= "b"'}
        for _ in range(3):  # the outcome is remembered
            with pytest.raises(ConstrainedError, match=r"not compiled within 0\.001 seconds"):
                trial.shortest(costly)
    finally:
        trial.close()


@pytest.mark.ci
def test_hostile_constraints_are_refused_one_after_the_other() -> None:
    trial = Trial(BYTES, VllmSettings(compile_seconds=30, compile_memory=256 << 20, max_schema=200_000))
    try:
        assert trial.shortest({"regex": "a{3,}"}) == 3
        with pytest.raises(ConstrainedError, match="the limit is 200000"):
            trial.shortest({"choice": ["a" * 200_000]})
        deep: Any = {}
        for _ in range(300):
            deep = {"items": deep}
        for nested in (deep, json.dumps(deep), "[" * 100_000, '{"a": "\\"[", "b": ' * 300):
            with pytest.raises(ConstrainedError, match="nested too deeply"):
                trial.shortest({"json": nested})
        with pytest.raises(ConstrainedError, match="is not JSON"):
            trial.shortest({"json": '{"a": "' + "[" * 300 + '\\"' * 40_000})  # in linear time
        assert trial.shortest({"json": {"const": "[" * 300}}) == 302
        assert trial.shortest({"regex": "[[]" * 300 + "x"}) == 301
        with pytest.raises(ConstrainedError, match="#/properties/a/pattern"):
            trial.shortest({"json": {"properties": {"a": {"pattern": "(a)\\1"}}}})
        assert trial.shortest({"regex": "a{4,}"}) == 4
    finally:
        trial.close()
