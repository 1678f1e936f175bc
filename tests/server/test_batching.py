"""Many requests at once: in one batch, in the queue, refused, given up; and the end of the server."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from constrained import Generator, Local, load
from constrained.constraint.generated import generated_constraint
from constrained.decoding.speculation import Speculation
from constrained.server.request_lifecycle import RequestLifecycle
from tests.server.serving import MODEL, GatedModel, Served, scripted, served, wait_until
from tests.support.paths import ROOT
from tests.support.tiny_models import random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer


def text(answer: httpx.Response) -> str:
    text_of: str = answer.json()["choices"][0]["message"]["content"]
    return text_of


def test_a_whole_answer_is_told_in_two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has what the deltas of a stream add up to."""
    told = [0]
    send = RequestLifecycle.send

    def counted(self: RequestLifecycle, pieces: Any) -> None:
        told[0] += 1
        send(self, pieces)

    monkeypatch.setattr(RequestLifecycle, "send", counted)
    asked: dict[str, Any] = {"n": 3, "seed": 5, "temperature": 0, "logprobs": True, "top_logprobs": 2}
    with served(scripted("some words, and some more of them")) as server:
        whole = server.chat(**asked).json()
        assert 2 <= told[0] <= 6
        told[0] = 0
        lines = server.chat(**asked, stream=True).text.splitlines()
        assert told[0] > 20
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    for i, choice in enumerate(whole["choices"]):
        deltas = [one for chunk in chunks for one in chunk["choices"] if one["index"] == i]
        assert "".join(one["delta"].get("content") or "" for one in deltas) == choice["message"]["content"]
        tokens = [token for one in deltas if one["logprobs"] for token in one["logprobs"]["content"]]
        assert tokens == choice["logprobs"]["content"]
        assert len(tokens) > 30
        assert choice["finish_reason"] == deltas[-1]["finish_reason"] == "stop"


def test_a_text_is_the_same_in_any_company() -> None:
    """Requests with constraints, seeds and temperatures of their own, side by side: what each would be alone."""
    model = load(random_llama(), small_bpe_tokenizer(), isolate=True)
    schemas = [
        {"type": "integer"},
        {"enum": ["red", "green"]},
        {"type": "array", "items": {"type": "boolean"}},
    ]
    request = [
        {
            "prompt": f"Say {i}:",
            "seed": i,
            "temperature": 0.5 + i % 3,
            "max_tokens": 12 + i,
            "structured_outputs": {"json": schemas[i % 3]},
        }
        for i in range(6)
    ]
    alone = [
        Generator(
            model,
            generated_constraint(one["structured_outputs"]["json"]),
            chat=False,
            sampler=Local(weights=False, slots=True),
        )(one["prompt"], seed=one["seed"], temperature=one["temperature"], max_tokens=one["max_tokens"]).text
        for one in request
    ]
    with served(model) as server, ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda one: server.post("/v1/completions", {"model": MODEL, **one}), request))
        steps = server.scheduler.steps
    assert [answer.json()["choices"][0]["text"] for answer in answers] == alone
    assert steps < sum(answer.json()["usage"]["completion_tokens"] for answer in answers), "they shared steps"


def test_speculation_changes_no_completion() -> None:
    """Equal requests with and without speculation, repeated, so that past completions are proposed again."""
    model = load(random_llama(), small_bpe_tokenizer(), isolate=True)
    schema = {"type": "object", "properties": {"a": {"enum": ["red", "green"]}}, "required": ["a"]}
    request = [
        {"prompt": f"Say {i % 3}:", "seed": i % 3, "max_tokens": 40, **wanted}
        for i in range(6)
        for wanted in ({"structured_outputs": {"json": schema}}, {"max_tokens": 12})
    ]
    texts, steps = [], []
    for draft in (None, Speculation(nodes=8, adapts=False)):
        with served(model, speculation=draft) as server, ThreadPoolExecutor(3) as pool:
            answers = list(
                pool.map(lambda one: server.post("/v1/completions", {"model": MODEL, **one}), request)
            )
            texts.append([answer.json()["choices"][0]["text"] for answer in answers])
            steps.append(server.scheduler.steps)
    assert texts[0] == texts[1]
    assert steps[1] < steps[0]


