"""Custom tools, whose input is a text of a grammar: in both APIs, streamed, in later turns, beside functions."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

import constrained
from constrained.automaton import Automaton
from constrained.chat.custom_input import InputReader, as_arguments
from constrained.chat.reply import reply_constraint
from tests.server.serving import MODEL, scripted, served
from tests.support.chat_templates import TemplateSpeaker

PATCH_GRAMMAR = r"""
start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF added+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF moved? change?

filename: /(.+)/
added: "+" /(.*)/ LF
moved: "*** Move to: " filename LF
change: (context | line)+ eof?
context: ("@@" | "@@ " /(.+)/) LF
line: ("+" | "-" | " ") /(.*)/ LF
eof: "*** End of File" LF

%import common.LF
"""
_LINE, _NAME = r"[^\n]*\n", r"[^\n]+\n"
_PATCH = re.compile(
    rf"\*\*\* Begin Patch\n(?:\*\*\* Add File: {_NAME}(?:\+{_LINE})+|\*\*\* Delete File: {_NAME}"
    rf"|\*\*\* Update File: {_NAME}(?:\*\*\* Move to: {_NAME})?"
    rf"(?:(?:@@\n|@@ {_NAME}|[+ -]{_LINE})+(?:\*\*\* End of File\n)?)?)+\*\*\* End Patch\n?"
)
"""The same patches, written by hand."""

PATCH = '*** Begin Patch\n*** Add File: a.py\n+print("é")\n+\n*** End Patch'
APPLY: dict[str, Any] = {
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": PATCH_GRAMMAR},
}
NESTED = {
    "type": "custom",
    "custom": {**APPLY, "format": {"type": "grammar", "grammar": {**APPLY["format"], "type": None}}},
}
CODE = {
    "type": "custom",
    "name": "code",
    "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z]{3}[[:digit:]]"},
}
READ = {
    "name": "read",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


SCRIPT = {
    "<tool_response>": "Done.",
    "Patch it": "I write. " + call("apply_patch", as_arguments(PATCH)),
    "Read it": call("read", '{"path": "a.py"}'),
    "": "hello",
}


@pytest.fixture(scope="module")
def client() -> Iterator[OpenAI]:
    def reply(prompt: str) -> str:
        return next(text for key, text in SCRIPT.items() if key in prompt)

    with served(scripted(reply)) as running, running.openai() as made:
        yield made


def test_a_patch_in_a_chat_and_its_result(client: OpenAI) -> None:
    tools: Any = [NESTED, {"type": "function", "function": READ}]
    messages: Any = [{"role": "user", "content": "Patch it"}]
    message = (
        client.chat.completions.create(model=MODEL, messages=messages, tools=tools, temperature=0)
        .choices[0]
        .message
    )
    (called,) = message.tool_calls
    assert (called.type, called.custom.name, called.custom.input) == ("custom", "apply_patch", PATCH)
    assert message.content == "I write. "
    messages += [
        message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": called.id, "content": "ok"},
    ]
    second = client.chat.completions.create(model=MODEL, messages=messages, tools=tools, temperature=0)
    assert second.choices[0].message.content == "Done."
    other = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Read it"}], tools=tools, temperature=0
    )
    assert json.loads(other.choices[0].message.tool_calls[0].function.arguments) == {"path": "a.py"}


def test_a_stream_has_the_input_as_text(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Patch it"}],
        tools=[NESTED],
        temperature=0,
        stream=True,
    )
    deltas = [one for chunk in stream for one in chunk.choices[0].delta.tool_calls or ()]
    first, *rest = [one.model_dump(exclude_none=True) for one in deltas]
    assert (first["type"], first["custom"]) == ("custom", {"name": "apply_patch", "input": ""})
    assert "".join(one["custom"]["input"] for one in rest) == PATCH


@pytest.mark.ci
@pytest.mark.parametrize(
    "choice",
    [
        "required",
        {"type": "custom", "custom": {"name": "apply_patch"}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "custom", "custom": {"name": "apply_patch"}}]}},
    ],
    ids=["required", "named", "allowed"],
)  # fmt: skip
def test_a_forced_call_follows_the_grammar(client: OpenAI, choice: Any) -> None:
    tools: Any = [NESTED] if choice == "required" else [NESTED, CODE]
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "hi"}],
        tools=tools,
        tool_choice=choice,
        temperature=0,
    )
    (called,) = answer.choices[0].message.tool_calls
    assert _PATCH.fullmatch(called.custom.input)


@pytest.mark.ci
def test_a_response_has_the_call_as_an_item_and_reads_its_output(client: OpenAI) -> None:
    tools: Any = [{"type": "custom", **APPLY}, {"type": "function", **READ}]
    first = client.responses.create(model=MODEL, input="Patch it", tools=tools, temperature=0)
    _, called = first.output
    assert (called.type, called.name, called.input) == ("custom_tool_call", "apply_patch", PATCH)
    history: Any = [
        {"role": "user", "content": "Patch it"},
        *(item.model_dump(exclude_none=True) for item in first.output),
        {"type": "custom_tool_call_output", "call_id": called.call_id, "output": "ok"},
    ]
    assert (
        client.responses.create(model=MODEL, input=history, tools=tools, temperature=0).output_text == "Done."
    )
    for choice in (
        {"type": "custom", "name": "code"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "code"}]},
    ):
        forced = client.responses.create(
            model=MODEL, input="x", tools=[*tools, CODE], tool_choice=choice, temperature=0
        )  # type: ignore[call-overload]
        assert re.fullmatch("[a-z]{3}[0-9]", forced.output[0].input)


@pytest.mark.ci
def test_a_stream_of_events(client: OpenAI) -> None:
    tools: Any = [{"type": "custom", **APPLY}]
    with client.responses.stream(model=MODEL, input="Patch it", tools=tools, temperature=0) as stream:
        events = list(stream)
        final = stream.get_final_response()
    deltas = [event.delta for event in events if event.type == "response.custom_tool_call_input.delta"]
    (done,) = [event.input for event in events if event.type == "response.custom_tool_call_input.done"]
    assert "".join(deltas) == done == final.output[1].input == PATCH
    assert len(deltas) > 10


def test_a_free_text_and_a_model_with_markup_of_its_own() -> None:
    told = call("note", as_arguments("anything\n</parameter>"))
    with (
        served(TemplateSpeaker("Qwen3-Coder", told)) as server,
        server.openai() as client,
    ):
        answer = client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "x"}],
            tools=[{"type": "custom", "custom": {"name": "note"}}],
            temperature=0,
        )
    assert answer.choices[0].message.tool_calls[0].custom.input == "anything\n</parameter>"


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ({"type": "grammar", "syntax": "lark", "definition": "start: nowhere"}, "rule nowhere is undefined"),
        ({"type": "grammar", "syntax": "regex", "definition": "("}, "never closed"),
        ({"type": "grammar", "syntax": "peg", "definition": "a"}, "is no format of a custom tool"),
    ],
)
def test_a_grammar_that_cannot_be_read_is_refused(client: OpenAI, form: Any, shown: str) -> None:
    with pytest.raises(BadRequestError, match=shown):
        client.responses.create(
            model=MODEL, input="x", tools=[{"type": "custom", "name": "broken", "format": form}]
        )


def test_an_input_is_read_piece_by_piece() -> None:
    text = 'a"\\\n\t😀é\u2028\ud83d/' * 3
    for pieces in (list(json.dumps({"input": text})), [json.dumps({"input": text}, ensure_ascii=False)]):
        assert "".join(map(InputReader().feed, pieces)) == text.replace("\ud83d", "\ufffd")


# ---------------------------------------------------------------- random patches


def random_patch(rng: random.Random) -> str:
    def word() -> str:
        return "".join(rng.choices('ab *@+-/.é"\\<{\t', k=rng.randrange(1, 8)))

    def line() -> str:
        return rng.choice(("", word(), "*** End Patch", "@@")) + "\n"

    def hunk() -> str:
        kind = rng.randrange(3)
        if kind == 0:
            return f"*** Add File: {word()}\n" + "".join("+" + line() for _ in range(rng.randrange(1, 4)))
        if kind == 1:
            return f"*** Delete File: {word()}\n"
        moved = f"*** Move to: {word()}\n" if rng.random() < 0.3 else ""
        lines = [
            rng.choice(("@@\n", f"@@ {word()}\n", "+" + line(), "-" + line(), " " + line()))
            for _ in range(rng.randrange(4))
        ]
        return (
            f"*** Update File: {word()}\n"
            + moved
            + "".join(lines)
            + ("*** End of File\n" if lines and rng.random() < 0.2 else "")
        )

    hunks = "".join(hunk() for _ in range(rng.randrange(1, 4)))
    return f"*** Begin Patch\n{hunks}*** End Patch" + rng.choice(("", "\n"))


def mutated(rng: random.Random, patch: str) -> str:
    """The patch with some changed characters, so that it is none any more."""
    while True:
        text = patch
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text))
            text = (
                text[:at]
                + rng.choice(("", "\n", "*", " ", "+", text[at] * 2))
                + text[at + rng.randrange(2) :]
            )
        if not _PATCH.fullmatch(text):
            return text


@pytest.mark.parametrize("count", [40, pytest.param(1_000, marks=pytest.mark.slow)])
def test_patches_are_accepted_and_what_is_none_is_not(count: int) -> None:
    constraint = reply_constraint([{"type": "custom", **APPLY}], tool_choice="required")
    automaton: Automaton = constrained.compile(
        constraint, constrained.Vocabulary.from_bytes([bytes([i]) for i in range(256)] + [b""], [256])
    )

    def accepts(patch: str) -> bool:
        tokens = list(call("apply_patch", as_arguments(patch)).encode())
        states = automaton.walk(automaton.start, tokens)
        return len(states) == len(tokens) and automaton.accepts(states[-1])

    rng = random.Random(count)
    patches = [random_patch(rng) for _ in range(count)]
    assert [patch for patch in patches if not (_PATCH.fullmatch(patch) and accepts(patch))] == []
    assert [text for patch in patches if accepts(text := mutated(rng, patch))] == []
