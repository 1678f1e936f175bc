"""`ConstrainedDecisionModel`: answers of all kinds, what it reads of a state, what it refuses, and LangChain's middlewares over it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

pytest.importorskip("langchain_core.decisions")
from langchain_core.decisions import Box, Choice, Noul, NoulCriteria, Score
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from constrained.errors import InvalidArgument
from constrained.integrations.langchain import ConstrainedDecisionModel
from constrained.integrations.langchain.decision_model import state_text
from constrained.testing.models import FunctionModel
from tests.chat.scripted_chat import call, scripted
from tests.support.finite import byte_vocabulary

pytestmark = [
    # langchain-core warns of its own future, and langchain of its own beta.
    pytest.mark.filterwarnings("default::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*is in beta"),
]

QUESTIONS: Any = {
    "urgent": Noul(instructions="Is it urgent?", criteria=NoulCriteria(true="Today.")),
    "team": Choice(instructions="Which team?", criteria={"sales": None, "technical support": "Bugs"}),
    "anger": Score(instructions="How angry?", criteria=["calm", {"says": "no"}, "furious"]),
}


class Reader(FunctionModel):
    """Likes these values.

    Attributes:
        prompt: the last one.
    """

    def __init__(self, *values: str) -> None:
        self.vocabulary = byte_vocabulary()
        self._values = [value.encode() for value in values]
        self.prompt = ""

    def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
        self.prompt = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        return list(self.prompt.encode())

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        row = np.zeros(self.vocabulary.size)
        begun = bytes(completion).rpartition(b": ")[2]
        for value in self._values:
            if value.startswith(begun) and begun != value:
                row[value[len(begun)]] = 6.0
        return row


def decisions(*values: str) -> Any:
    return ConstrainedDecisionModel(model=Reader(*values), prior="none")


def test_all_kinds_of_questions_are_answered_in_the_types_of_langchain() -> None:
    model = decisions("true", '"technical support"', "2")
    found = model.invoke({"state": "It broke.", "questions": QUESTIONS})
    assert found.nouls["urgent"].noul > 0.9
    assert found.choices["team"].choice == "technical support"
    assert set(found.choices["team"].probabilities) == {"sales", "technical support"}
    anger = found.scores["anger"]
    assert anger.legend == {0: "calm", 1: {"says": "no"}, 2: "furious"}
    assert anger.score == pytest.approx(sum(level * share for level, share in anger.probabilities.items()))
    assert anger.score > 1.5
    assert found.usage["input_tokens"] == len(model.model.prompt.encode())
    assert "true: Today." in model.model.prompt


async def test_it_answers_in_coroutines_too() -> None:
    found = await decisions('"sales"').ainvoke({"state": {"a": 1}, "questions": {"team": QUESTIONS["team"]}})
    assert found.choices["team"].choice == "sales"


def test_a_state_is_text_or_json_with_its_messages() -> None:
    assert state_text("a") == "a"
    assert state_text(HumanMessage("a")) == "a"
    asked = AIMessage("b", tool_calls=[{"name": "look", "args": {"x": 1}, "id": "1"}])
    shown = json.loads(
        state_text({"messages": [HumanMessage("a"), asked, ToolMessage("c", tool_call_id="1")]})
    )
    assert shown["messages"] == [
        {"role": "human", "content": "a"},
        {"role": "ai", "content": "b", "tool_calls": [{"name": "look", "args": {"x": 1}}]},
        {"role": "tool", "content": "c"},
    ]


@pytest.mark.parametrize(
    ("state", "question", "said"),
    [
        ("a", Box(instructions="Where?"), "box"),
        ("a", Choice(instructions="Which?", criteria={"one": None}), "different options"),
        ({"photo": {"type": "image", "url": "u"}}, QUESTIONS["urgent"], "'image'"),
        (HumanMessage([{"type": "image", "url": "u"}]), QUESTIONS["urgent"], "'image'"),
    ],
)
def test_what_it_cannot_answer_is_refused(state: Any, question: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        decisions().invoke({"state": state, "questions": {"q": question}})


@tool
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


def test_the_middlewares_of_langchain_ask_it() -> None:
    middleware = pytest.importorskip("langchain.agents.middleware.auto_mode")
    router = pytest.importorskip("langchain.agents.middleware.model_router")
    from langchain.agents import create_agent

    paying = {"paid": "done", "blocked": "stopped", "": call("pay", '{"amount": 3}')}
    for risky, last in (("true", "stopped"), ("false", "done")):
        routes = {
            "slow": router.ModelChoice(model=scripted({"": "never"}), criteria="Hard."),
            "fast": router.ModelChoice(model=scripted(paying), criteria="Easy."),
        }
        layers = [
            router.ModelRouterMiddleware(
                choices=routes, instructions="Which?", classifier=decisions('"fast"')
            ),
            middleware.AutoModeMiddleware(classifier=decisions(risky), tools=["pay"]),
        ]
        agent = create_agent(scripted({"": "never"}), tools=[pay], middleware=layers)
        messages = agent.invoke({"messages": [HumanMessage("Pay 3.")]})["messages"]
        assert messages[-1].content == last