def test_requests_join_a_running_batch() -> None:
    """A short request that comes later is answered while a long one is being written."""
    model = GatedModel({"long": "x" * 400, "short": "yes"})
    with served(model) as server, ThreadPoolExecutor(2) as pool:
        long = pool.submit(server.chat, "long")
        assert model.reached.wait(60)
        short = pool.submit(server.chat, "short")
        wait_until(lambda: server.scheduler.waiting == 1)
        model.gate.set()
        assert text(short.result()) == "yes"
        assert text(long.result()) == "x" * 400
        # The short one shares its steps with the long one.
        assert model.forwards < 400 + 10


@pytest.mark.ci
def test_a_hundred_clients_and_a_small_queue() -> None:
    model = GatedModel("hello")
    with served(model, max_batch=4, max_queue=8) as server, ThreadPoolExecutor(100) as pool:
        answers = [pool.submit(server.chat) for _ in range(100)]
        wait_until(lambda: sum(answer.done() for answer in answers) == 88)
        refused = [answer.result() for answer in answers if answer.done()]
        assert {answer.status_code for answer in refused} == {429}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert refused[0].json()["error"]["type"] == "rate_limit_error"
        model.gate.set()
        statuses = [answer.result().status_code for answer in answers]
        assert (statuses.count(200), statuses.count(429)) == (12, 88)
        assert text(server.chat()) == "hello", "there is room again"
        page = server.http.get("/metrics").text
        label = 'endpoint="/v1/chat/completions"'
        assert f'constrained_requests_total{{{label},status="429"}} 88.0' in page
        assert f'constrained_requests_total{{{label},status="200"}} 13.0' in page
        assert f'constrained_generated_tokens_total{{model="{MODEL}"}} 65.0' in page


@pytest.mark.ci
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_stops_its_text(stream: bool) -> None:
    model = GatedModel("x" * 10_000)
    with served(model) as server:
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": "go"}],
            "max_tokens": 9000,
            "temperature": 0,
        }
        with httpx.Client() as client:
            gone = threading.Thread(target=_abandon, args=(client, server, {**body, "stream": stream}))
            gone.start()
            assert model.reached.wait(60)
            wait_until(lambda: server.scheduler.running == 1)
            held = weakref.ref(server.scheduler._running[0].sequences[0])
            if stream:
                model.gate.set()
            gone.join()
        wait_until(lambda: server.service.admission.open == 0)
        model.gate.set()
        wait_until(lambda: server.scheduler.running == 0)
        assert model.forwards < 9000
        assert "constrained_disconnects_total 1.0" in server.http.get("/metrics").text
        wait_until(lambda: not server.scheduler._running)
        assert server.chat("next", max_tokens=1).status_code == 200
        wait_until(
            lambda: gc.collect() >= 0 and held() is None
        )  # nothing is kept, of its text or of its memory


def _abandon(client: httpx.Client, server: Served, body: dict[str, Any]) -> None:
    """Reads a little of a stream, or waits a little for an answer, and hangs up."""
    url = f"{server.url}/v1/chat/completions"
    if body["stream"]:
        with client.stream("POST", url, json=body, timeout=60) as answer:
            lines = answer.iter_lines()
            for _ in range(6):
                next(lines)
    else:
        with pytest.raises(httpx.ReadTimeout):
            client.post(url, json=body, timeout=0.3)


@pytest.mark.ci
def test_a_request_in_the_queue_can_be_given_up() -> None:
    model = GatedModel("hello")
    with served(model, max_batch=1) as server, ThreadPoolExecutor(1) as pool:
        first = pool.submit(server.chat)
        assert model.reached.wait(60)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}/v1/completions", json={"model": MODEL, "prompt": "never"}, timeout=0.3)
        wait_until(lambda: server.service.admission.open == 1)
        model.gate.set()
        assert text(first.result()) == "hello"
        wait_until(lambda: server.scheduler.waiting + server.scheduler.running == 0)


def test_the_server_finishes_what_runs_before_it_stops() -> None:
    model = GatedModel("hello there")
    with served(model) as server, ThreadPoolExecutor(2) as pool:
        whole = pool.submit(server.chat)
        streamed = pool.submit(lambda: server.chat(stream=True).text)
        wait_until(lambda: server.scheduler.running + server.scheduler.waiting == 2)
        assert model.reached.wait(60)
        server.server.should_exit = True
        model.gate.set()
        assert text(whole.result()) == "hello there"
        assert streamed.result().rstrip().endswith("data: [DONE]")
        server.thread.join()
        with pytest.raises(httpx.ConnectError):
            server.chat()


