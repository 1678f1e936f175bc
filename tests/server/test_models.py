"""Several models in one server, by name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from openai import NotFoundError

from constrained.cli.exit_status import BadInput
from constrained.cli.serve import _named
from constrained.errors import InvalidArgument
from constrained.server import ServerSettings, create_app, serve_in_thread
from constrained.testing import ScriptedModel
from tests.server.serving import BYTES, GatedModel, Served, served, wait_until
from tests.support.finite import byte_vocabulary

CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
NAMES = ["north", "org/south", "alias"]


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    north = ScriptedModel(BYTES, '{"city": "Oslo"}')
    south = ScriptedModel(
        byte_vocabulary('{"city', '": "', "Ro"), '{"city": "Rome"}', context=99
    )  # another vocabulary
    with served({"north": north, "org/south": south, "alias": north}) as running:
        yield running


@pytest.mark.ci
def test_each_model_answers_under_its_name(server: Served) -> None:
    for name, text, context in zip(NAMES, ("Oslo", "Rome", "Oslo"), (None, 99, None), strict=True):
        answer = server.chat(model=name, guided_json=CITY).json()
        assert (answer["model"], answer["choices"][0]["message"]["content"]) == (
            name,
            f'{{"city": "{text}"}}',
        )
        completion = server.post("/v1/completions", {"model": name, "prompt": "x", "temperature": 0}).json()
        assert text in completion["choices"][0]["text"]
        response = server.post("/v1/responses", {"model": name, "input": "x", "temperature": 0}).json()
        assert (response["model"], text in response["output"][0]["content"][0]["text"]) == (name, True)
        tokens = server.post("/tokenize", {"model": name, "prompt": '{"city": "'}).json()
        assert (tokens["count"] < 5, tokens["max_model_len"]) == (text == "Rome", context)
        assert server.http.get(f"/v1/models/{name}").json()["max_model_len"] == context


def test_the_list_and_an_unknown_name(server: Served) -> None:
    with server.openai() as client:
        assert [model.id for model in client.models.list()] == NAMES
        asked: Any = {"model": "west", "messages": [{"role": "user", "content": "x"}]}
        with pytest.raises(
            NotFoundError, match="'west' does not exist; this server has 'north', 'org/south', 'alias'"
        ) as caught:
            client.chat.completions.create(**asked)
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
        for call in (client.models.retrieve, lambda name: client.responses.create(model=name, input="x")):
            with pytest.raises(NotFoundError):
                call("west")
    assert server.post("/tokenize", {"model": "west", "prompt": "x"}).status_code == 404
    assert server.post("/detokenize", {"tokens": [104]}).json()["content"] == "h", (
        "without a name it is the first model"
    )


def test_a_waiting_model_does_not_hold_the_others() -> None:
    """Each has a batch of its own; the queue is one, and metrics tell them apart."""
    slow, quick = GatedModel("slow"), ScriptedModel(BYTES, "quick")
    with served({"slow": slow, "quick": quick}, max_batch=1, max_queue=1) as server:
        threads = [threading.Thread(target=server.chat, kwargs={"model": "slow"}) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert slow.reached.wait(60)
        wait_until(lambda: server.service.admission.open == 2)
        assert server.chat(model="quick").json()["choices"][0]["message"]["content"] == "quick"
        page = server.http.get("/metrics").text
        assert 'constrained_requests_waiting{model="slow"} 1.0' in page
        assert 'constrained_generated_tokens_total{model="quick"} 5.0' in page
        assert server.http.get("/health").json() == {"status": "ok", "running": 1, "waiting": 1}
        third = threading.Thread(target=server.chat, kwargs={"model": "slow"})
        third.start()
        wait_until(lambda: server.service.admission.open == 3)
        assert server.chat(model="quick").json()["error"]["code"] == "queue_full"
        slow.gate.set()
        for thread in (*threads, third):
            thread.join()


def test_one_failed_model_ends_the_server() -> None:
    """It is reported for all of them: the process is to be started again."""
    with served({"a": ScriptedModel(BYTES, "a"), "b": ScriptedModel(BYTES, "b")}) as server:
        failing = server.service.models.named("b").scheduler
        failing._admit = lambda batch: 1 / 0
        assert server.chat(model="b").status_code == 503
        assert server.http.get("/health").json()["status"] == "dead"


def test_names() -> None:
    with serve_in_thread({"a": ScriptedModel(BYTES, "a"), "b": ScriptedModel(BYTES, "b")}) as here:
        assert here.model == "a"
    for wrong in ({}, {"": ScriptedModel(BYTES, "a")}):
        with pytest.raises(InvalidArgument, match="at least one model"):
            create_app(wrong, ServerSettings())
    for wrong in ("gpt2", None, {"a": "gpt2"}):
        with pytest.raises(InvalidArgument, match=r"cannot be served[^$]*constrained\.load"):
            create_app(wrong, ServerSettings())


def test_names_on_the_command_line(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b").mkdir()
    assert _named([], None) == {"constrained-tiny": None}
    assert _named([], "mine") == {"mine": None}
    assert _named(["org/model"], None) == {"org/model": "org/model"}
    assert _named(["small=org/model", str(tmp_path / "a=b"), "bundled"], None) == {
        "small": "org/model",
        "a=b": str(tmp_path / "a=b"),
        "constrained-tiny": None,
    }
    assert _named(["x=bundled", "y=bundled"], None) == {"x": None, "y": None}
    with pytest.raises(BadInput, match="two models have the name 'a'"):
        _named(["a", "a=b/c"], None)
    with pytest.raises(BadInput, match="for a single model"):
        _named(["a", "b"], "c")


@pytest.mark.parametrize(("speculation", "drafted"), [(None, 0), ("auto", 2)])
def test_a_model_is_ready_for_its_batches_before_the_server_says_so(speculation: Any, drafted: int) -> None:
    class Model(ScriptedModel):
        warmed: tuple[int, int] | None = None

        def warm_up(self, rows: int, drafted: int = 0) -> None:
            self.warmed = rows, drafted

    model = Model(BYTES, "x")
    with served(model, max_batch=5, speculation=speculation, speculation_max_batch=2):
        assert model.warmed == (5, drafted)
