"""`ChatConstrained` where a LangChain user expects what `ChatOpenAI` does: batches, copies, caches, agents."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import pickle
import re
import threading
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain.chat_models import init_chat_model
from langchain_core.caches import InMemoryCache
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolArg, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from constrained.decoding import Generator
from constrained.decoding.shared_runner import BackgroundRunner
from constrained.errors import InvalidArgument
from constrained.integrations.langchain import ChatConstrained, register_provider
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


def gather(monkeypatch: pytest.MonkeyPatch, model: Any, count: int) -> list[int]:
    """Lets the model begin when so many prompts have been encoded: quick threads wait for slow ones. Returns the rows of its passes."""
    encoded, gathered = itertools.count(1), threading.Event()
    encode, forward = type(model).encode, type(model).forward
    rows: list[int] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        ids = encode(model, *arguments, **options)
        if next(encoded) == count:
            gathered.set()
        return ids

    def patient(tokens: Any, cache: Any) -> Any:
        gathered.wait(60)
        rows.append(len(tokens))
        return forward(model, tokens, cache)

    monkeypatch.setattr(model, "encode", counted)
    monkeypatch.setattr(model, "forward", patient)
    return rows


def test_a_batch_shares_its_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen answers take the steps of the longest one and not of all, and are what single calls give."""
    prompts = [f"q{i}" for i in range(16)]
    script = {f"q{i}": "answer " + "and so on " * i for i in range(15, -1, -1)}
    chat = scripted(script, max_tokens=200)
    alone = [chat.invoke(prompt).content for prompt in prompts]
    passes = gather(monkeypatch, chat.model, len(prompts))
    assert [answer.content for answer in chat.batch(prompts)] == alone
    tokens = [len(vocabulary().encode(str(text))) for text in alone]
    assert len(passes) < sum(tokens) / 3, (len(passes), sum(tokens), max(tokens))

    async def many() -> list[AIMessage]:
        return await chat.abatch(prompts)

    passes = gather(monkeypatch, chat.model, len(prompts))
    assert [answer.content for answer in asyncio.run(many())] == alone
    assert len(passes) < sum(tokens) / 3


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
    (out,) = BackgroundRunner.of(generator).run([(generator, request)])
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
    with pytest.raises(InvalidArgument, match="'best_of' is not a setting"):
        chat.invoke("hi", best_of=2)


def test_several_answers_penalties_and_biases() -> None:
    chat = scripted({"": "hello"}, temperature=30.0, seed=1, max_tokens=4)
    result = chat.generate([[HumanMessage("hi")]], n=3)
    texts = [one.message.content for one in result.generations[0]]
    assert len(set(texts)) == 3
    assert texts[0] == chat.invoke("hi").content == chat.model_copy(update={"n": 3}).invoke("hi").content
    written = sum(one.message.usage_metadata["output_tokens"] for one in result.generations[0])
    assert result.llm_output["token_usage"]["completion_tokens"] == written
    (token,) = vocabulary().encode("h")
    assert not scripted({"": "hello"}).invoke("hi", logit_bias={token: -100.0}).content.startswith("h")
    assert chat.invoke("hi", presence_penalty=2.0, seed=7).response_metadata["seed"] == 7
    for wrong in ({"n": 0}, {"n": True}, {"top_logprobs": 21}, {"logprobs": False, "top_logprobs": 2}):
        with pytest.raises(InvalidArgument):
            chat.invoke("hi", **wrong)
    with pytest.raises(InvalidArgument, match="in a stream"):
        list(chat.stream("hi", n=2))


def test_log_probabilities_of_tokens() -> None:
    """Those of the model before the constraint; their sum is that of the reply but for its end."""
    chat = scripted({"": "yes"}, logprobs=True, top_logprobs=2)
    message = chat.invoke("hi")
    tokens = message.response_metadata["logprobs"]["content"]
    assert "".join(one["token"] for one in tokens) == message.content == "yes"
    assert all(one["top_logprobs"][0]["token"] == one["token"] for one in tokens)
    assert all(len(one["top_logprobs"]) == 2 and one["logprob"] < 0 for one in tokens)
    first, *more = chat.stream("hi")
    assert sum(more, first).response_metadata["logprobs"] == message.response_metadata["logprobs"]
    plain = chat.invoke("hi", logprobs=None, top_logprobs=None)
    assert ("logprobs" in plain.response_metadata, plain.content) == (False, "yes")
    forced = scripted({"": "no"}, describe=False).with_structured_output(
        Cost, include_raw=True, logprobs=True
    )
    raw = forced.invoke("hi", max_tokens=60)["raw"]
    shown = raw.response_metadata["logprobs"]["content"]
    assert "".join(one["token"] for one in shown) == raw.content
    assert sum(one["logprob"] for one in shown) >= raw.response_metadata["logprob"]
    for answer in (
        chat.model_copy(update={"n": 2, "temperature": 30.0}).generate([[HumanMessage("a")]]).generations[0]
    ):
        own = answer.message.response_metadata["logprobs"]["content"]
        assert b"".join(bytes(one["bytes"]) for one in own).decode() == answer.message.content


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


