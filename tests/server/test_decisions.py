"""Decisions over HTTP: in OpenAI's form and in TypeSafe's, beside completions; and what is refused."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from constrained.extraction import Decider
from constrained.testing.models import FunctionModel
from tests.server.serving import BYTES, MODEL, GatedModel, Served, served, wait_until

SCRIPT = {"urgent": "true", "team": '"billing"', "question 3": '"annoyed"', "how": "2"}
QUESTIONS: Any = [
    {"type": "predicate", "name": "urgent", "instructions": "It has to be answered today."},
    {
        "type": "choice",
        "name": "team",
        "instructions": "Which team handles it?",
        "choices": [{"value": "sales", "description": "Prices"}, {"value": "billing"}, {"value": True}],
    },
    {
        "type": "score",
        "instructions": [{"type": "input_text", "text": "How angry?"}],
        "levels": [{"label": "calm"}, {"label": "annoyed"}, {"label": "angry"}],
    },
]


class Reader(FunctionModel):
    """Likes the value that a script has for a member, if the text says "now".

    Attributes:
        prompts: that it read.
    """

    def __init__(self) -> None:
        self.vocabulary = BYTES
        self.prompts: list[str] = []

    def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
        return list(prompt if isinstance(prompt, str) else prompt[-1]["content"].encode())

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        said, asked = bytes(completion), bytes(prompt).decode()
        if not completion:
            self.prompts.append(asked)
        row = np.zeros(BYTES.size)
        member = re.search(rb'"([\w ]+)": ([^,]*)$', said)
        if member is not None and "now" in asked.rpartition("Text:")[2]:
            value = SCRIPT[member[1].decode()].encode()
            if value.startswith(member[2]) and len(member[2]) < len(value):
                row[value[len(member[2])]] += 3.0
        return row


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(Reader()) as running:
        yield running


def ask(server: Served, **more: Any) -> Any:
    return server.post("/v1/decisions", {"model": MODEL, "input": "now", "questions": QUESTIONS, **more})


def system_one(server: Served, **more: Any) -> Any:
    questions = {
        "team": {"type": "choice", "instructions": "Which?", "criteria": {"sales": None, "billing": "Bills"}},
        "urgent": {"type": "noul", "instructions": "Now?", "criteria": {"true": "Today"}},
        "how": {"type": "score", "instructions": {"angry": "?"}, "criteria": ["calm", "annoyed", {"a": 1}]},
    }
    return server.post("/v1/systemone", {"state": {"says": "now"}, "questions": questions, **more})


def test_the_openai_client_asks_all_kinds_of_questions(server: Served) -> None:
    with server.openai() as client:
        found = client.decisions.create(model=MODEL, input="It has to be now.", questions=QUESTIONS)
    urgent, team, angry = found.answers
    assert [one.name for one in found.answers] == ["urgent", "team", None]
    assert urgent.type == "predicate"
    assert urgent.probability > 0.8
    assert team.type == "choice"
    assert (team.choice, [one.value for one in team.probabilities]) == ("billing", ["sales", "billing", True])
    shares = [one.probability for one in team.probabilities]
    assert sum(shares) == pytest.approx(1)
    assert team.confidence == pytest.approx((3 * max(shares) - 1) / 2)
    assert angry.type == "score"
    assert [(one.value, one.label) for one in angry.probabilities] == [
        (0, "calm"),
        (1, "annoyed"),
        (2, "angry"),
    ]
    assert angry.score == pytest.approx(sum(one.value * one.probability for one in angry.probabilities))
    assert 0 < angry.confidence < 1
    assert found.usage.total_tokens == found.usage.input_tokens > 0


def test_the_answers_are_those_of_a_decider(server: Served) -> None:
    schema = {
        "type": "object",
        "properties": {"urgent": {"enum": [True, False], "description": "It has to be answered today."}},
        "required": ["urgent"],
        "additionalProperties": False,
    }
    for prior in ("subtract", "none"):
        (answer,) = ask(server, questions=QUESTIONS[:1], prior=prior).json()["answers"]
        decision = Decider(Reader(), schema, prior=prior)("now").fields["/urgent"]
        assert answer["probability"] == pytest.approx(decision.probabilities[True])
        assert answer["mass"] == pytest.approx(decision.mass)


def test_system_one_answers_by_name(server: Served) -> None:
    found = system_one(server).json()
    assert found["model"] == MODEL
    team, urgent, how = (found["answers"][name] for name in ("team", "urgent", "how"))
    assert (team["type"], team["choice"]) == ("choice", "billing")
    assert list(team["probabilities"]) == ["sales", "billing"]
    assert urgent["type"] == "noul"
    assert urgent["noul"] > 0.8
    assert how["legend"] == {"0": "calm", "1": "annoyed", "2": {"a": 1}}
    assert how["score"] == pytest.approx(sum(int(k) * p for k, p in how["probabilities"].items()))
    assert found["usage"]["output_tokens"] == 0


def test_messages_calls_and_json_are_shown_to_the_model() -> None:
    reader = Reader()
    items = [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "Hi"}, {"type": "input_json", "data": {"a": 1}}],
        },
        {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "seen"},
    ]
    with served(reader) as server:
        assert ask(server, input=items, prior="none").status_code == 200
    (prompt,) = {one for one in reader.prompts if "Hi" in one}
    assert 'user: Hi\n{"a": 1}\n\nassistant: calls look: {}\n\ntool: seen' in prompt
    assert "Which team handles it? - sales: Prices" in prompt


@pytest.mark.parametrize(
    ("more", "code", "place"),
    [
        ({"input": ""}, "invalid_prompt", "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "unsupported_value", "input[0].content[0]"),
        ({"input": [{"type": "reasoning"}]}, "unsupported_value", "input[0]"),
        ({"questions": []}, "invalid_value", "questions"),
        ({"questions": [{"type": "choice", "instructions": "?"}]}, "invalid_value", "questions[0].choices"),
        ({"questions": [{**QUESTIONS[0], "levels": QUESTIONS[2]["levels"]}]}, "invalid_value", "questions[0].levels"),
        ({"questions": [QUESTIONS[0], QUESTIONS[0]]}, "invalid_value", "questions"),
        ({"questions": [{**QUESTIONS[1], "choices": [{"value": "a"}, {"value": "a"}]}]}, "invalid_value", "questions"),
        ({"questions": [{**QUESTIONS[1], "choices": [{"value": "a"}]}]}, "invalid_value", "questions[0].choices"),
        ({"questions": [{**QUESTIONS[1], "choices": [{"value": str(i)} for i in range(256)]}]}, "invalid_value", "questions[0].choices"),
        ({"questions": [{**QUESTIONS[0], "instructions": "x" * (2 << 20)}]}, "schema_too_large", "questions"),
        ({"temperature": 1}, "unknown_parameter", "temperature"),
        ({"prior": "some"}, "invalid_value", "prior"),
    ],
)  # fmt: skip
def test_what_is_refused(server: Served, more: dict[str, Any], code: str, place: str) -> None:
    answer = ask(server, **more)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, code, place)


def test_what_system_one_refuses(server: Served) -> None:
    choice = {"type": "choice", "instructions": "?", "criteria": ["a", "b"]}
    for questions, place in (({"a": choice}, "questions"), ({"a": {"type": "box"}}, "questions.a.type")):
        error = system_one(server, questions=questions).json()["error"]
        assert (error["code"], error["param"]) == ("invalid_value", place)
    assert system_one(server, model="other").status_code == 404
    assert system_one(server, images=["x"]).json()["error"]["code"] == "unknown_parameter"


def test_a_decision_is_read_between_the_steps_of_a_completion() -> None:
    model = GatedModel("a long text")
    with served(model) as server:
        answers: dict[str, Any] = {}
        chat = threading.Thread(target=lambda: answers.update(chat=server.chat()))
        chat.start()
        assert model.reached.wait(60)
        decide = threading.Thread(target=lambda: answers.update(decision=ask(server, prior="none")))
        decide.start()
        wait_until(lambda: server.scheduler.waiting == 1)
        model.gate.set()
        chat.join()
        decide.join()
        assert answers["chat"].json()["choices"][0]["message"]["content"] == "a long text"
        assert len(answers["decision"].json()["answers"]) == 3
        assert server.scheduler.running == server.scheduler.waiting == 0


def test_a_model_that_fails_fails_only_the_decision() -> None:
    class Failing(Reader):
        def forward_trees(self, *inputs: Any) -> Any:
            raise ValueError("broken")

    with served(Failing()) as server:
        answer = ask(server)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
        assert server.http.get("/health").json()["status"] == "ok"


@pytest.mark.ci
def test_a_decision_that_waits_ends_with_the_time_of_its_request_and_with_the_server() -> None:
    model = GatedModel("x")
    with served(model, request_seconds=0.2) as server:
        running = threading.Thread(target=server.chat)
        running.start()
        assert model.reached.wait(60)
        assert ask(server).json()["error"]["code"] == "request_timeout"
        model.gate.set()
        running.join()
        wait_until(lambda: server.scheduler.waiting == 0)
