"""`ChatConstrained` where a LangChain user expects what `ChatOpenAI` does: batches, copies, caches, agents."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import re
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from constrained.decoding import Generator
from constrained.decoding.shared_batch import SharedBatch
from constrained.errors import InvalidArgument
from constrained.integrations.langchain import ChatConstrained
from constrained.testing import ScriptedModel
from tests.chat.scripted_chat import call, scripted, vocabulary
from tests.support.paths import ROOT

pytestmark = pytest.mark.filterwarnings("default::DeprecationWarning")


class Cost(BaseModel):
    """What it costs."""

    euros: int


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool
def now() -> str:
    """The time."""
    return "noon"


# ---------------------------------------------------------------- batches


def test_a_batch_shares_its_passes() -> None:
    """Sixteen answers take the steps of the longest one and not of all, and are what single calls give."""
    prompts = [f"q{i}" for i in range(16)]
    script = {f"q{i}": "answer " + "and so on " * i for i in range(15, -1, -1)}
    chat = scripted(script, max_tokens=200)
    alone = [chat.invoke(prompt).content for prompt in prompts]
    shared = SharedBatch.of(chat.model)
    before = shared.steps
    together = [answer.content for answer in chat.batch(prompts)]
    steps = shared.steps - before
    assert together == alone
    tokens = [len(vocabulary().encode(str(text))) for text in alone]
    assert steps < sum(tokens) / 3, (steps, sum(tokens), max(tokens))
    before = shared.steps

    async def many() -> list[AIMessage]:
        return await chat.abatch(prompts)

    assert [answer.content for answer in asyncio.run(many())] == alone
    assert shared.steps - before < sum(tokens) / 3


def test_an_error_or_a_timeout_in_a_batch_is_its_own() -> None:
    chat = scripted({"bad": "x", "": "fine"})

    class Broken(ScriptedModel):
        def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
            if "bad" in str(prompt):
                raise ValueError("no")
            return list(super().encode(prompt, chat=chat))

    broken = ChatConstrained(model=Broken(vocabulary(), {"": "fine"}))
    good, bad = broken.batch(["good", "bad"], return_exceptions=True)
    assert good.content == "fine"
    assert isinstance(bad, ValueError)
    late = scripted({"": "x" * 400}, max_tokens=500, timeout=1e-9)
    with pytest.raises(TimeoutError):
        late.invoke("hi")
    assert chat.invoke("hi").content == "fine"  # another model's batch goes on
    late.timeout = None
    assert len(late.invoke("hi").content) == 400  # and so does this one's


def test_the_batch_gives_what_a_generator_gives() -> None:
    model = ScriptedModel(vocabulary(), {"": '{"euros": 12}'})
    generator: Generator[Any] = Generator(model, Cost)
    request = generator._request("x", temperature=1.0, seed=3)
    out = SharedBatch.of(model).run(generator, request)
    assert out.tokens == generator("x", temperature=1.0, seed=3).tokens


# ---------------------------------------------------------------- copies, caches, counts


def test_copies_and_pickles() -> None:
    chat = scripted({"": "hello"}, temperature=0.5, seed=1)
    for twin in (copy.copy(chat), copy.deepcopy(chat), chat.model_copy(update={"seed": 2})):
        assert twin.invoke("hi").content == "hello"
        assert twin.model is chat.model
    named = ChatConstrained(model="bundled", max_tokens=7, stop=["x"])
    again = pickle.loads(pickle.dumps(named))
    assert (again.model, again.max_tokens, again.stop, again.model_name) == ("bundled", 7, ["x"], "bundled")
    assert again._lock.acquire(blocking=False)


def test_a_cache_keeps_answers_apart_by_all_that_decides_about_them() -> None:
    cache = InMemoryCache()
    one = scripted({"": "one two three"}, cache=cache)
    other = scripted({"": "something else"}, cache=cache)
    assert (one.invoke("hi").content, other.invoke("hi").content) == ("one two three", "something else")
    assert one.invoke("hi", stop=["two"]).content == "one "
    assert one.model_copy(update={"stop": ["three"]}).invoke("hi").content == "one two "
    one.model.texts = None  # the answer now comes from the cache
    assert one.invoke("hi").content == "one two three"


def test_tokens_are_counted_by_the_model() -> None:
    chat = scripted({"": "hello"})
    assert chat.get_num_tokens("naïve") == len(vocabulary().encode("naïve"))
    asked = [HumanMessage("hi")]
    assert chat.get_num_tokens_from_messages(asked) == chat.invoke(asked).usage_metadata["input_tokens"]


def test_the_names_of_other_chat_models_are_known() -> None:
    chat = scripted({"": "hello world"})
    assert chat.invoke("hi", max_completion_tokens=5).content == "hello"
    assert chat.profile is not None
    assert chat.profile["structured_output"]
    with pytest.raises(InvalidArgument, match="'presence_penalty' is not a setting"):
        chat.invoke("hi", presence_penalty=1.0)


# ---------------------------------------------------------------- tools beside structured output


def test_tools_and_a_response_format_together() -> None:
    """A reply is JSON of the type or a call, and nothing else."""
    for script, content, calls in (
        (call("add", '{"a": 1, "b": 2}'), "", [{"a": 1, "b": 2}]),
        ('{"euros": 12}', '{"euros": 12}', []),
    ):
        chat = scripted({"": script}, describe=False)
        bound = chat.bind_tools([add], response_format=Cost)
        reply = bound.invoke("hi", max_tokens=100)
        assert (reply.content, [one["args"] for one in reply.tool_calls]) == (content, calls)
    loose = scripted({"": "words"}, describe=False).bind_tools(
        [add], response_format=Cost.model_json_schema(), tool_choice="none"
    )
    Cost.model_validate_json(loose.invoke("hi", max_tokens=60).content)


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("auto", {"add"}),
        ("any", {"add"}),
        ("required", {"add"}),
        (True, {"add"}),
        ("now", {"now"}),
        ({"type": "function", "function": {"name": "now"}}, {"now"}),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"name": "now"}]}},
            {"now"},
        ),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"name": "add"}]}}, {"add"}),
        ("none", set()),
    ],
)
def test_every_form_of_tool_choice(choice: Any, names: set[str]) -> None:
    chat = scripted({"": call("add", '{"a": 1, "b": 2}')}).bind_tools([add, now], tool_choice=choice)
    reply = chat.invoke("hi", max_tokens=80, parallel_tool_calls=False)
    assert {one["name"] for one in reply.tool_calls} == names


def test_schemas_as_openai_wraps_them() -> None:
    """The schema inside is enforced, and one that says nothing is refused: both were read as "anything"."""
    inner = {"name": "cost", "strict": True, "schema": Cost.model_json_schema()}
    for wrapped in (inner, {"type": "json_schema", "json_schema": inner}):
        for method in ("json_schema", "function_calling"):
            chat = scripted({"": '{"euros": 12}'}, describe=False)
            out = chat.with_structured_output(wrapped, method=method).invoke("hi", max_tokens=90)
            assert set(out) == {"euros"}
    with pytest.raises(InvalidArgument, match="says nothing"):
        scripted({}).with_structured_output({"name": "x", "fields": {}})
    assert scripted({"": '{"a": 1}'}).with_structured_output(None, method="json_mode").invoke("hi") == {
        "a": 1
    }


# ---------------------------------------------------------------- agents


def agents() -> Any:
    return pytest.importorskip("langchain.agents", reason="could not import 'langchain': it is in no extra")


SCRIPT = {
    "tool_response": '{"euros": 3}',
    "1 + 2": call("add", '{"a": 1, "b": 2}') + "\n" + call("now", "{}"),
    "": '{"euros": 3}',
}


@pytest.mark.parametrize("strategy", ["auto", "provider", "tool"])
def test_an_agent_with_a_response_format(strategy: str) -> None:
    """A loop with two parallel calls, and an answer of the type: by the content, or by a tool."""
    made = agents()
    structured = pytest.importorskip("langchain.agents.structured_output")
    script = SCRIPT if strategy != "tool" else {**SCRIPT, "tool_response": call("Cost", '{"euros": 3}')}
    chat = scripted(script, describe=False, max_tokens=200)
    wanted = {
        "auto": Cost,
        "provider": structured.ProviderStrategy(Cost),
        "tool": structured.ToolStrategy(Cost),
    }
    agent = made.create_agent(chat, [add, now], response_format=wanted[strategy])
    state = agent.invoke({"messages": [("user", "1 + 2?")]})
    assert state["structured_response"] == Cost(euros=3)
    results = [message.content for message in state["messages"] if isinstance(message, ToolMessage)]
    assert results[:2] == ["3", "noon"]


def test_an_agent_streams_its_calls_and_is_interrupted_by_a_person() -> None:
    made = agents()
    memory = pytest.importorskip("langgraph.checkpoint.memory").InMemorySaver()
    chat = scripted({**SCRIPT, "tool_response": "It is 3."}, max_tokens=200)
    agent = made.create_agent(chat, [add, now], checkpointer=memory, interrupt_before=["tools"])
    thread = {"configurable": {"thread_id": "1"}}
    chunks = [
        chunk for chunk, _ in agent.stream({"messages": [("user", "1 + 2?")]}, thread, stream_mode="messages")
    ]
    parts = [part for chunk in chunks for part in chunk.tool_call_chunks]
    assert "".join(part["args"] for part in parts if part["index"] == 0) == '{"a": 1, "b": 2}'
    assert set(agent.get_state(thread).next) == {"tools"}
    state = agent.invoke(None, thread)
    assert state["messages"][-1].content == "It is 3."


def test_a_chat_model_by_name() -> None:
    base = pytest.importorskip(
        "langchain.chat_models", reason="could not import 'langchain': it is in no extra"
    )
    from constrained.integrations.langchain import register_provider

    register_provider()
    chat = base.init_chat_model("constrained:bundled", temperature=0)
    assert isinstance(chat, ChatConstrained)
    assert json.loads(chat.with_structured_output(Cost, include_raw=True).invoke("3 euros")["raw"].content)


def test_each_row_of_the_table_names_its_test() -> None:
    page = (ROOT / "docs" / "langchain.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and "`test_" in line]
    named = set(re.findall(r"`(test_\w+)`", "\n".join(rows)))
    folder = ROOT / "tests" / "integrations"
    code = "".join(path.read_text(encoding="utf-8") for path in folder.glob("test_langchain*.py"))
    assert len(rows) > 15
    assert named <= set(re.findall(r"def (test_\w+)", code))