def test_names_with_dots_and_slashes() -> None:
    """The model sees plain names; calls, chunks and the history have those of the tools."""
    read = StructuredTool.from_function(lambda path: path, name="files/read.text", args_schema=Path)
    seen: list[str] = []

    def script(prompt: str) -> str:
        seen.append(prompt)
        return call("files_read_text", '{"path": "a"}')

    chat = ChatConstrained(model=ScriptedModel(vocabulary(), script), max_tokens=100, extraction=False)
    bound = chat.bind_tools([read, add], parallel_tool_calls=False)
    reply = bound.invoke("hi")
    assert [one["name"] for one in reply.tool_calls] == ["files/read.text"]
    first, *more = bound.stream("hi")
    assert [one["name"] for one in sum(more, first).tool_calls] == ["files/read.text"]
    result = ToolMessage("text", tool_call_id=reply.tool_calls[0]["id"], name="files/read.text")
    again = chat.bind_tools([read, add], tool_choice="files/read.text").invoke(["hi", reply, result])
    assert [one["name"] for one in again.tool_calls] == ["files/read.text"]
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "files/read.text"}}]}
    forced = chat.bind_tools([read, add], tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
    assert forced.invoke("hi").tool_calls[0]["name"] == "files/read.text"
    assert not any("files/read.text" in prompt for prompt in seen)
    script_of_agent = {"tool_response": "It says a.", "": call("files_read_text", '{"path": "a"}')}
    agent = create_agent(scripted(script_of_agent, max_tokens=100), [read])
    *_, result, last = agent.invoke({"messages": [("user", "hi")]})["messages"]
    assert (result.name, result.content, last.content) == ("files/read.text", "a", "It says a.")


def test_arguments_that_the_program_injects_are_not_the_models() -> None:
    @tool
    def note(text: str, user: Annotated[str, InjectedToolArg]) -> str:
        """Notes something."""
        return f"{user}: {text}"

    chat = scripted({"": call("note", '{"text": "milk"}')}, max_tokens=100)
    reply = chat.bind_tools([note], tool_choice="note").invoke("hi", parallel_tool_calls=False)
    assert reply.tool_calls[0]["args"] == {"text": "milk"}


def test_content_blocks_of_version_1() -> None:
    """Written with `output_version="v1"` or read by `content_blocks`, and read back as history."""
    script = {"milk": "so it is", "": call("add", '{"a": 1, "b": 2}')}
    chat = scripted(script, max_tokens=100, output_version="v1").bind_tools([add], parallel_tool_calls=False)
    reply = chat.invoke("hi")
    (block,) = reply.content
    assert (block["type"], block["name"], block["args"]) == ("tool_call", "add", {"a": 1, "b": 2})
    assert block == reply.content_blocks[0]
    asked = HumanMessage(content_blocks=[{"type": "text", "text": "milk"}])
    answer = chat.invoke([HumanMessage("hi"), reply, ToolMessage("3", tool_call_id=block["id"]), asked])
    assert [(one["type"], one["text"]) for one in answer.content_blocks] == [("text", "so it is")]


def test_stop_ends_free_text_and_never_json() -> None:
    """An agent's `bind(stop=...)` ends words; a structured output and a call are whole, whatever is in them."""
    stops = ["2", "}", "\n", "word"]
    assert scripted({"": "a word"}).bind(stop=stops).invoke("hi").content == "a "
    structured = scripted({"": '{"euros": 12}'}, describe=False, stop=stops).with_structured_output(Cost)
    assert structured.invoke("hi") == Cost(euros=12)
    chat = scripted({"": call("add", '{"a": 1, "b": 2}')}, stop=stops, max_tokens=100).bind_tools([add])
    assert chat.invoke("hi", parallel_tool_calls=False).tool_calls[0]["args"] == {"a": 1, "b": 2}


class Path(BaseModel):
    """Where a file is."""

    path: str


@dataclass
class Point:
    x: int
    y: int = 0


class Place(TypedDict):
    city: str


class Unit(Enum):
    metre = "m"
    foot = "ft"


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (Point, '{"x": 1, "y": 2}', Point(1, 2)),
        (Place, '{"city": "Oslo"}', {"city": "Oslo"}),
        (Point | Cost, '{"euros": 3}', Cost(euros=3)),
        (Point | None, "null", None),
        (list[Point], '[{"x": 5, "y": 0}]', [Point(5, 0)]),
        (Unit, '"ft"', Unit.foot),
        (Literal["a", "b"], '"b"', "b"),
    ],
)
def test_any_type_is_a_structured_output(method: Any, hint: Any, text: str, value: Any) -> None:
    if method == "function_calling":
        named = hint is Point or hint is Place
        name = getattr(hint, "__name__", "") if named or (isinstance(hint, type) and hint is Unit) else ""
        answer = text if named else f'{{"value": {text}}}'
        script = {"": call(re.sub(r"\W+", "_", name or getattr(hint, "__name__", "") or "answer"), answer)}
    else:
        script = {"": text}
    bound = scripted(script, describe=False).with_structured_output(hint, method=method)
    assert bound.invoke("hi", max_tokens=120) == value
    assert list(bound.stream("hi", max_tokens=120))[-1] == value
    if hint is Place:  # any text is a city
        return
    wrong = scripted({"": "no such thing"}, describe=False).with_structured_output(hint, method=method)
    found = wrong.invoke("hi", max_tokens=120)
    assert isinstance(found, (type(value), Point)) or (found is None and value is None)


