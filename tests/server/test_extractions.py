"""Chat requests with `extraction`: their answers are those of an `Extractor`; what goes with them, and what does not."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from constrained.chat.detect import ReplyFormats
from constrained.chat.tools import parse_tools
from constrained.extraction import Extractor, tool_calls
from constrained.models import LanguageModel, load
from constrained.server import extractions, scheduler, workers
from constrained.server.errors import ApiError
from constrained.server.requests import ChatRequest
from constrained.server.settings import ServerSettings
from tests.server.serving import MODEL, Served, served, wait_until

SCHEMA: Any = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": ["integer", "null"]},
        "status": {"enum": ["single", "married"]},
    },
    "required": ["name", "age", "status"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
REFUSED = {
    "type": "json_schema",
    "json_schema": {"name": "r", "schema": {"properties": {"a": {"pattern": r"(a)\1"}}}},
}
LONG = "It rains in Oslo, and nobody is there. " * 25 + "Anna Berg, 34, is married."
"""It is read in several pieces."""
TEXTS = ("Anna Berg, 34, is married.", "Tom is single.", "We met Eva Lund; she is 51 and married.", LONG)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load()


@pytest.fixture(scope="module")
def server(model: LanguageModel) -> Iterator[Served]:
    with served(model) as running:
        yield running


def ask(server: Served, *said: str, **more: Any) -> Any:
    messages = [
        {"role": "user" if i % 2 == 0 else "assistant", "content": text} for i, text in enumerate(said)
    ]
    body = {"model": MODEL, "messages": messages, "response_format": FORMAT, "extraction": True, **more}
    return server.post("/v1/chat/completions", body)


def test_answers_are_those_of_an_extractor(server: Served, model: LanguageModel) -> None:
    extractor = Extractor(model, SCHEMA, on_limit="close")
    with ThreadPoolExecutor(6) as threads:  # beside each other, and beside chats
        chats = [threads.submit(ask, server, text, extraction=False, max_tokens=60) for text in TEXTS]
        found = [threads.submit(ask, server, text) for text in TEXTS]
    for text, answer in zip(TEXTS, found, strict=True):
        (choice,) = answer.result().json()["choices"]
        expected = extractor(text)
        assert choice["message"]["content"] == expected.text
        assert choice["finish_reason"] == "stop"
    assert all(chat.result().status_code == 200 for chat in chats)


def test_settings_of_a_call_are_those_of_the_request(server: Served, model: LanguageModel) -> None:
    drawn = Extractor(model, {"type": "object", "properties": {"note": {"type": "string", "maxLength": 30}}})
    schema = {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": drawn.generator.constraint.schema},
    }
    answer = ask(server, "Nothing of note.", response_format=schema, temperature=1.5, seed=3, top_p=0.9)
    expected = drawn("Nothing of note.", temperature=1.5, seed=3, top_p=0.9)
    assert answer.json()["choices"][0]["message"]["content"] == expected.text


def test_a_value_that_the_limit_cuts_is_closed(server: Served) -> None:
    schema = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    (choice,) = ask(server, "Why?", response_format=form, max_tokens=9, temperature=5, seed=1).json()[
        "choices"
    ]
    assert choice["finish_reason"] == "length"
    assert set(json.loads(choice["message"]["content"])) == {"note"}


def test_system_messages_are_instructions_and_turns_are_examples(
    server: Served, model: LanguageModel
) -> None:
    example = {"name": "Bo", "age": 7, "status": "single"}
    extractor = Extractor(
        model, SCHEMA, instructions="Names in full.", examples=[("Bo, 7.", example)], on_limit="close"
    )
    messages = [
        {"role": "system", "content": "Names in full."},
        {"role": "user", "content": [{"type": "text", "text": "Bo, 7."}]},
        {"role": "assistant", "content": json.dumps(example)},
        {"role": "user", "content": TEXTS[0]},
    ]
    answer = ask(server, messages=messages).json()
    assert answer["choices"][0]["message"]["content"] == extractor(TEXTS[0]).text
    assert answer["usage"]["prompt_tokens"] == len(model.encode(extractor.prompt(TEXTS[0])))


def test_a_stream_has_the_value_in_one_piece(server: Served) -> None:
    whole = ask(server, TEXTS[0]).json()["choices"][0]["message"]["content"]
    with server.openai() as client:
        chunks = client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": TEXTS[0]}],
            response_format=FORMAT,  # type: ignore[call-overload]
            extra_body={"extraction": True},
            stream=True,
        )
        deltas = [chunk.choices[0] for chunk in chunks]
    assert "".join(delta.delta.content or "" for delta in deltas) == whole
    assert deltas[-1].finish_reason == "stop"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"n": 2}, "n"),
        ({"stop": ["x"]}, "stop"),
        ({"logprobs": True}, "logprobs"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"logit_bias": {"3": 1}}, "logit_bias"),
        ({"enable_thinking": True}, "enable_thinking"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "response_format"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"}, "tools"),
        ({"response_format": None}, "response_format.type"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages"),
        ({"max_tokens": 3}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"response_format": REFUSED}, "response_format.json_schema.schema"),
    ],
)
def test_what_does_not_go_with_it_is_refused_by_name(server: Served, more: Any, param: str) -> None:
    answer = ask(server, TEXTS[0], **more)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_neutral_values_go_with_it(server: Served) -> None:
    neutral = {"n": 1, "stop": [], "logprobs": False, "tools": [], "presence_penalty": 0, "top_k": -1}
    assert ask(server, TEXTS[1], **neutral, repetition_penalty=1, user="me").status_code == 200


def test_a_value_that_is_no_example_is_refused(server: Served) -> None:
    answer = ask(server, "Bo, 7.", '{"name": 3}', TEXTS[0])
    assert answer.status_code == 400
    assert "the value of example 0" in answer.json()["error"]["message"]


def test_other_apis_have_it_too(server: Served, model: LanguageModel) -> None:
    expected = Extractor(model, SCHEMA, on_limit="close")(TEXTS[0]).text
    text = {"format": {"type": "json_schema", "name": "person", "schema": SCHEMA}}
    body: Any = {"model": MODEL, "input": TEXTS[0], "text": text, "temperature": 0, "extraction": True}
    answer = server.post("/v1/responses", body).json()
    assert answer["output"][-1]["content"][0]["text"] == expected
    messages = [{"role": "user", "content": TEXTS[0]}]
    form = {"format": {"type": "json_schema", "schema": SCHEMA}}
    body = {
        "model": MODEL,
        "messages": messages,
        "max_tokens": 100,
        "output_config": form,
        "extraction": True,
    }
    assert server.post("/v1/messages", body).json()["content"][0]["text"] == expected


TOOL: Any = {"name": "add_person", "description": "Adds a person.", "parameters": SCHEMA}


def ask_tool(server: Served, *messages: Any, **more: Any) -> Any:
    """A message with a call, as the server answers with one."""
    body = {"model": MODEL, "messages": messages, "tools": [{"type": "function", "function": TOOL}]}
    wanted = {"tool_choice": "required", "extraction": True, "max_tokens": 60, **more}
    answer = server.post("/v1/chat/completions", body | wanted)
    assert answer.status_code == 200
    return answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]


def test_arguments_of_a_call_are_those_of_an_extractor(server: Served, model: LanguageModel) -> None:
    (tool,) = parse_tools([TOOL])
    said = "Names in full."
    expected = Extractor(model, tool.arguments, instructions=f"{said}\n\n{tool.description}")(TEXTS[0])
    messages = [{"role": "system", "content": said}, {"role": "user", "content": TEXTS[0]}]
    call = ask_tool(server, *messages)
    assert call == {"name": "add_person", "arguments": expected.text}
    assert ask_tool(server, *messages, extraction=False, temperature=0) != call
    body: Any = {"model": MODEL, "input": TEXTS[0], "instructions": said, "extraction": True}
    answer = server.post("/v1/responses", {**body, "tools": [{"type": "function", **TOOL}]}).json()
    assert answer["status"] == "completed"


def test_a_stream_has_a_call_with_its_arguments(server: Served) -> None:
    message: Any = {"role": "user", "content": TEXTS[0]}
    whole = ask_tool(server, message)
    with server.openai() as client:
        chunks = client.chat.completions.create(
            model=MODEL,
            messages=[message],
            tools=[{"type": "function", "function": TOOL}],
            tool_choice="required",
            max_tokens=60,
            extra_body={"extraction": True},
            stream=True,
        )
        deltas = [chunk.choices[0] for chunk in chunks]
    calls = [call.function for delta in deltas for call in delta.delta.tool_calls or ()]
    assert (calls[0].name, "".join(call.arguments for call in calls)) == tuple(whole.values())
    assert deltas[-1].finish_reason == "tool_calls"


def test_whether_a_tool_is_called_is_decided(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    message: Any = {"role": "user", "content": TEXTS[0]}
    called = ask_tool(server, message)
    monkeypatch.setattr(tool_calls, "MOST_NONE", 1.0)
    assert ask_tool(server, message, tool_choice="auto") == called
    body: Any = {
        "model": MODEL,
        "messages": [message],
        "tools": [{"type": "function", "function": TOOL}],
        "extraction": True,
        "max_tokens": 12,  # no call fits
    }
    for most in (1.0, 0.0):
        monkeypatch.setattr(tool_calls, "MOST_NONE", most)
        answer = server.post("/v1/chat/completions", body).json()["choices"][0]["message"]
        assert answer["content"]
        assert "tool_calls" not in answer


def test_calls_after_a_result_are_written(server: Served) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "add_person", "arguments": "{}"}}
    messages: Any = [
        {"role": "user", "content": TEXTS[0]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "Who?"},
    ]
    assert ask_tool(server, *messages) == ask_tool(server, *messages, extraction=False, temperature=0)


def test_text_completions_have_no_extraction(server: Served) -> None:
    body = {"model": MODEL, "prompt": "x", "extraction": True}
    assert server.post("/v1/completions", body).json()["error"]["code"] == "unknown_parameter"


def test_a_schema_that_takes_long_to_compile_is_refused(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extractions, "COMPILE_SECONDS", 0.0)
    known = workers._Served({MODEL: model.vocabulary}, {}, ServerSettings(name=MODEL), None)
    messages: Any = [{"role": "user", "content": "x"}]
    body: Any = {"model": MODEL, "messages": messages, "response_format": FORMAT}
    workers._compile(known, MODEL, ChatRequest(**body), ReplyFormats())
    with pytest.raises(ApiError, match="leave extraction out") as refused:
        workers._compile(known, MODEL, ChatRequest(**body, extraction=True), ReplyFormats())
    assert (refused.value.status, refused.value.code) == (400, "constraint_too_large")


def test_a_large_body_is_read_like_a_small_one(model: LanguageModel) -> None:
    with served(model, sandbox=True) as running:
        small = ask(running, TEXTS[0]).json()["choices"][0]["message"]["content"]
        large = ask(running, TEXTS[0], metadata={"x": "y" * 70_000})
        assert large.json()["choices"][0]["message"]["content"] == small


def test_the_model_goes_on_after_a_client_has_gone(server: Served) -> None:
    with pytest.raises(Exception, match="timed out"):
        server.http.post(
            "/v1/chat/completions",
            json={
                "model": MODEL,
                "messages": [{"role": "user", "content": "word " * 400}],
                "response_format": FORMAT,
                "extraction": True,
            },
            timeout=0.05,
        )
    wait_until(lambda: not len(server.scheduler.beside))
    assert ask(server, TEXTS[0]).status_code == 200


def test_a_failure_of_the_model_ends_the_extraction_alone() -> None:
    failing: Any = copy.copy(load())
    works = failing._run

    def run(*inputs: Any, **more: Any) -> Any:
        raise RuntimeError("the device is lost")

    with served(failing) as running:
        failing._run = run
        answer = ask(running, TEXTS[0])
        assert answer.status_code == 500
        failing._run = works
        assert ask(running, TEXTS[0]).status_code == 200
        assert ask(running, TEXTS[0], extraction=False, max_tokens=60).status_code == 200


def test_chats_get_steps_for_as_long_as_extractions_held_them_up(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [10.0]
    batch = SimpleNamespace(sequences=[object()], steps=0, remove_finished=lambda: None)

    def step() -> None:
        batch.steps += 1
        now[0] += 1

    batch.step = step
    monkeypatch.setattr(scheduler, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    running = scheduler.Scheduler(model, 4)
    monkeypatch.setattr(running, "_batch", batch)
    monkeypatch.setattr(running, "_held_since", 4.0)
    running._repay()
    assert batch.steps == 6
    running._repay()  # nobody was held up
    assert batch.steps == 7
    batch.sequences, now[0] = [], 100.0
    running._repay()  # nobody waits
    assert batch.steps == 8
