"""`stop` beside a constraint: the text ends at the first stop string before which it is complete, and satisfies the constraint."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from constrained import Vocabulary, compile, regex
from constrained.server.stop_strings import StopStrings
from constrained.testing import ScriptedModel
from tests.server.serving import MODEL, Served, scripted, served
from tests.support.finite import byte_vocabulary


def judged(text: str, pattern: str, stops: list[str]) -> tuple[str, bool]:
    """What is left of a text, and whether a stop string ended it: all places tried, by `re`."""
    places = [
        (at + len(stop), at)
        for stop in stops
        for at in range(len(text))
        if text.startswith(stop, at) and re.fullmatch(pattern, text[:at], re.DOTALL)
    ]
    return (text[: min(places)[1]], True) if places else (text, False)


@pytest.mark.parametrize(
    "vocabulary",
    [byte_vocabulary(), byte_vocabulary("ab", "ba", "aba", "é", "bb", "a é")],
    ids=["bytes", "pieces"],
)
def test_the_first_place_where_the_text_may_end(vocabulary: Vocabulary) -> None:
    """Random texts, stop strings and constraints, beside a search by `re`; parts of a stream join to the same text."""
    draw = random.Random(0)
    stopped = 0
    for _ in range(400):
        pattern = draw.choice(["[abé ]*", "(ab|é)*", "a[abé ]*b", "[abé ]{2,5}", "(a|b|é| ){3}( .*)?"])
        text = "".join(draw.choices("abé ", k=draw.randint(1, 9)))
        stops = ["".join(draw.choices("abé ", k=draw.randint(1, 3))) for _ in range(draw.randint(1, 3))]
        automaton = compile(regex(pattern), vocabulary)
        reader = StopStrings(stops, automaton)
        state, parts = automaton.start, b""
        for token in vocabulary.encode(text):
            state = automaton.next(state, token)
            if not state:  # the constraint does not allow this text
                break
            parts += reader.feed(vocabulary.decode((token,)), state)
            if reader.found is not None:
                break
        if not state:
            continue
        parts += reader.finish()
        assert (parts.decode(), reader.found is not None) == judged(text, pattern, stops), (
            pattern,
            text,
            stops,
        )
        stopped += reader.found is not None
    assert stopped > 40


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
TAG = {
    "type": "structural_tag",
    "structures": [{"begin": "<f>", "schema": {"type": "integer"}, "end": "</f>"}],
    "triggers": ["<f>"],
}
TEXTS = {
    "regex": ("wait and see", {"guided_regex": "[a-z ]+"}, ["and"], "wait "),
    "regex without a place": ("see and do", {"guided_regex": "[a-z]+ and [a-z]+"}, ["and"], "see and do"),
    "json": (
        '{"a": "x, and\\n so"}',
        {"guided_json": SCHEMA},
        [",", "\n", "and", "}"],
        '{"a": "x, and\\n so"}',
    ),
    "choice": ("one two", {"guided_choice": ["one", "one two"]}, [" two"], "one"),
    "free text around tags": ("so <f>12</f> and", {"response_format": TAG}, ["2", "<", "and"], "so "),
    "behind a tag": ("so <f>12</f> and", {"response_format": TAG}, ["2", "and"], "so <f>12</f> "),
}


@pytest.fixture(scope="module")
def server() -> Any:
    said = {"text": ""}
    with served(scripted(lambda prompt: said["text"])) as running:
        running.said = said
        yield running


@pytest.mark.parametrize("name", TEXTS)
def test_over_http(server: Served, name: str) -> None:
    server.said["text"], constraint, stop, expected = TEXTS[name]
    choice = server.chat(stop=stop, **constraint).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (expected, "stop")
    stream = server.chat(stop=stop, stream=True, **constraint).text
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    assert "".join(event["choices"][0]["delta"].get("content") or "" for event in events) == expected
    assert events[-1]["choices"][0]["finish_reason"] == "stop"
    legacy = (
        server.post(
            "/v1/completions", {"model": "told", "prompt": "x", "temperature": 0, "stop": stop, **constraint}
        )
        if "response_format" not in constraint
        else None
    )
    if legacy is not None:
        assert legacy.json()["choices"][0]["text"] == expected


@pytest.mark.ci
def test_log_probabilities_do_not_bring_the_stop_string_back() -> None:
    """In the Responses API, where the text is told token by token with them."""
    asked = {"model": MODEL, "input": "x", "temperature": 0, "regex": "[a-zA-Z ]*", "stop": ["STOP", "xyz"]}
    for script in ("hello STOP there", "hello STO", "hello xy"):
        with served(scripted(script)) as server:
            text = script.split("STOP")[0]
            for more in ({}, {"top_logprobs": 1}):
                (item,) = server.post("/v1/responses", {**asked, **more}).json()["output"]
                assert item["content"][0]["text"] == text
                tokens = "".join(one["token"] for one in item["content"][0]["logprobs"])
                assert tokens == (text if more else "")


@pytest.mark.ci
@pytest.mark.parametrize("constraint", [{}, {"guided_regex": "[a-z é]*"}], ids=["free text", "constraint"])
@pytest.mark.parametrize(
    "vocabulary",
    [
        pytest.param(byte_vocabulary(), id="bytes", marks=pytest.mark.ci),
        pytest.param(byte_vocabulary(" s", "st", "op", "to", "dé", "t s"), id="pieces"),
    ],
)
def test_tokens_with_log_probabilities_are_those_of_the_text(
    vocabulary: Vocabulary, constraint: dict[str, Any]
) -> None:
    """None of a stop string, but the token in which it begins; of a beginning that is none, all. In streams as in whole answers."""
    for script, stop in (
        ("wait stop go", ["stop"]),
        ("wait sto go", ["stop", "gox"]),
        ("wait s", ["stop", " so"]),
        ("dé dé stop", ["é s"]),
        ("stop", ["stop"]),
        ("sstop", ["stop", "tops"]),
        ("wait and see", ["xyz"]),
        ("st st stop", ["st stop", "pg"]),
    ):
        places = [(script.find(one) + len(one), script.find(one)) for one in stop if one in script]
        text = script[: min(places)[1]] if places else script
        ids = vocabulary.encode(script)
        expected, size = [], 0
        for piece in (vocabulary.decode((token,)) for token in ids):
            if size < len(text.encode()):
                expected.append(list(piece))
            size += len(piece)
        with served(ScriptedModel(vocabulary, script)) as server:
            asked = {"stop": stop, "logprobs": True, **constraint}
            choice = server.chat(**asked).json()["choices"][0]
            assert (choice["message"]["content"], choice["finish_reason"]) == (text, "stop")
            assert [one["bytes"] for one in choice["logprobs"]["content"]] == expected, (script, stop)
            lines = server.chat(stream=True, **asked).text.splitlines()
            events = [json.loads(line[6:])["choices"][0] for line in lines if line.startswith("data: {")]
            told = [one for event in events if event["logprobs"] for one in event["logprobs"]["content"]]
            assert told == choice["logprobs"]["content"]
            assert "".join(event["delta"].get("content") or "" for event in events) == text
            body = {
                "model": MODEL,
                "input": "x",
                "temperature": 0,
                "stop": stop,
                "top_logprobs": 1,
                **constraint,
            }
            (item,) = server.post("/v1/responses", body).json()["output"]
            assert item["content"][0]["text"] == text
            assert [one["bytes"] for one in item["content"][0]["logprobs"]] == expected
            body = {
                "model": MODEL,
                "prompt": "x",
                "temperature": 0,
                "stop": stop,
                "logprobs": 1,
                **constraint,
            }
            legacy = server.post("/v1/completions", body).json()["choices"][0]
            assert (legacy["text"], len(legacy["logprobs"]["tokens"])) == (text, len(expected))


def test_stop_strings_in_calls_take_no_tokens_away() -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>'
    tools = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
    with served(scripted(call)) as server:
        for more in ({}, {"stream": True}):
            answer = server.chat(
                tools=tools, stop=["x", "}", "</tool_call>"], logprobs=True, parallel_tool_calls=False, **more
            )
            parts = [answer.json()] if not more else [
                json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")
            ]  # fmt: skip
            told = [part["choices"][0]["logprobs"] for part in parts]
            assert "".join(one["token"] for part in told if part for one in part["content"]) == call


def test_calls_are_not_cut(server: Served) -> None:
    server.said["text"] = '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>'
    tools = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
    for more in ({}, {"response_format": form}, {"tool_choice": "required"}):
        choice = server.chat(tools=tools, stop=["x", "\n", "}"], parallel_tool_calls=False, **more).json()[
            "choices"
        ][0]
        (call,) = choice["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"a": "x"}


def test_speculation_changes_nothing(server: Served) -> None:
    with served(scripted("wait and see and go"), speculation="auto") as drafting:
        for _ in range(2):  # the second time there are drafts
            answer = drafting.chat(stop=["nd g", "t and x"], guided_regex="[a-z ]+").json()
            assert answer["choices"][0]["message"]["content"] == "wait and see a"
