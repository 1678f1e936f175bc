"""SGLang's own tests of grammars with our backend: what its kits ask a server for, its cache, its batched masks, its reasoner.

Sections name files of SGLang's `python/sglang/test/kits` and `test/registered/unit/constrained`. docs/serving.md lists what is left
out.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import Future
from typing import Any

import pytest

import constrained
from tests.engines import schema_cases, sglang_engine
from tests.support.sglang_requests import Row

model = constrained.load()


@pytest.fixture(scope="module")
def server() -> Any:
    return sglang_engine.server(model)


def backend(server: Any) -> Any:
    return server.manager.grammar_backend


def grammar_of(server: Any, kind: str, text: str) -> Any:
    """A new grammar, compiled by the backend's own dispatch."""
    return backend(server)._init_value_dispatch((kind, text), False).copy()


def takes(grammar: Any, text: str) -> bool:
    """Whether a new grammar takes a text and its end."""
    try:
        for token in [*model.vocabulary.encode(text), 0]:
            grammar.accept_token(token)
    except ValueError:
        return False
    return bool(grammar.is_terminated())


# ebnf_constrained_kit.py, regex_constrained_kit.py, json_constrained_kit.py, json_mode_kit.py

_MONTHS = " | ".join(f'"{month:02}"' for month in range(1, 13))
_DAYS = " | ".join(f'"{day:02}"' for day in range(1, 32))
EBNF: dict[str, tuple[str, str]] = {
    "address": ('root ::= "user@example.com"', r"user@example\.com"),
    "greeting": ('root ::= "Hello" | "Hi" | "Hey"', "Hello|Hi|Hey"),
    "number": ("root ::= digit digit digit\n    digit ::= [0-9]\n", r"\d{3}"),
    "phone": (
        'root ::= "(" area ")" " " area "-" line\narea ::= [0-9] [0-9] [0-9]\nline ::= [0-9] area\n',
        r"\(\d{3}\) \d{3}-\d{4}",
    ),
    "date": (
        f'root ::= year "-" month "-" day\nyear ::= "2024"\nmonth ::= {_MONTHS}\nday ::= {_DAYS}\n',
        r"2024-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
    ),
    "colour": ('root ::= "#" hex hex hex hex hex hex\nhex ::= [0-9] | [A-F]\n', "#[0-9A-F]{6}"),
    "object": (
        'root ::= "{" ws pair (ws "," ws pair)* ws "}"\n'
        'pair ::= "\\"name\\"" ws ":" ws (string | number) | "\\"age\\"" ws ":" ws number\n'
        'string ::= "\\"" [a-zA-Z0-9 ]+ "\\""\nnumber ::= [1-9] [0-9]*\nws ::= [ ]*\n',
        r"\{ *(\"name\" *: *(\"[a-zA-Z0-9 ]+\"|[1-9]\d*)|\"age\" *: *[1-9]\d*)"
        r"( *, *(\"name\" *: *(\"[a-zA-Z0-9 ]+\"|[1-9]\d*)|\"age\" *: *[1-9]\d*))* *\}",
    ),
    "log": (
        'root ::= "[" time "] " level ": System.process - " message\ntime ::= "2024-01-01T12:00:00Z"\n'
        'level ::= "INFO"\nmessage ::= "Operation " [a-z]+ " successfully"\n',
        r"\[2024-01-01T12:00:00Z\] INFO: System\.process - Operation [a-z]+ successfully",
    ),
    "options": (
        'root ::= "{" ("\\"theme\\":" theme ("," "\\"language\\":" language)? | "\\"language\\":" language)? "}"\n'
        'theme ::= "\\"light\\"" | "\\"dark\\""\nlanguage ::= "\\"en\\"" | "\\"fr\\""\n',
        r'\{("theme":"(light|dark)"(,"language":"(en|fr)")?|"language":"(en|fr)")?\}',
    ),
    "lark": ('start: "yes" | "no"', "yes|no"),
}


