"""Large requests are prepared in worker processes, and answered as small ones are."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from constrained.models.prompt_model import PromptModel
from constrained.server.errors import ApiError
from constrained.server.read_request import LARGE
from constrained.server.requests import ChatRequest
from constrained.server.settings import ServerSettings
from constrained.server.workers import READ, Workers
from constrained.testing import ScriptedModel
from tests.server.serving import (
    BYTES,
    MODEL,
    Served,
    family,
    lives,
    processes_of,
    scripted,
    served,
    wait_until,
)

CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]},
    },
}
PADDED = {"metadata": {"pad": "x" * LARGE}}
"""Makes a request large, and changes nothing about its answer."""


def reply(prompt: str) -> str:
    return CALL if "add" in prompt else f"{len(prompt)} bytes"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    model = ScriptedModel(BYTES, reply, context=3000)
    with served({MODEL: model, "other": ScriptedModel(BYTES, "other")}, sandbox=True, max_batch=4) as running:
        assert running.workers.prepares
        yield running


@pytest.fixture
def elsewhere(server: Served, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that are called in the processes, but for those that compile."""
    called: list[str] = []
    call = server.workers.call

    def watched(task: Any, *arguments: Any, **named: Any) -> Any:
        if (name := task.function.__name__) != "_compile":
            called.append(name)
        return call(task, *arguments, **named)

    monkeypatch.setattr(server.workers, "call", watched)
    return called


def told(answer: Any) -> Any:
    """What an answer says, without what is its own: ids and times."""
    body = answer.json()
    for name in ("id", "created", "created_at", "completed_at", "metadata"):
        body.pop(name, None)
    return answer.status_code, json.loads(
        json.dumps(body, sort_keys=True), object_hook=lambda found: {k: v for k, v in found.items() if k not in ("id", "call_id")}
    )  # fmt: skip


CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
HELLO = [{"role": "user", "content": "hello"}]
HISTORY = [
    {"role": "user", "content": "once"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "add", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "a", "content": "2"},
]  # fmt: skip


@pytest.mark.ci
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": HELLO}),
        (CHAT, {"messages": HELLO, "n": 2}),
        (CHAT, {"messages": HELLO, "model": "other"}),
        (CHAT, {"messages": HELLO, "structured_outputs": {"regex": "[0-9]+ bytes"}}),
        (CHAT, {"messages": HELLO, "tools": [TOOL], "tool_choice": "required"}),
        (CHAT, {"messages": HELLO, "tools": [{**TOOL, "function": {**TOOL["function"], "name": "x.add"}}]}),
        (CHAT, {"messages": HISTORY, "tools": [TOOL]}),
        (CHAT, {"messages": HISTORY}),
        (COMPLETIONS, {"prompt": "hello"}),
        (COMPLETIONS, {"prompt": ["hello", "you", "hello"]}),
        (COMPLETIONS, {"prompt": [104, 105]}),
        (COMPLETIONS, {"prompt": [[104], [104, 105]]}),
        (RESPONSES, {"input": "hello"}),
        (RESPONSES, {"input": HELLO, "instructions": "Be brief.", "tools": [{"type": "function", **TOOL["function"]}]}),
        # and what is refused:
        (CHAT, {"messages": HELLO, "model": "nobody"}),
        (CHAT, {"messages": []}),
        (CHAT, {"messages": [{"role": "nobody", "content": "x"}]}),
        (CHAT, {"messages": HELLO, "unheard_of": 1}),
        (CHAT, {"messages": HELLO, "n": 5}),
        (CHAT, {"messages": HELLO, "structured_outputs": {"regex": "("}}),
        (CHAT, {"messages": HELLO, "structured_outputs": {"json": {"minimum": 1, "maximum": 0, "type": "integer"}}}),
        (CHAT, {"messages": HELLO, "tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": 5}}}]}),
        (CHAT, {"messages": HELLO, "chat_template_kwargs": {"unread": 1}}),
        (CHAT, {"messages": HELLO, "reasoning_effort": "high"}),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
        (CHAT, {"messages": [{"role": "user", "content": "x" * 4000}]}),
        (COMPLETIONS, {"prompt": "x" * 4000}),
        (COMPLETIONS, {"prompt": ["x"] * 5}),
        (COMPLETIONS, {"prompt": [9999]}),
        (RESPONSES, {"input": [{"type": "image"}]}),
        (RESPONSES, {"input": "hello", "text": {"format": {"type": "unknown"}}}),
        (RESPONSES, {"input": "x" * 4000}),
    ],
)  # fmt: skip
def test_a_large_request_is_answered_as_a_small_one(
    server: Served, elsewhere: list[str], path: str, body: dict[str, Any]
) -> None:
    asked = {"model": MODEL, "temperature": 0, **body}
    small = server.post(path, asked)
    assert not elsewhere
    assert told(server.post(path, {**asked, **PADDED})) == told(small)
    assert elsewhere == ["_read"]