def test_numbers_without_bounds_end() -> None:
    """A model that likes digits writes 24 of them, in arguments and in structured outputs."""
    digits = "1" * 300
    chat = scripted({"": call("add", f'{{"a": {digits}')}).bind_tools([add], tool_choice="add")
    (one,) = chat.invoke("hi", max_tokens=400, parallel_tool_calls=False).tool_calls
    assert all(len(str(abs(value))) <= 24 for value in one["args"].values())
    loose = scripted({"": f'{{"euros": {digits}'}, describe=False).with_structured_output(Cost)
    assert len(str(loose.invoke("hi", max_tokens=400).euros)) == 24
    for limit, written in ((3, 3), (None, 300)):
        chat = scripted({"": f'{{"euros": {digits}}}'}, describe=False, max_digits=limit)
        assert len(str(chat.with_structured_output(Cost).invoke("hi", max_tokens=400).euros)) == written
        chat = scripted({"": call("Cost", f'{{"euros": {digits}')}, max_digits=limit)
        bound = chat.bind_tools([Cost], tool_choice="Cost", parallel_tool_calls=False)
        (one,) = bound.invoke("hi", max_tokens=400).tool_calls
        assert len(str(one["args"]["euros"])) == written


def test_schemas_as_openai_wraps_them() -> None:
    """The schema inside is enforced, and one that says nothing is refused: both were read as "anything"."""
    inner = {"name": "cost", "strict": True, "schema": Cost.model_json_schema()}
    for wrapped in (inner, {"type": "json_schema", "json_schema": inner}):
        for method in ("json_schema", "function_calling"):
            chat = scripted({"": '{"euros": 12}'}, describe=False)
            out = chat.with_structured_output(wrapped, method=method).invoke("hi", max_tokens=90)
            assert set(out) == {"euros"}
    alternatives = {"title": "x", "anyOf": [{"const": 1}, {"const": 2}]}
    for method in ("json_schema", "json_mode"):
        chat = scripted({"": "words"}, describe=False).with_structured_output(alternatives, method=method)
        assert chat.invoke("hi") in (1, 2)
    with pytest.raises(InvalidArgument, match="says nothing"):
        scripted({}).with_structured_output({"name": "x", "fields": {}})
    assert scripted({"": '{"a": 1}'}).with_structured_output(None, method="json_mode").invoke("hi") == {
        "a": 1
    }


# ---------------------------------------------------------------- agents


SCRIPT = {
    "tool_response": '{"euros": 3}',
    "1 + 2": call("add", '{"a": 1, "b": 2}') + "\n" + call("now", "{}"),
    "": '{"euros": 3}',
}


@pytest.mark.parametrize("strategy", ["auto", "provider", "tool"])
def test_an_agent_with_a_response_format(strategy: str) -> None:
    """A loop with two parallel calls, and an answer of the type: by the content, or by a tool."""
    script = SCRIPT if strategy != "tool" else {**SCRIPT, "tool_response": call("Cost", '{"euros": 3}')}
    chat = scripted(script, describe=False, max_tokens=200)
    wanted = {
        "auto": Cost,
        "provider": ProviderStrategy(Cost),
        "tool": ToolStrategy(Cost),
    }
    agent = create_agent(chat, [add, now], response_format=wanted[strategy])
    state = agent.invoke({"messages": [("user", "1 + 2?")]})
    assert state["structured_response"] == Cost(euros=3)
    results = [message.content for message in state["messages"] if isinstance(message, ToolMessage)]
    assert results[:2] == ["3", "noon"]


def test_an_agent_streams_its_calls_and_is_interrupted_by_a_person() -> None:
    chat = scripted({**SCRIPT, "tool_response": "It is 3."}, max_tokens=200)
    agent = create_agent(chat, [add, now], checkpointer=InMemorySaver(), interrupt_before=["tools"])
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
    register_provider()
    chat = init_chat_model("constrained:bundled", temperature=0)
    assert isinstance(chat, ChatConstrained)
    assert json.loads(chat.with_structured_output(Cost, include_raw=True).invoke("3 euros")["raw"].content)


def test_each_row_of_the_table_names_its_test() -> None:
    page = (ROOT / "docs" / "langchain.md").read_text(encoding="utf-8")
    table = page.partition("## Beside ChatOpenAI")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("|")][2:]
    assert len(rows) > 15
    tests = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "integrations").glob("*.py")
    )
    for row in rows:
        (name,) = re.findall(r"`(test_\w+)` \|$", row)
        assert f"def {name}(" in tests, row