@pytest.mark.parametrize(("grammar", "pattern"), EBNF.values(), ids=EBNF)
def test_grammars(server: Any, grammar: str, pattern: str) -> None:
    requests = [
        sglang_engine.request(model, str(i), ebnf=grammar, max_new_tokens=128, temperature=0.5)
        for i in range(5)
    ]
    server.run(*requests)
    for request in requests:
        assert request.finished_reason.to_json()["type"] == "stop"
        assert re.fullmatch(pattern, sglang_engine.text(model, request))


CAPITAL = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[\\w]+$"}, "population": {"type": "integer"}},
    "required": ["name", "population"],
    "additionalProperties": False,
}


def test_json_beside_requests_without_a_constraint(server: Any) -> None:
    constrained_ones = [
        sglang_engine.request(model, f"c{i}", json_schema=json.dumps(CAPITAL), max_new_tokens=128)
        for i in range(20)
    ]
    free = [sglang_engine.request(model, f"f{i}", max_new_tokens=9) for i in range(20)]
    server.run(*(one for pair in zip(constrained_ones, free, strict=True) for one in pair))
    for request in constrained_ones:
        value = json.loads(sglang_engine.text(model, request))
        assert set(value) == {"name", "population"}
        assert isinstance(value["population"], int)


def test_json_object_regex_and_what_is_no_schema(server: Any) -> None:
    whole = sglang_engine.request(model, "object", json_schema='{"type": "object"}', max_new_tokens=128)
    address = sglang_engine.request(model, "regex", regex=r"^user@example\.com$")
    wrong = sglang_engine.request(model, "wrong", json_schema="INVALID")
    server.run(whole, address, wrong)
    assert isinstance(json.loads(sglang_engine.text(model, whole)), dict)
    assert sglang_engine.text(model, address) == "user@example.com"
    assert wrong.finished_reason.to_json()["type"] == "abort"


# test_json_schema_validation.py, test_xgrammar_unsupported_schema.py, test_xgrammar_pattern_length.py: refused there.


@pytest.mark.parametrize(("schema", "texts"), schema_cases.CASES, ids=lambda one: json.dumps(one)[:60])
def test_schemas_are_enforced(server: Any, schema: Any, texts: list[str]) -> None:
    for text in texts:
        grammar = grammar_of(server, "json", json.dumps(schema))
        assert takes(grammar, text) is schema_cases.valid(schema, text), text


@pytest.mark.parametrize(("schema", "message"), schema_cases.REFUSED, ids=lambda one: json.dumps(one)[:60])
def test_schemas_that_cannot_be_enforced(server: Any, schema: Any, message: str) -> None:
    refusal = backend(server)._init_value_dispatch(("json", json.dumps(schema)), False)
    assert type(refusal).__name__ == "InvalidGrammarObject"
    assert message in refusal.error_message


# test_base_grammar_backend.py


def test_the_cache_gives_copies(server: Any) -> None:
    own = backend(server)
    key = ("json", '{"const": "cached"}')
    found, cached = own.get_cached_or_future_value(key, False)
    assert isinstance(found, Future)
    assert not cached
    compiled = found.result(60)
    own.set_cache(key, compiled)
    copies = [own.get_cached_or_future_value(key, False) for _ in range(2)]
    assert all(cached for _, cached in copies)
    first, second = (copy for copy, _ in copies)
    assert first is not second
    assert first.automaton is second.automaton is compiled.automaton
    assert takes(first, '"cached"')
    assert not second.is_terminated()
    own.reset()
    assert not own.cache