@pytest.mark.ci
def test_a_large_body_that_is_no_json(server: Served, elsewhere: list[str]) -> None:
    small, large = (server.http.post(CHAT, content=b"[" * size) for size in (100, 2 * LARGE))
    assert small.json()["error"]["code"] == "invalid_json"
    assert large.json()["error"]["code"] in ("invalid_json", "too_many_values")
    large = server.http.post(CHAT, content=b'{"model": ' + b" " * LARGE)
    assert (large.status_code, large.json()["error"]["code"]) == (400, "invalid_json")
    assert elsewhere == ["_read", "_read"]


def test_the_values_of_a_large_body_are_counted_before_it_is_parsed(
    server: Served, elsewhere: list[str]
) -> None:
    body = {"model": MODEL, "messages": HELLO, "metadata": {"a": [[]] * 60_000}}
    for path, more in ((CHAT, {}), ("/tokenize", {"prompt": "x"})):
        answer = server.post(path, {**body, **more})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_many_values")
    assert elsewhere == ["_read", "_tokens"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"prompt": "word " * 14_000, "model": "other"}),
        ("/tokenize", {"prompt": "äö " * 14_000, "model": "other", "return_token_strs": True}),
        ("/tokenize", {"messages": [{"role": "user", "content": "word " * 14_000}], "model": "other"}),
        ("/detokenize", {"tokens": [*range(256)] * 80}),
        ("/tokenize", {"prompt": "word " * 14_000}),
        ("/tokenize", {"prompt": "word " * 14_000, "messages": HELLO}),
        ("/tokenize", {"prompt": "word " * 14_000, "model": "nobody"}),
        ("/detokenize", {"tokens": [9999] * 14_000}),
    ],
)
def test_large_texts_are_tokenized_there_too(
    server: Served, elsewhere: list[str], path: str, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = server.post(path, body)
    assert elsewhere == ["_tokens"]
    monkeypatch.setattr(server.workers, "prepares", False)
    here = server.post(path, body)
    assert elsewhere == ["_tokens"]
    assert (there.status_code, there.json()) == (here.status_code, here.json())


def test_streams_of_large_requests(server: Served, elsewhere: list[str]) -> None:
    with server.openai() as client:
        asked: Any = {"model": MODEL, "messages": HELLO, "temperature": 0, "stream": True, **PADDED}
        text = "".join(
            chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**asked)
        )
    assert text == "5 bytes"
    assert elsewhere == ["_read"]


@pytest.mark.ci
def test_a_process_that_ends_is_replaced() -> None:
    with served(scripted("x"), sandbox=True, compile_threads=1) as server:
        (sandbox,) = server.workers._sandboxes
        parent, child = family(sandbox)
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: processes_of(sandbox)[1:] not in ([], [child]))
        assert server.chat(**PADDED).status_code == 200
        os.killpg(parent, signal.SIGKILL)
        answer = server.chat(**PADDED)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "prepare_failed")
        assert answer.headers["Retry-After"]
        assert server.chat(**PADDED).status_code == 200
        assert processes_of(sandbox)[0] != parent


