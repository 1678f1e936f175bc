"""The grammar backend for SGLang over a stand-in for its base classes: random walks, limits, refusals, reasoning, the cache.

`tests/engines/test_sglang.py` has the same with SGLang.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from constrained import Vocabulary
from constrained.automaton.bitmask import unpack_ids
from constrained.errors import InvalidArgument
from constrained.integrations.engines import trial
from constrained.integrations.engines.request_constraint import request_constraint
from tests.support import sglang_stub
from tests.support.finite import FiniteAutomaton
from tests.support.sglang_requests import UniformServer
from tests.support.sglang_stub import Request

torch = pytest.importorskip("torch")

BYTES = Vocabulary.from_bytes(
    [bytes([i]) for i in range(256)] + [b"<e>", b"ab", b'":', b"true", b"<t>"], [256]
)
THOUGHT = 260
SCHEMA = '{"properties": {"a": {"type": "array", "items": {"type": "boolean"}}, "b": {"enum": ["ab", "c"]}}, "required": ["b"]}'
KINDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"json_schema": SCHEMA}, {"json": SCHEMA}),
    ({"regex": "(ab|c)+[0-9]{2,4}"}, {"regex": "(ab|c)+[0-9]{2,4}"}),
    ({"ebnf": 'root ::= "a" root "b" | "c"'}, {"grammar": 'root ::= "a" root "b" | "c"'}),
    (
        {"structural_tag": '{"type": "structural_tag", "format": {"type": "const_string", "value": "ab"}}'},
        {"choice": ["ab"]},
    ),
]


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a server with options, whose tokens are bytes."""
    with sglang_stub.installed():
        from constrained.integrations.sglang import backend

        monkeypatch.setattr(backend, "read_vocabulary", lambda *arguments: BYTES)
        monkeypatch.setattr(trial, "FORKS", False)  # without a process for each test
        made: list[Any] = []

        def serve(**options: Any) -> UniformServer:
            for name, value in options.items():
                monkeypatch.setattr(sglang_stub.SERVING, name, value)
            tokenizer = SimpleNamespace(eos_token_id=256, additional_stop_token_ids=None)
            made.append(backend.create(None, tokenizer, BYTES.size, {256}))
            return UniformServer(sglang_stub.GrammarManager(made[-1]), BYTES.size)

        for name in ("process_req_with_grammar", "get_ready_grammar_requests"):
            monkeypatch.setattr(sglang_stub.GrammarManager, name, getattr(sglang_stub.GrammarManager, name))
        yield serve
        for one in made:
            getattr(one, "grammar_backend", one)._trial.close()


def check(written: list[int], given: dict[str, Any]) -> None:
    written = [token for token in written if token != 256]
    assert request_constraint(given).problems(BYTES.decode(written).decode()) == []


def test_requests_of_every_kind_are_complete_and_valid_in_one_batch(serving: Any) -> None:
    server = serving()
    made = [(Request(f"{i}", **fields), given) for fields, given in KINDS for i in range(3)]
    free = Request("free", max_new_tokens=5)
    server.run(free, *(request for request, _ in made))
    for request, given in made:
        assert request.reason == "stop"
        check(request.output_ids, given)
    assert len(free.output_ids) <= 5


def test_random_walks_agree_with_the_automaton(serving: Any) -> None:
    """Masks, tokens that are refused, and roll back, as the tree walk of SGLang calls them."""
    server = serving()
    for fields, _ in KINDS:
        for seed in range(3):
            request, rng = Request(str(seed), **fields), random.Random(seed)
            server.start(request)
            grammar = request.grammar
            automaton, states = grammar.automaton, [grammar.automaton.start]
            while not grammar.is_terminated():
                masks = grammar.allocate_vocab_mask(BYTES.size, 3, "cpu")
                grammar.fill_vocab_mask(masks, 1)
                ids = unpack_ids(masks[1].numpy()).tolist()
                budget = 40 - len(states)  # one is kept for the end
                assert ids == [
                    token
                    for token in range(BYTES.size)
                    if (
                        automaton.accepts(states[-1])
                        if token == 256
                        else automaton.next_within(states[-1], token, budget)
                    )
                ]
                assert bool((masks[[0, 2]] == -1).all())
                wrong = [t for t in range(BYTES.size) if t != 256 and not automaton.next(states[-1], t)]
                for token in (rng.choice(wrong), -1, BYTES.size, 1 << 40):
                    with pytest.raises(ValueError, match="is not allowed after"):
                        grammar.accept_token(token)
                count = 0
                for _ in range(rng.randrange(4)):
                    allowed = [t for t in range(BYTES.size) if automaton.next(grammar.state, t)]
                    if not allowed or grammar.is_terminated():
                        break
                    grammar.accept_token(rng.choice(allowed))
                    count += 1
                grammar.rollback(count)
                assert (grammar.state, grammar.is_terminated()) == (states[-1], False)
                token = rng.choice(ids)
                grammar.accept_token(token)
                assert grammar.current_token == token
                states.append(grammar.state)
            before = grammar.accepted
            grammar.accept_token(97)  # SGLang may have drawn one more token
            assert grammar.accepted == before
            fresh = grammar.copy()
            assert (fresh.state, fresh.accepted, fresh.limit) == (automaton.start, 0, None)
            grammar.rollback(1)
            assert not grammar.is_terminated()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"json_schema": '{"properties": {"a": {"pattern": "(a)\\\\1"}}}'}, "#/properties/a/pattern"),
        ({"json_schema": "{"}, "json is not JSON"),
        ({"regex": "a{30,}", "max_new_tokens": 9}, "max_tokens is 9"),
        ({"regex": "a{3,}", "min_new_tokens": 4}, "must not end before 4"),
        ({"regex": "a", "ebnf": 'root ::= "a"'}, "has 2 constraints"),
    ],
    ids=["place", "text", "limit", "least", "two"],
)
def test_refusals_abort_a_request_also_from_the_cache(
    serving: Any, params: dict[str, Any], message: str
) -> None:
    server = serving()
    for _ in range(2):
        bad, good = Request("bad", **params), Request("good", regex="[ab]{3}")
        server.run(bad, good)
        assert message in str(bad.reason)
        assert good.reason == "stop"