@pytest.mark.ci
def test_the_server_waits_no_longer_than_its_grace() -> None:
    model = GatedModel("hello")
    with served(model, grace=1) as server, ThreadPoolExecutor(1) as pool:
        request = pool.submit(_status, server)
        assert model.reached.wait(60)
        server.server.should_exit = True
        assert request.result() in (None, 500, 503)
        model.gate.set()


def _status(server: Served) -> int | None:
    try:
        return server.chat().status_code
    except httpx.HTTPError:
        return None


def test_a_dead_scheduler_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    """Running and queued requests get an error, /health is 503 with the reason, and new requests are refused."""
    model = GatedModel("hello")
    with served(model, max_batch=1, speculation=None) as server, ThreadPoolExecutor(2) as pool:
        request = [pool.submit(server.chat) for _ in range(2)]
        assert model.reached.wait(60)
        wait_until(lambda: server.scheduler.waiting == 1)
        assert server.http.get("/health").status_code == 200
        server.scheduler._admit = _breaks
        model.gate.set()
        for answer in (*(one.result() for one in request), server.chat()):
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "dead")
        health = server.http.get("/health")
        assert health.status_code == 503
        assert health.json() == {"status": "dead", "running": 0, "waiting": 0, "reason": "ZeroDivisionError"}
        assert not server.scheduler._thread.is_alive()
    assert "the scheduler failed" in caplog.text


def _breaks() -> None:
    raise ZeroDivisionError("nobody expected this")


SERVE = """
import sys
from tests.server.serving import BYTES, GatedModel
from constrained import models
model = GatedModel("hello")
model.gate.set()
models.load = lambda *a, **k: model
from constrained.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("how", [pytest.param(signal.SIGTERM, marks=pytest.mark.ci), signal.SIGINT])
def test_the_command_serves_until_it_is_stopped(how: signal.Signals) -> None:
    here = str(ROOT)
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve", "some/model", "--port", "0"],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": here, "CONSTRAINED_API_KEY": "key"},
        text=True,
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == "loading some/model\n"
        line = process.stderr.readline()
        assert line.startswith("serving some/model at http://127.0.0.1:"), line + process.stderr.read()
        url = line.split()[-1]
        body = {"model": "some/model", "prompt": "x", "temperature": 0}
        answer = httpx.post(
            f"{url}/completions", json=body, headers={"authorization": "Bearer key"}, timeout=60
        )
        assert answer.json()["choices"][0]["text"] == "hello"
        process.send_signal(how)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()


DIES = SERVE.replace(
    "from constrained.cli",
    "from constrained.decoding import continuous_batch\ncontinuous_batch.ContinuousBatch.remove_finished = None\nfrom constrained.cli",
)


@pytest.mark.ci
def test_the_command_ends_when_its_scheduler_dies() -> None:
    """Whoever supervises the process can start a fresh one."""
    process = subprocess.Popen(
        [sys.executable, "-c", DIES, "serve", "some/model", "--port", "0"],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    try:
        assert process.stderr is not None
        process.stderr.readline()  # what is loaded
        url = process.stderr.readline().split()[-1]
        answer = httpx.post(f"{url}/completions", json={"model": "some/model", "prompt": "x"}, timeout=60)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "dead")
        assert process.wait(60) == 70
        assert "its scheduler failed: TypeError" in process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def test_an_address_that_is_taken() -> None:
    from constrained import InvalidArgument
    from constrained.server import serve

    with served(scripted("x")) as server:
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(InvalidArgument, match="cannot listen"):
            serve(scripted("x"), port=port)


def test_settings_are_checked() -> None:
    from constrained import InvalidArgument
    from constrained.server import ServerSettings

    for wrong in ({"max_batch": 0}, {"compile_seconds": 0}, {"max_tokens": 0}, {"name": ""}, {"api_key": ""}):
        with pytest.raises(InvalidArgument):
            ServerSettings(**wrong)


def test_every_line_of_a_stream_is_json() -> None:
    with served(scripted("naïve\n\ndata: [DONE]")) as server:
        answer = server.chat(stream=True)
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [line for line in answer.text.split("\n\n") if line]
        assert events[-1] == "data: [DONE]"
        parts = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
        text_of = "".join(part["choices"][0]["delta"].get("content") or "" for part in parts)
        assert text_of == "naïve\n\ndata: [DONE]"


@pytest.mark.ci
def test_a_missing_extra_is_named() -> None:
    code = "import sys; sys.modules['fastapi'] = None\nfrom constrained.cli import main; main(['serve'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'constrained-generation[server]'" in done.stderr
