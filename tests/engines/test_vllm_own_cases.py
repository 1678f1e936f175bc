"""vLLM's own tests of structured outputs with our manager, backend and front end: its scenarios, written again for any backend.

Each section names the file of vLLM's `tests/v1/structured_output` whose scenarios it has. docs/serving.md lists what is left out.
"""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.engines import schema_cases
from tests.engines.vllm_manager import DRAFTS, SPECIAL, THINK_END, Harness, MarkerReasoner, wait

EOS = "<end>"
OBJECT = '{"type": "object"}'


@pytest.fixture(scope="module")
def harness() -> Harness:
    return Harness()


@pytest.fixture(scope="module")
def backend(harness: Harness) -> Any:
    return harness.backend()


def compiled(backend: Any, kind: str, text: str, **options: Any) -> Any:
    from vllm.v1.structured_output.backend_types import StructuredOutputOptions

    return backend.compile_grammar(StructuredOutputOptions[kind], text, **options)


def takes(harness: Harness, grammar: Any, text: str) -> bool:
    """Whether a new grammar takes a text and its end."""
    return bool(grammar.accept_tokens("case", [*harness.encode(text), harness.end]))


def allowed(row: Any, token: int) -> bool:
    return bool(int(row[token // 32]) >> (token % 32) & 1)


# test_structured_output_manager.py: drafts are validated, masked and accepted.


class Flow(NamedTuple):
    drafts: tuple[str, ...]
    rows: str
    valid: int
    reasons: bool | None = None  # whether the reasoning has ended afterwards; None: it had ended before
    ends: bool = False
    prefix: str = ""


FLOWS = {
    "inactive": Flow((" ", "z", " "), "RRRR", 3, False),
    "all valid": Flow((":", ' "', "b", '"}'), "CCCCC", 4, prefix='{"a"'),
    "first invalid": Flow(("z", ":", ' "', "b"), "CUUUU", 0, prefix='{"a"'),
    "later invalid": Flow((":", "z", ' "', "b"), "CCUUU", 1, prefix='{"a"'),
    "first ends": Flow((EOS, " ", " "), "CUUU", 1, ends=True, prefix='{"a": "b"}'),
    "later ends": Flow((":", ' "', "b", '"}', EOS, " "), "CCCCCUU", 5, ends=True, prefix='{"a"'),
    "begins at first": Flow((THINK_END, "{", '"', "b"), "RCCCC", 4, True),
    "begins in the middle": Flow((" ", THINK_END, "{", '"'), "RRCCC", 4, True),
    "begins at last": Flow((" ", " ", THINK_END), "RRRC", 3, True),
    "begins, first invalid": Flow((" ", THINK_END, "z", "{"), "RRCUU", 2, True),
    "begins, later invalid": Flow((" ", THINK_END, "{", "z"), "RRCCU", 3, True),
    "begins and ends": Flow((" ", THINK_END, "{", "}", EOS, " "), "RRCCCUU", 5, True, ends=True),
}
"""Rows of reasoning (R) allow all but the end. Those that follow padding are free (U) in vLLM 0.32; later versions repeat the last mask there."""


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_drafts_are_validated_masked_and_accepted(harness: Harness, flow: Flow) -> None:
    manager = harness.manager(drafts=DRAFTS)
    manager.reasoner_cls = MarkerReasoner
    prefix = harness.encode(flow.prefix) if flow.prefix else []
    request = harness.request(
        manager,
        prefix,
        reasoning_ended=flow.reasons is None,
        reasoning_parser_kwargs={"marker": harness.token(THINK_END)},
    )
    grammar = request.structured_output_request.grammar
    assert not prefix or grammar.accept_tokens("case", prefix)
    drafts = [harness.end if text == EOS else harness.token(text) for text in flow.drafts]
    good = drafts[: flow.valid]
    for _ in range(2):  # masks roll back what they advanced
        assert manager.validate_tokens(request, list(drafts)) == good
        padded = good + [-1] * (len(drafts) - len(good))
        masks = manager.grammar_bitmask({"case": request}, ["case"], {"case": padded})[: len(drafts) + 1]
        free = np.full_like(masks[0], -1)
        reasoning = free.copy()
        reasoning[harness.end // 32] &= ~np.int32(1 << harness.end % 32)
        kinds = {free.tobytes(): "U", reasoning.tobytes(): "R"}
        assert "".join(kinds.get(row.tobytes(), "C") for row in masks) == flow.rows
        assert not grammar.is_terminated()
    after = masks[len(good)].copy()
    request.append_output_token_ids(good)
    assert manager.accept_tokens(request, good)
    assert (manager.grammar_bitmask({"case": request}, ["case"], {})[0] == after).all()
    assert request.structured_output_request.reasoning_ended is (flow.reasons is not False)
    assert grammar.is_terminated() is flow.ends


@pytest.mark.parametrize(
    ("reasoner", "ended", "inside"),
    [(False, False, True), (True, True, False), (False, False, False), (True, None, False)],
    ids=["in reasoning", "ended", "none", "from the prompt"],
)
def test_the_constraint_holds_from_the_start(
    harness: Harness, *, reasoner: bool, ended: bool | None, inside: bool
) -> None:
    manager = harness.manager(drafts=DRAFTS, enable_in_reasoning=inside)
    if reasoner:
        manager.reasoner_cls = MarkerReasoner
    marker = None if ended is None else harness.token(THINK_END)
    request = harness.request(manager, reasoning_ended=ended, reasoning_parser_kwargs={"marker": marker})
    assert manager.validate_tokens(request, [harness.token("{"), harness.token("z")]) == [harness.token("{")]


# test_backend_guidance.py: ends are rolled back, masks for drafts, compiling in a thread or not.


def test_an_end_is_rolled_back(harness: Harness, backend: Any) -> None:
    grammar = compiled(backend, "JSON", OBJECT)
    text, wrong = harness.encode('{"a": "b"}'), harness.encode('{"a"}')
    assert all(grammar.accept_tokens("case", [token]) for token in text)
    assert not grammar.is_terminated()
    assert grammar.accept_tokens("case", [harness.end])
    assert grammar.is_terminated()
    # vLLM's test has tokens accepted after the end; ours takes none, and vLLM sends none.
    assert not grammar.accept_tokens("case", wrong)
    grammar.rollback(len(text))
    assert not grammar.is_terminated()
    assert grammar.validate_tokens([harness.end]) == []
    assert grammar.validate_tokens(wrong) != wrong
    assert grammar.accept_tokens("case", text[1:])
    assert grammar.accept_tokens("case", [harness.end])
    for count in (0, -1):
        grammar.rollback(count)
        assert grammar.is_terminated()


def test_masks_for_drafts_change_no_state(harness: Harness) -> None:
    manager = harness.manager(drafts=12)
    text = harness.encode('{"a": "b"}')
    request = harness.request(manager, text[:1])
    grammar = request.structured_output_request.grammar
    assert grammar.accept_tokens("case", text[:1])
    for drafts in (
        [*text[1:], harness.end],
        [*text[1:], harness.end, *text[:3]],
        text[1:],
        [*text[1:], harness.end],
    ):
        manager.grammar_bitmask({"case": request}, ["case"], {"case": drafts})
        assert not grammar.is_terminated()
        assert grammar.accepted == 1


@pytest.mark.parametrize("sync", [False, True])
def test_grammars_are_compiled_in_a_thread_or_at_once(harness: Harness, *, sync: bool) -> None:
    from vllm.v1.request import Request

    manager = harness.manager(sync=sync)
    request = Request("case", [0], harness.params(json={"const": f"sync {sync}"}), None)
    manager.grammar_init(request)
    asked = request.structured_output_request
    assert isinstance(asked._grammar, Future) is not sync
    wait(request)
    assert not isinstance(asked._grammar, Future)
    assert takes(harness, asked.grammar, f'"sync {sync}"')


def test_a_refusal_of_the_compiler_is_the_error_of_the_request(harness: Harness) -> None:
    """test_request.py, test_compilation_deadline.py."""
    for sync in (False, True):
        request = harness.request(harness.manager(sync=sync), params=harness.params(regex=f"(a)\\1{sync}"))
        assert isinstance(request.structured_output_request.grammar, Exception)
        assert "back-references" in str(request.structured_output_request.grammar)


def test_one_automaton_serves_all_requests(backend: Any) -> None:
    first, second = (compiled(backend, "JSON", '{"const": [1, 2, 3]}') for _ in range(2))
    assert first.automaton is second.automaton


# test_guidance_negative_draft_tokens.py


def test_padding_ends_a_draft(harness: Harness, backend: Any) -> None:
    grammar = compiled(backend, "JSON", OBJECT)
    good = [harness.token("{"), harness.token("}")]
    assert grammar.validate_tokens([*good, -1, -1]) == good
    assert grammar.validate_tokens([-1]) == grammar.validate_tokens([-1, -1]) == []


# test_backend_xgrammar_stop_tokens.py, test_stop_token_bitmask.py


def test_stop_tokens_of_a_request_wait_for_its_end(harness: Harness, backend: Any) -> None:
    stop, quote = harness.token("X"), harness.token('"')
    plain = compiled(backend, "JSON", '{"type": "string"}')
    stopped = compiled(backend, "JSON", '{"type": "string"}', stop_token_ids={harness.end, stop})
    masks = backend.allocate_token_bitmask(2)
    for step in range(3):
        for row, grammar in enumerate((plain, stopped)):
            grammar.fill_bitmask(masks, row)
            assert allowed(masks[row], harness.end) is (step == 2)
            assert allowed(masks[row], stop) is ((step == 1) if grammar is plain else (step == 2))
            assert step == 2 or grammar.accept_tokens("case", [quote])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("JSON", '{"type": "string"}'),
        ("REGEX", '"[^"]*"'),
        ("GRAMMAR", 'root ::= "\\"" [^"]* "\\""'),
    ],
)
def test_special_tokens_are_no_text(harness: Harness, backend: Any, kind: str, text: str) -> None:
    grammar = compiled(backend, kind, text)
    assert grammar.accept_tokens("case", harness.encode('"The company is'))
    masks = backend.allocate_token_bitmask(1)
    grammar.fill_bitmask(masks, 0)
    assert not any(allowed(masks[0], harness.token(special)) for special in SPECIAL)
    assert grammar.accept_tokens("case", harness.encode('"'))
    grammar.fill_bitmask(masks, 0)
    assert not any(allowed(masks[0], harness.token(special)) for special in SPECIAL)
    assert allowed(masks[0], harness.end)


def test_structural_tags_may_name_special_tokens(harness: Harness, backend: Any) -> None:
    content = {"type": "json_schema", "json_schema": {"type": "string"}}
    tag = {"type": "tag", "begin": SPECIAL[0], "content": content, "end": "\n"}
    grammar = compiled(backend, "STRUCTURAL_TAG", json.dumps({"type": "structural_tag", "format": tag}))
    masks = backend.allocate_token_bitmask(1)
    grammar.fill_bitmask(masks, 0)
    assert allowed(masks[0], harness.token(SPECIAL[0]))
    assert grammar.accept_tokens("case", [harness.token(SPECIAL[0]), *harness.encode('"a"\n'), harness.end])


# test_backend_xgrammar.py, test_utils.py: most of these schemas are refused there.


@pytest.mark.parametrize(("schema", "texts"), schema_cases.CASES, ids=lambda one: json.dumps(one)[:60])
def test_schemas_are_enforced(harness: Harness, backend: Any, schema: Any, texts: list[str]) -> None:
    for text in texts:
        grammar = compiled(backend, "JSON", json.dumps(schema))
        assert takes(harness, grammar, text) is schema_cases.valid(schema, text), text


@pytest.mark.parametrize("code", [*range(0x20), 0x7F])
def test_choices_keep_control_characters(harness: Harness, backend: Any, code: int) -> None:
    choice = f"a{chr(code)}f"
    for text, good in ((choice, True), ("a", False), ("af", False), (f"a\\u{code:04x}f", False)):
        assert takes(harness, compiled(backend, "CHOICE", json.dumps([choice])), text) is good


@pytest.mark.parametrize(
    ("choice", "other"),
    [
        ("a\\nf", "a\nf"),
        ('a quote " and a backslash \\', 'a quote " and a backslash '),
        ("café", "cafe"),
        ("日本語", "日本"),
        ("😀", "😁"),
        ("no\nplease", "no\\nplease"),
    ],
)
def test_choices_are_literal(harness: Harness, backend: Any, choice: str, other: str) -> None:
    for text, good in (("yes", True), (choice, True), (other, False), (choice + "extra", False)):
        assert takes(harness, compiled(backend, "CHOICE", json.dumps(["yes", choice])), text) is good


# test_backend_xgrammar_whitespace.py, test_max_whitespace_cnt.py


@pytest.mark.parametrize("compact", [False, True])
def test_white_space_is_that_of_one_line_or_none(harness: Harness, *, compact: bool) -> None:
    backend = harness.backend(disable_any_whitespace=compact)
    texts = {
        '{"no_space":"yes","b":1}': compact,
        '{"a": true}': not compact,
        '{"a": 42, "b": 4242}': not compact,
        '{"a":' + " " * 60 + "1}": False,
        '{"a":"' + " " * 60 + '"}': compact,
        '{"a": "' + " " * 60 + '"}': not compact,
    }
    for text, good in texts.items():
        assert takes(harness, compiled(backend, "JSON_OBJECT", ""), text) is good, text


# test_backend_xgrammar_lark.py

LARK = 'start: "id=" NUMBER tag? LF?\ntag: " #" /[a-z]+/ -> label\nNUMBER: /[0-9]+/\n%import common.LF\n'


@pytest.mark.parametrize("grammar", [LARK, 'root ::= "id=" [0-9]+'], ids=["lark", "ebnf"])
def test_lark_and_ebnf(harness: Harness, backend: Any, grammar: str) -> None:
    for text, good in (("id=42", True), ("id=x", False), ("id=7 #ok\n", grammar is LARK)):
        assert takes(harness, compiled(backend, "GRAMMAR", grammar), text) is good


# test_backend_guidance_structural_tag.py, test_gptoss_structural_tags.py

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n'
BAD = '<tool_call>\n{"name": "get_weather", "arguments": {"city": 5}}\n</tool_call>'


def tool_tag(backend: Any, choice: Any) -> Any:
    from vllm.entrypoints.openai.chat_completion.protocol import (
        ChatCompletionNamedToolChoiceParam,
        ChatCompletionToolsParam,
    )
    from vllm.tool_parsers.structural_tag_registry import get_model_structural_tag

    function = {"name": "get_weather", "strict": True, "parameters": WEATHER}
    tools = [ChatCompletionToolsParam(type="function", function=function)]
    if choice == "named":
        choice = ChatCompletionNamedToolChoiceParam(type="function", function={"name": "get_weather"})
    tag = get_model_structural_tag("hermes", tools, choice, False)
    return compiled(backend, "STRUCTURAL_TAG", json.dumps(tag.model_dump()))


@pytest.mark.parametrize("close", ["special", "spelled"])
def test_tools_by_choice_of_the_model(harness: Harness, backend: Any, close: str) -> None:
    grammar = tool_tag(backend, "auto")
    assert grammar.accept_tokens("case", harness.encode("Checking the weather. " + CALL))
    if close == "special":
        ends = [harness.token("</tool_call>")]
    else:
        ends = [token for piece in ("</", "tool", "_call", ">") for token in harness.encode(piece)]
    assert grammar.accept_tokens("case", ends)
    assert grammar.accept_tokens("case", [*harness.encode(" done"), harness.end])
    assert grammar.is_terminated()
    bad = harness.encode(BAD)
    assert tool_tag(backend, "auto").validate_tokens(bad) != bad


@pytest.mark.parametrize("choice", ["required", "named"])
def test_required_and_named_tools(harness: Harness, backend: Any, choice: str) -> None:
    grammar, call = tool_tag(backend, choice), harness.encode(CALL + "</tool_call>")
    prose = harness.encode("The weather is nice.")
    assert grammar.validate_tokens(prose) != prose
    assert grammar.validate_tokens([harness.end]) == []
    assert grammar.accept_tokens("case", call)
    if choice == "named":
        assert grammar.validate_tokens(call) != call
    assert grammar.accept_tokens("case", [harness.end])


def test_older_structural_tags(harness: Harness, backend: Any) -> None:
    structure = {"begin": "<tool_call>", "schema": WEATHER, "end": "</tool_call>"}
    text = json.dumps({"triggers": ["<tool_call>"], "structures": [structure]})
    for call, good in (('<tool_call>{"city": "Paris"}', True), ('<tool_call>{"city": 5}', False)):
        ids = harness.encode(call)
        assert (compiled(backend, "STRUCTURAL_TAG", text).validate_tokens(ids) == ids) is good


def channel(begin: str) -> dict[str, Any]:
    return {"begin": f"<|channel|>{begin}", "content": {"type": "any_text"}, "end": "<|done|>"}


@pytest.mark.parametrize("tools", [[], ["python"], ["browser", "python", "container"]])
def test_channels_of_gpt_oss(harness: Harness, backend: Any, tools: list[str]) -> None:
    """The tags that vLLM made for gpt-oss before 0.32."""
    named = [channel(f"{kind} to={tool}") for tool in tools for kind in ("commentary", "analysis")]
    triggers = ["<|channel|>analysis", *(["<|channel|>commentary to="] if tools else [])]
    tags = [channel("analysis<|message|>"), *named]
    form = {"type": "triggered_tags", "tags": tags, "triggers": triggers, "stop_after_first": False}
    texts = {"<|channel|>analysis<|message|>I think.<|done|>": True, "<|channel|>analysis x<|done|>": False}
    for name in ("python", "sql"):
        texts[f"<|channel|>commentary to={name}<|done|>"] = name in tools or not tools
    for text, good in texts.items():
        ids = harness.encode(text)
        grammar = compiled(backend, "STRUCTURAL_TAG", json.dumps({"type": "structural_tag", "format": form}))
        assert (grammar.validate_tokens(ids) == ids) is good, text