def test_stop_ids_of_a_request_end_it_and_are_no_text(serving: Any) -> None:
    server = serving()
    requests = [Request(str(ids), regex="[abc]{4,8}", stop_token_ids=ids) for ids in (None, [97], {97}, [98])]
    server.run(*requests)
    plain, first, second, other = (request.grammar.automaton for request in requests)
    assert first is second
    assert len({id(one) for one in (plain, first, other)}) == 3
    for request in requests[1:]:
        (stop,) = request.sampling_params.stop_token_ids
        assert stop not in request.output_ids[:-1]
        assert request.reason == "stop"
        check([token for token in request.output_ids if token != stop], {"regex": "[abc]{4,8}"})
    again = Request("again", regex="[abc]{4,8}", stop_token_ids={97})
    assert not server.manager.process_req_with_grammar(again)


def test_the_cache_is_bounded_and_evicts_by_the_order_of_requests(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONSTRAINED_SGLANG", '{"automata": 2}')
    server = serving()
    late = Request("late", regex="a")
    assert server.manager.process_req_with_grammar(late)
    server.run(*(Request(str(n), regex=f"a{{{n}}}") for n in (2, 3)))  # compiled after `late` was evicted
    assert [key[1] for key in server.manager.grammar_backend.cache] == ["a{2}", "a{3}"]
    server.run(Request("2", regex="a{2}"), Request("4", regex="a{4}"))
    assert [key[1] for key in server.manager.grammar_backend.cache] == ["a{2}", "a{4}"]


def test_reasoning_is_free_and_counts(serving: Any) -> None:
    server = serving(reasoning_parser=str(THOUGHT))
    thought = [*b"well", THOUGHT]
    thinking, plain = (Request(str(on), reasons=on, regex="a{3,}", max_new_tokens=12) for on in (True, False))

    def forced(request: Request) -> int | None:
        written = len(request.output_ids)
        return thought[written] if request is thinking and written < 5 else None if written < 11 else 256

    server.run(thinking, plain, forced=lambda request: forced(request) if request is thinking else None)
    assert thinking.output_ids[:5] == thought
    assert set(thinking.output_ids[5:]) <= {97, 256}
    assert (thinking.reason, plain.reason) == ("stop", "stop")
    assert 4 <= len(thinking.output_ids) - 5 <= 7


class Broken(FiniteAutomaton):
    """Fails in the state after a `b`."""

    def fill_mask_within(self, state: int, out: Any, budget: int) -> None:
        raise RuntimeError("too large")


def test_a_mask_that_cannot_be_computed_ends_its_request_alone(serving: Any) -> None:
    server = serving()
    good = Request(regex="a+")
    server.start(good)
    from constrained.integrations.sglang.grammar import SglangGrammar

    bad = SglangGrammar(Broken(["abc"], BYTES))
    masks = bad.allocate_vocab_mask(BYTES.size, 2, "cpu")
    bad.fill_vocab_mask_batched(
        [sglang_stub.GrammarRow(0, bad), sglang_stub.GrammarRow(1, good.grammar)], masks
    )
    assert bool((masks[0] == -1).all())
    assert unpack_ids(masks[1].numpy()).tolist() == [97]
    with pytest.raises(ValueError, match="too large"):
        bad.accept_token(97)
    good.grammar.accept_token(97)


def test_masks_on_the_host_set_logits(serving: Any) -> None:
    serving()
    from constrained.integrations.sglang.grammar import SglangGrammar, allocate_masks

    masks = allocate_masks(70, 2)
    assert (masks.dtype, tuple(masks.shape)) == (torch.int32, (2, 3))
    masks[0] = torch.tensor([1 << 3, -(1 << 31), 0], dtype=torch.int32)
    for columns in (70, 60, 100):
        logits = torch.zeros(2, columns)
        SglangGrammar.apply_vocab_mask(logits, masks)
        allowed = [i for i in range(columns) if i in (3, 63) or i >= 96]
        assert (logits[0] == 0).nonzero().flatten().tolist() == allowed
        assert bool((logits[1] == 0).all())
    SglangGrammar.reset_vocab_mask(masks)
    assert bool((masks == -1).all())


@pytest.mark.parametrize(
    "option", ["constrained_json_whitespace_pattern", "constrained_json_max_whitespace_cnt"]
)
def test_options_that_cannot_be_kept_are_refused_at_the_start(serving: Any, option: str) -> None:
    with pytest.raises(InvalidArgument, match=option):
        serving(**{option: 3})


def test_names_that_sglang_lacks_are_an_error_with_their_places() -> None:
    code = (
        "import sys, types; from constrained.integrations.sglang import register\n"
        "for name in ('sglang', 'sglang.srt', 'sglang.srt.server_args'): sys.modules[name] = types.ModuleType(name)\n"
        "sys.modules['sglang'].__version__ = '9.9'\n"
        "try: register()\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "SGLang 9.9 differs from the versions that constrained knows" in done.stdout, done.stderr
    assert "sglang.srt.server_args:add_grammar_backend_choices" in done.stdout