@pytest.mark.parametrize(
    ("kind", "text", "written"),
    [
        ("json", '{"const": 1}', "1"),
        ("json", "$$ANY$$", "[1, null]"),
        ("regex", "[ab]+", "abba"),
        ("ebnf", 'root ::= "hello"', "hello"),
        (
            "structural_tag",
            '{"type": "structural_tag", "format": {"type": "const_string", "value": "x"}}',
            "x",
        ),
        (
            "structural_tag",
            '{"structures": [{"begin": "<t>", "schema": {"const": 1}, "end": "</t>"}], "triggers": ["<t>"]}',
            "a <t>1</t>",
        ),
    ],
)
def test_every_kind_is_dispatched(server: Any, kind: str, text: str, written: str) -> None:
    made = backend(server)._init_value_dispatch((kind, text), False)
    assert made.grammar_stats.dispatch_type == kind
    assert made.grammar_stats.compilation_time > 0
    assert takes(made, written)
    assert not takes(made.copy(), written[:-1] + "!")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("unknown", "x"),
        ("regex", "("),
        ("ebnf", "not valid"),
        ("structural_tag", "{}"),
        ("structural_tag", '{"structures": [{"begin": "<t>", "end": "</t>"}]}'),
        ("structural_tag", '{"type": "structural_tag", "format": {}}'),
    ],
)
def test_what_is_not_valid_is_refused(server: Any, kind: str, text: str) -> None:
    refusal = backend(server)._init_value_dispatch((kind, text), False)
    assert type(refusal).__name__ == "InvalidGrammarObject"
    assert refusal.error_message


# test_grammar_manager.py


def test_an_aborted_request_leaves_the_queue(server: Any) -> None:
    from types import SimpleNamespace

    waiting = [
        sglang_engine.request(model, f"req-{i}", json_schema=json.dumps({"const": f"waits {i}"}))
        for i in range(3)
    ]
    for request in waiting:
        assert server.manager.process_req_with_grammar(request)
    assert server.manager.has_waiting_grammars()
    server.manager.abort_requests(SimpleNamespace(abort_all=False, rid="req-1"))
    left: list[Any] = []
    while server.manager.has_waiting_grammars():
        left += server.manager.get_ready_grammar_requests()
    assert {request.rid for request in left} == {request.rid for request in waiting}
    assert [request.to_finish is not None for request in waiting] == [False, True, False]


# test_llguidance_batched_mask.py, test_xgrammar_batched_mask.py


@pytest.mark.parametrize("count", [1, 4, 10])
def test_batched_masks_are_those_of_single_calls(server: Any, count: int) -> None:
    grammars = [grammar_of(server, "regex", "[0-9]{1,8}") for _ in range(count)]
    for i, grammar in enumerate(grammars):
        for token in model.vocabulary.encode("1" * (i % 4)):
            grammar.accept_token(token)
    together, alone = (
        grammars[0].allocate_vocab_mask(model.vocabulary.size, count + 1, "cpu") for _ in range(2)
    )
    grammars[0].fill_vocab_mask_batched([Row(i, one) for i, one in enumerate(grammars)], together)
    for i, grammar in enumerate(grammars):
        grammar.fill_vocab_mask(alone, i)
    assert (together == alone).all()
    assert (together[:count] != -1).any(dim=1).all()
    assert (together[count] == -1).all()  # the row of a request that has finished


# test_reasoner_grammar_backend.py: SGLang's own state machine around our grammar.


def reasoner(server: Any) -> Any:
    from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarObject

    made = ReasonerGrammarObject(grammar=grammar_of(server, "regex", "[ab]{4}"), think_end_ids=[7])
    made.maybe_init_reasoning(True)
    return made


@pytest.mark.parametrize(
    ("written", "back", "thinks", "accepted"),
    [
        ([10, 11, 12, 7], 1, True, 0),
        ([10, 11, 7, "a", "b", "a"], 5, True, 0),
        ([10, 7, "a", "b"], 1, False, 1),
        ([10, 11, 12], 2, True, 0),
    ],
    ids=["to the end of reasoning", "over it", "behind it", "before it"],
)
def test_rollbacks_around_the_end_of_reasoning(
    server: Any, written: list[Any], back: int, *, thinks: bool, accepted: int
) -> None:
    made = reasoner(server)
    for one in written:
        made.accept_token(one if isinstance(one, int) else model.vocabulary.encode(one)[0])
    made.rollback(back)
    assert made._is_thinking() is thinks
    assert made.grammar.accepted == accepted
    if not thinks:
        row = made.allocate_vocab_mask(model.vocabulary.size, 1, "cpu")
        made.fill_vocab_mask(row, 0)
        expected = made.grammar.automaton.new_mask()
        made.grammar.automaton.fill_mask(made.grammar.state, expected)
        assert (row[0].numpy() == expected).all()
