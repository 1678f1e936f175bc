"""The backend inside SGLang's plug-in loader, grammar manager, requests, reasoner and tree walk, with the bundled model's tokenizer.

SGLang's engine needs a GPU: tokens are drawn uniformly from the masks instead.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import pytest

import constrained
from constrained.automaton.bitmask import unpack_ids
from constrained.errors import InvalidArgument
from constrained.integrations.engines.request_constraint import request_constraint
from tests.engines import sglang_engine
from tests.support.sglang_requests import Row

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "born": {"type": "integer", "minimum": 1900, "maximum": 2030},
        "city": {"enum": ["Brno", "Praha"]},
    },
    "required": ["name", "born", "city"],
    "additionalProperties": False,
}
TAG = {
    "type": "structural_tag",
    "triggers": ["<n>"],
    "structures": [
        {"begin": "<n>", "schema": {"type": "integer", "maximum": 99, "minimum": 0}, "end": "</n>"}
    ],
}
CALL = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<f>",
        "content": {"type": "json_schema", "json_schema": PERSON},
        "end": "</f>",
    },
}
KINDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"json_schema": json.dumps(PERSON)}, {"json": PERSON}),
    ({"json_schema": "$$ANY$$"}, {"json": True}),
    ({"regex": "(ab|c)+[0-9]{2,4}"}, {"regex": "(ab|c)+[0-9]{2,4}"}),
    ({"ebnf": 'root ::= "a" root "b" | "c"'}, {"grammar": 'root ::= "a" root "b" | "c"'}),
    (
        {"ebnf": 'start: "x" start | WORD\nWORD: /[ab]{1,3}/'},
        {"grammar": 'start: "x" start | WORD\nWORD: /[ab]{1,3}/'},
    ),
    ({"structural_tag": json.dumps(TAG)}, {"structural_tag": TAG}),
    ({"structural_tag": json.dumps(CALL)}, {"structural_tag": CALL}),
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"json_schema": '{"properties": {"a": {"pattern": "(a)\\\\1"}}}'}, "#/properties/a/pattern"),
    ({"json_schema": '{"type": "string", "minLength": 300}', "max_new_tokens": 20}, "max_tokens is 20"),
    ({"json_schema": '{"allOf": ['}, "not JSON"),
    ({"json_schema": '{"allOf": [' * 2000}, "nested too deeply"),
    ({"regex": "("}, "regular expression"),
    ({"regex": "a", "ebnf": 'root ::= "a"'}, "has 2 constraints"),
    ({"regex": "a", "min_new_tokens": 5}, "must not end before 5"),
    ({"ebnf": "root ::= x"}, "x"),
    ({"structural_tag": '{"structures": 5}'}, "structural"),
    ({"regex": "a" * 2_000_000}, "the limit is 1048576"),
]

model = constrained.load()


@pytest.fixture(scope="module")
def server() -> Any:
    return sglang_engine.server(model)


def check(request: Any, given: dict[str, Any]) -> None:
    automaton = constrained.compile(request_constraint(given), model.vocabulary)
    tokens = list(request.output_ids)
    tokens = tokens[:-1] if tokens[-1] == 0 else tokens
    states = [automaton.start, *automaton.walk(automaton.start, tokens)]
    assert len(states) == len(tokens) + 1
    assert automaton.accepts(states[-1])
    assert len(request.output_ids) <= request.sampling_params.max_new_tokens


@pytest.mark.parametrize("limit", [40, 200])
def test_every_kind_is_valid_and_complete_within_its_limit(server: Any, limit: int) -> None:
    made = [
        (sglang_engine.request(model, f"{i} {n}", max_new_tokens=limit, **fields), given)
        for i, (fields, given) in enumerate(KINDS)
        for n in range(3)
    ]
    free = sglang_engine.request(model, "free", max_new_tokens=7)
    server.run(free, *(request for request, _ in made))
    assert type(server.manager.grammar_backend).__name__ == "SglangBackend"
    for request, given in made:
        assert request.to_finish is None, request.to_finish.message
        assert request.finished_reason.to_json()["type"] == "stop"
        check(request, given)
    assert len(free.output_ids) <= 7


@pytest.mark.parametrize(("fields", "message"), REFUSED, ids=[next(iter(fields)) for fields, _ in REFUSED])
def test_refusals_abort_the_request_and_no_other(server: Any, fields: dict[str, Any], message: str) -> None:
    for name in ("first", "second"):  # the second one from the cache
        bad = sglang_engine.request(model, name, **fields)
        good = sglang_engine.request(model, "good", regex="[ab]{3}")
        server.run(bad, good)
        reason = bad.finished_reason.to_json()
        assert (reason["type"], int(reason["status_code"])) == ("abort", 400)
        assert message in reason["message"]
        assert len(sglang_engine.text(model, good)) == 3


def test_stop_ids_of_a_request_end_it_and_are_no_text(server: Any) -> None:
    (stop,) = model.vocabulary.encode("a")
    plain, stopped, again = (
        sglang_engine.request(model, name, regex="[abc]{4,8}", stop_token_ids=ids)
        for name, ids in (("plain", None), ("stopped", [stop]), ("again", [stop]))
    )
    server.run(plain, stopped)
    server.run(again)
    for one in (stopped, again):
        assert stop not in list(one.output_ids)[:-1]
        assert len(one.output_ids) >= 3
    assert again.grammar.automaton is stopped.grammar.automaton is not plain.grammar.automaton
    assert again.grammar.grammar_stats.is_cache_hit


def test_grammars_are_shared_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSTRAINED_SGLANG", '{"automata": 3}')
    server = sglang_engine.server(model)
    for i in range(9):
        server.run(sglang_engine.request(model, str(i), regex=f"a{{{1 + i}}}"))
        assert len(server.manager.grammar_backend.cache) <= 3
    hit = sglang_engine.request(model, "hit", regex="a{9}")
    assert not server.manager.process_req_with_grammar(hit)
    missed = sglang_engine.request(model, "missed", regex="a{1}")
    assert server.manager.process_req_with_grammar(missed)
    server.manager.clear()
    assert not server.manager.grammar_backend.cache


def test_a_hostile_constraint_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSTRAINED_SGLANG", '{"compile_seconds": 0.05}')
    server = sglang_engine.server(model)
    chain = "\n".join(f'r{i} ::= r{i + 1} | "a{i}"' for i in range(8000))
    bad = sglang_engine.request(model, ebnf=f'root ::= r0\n{chain}\nr8000 ::= "b"')
    server.run(bad)
    assert "not compiled within 0.05 seconds" in bad.finished_reason.message


def test_the_option_for_compact_json_holds() -> None:
    server = sglang_engine.server(model, constrained_json_disable_any_whitespace=True)
    request = sglang_engine.request(model, json_schema=json.dumps(PERSON), max_new_tokens=100)
    server.run(request)
    check(request, {"json": PERSON, "disable_any_whitespace": True})


def test_a_request_that_only_fills_the_cache_is_not_refused() -> None:
    """SGLang sends one before several completions of a prompt."""
    server = sglang_engine.server(model)
    request = sglang_engine.request(model, json_schema=json.dumps(PERSON), max_new_tokens=0)
    server.run(request)
    assert request.finished_reason.to_json()["type"] != "abort"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constrained_json_whitespace_pattern": " *"}, "constrained_json_whitespace_pattern is ' \\*'"),
        ({"constrained_json_max_whitespace_cnt": 3}, "constrained_json_max_whitespace_cnt is 3"),
    ],
)
def test_options_that_cannot_be_kept_are_refused_at_the_start(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        sglang_engine.server(model, **options)


def test_reasoning_is_free_and_counts_and_then_the_constraint_holds() -> None:
    """SGLang wraps its own backends for models that reason, and not those of plug-ins."""
    server = sglang_engine.server(model, reasoning_parser="qwen3")
    assert type(server.manager.grammar_backend).__name__ == "SglangReasonerBackend"
    end = model.vocabulary.encode("</think>")
    thought = [*model.vocabulary.encode("Let us see."), *end]
    for limit in (len(thought) + 30, len(thought) + 90):
        thinking, plain = (
            sglang_engine.request(
                model, str(reasons), reasons=reasons, json_schema=json.dumps(PERSON), max_new_tokens=limit
            )
            for reasons in (True, False)
        )

        def forced(request: Any, thinking: Any = thinking) -> int | None:
            written = len(request.output_ids)
            return thought[written] if request is thinking and written < len(thought) else None

        server.run(thinking, plain, forced=forced)
        assert list(thinking.output_ids)[: len(thought)] == thought
        del thinking.output_ids[: len(thought)]
        assert len(thinking.output_ids) <= limit - len(thought)
        for one in (thinking, plain):
            check(one, {"json": PERSON})
            assert one.finished_reason.to_json()["type"] == "stop"


def test_strict_thinking_forbids_its_tokens_until_the_constraint_begins() -> None:
    server = sglang_engine.server(model, reasoning_parser="qwen3", enable_strict_thinking=True)
    request = sglang_engine.request(model, reasons=True, regex="[ab]{3}", max_new_tokens=200)
    server.start(request)
    excluded = set(server.manager.grammar_backend.think_excluded_token_ids)
    assert excluded
    masks = request.grammar.allocate_vocab_mask(model.vocabulary.size, 2, "cpu")
    request.grammar.fill_vocab_mask_batched([Row(1, request.grammar)], masks)
    forbidden = {i for i in range(model.vocabulary.size) if not int(masks[1, i // 32]) >> (i % 32) & 1}
    assert forbidden == excluded
    for token in model.vocabulary.encode("</think>"):
        request.grammar.accept_token(token)
    request.grammar.fill_vocab_mask_batched([Row(1, request.grammar)], masks)
    assert not excluded & set(unpack_ids(masks[1].numpy()).tolist())
    assert {model.vocabulary.tokens[i].strip(b"ab") for i in unpack_ids(masks[1].numpy())} == {b""}


@pytest.mark.parametrize("reasoning", [False, True])
def test_trees_of_drafts_get_the_masks_of_their_paths(reasoning: bool) -> None:
    """SGLang's own walk over a tree, with allowed and forbidden draft tokens, against the automaton."""
    import torch

    sglang_engine.load()
    from sglang.srt.speculative.spec_utils import traverse_tree

    server = sglang_engine.server(model, **({"reasoning_parser": "qwen3"} if reasoning else {}))
    request = sglang_engine.request(model, json_schema=json.dumps(PERSON), max_new_tokens=60)
    server.start(request)
    ours = request.grammar.grammar if reasoning else request.grammar
    ours.canonical = False  # where text is forced, too, the mask is that of the automaton
    automaton, rng = ours.automaton, random.Random(7)
    for _ in range(25):
        parents, tokens, states = [-1], [0], [ours.state]
        for node in range(1, 16):
            parent = rng.randrange(node)
            mask = automaton.new_mask()
            alive = states[parent] != 0
            if alive:
                automaton.fill_mask(states[parent], mask)
            allowed = [t for t in range(1, model.vocabulary.size) if mask[t // 32] >> (t % 32) & 1][:50]
            token = (
                rng.choice(allowed)
                if allowed and rng.random() < 0.8
                else rng.randrange(1, model.vocabulary.size)
            )
            if any(parents[i] == parent and tokens[i] == token for i in range(1, node)):
                token = 0
            parents.append(parent)
            tokens.append(token)
            states.append(automaton.next(states[parent], token) if alive and token else 0)
        child, sibling = [-1] * 16, [-1] * 16
        for node in range(15, 0, -1):
            sibling[node], child[parents[node]] = child[parents[node]], node
        depth = [0] * 16
        for node in range(1, 16):
            depth[node] = depth[parents[node]] + 1
        masks = request.grammar.allocate_vocab_mask(model.vocabulary.size, 16, "cpu")
        before, budget = (ours.state, ours.accepted), ours.budget
        traverse_tree(
            torch.tensor(child),
            torch.tensor(sibling),
            torch.tensor(tokens),
            request.grammar,
            masks,
            model.vocabulary.size,
        )
        assert (ours.state, ours.accepted) == before
        reached = [True] + [False] * 15
        for node in range(16):
            if node:
                word = int(masks[parents[node], tokens[node] // 32]) >> (tokens[node] % 32) & 1
                reached[node] = reached[parents[node]] and bool(word) and tokens[node] != 0
            expected = automaton.new_mask()
            if reached[node]:
                assert states[node]
                automaton.fill_mask_within(states[node], expected, budget - depth[node])
                assert (masks[node].numpy() == expected).all()
            elif tokens[node]:
                assert (masks[node] == -1).all()
        row = automaton.new_mask()
        automaton.fill_mask_within(ours.state, row, budget)
        follow = [t for t in range(1, model.vocabulary.size) if row[t // 32] >> (t % 32) & 1]
        if not follow:
            break
        request.grammar.accept_token(rng.choice(follow))
        request.output_ids.append(1)


def test_the_masks_of_a_step_are_those_of_single_calls(server: Any) -> None:
    requests = [sglang_engine.request(model, str(i), **fields) for i, (fields, _) in enumerate(KINDS)]
    server.start(*requests)
    for _ in range(6):
        size = len(requests) + 4
        together, alone = (
            requests[0].grammar.allocate_vocab_mask(model.vocabulary.size, size, "cpu") for _ in range(2)
        )
        rows = [Row(size - 1 - i, one.grammar) for i, one in enumerate(requests)]
        rows[0].grammar.fill_vocab_mask_batched(rows, together)
        for row, grammar in rows:
            grammar.fill_vocab_mask(alone, row)
        assert bool((together == alone).all())
        assert bool((together[:4] == -1).all())
        rows[0].grammar.fill_vocab_mask_batched([], together)
        server.step(requests, lambda request: None)


def test_a_moved_name_is_an_error_with_the_version_and_its_place() -> None:
    sglang_engine.load()
    import sglang
    from sglang.srt.constrained.grammar_manager import GrammarManager
    from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarObject

    from constrained.integrations.engines.compatibility import IncompatibleEngine
    from constrained.integrations.sglang.names import check

    check()
    for owner, name in ((GrammarManager, "process_req_with_grammar"), (ReasonerGrammarObject, "__init__")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, lambda self, *other: None)
            with pytest.raises(IncompatibleEngine, match=rf"SGLang {sglang.__version__} differs") as error:
                check()
            assert owner.__name__ in str(error.value)


RANKS = """
import os, sys
import torch.distributed as dist
import constrained
from tests.engines import sglang_engine
from types import SimpleNamespace

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
group = SimpleNamespace(world_size=2, first_rank=0, is_first_rank=rank == 0)
model = constrained.load()
os.environ["CONSTRAINED_SGLANG"] = '{"max_schema": 1000}' if rank else "1"  # only one of them refuses
server = sglang_engine.server(model, rank={"dp_tp_group": group, "dp_tp_cpu_group": dist.group.WORLD})
for name in ("compiled", "cached"):
    requests = [sglang_engine.request(model, f"{name} {n}", regex="a" * n) for n in (2, 2000, 3)]
    server.start(*requests)
    assert [one.to_finish is None for one in requests] == [True, False, True], [one.to_finish for one in requests]
    assert "the limit is 1000" in requests[1].to_finish.message
print("agreed")
"""


def test_what_one_rank_refuses_all_refuse(tmp_path: Any) -> None:
    """Ranks that disagreed would wait for each other for ever."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANKS, str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for one in ranks:
            output = one.communicate(timeout=300)[0]
            assert "agreed" in output, output[-3000:]
    finally:
        for one in ranks:
            one.kill()