@pytest.mark.ci
def test_its_limits_are_errors_of_the_request() -> None:
    settings = ServerSettings(compile_seconds=0.5, compile_memory=64 << 20, compile_threads=1)
    workers = Workers({MODEL: ScriptedModel(BYTES, "x")}, settings, None)
    try:
        workers.start()
        assert workers.prepares
        body = json.dumps({"model": MODEL, "messages": HELLO}).encode()
        assert workers.call(READ, ChatRequest, [body]).prompts is not None
        with pytest.raises(ApiError, match=r"within 0\.5 seconds") as refused:
            workers.call(READ._replace(function=_forever))
        assert (refused.value.status, refused.value.code) == (400, "prepare_timeout")
        assert workers.call(READ, ChatRequest, [body]).prompts is not None
        if sys.platform == "linux":
            with pytest.raises(ApiError) as refused:
                workers.call(READ, ChatRequest, [b" " * (96 << 20), body])
            assert (refused.value.status, refused.value.code) == (503, "out_of_memory")
            assert workers.call(READ, ChatRequest, [body]).prompts is not None
    finally:
        workers.close()
    with pytest.raises(ApiError) as refused:
        workers.call(READ, ChatRequest, [body])
    assert (refused.value.status, refused.value.code) == (503, "stopping")


@pytest.mark.ci
def test_a_request_has_so_much_time_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(scripted("x"), sandbox=True, request_seconds=0.5) as server:
        gate = threading.Event()
        monkeypatch.setattr(server.workers, "call", lambda *all: gate.wait(60))
        try:
            for path, body in (
                (CHAT, {"messages": HELLO, **PADDED}),
                ("/tokenize", {"prompt": "x" * 70_000}),
            ):
                answer = server.post(path, {"model": MODEL, **body})
                assert (answer.status_code, answer.json()["error"]["code"]) == (504, "request_timeout")
            assert server.service.admission.open == 0
        finally:
            gate.set()


@pytest.mark.ci
def test_an_unexpected_error_there_is_logged_with_its_place(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    call = server.workers.call
    mistaken = READ._replace(function=_mistaken)
    monkeypatch.setattr(server.workers, "call", lambda task, kind, body: call(mistaken, kind, body))
    answer = server.chat(**PADDED)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert answer.json()["error"]["message"] == "the server failed: KeyError"
    (record,) = [one for one in caplog.records if one.getMessage() == "a request failed"]
    assert "test_large_requests.py" in record.request["frames"][-1]  # type: ignore[attr-defined]
    assert "secret" not in str(vars(record))


def _mistaken(served: Any, kind: Any, parts: Any) -> Any:
    return {}["secret"]


def _forever(served: Any) -> None:
    while True:
        pass


@pytest.mark.ci
def test_a_client_that_hangs_up_leaves_its_place(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a process is dropped; what one has begun ends, and is answered by nobody."""
    gate, begun, call = threading.Event(), [], server.workers.call

    def held(*arguments: Any, **named: Any) -> Any:
        begun.append(arguments)
        assert gate.wait(60)
        return call(*arguments, **named)

    monkeypatch.setattr(server.workers, "call", held)
    admission = server.service.admission
    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(server.post, CHAT, {"model": MODEL, "messages": HELLO, **PADDED}, timeout=0.5)
        wait_until(lambda: admission.open == 0 and bool(begun))
    gate.set()
    assert server.chat(**PADDED).status_code == 200
    assert len(begun) == 2


@pytest.mark.ci
def test_the_processes_end_with_the_server() -> None:
    with served(ScriptedModel(BYTES, "x"), sandbox=True) as server:
        pids = family(server.workers._sandboxes[-1])
    for pid in pids:
        wait_until(lambda pid=pid: not lives(pid))


@pytest.mark.ci
def test_models_that_cannot_be_sent_are_asked_in_threads(caplog: pytest.LogCaptureFixture) -> None:
    class Own(ScriptedModel):
        """Encodes prompts in a way that nobody else knows."""

        def prompt_model(self) -> Any:
            return None

    class Stuck(ScriptedModel):
        """Says that it can be sent, and cannot."""

        def prompt_model(self) -> Any:
            return PromptModel(self.vocabulary, lambda text: [], self.context)

    for model, sandbox, workers in ((Own, True, 2), (Stuck, True, 2), (ScriptedModel, False, 0)):
        with served(model(BYTES, "x"), sandbox=sandbox) as server:
            assert (server.workers.count, server.workers.prepares) == (workers, False)
            assert server.chat(**PADDED).status_code == 200
            assert server.chat(structured_outputs={"regex": "x"}).status_code == 200
    assert "prepared in threads" in caplog.text
