"""The real OpenAI client, over the loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from openai import AsyncOpenAI, BadRequestError, LengthFinishReasonError, OpenAI
from pydantic import BaseModel

from constrained.chat.tools import HERMES
from tests.server.serving import MODEL, Served, scripted, served
from tests.support.mixtures import MixtureModel

CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": CITY}}
CITY_WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CLOCK = {
    "type": "function",
    "function": {
        "name": "clock",
        "parameters": {
            "type": "object",
            "properties": {"zone": {"enum": ["utc", "local"]}},
            "required": ["zone"],
        },
    },
}


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


SCRIPT = {
    "person": '{"name": "Ada", "age": 36, "role": "author"}',
    "weather": "I look it up. " + call("weather", '{"name": "Rome"}'),
    "both": call("weather", '{"name": "Rome"}') + "\n" + call("clock", '{"zone": "utc"}'),
    "story": "once upon a time\nthere was",
    "naïve": "naïve — 漢字 🎈",
    "endless": "x" * 5000,
    "never closed": '<tool_call>\n{"name": "weather", "arguments": {"name": "' + "R" * 5000,
    "colour": "purple",
    "counting": '["one", "two", "three"]',
    "": "hello",
}


def choose_reply(prompt: str) -> str:
    """A reply chosen by the request after the tools and calls that the prompt may list."""
    body = prompt.rpartition("</tool_call>")[2]
    return next(text for key, text in SCRIPT.items() if key in body)


class Person(BaseModel):
    name: str
    age: int
    role: Literal["author", "editor"]


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(scripted(choose_reply)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[OpenAI]:
    with server.openai() as client:
        yield client


def ask(client: OpenAI, text: str, **more: Any) -> Any:
    messages: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    return client.chat.completions.create(model=MODEL, messages=messages, **{"temperature": 0, **more})


def test_the_model_is_listed(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


def test_free_text(client: OpenAI) -> None:
    answer = ask(client, "hi")
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == (
        "assistant",
        "hello",
        "stop",
    )
    assert choice.message.tool_calls is None
    assert answer.usage.completion_tokens == 5
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 5


def test_a_completion_at_the_token_limit_has_that_finish_reason(client: OpenAI) -> None:
    (choice,) = ask(client, "endless", max_completion_tokens=7).choices
    assert (choice.message.content, choice.finish_reason) == ("x" * 7, "length")


def test_json_that_the_token_limit_closed_says_so(client: OpenAI) -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    (choice,) = ask(client, "counting", response_format=form, max_tokens=16).choices
    assert (json.loads(choice.message.content)[0], choice.finish_reason) == ("one", "length")
    *_, last = ask(client, "counting", response_format=form, max_tokens=16, stream=True)
    assert last.choices[0].finish_reason == "length"
    (whole,) = ask(client, "counting", response_format=form, max_tokens=60).choices
    assert (whole.message.content, whole.finish_reason) == (SCRIPT["counting"], "stop")
    messages: Any = [{"role": "user", "content": "person"}]
    with pytest.raises(LengthFinishReasonError):
        client.chat.completions.parse(
            model=MODEL, messages=messages, response_format=Person, temperature=0, max_tokens=40
        )


def test_parse_gives_an_instance(client: OpenAI) -> None:
    answer = client.chat.completions.parse(
        model=MODEL, messages=[{"role": "user", "content": "person"}], response_format=Person, temperature=0
    )
    assert answer.choices[0].message.parsed == Person(name="Ada", age=36, role="author")


def test_json_mode_gives_json_whatever_the_model_prefers(client: OpenAI) -> None:
    schema = Person.model_json_schema()
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    for text in ("story", "endless", "hi"):
        (choice,) = ask(client, text, response_format=form, max_tokens=120, temperature=1, seed=3).choices
        Person.model_validate_json(choice.message.content)
        assert choice.finish_reason in ("stop", "length")
    (choice,) = ask(client, "story", response_format={"type": "json_object"}, max_tokens=20).choices
    assert isinstance(json.loads(choice.message.content), dict)


def test_a_stream_is_the_same_text_in_pieces(client: OpenAI) -> None:
    chunks = list(ask(client, "naïve", stream=True, stream_options={"include_usage": True}))
    *choose_reply, end, usage = chunks
    assert choose_reply[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in choose_reply) == SCRIPT["naïve"]
    assert len(choose_reply) > 10, "it comes as it is written"
    assert (end.choices[0].finish_reason, end.choices[0].delta.content) == ("stop", None)
    assert usage.choices == []
    assert usage.usage.completion_tokens == len(SCRIPT["naïve"].encode())
    assert len({chunk.id for chunk in chunks}) == 1


def test_the_stream_helper_parses_what_grows(client: OpenAI) -> None:
    with client.chat.completions.stream(
        model=MODEL, messages=[{"role": "user", "content": "person"}], response_format=Person, temperature=0
    ) as stream:
        snapshots = [event.parsed for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == Person(name="Ada", age=36, role="author")
    assert {"name": "Ada"} in snapshots


def test_a_tool_is_called_exactly(client: OpenAI) -> None:
    (choice,) = ask(client, "weather", tools=[WEATHER, CLOCK]).choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "I look it up. "
    (called,) = choice.message.tool_calls
    assert (called.type, called.function.name) == ("function", "weather")
    assert json.loads(called.function.arguments) == {"name": "Rome"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_the_model_would_never_close_is_closed_in_time(client: OpenAI, stream: bool) -> None:
    messages: Any = [{"role": "user", "content": "never closed"}]
    body: Any = {"model": MODEL, "messages": messages, "tools": [WEATHER, CLOCK], "max_tokens": 120}
    if stream:
        chunks = list(client.chat.completions.create(**body, temperature=0, stream=True))
        parts = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
        arguments = "".join(part.function.arguments or "" for part in parts)
    else:
        answer = client.chat.completions.create(**body, temperature=0)
        assert answer.usage.completion_tokens <= 120
        (called,) = answer.choices[0].message.tool_calls
        arguments = called.function.arguments
    assert set(json.loads(arguments)) == {"name"}
    assert len(arguments) > 40
    ends = (
        [chunk.choices[0].finish_reason for chunk in chunks] if stream else [answer.choices[0].finish_reason]
    )
    assert ends[-1] == "length", "the limit closed the arguments"


def test_calls_that_the_token_limit_did_not_touch_are_calls(client: OpenAI) -> None:
    """Another call would follow, for which there are no tokens left: the first one is whole."""
    written = len(call("weather", '{"name": "Rome"}'))
    for more in (0, 5, 20):
        (choice,) = ask(client, "both", tools=[WEATHER, CLOCK], max_tokens=written + more).choices
        (called,) = choice.message.tool_calls
        assert (called.function.arguments, choice.finish_reason) == ('{"name": "Rome"}', "tool_calls")


def test_calls_side_by_side_and_one_alone(client: OpenAI) -> None:
    (choice,) = ask(client, "both", tools=[WEATHER, CLOCK]).choices
    assert [one.function.name for one in choice.message.tool_calls] == ["weather", "clock"]
    assert choice.message.content is None
    assert len({one.id for one in choice.message.tool_calls}) == 2
    (choice,) = ask(client, "both", tools=[WEATHER, CLOCK], parallel_tool_calls=False).choices
    assert [one.function.name for one in choice.message.tool_calls] == ["weather"]


def test_tool_choice(client: OpenAI) -> None:
    tools = [WEATHER, CLOCK]
    assert ask(client, "hi", tools=tools).choices[0].message.content == "hello"
    (choice,) = ask(client, "hi", tools=tools, tool_choice="required", max_tokens=200).choices
    assert choice.message.tool_calls[0].function.name in ("weather", "clock")
    named = {"type": "function", "function": {"name": "clock"}}
    (choice,) = ask(client, "weather", tools=tools, tool_choice=named, max_tokens=200).choices
    (called,) = choice.message.tool_calls
    assert called.function.name == "clock"
    assert json.loads(called.function.arguments)["zone"] in ("utc", "local")
    (choice,) = ask(client, "weather", tools=tools, tool_choice="none").choices
    assert choice.message.content.startswith("I look it up. ")
    assert (choice.message.tool_calls, choice.finish_reason) == (None, "stop")


def test_calls_are_streamed_in_fragments(client: OpenAI) -> None:
    calls: dict[int, list[Any]] = {}
    finish = None
    for chunk in ask(client, "both", tools=[WEATHER, CLOCK], stream=True):
        finish = chunk.choices[0].finish_reason or finish
        for part in chunk.choices[0].delta.tool_calls or []:
            calls.setdefault(part.index, []).append(part)
    assert finish == "tool_calls"
    for index, (name, arguments) in enumerate(
        (("weather", '{"name": "Rome"}'), ("clock", '{"zone": "utc"}'))
    ):
        first, *rest = calls[index]
        assert (first.type, first.function.name, first.function.arguments) == ("function", name, "")
        assert first.id
        assert all(part.id is None and part.function.name is None for part in rest)
        assert "".join(part.function.arguments for part in rest) == arguments
        assert len(rest) > 3


def test_results_of_tools_are_read(client: OpenAI) -> None:
    messages: Any = [
        {"role": "user", "content": "What is it like there?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "clock", "arguments": '{"zone": "utc"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "a colour"},
    ]
    answer = client.chat.completions.create(model=MODEL, messages=messages, tools=[CLOCK], temperature=0)  # type: ignore[list-item]
    assert answer.choices[0].message.content == "purple"


def test_several_texts_and_their_seed(client: OpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}}

    def drawn(**more: Any) -> list[str]:
        answer = ask(client, "hi", response_format=form, temperature=1, **more)
        assert [choice.index for choice in answer.choices] == list(range(more.get("n", 1)))
        return [choice.message.content for choice in answer.choices]

    three = drawn(n=3, seed=5)
    assert drawn(n=3, seed=5) == three
    assert drawn(seed=5) == three[:1], "the first of several is the only one of one"
    assert len(set(three)) > 1, "they are independent draws"
    assert drawn(n=3, seed=-6) != three


def test_streams_of_several_texts(client: OpenAI) -> None:
    texts = ["", ""]
    for chunk in ask(client, "story", n=2, stream=True):
        (choice,) = chunk.choices
        texts[choice.index] += choice.delta.content or ""
    assert texts == [SCRIPT["story"]] * 2


@pytest.mark.parametrize("stop", ["\n", ["time", "upon a", "\n"]])
def test_stop_ends_free_text_and_is_not_part_of_it(client: OpenAI, stop: Any) -> None:
    expected = "once upon a time" if isinstance(stop, str) else "once "
    (choice,) = ask(client, "story", stop=stop).choices
    assert (choice.message.content, choice.finish_reason) == (expected, "stop")
    streamed = ask(client, "story", stop=stop, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == expected


def test_log_probabilities(client: OpenAI) -> None:
    (choice,) = ask(client, "hi", logprobs=True, top_logprobs=3).choices
    tokens = choice.logprobs.content
    assert [token.token for token in tokens] == list("hello")
    assert tokens[0].bytes == [ord("h")]
    assert all(-1e-6 < token.logprob <= 0 for token in tokens), "the script is as good as certain"
    assert all(
        len(token.top_logprobs) == 3 and token.top_logprobs[0].token == token.token for token in tokens
    )
    # Under a constraint the log-probabilities are still the model's, forbidden tokens included.
    (choice,) = ask(
        client, "hi", logprobs=True, top_logprobs=1, extra_body={"structured_outputs": {"choice": ["a", "b"]}}
    ).choices
    (token,) = choice.logprobs.content
    assert token.top_logprobs[0].token == "h"
    assert token.logprob < -29


def test_streamed_log_probabilities_are_the_same(client: OpenAI) -> None:
    whole = ask(client, "hi", logprobs=True).choices[0].logprobs.content
    streamed = [
        token
        for chunk in ask(client, "hi", logprobs=True, stream=True)
        if chunk.choices[0].logprobs
        for token in chunk.choices[0].logprobs.content
    ]
    assert streamed == whole


STRUCTURED: list[tuple[dict[str, Any], str]] = [
    ({"json": {"const": "purple"}}, '"purple"'),
    ({"json": json.dumps(CITY), "disable_any_whitespace": True}, '{"name":"'),
    ({"json_object": True}, "{"),
    ({"regex": "(pur|r)[a-z]{2,3}"}, "purple"),
    ({"choice": ["purple prose", "red"]}, "purple prose"),
    ({"grammar": 'root ::= "pur" [a-z]+ "!"'}, "purple"),
    ({"grammar": 'start: "pur" /[a-z]+/'}, "purple"),
]


@pytest.mark.parametrize(("body", "begins"), STRUCTURED)
def test_structured_outputs(client: OpenAI, body: dict[str, Any], begins: str) -> None:
    (choice,) = ask(client, "colour", max_tokens=40, extra_body={"structured_outputs": body}).choices
    assert choice.message.content.startswith(begins)


def test_structural_tags(client: OpenAI) -> None:
    form = {
        "type": "triggered_tags",
        "triggers": ["<"],
        "tags": [
            {
                "begin": "<n>",
                "content": {"type": "json_schema", "json_schema": {"type": "integer"}},
                "end": "</n>",
            }
        ],
        "at_least_one": True,
    }
    described = {"type": "structural_tag", "format": form}
    for more in (
        {"extra_body": {"structured_outputs": {"structural_tag": described}}},
        {"response_format": described},
    ):
        (choice,) = ask(client, "story", max_tokens=60, **more).choices
        before, _, rest = choice.message.content.partition("<n>")
        assert before == ""  # at_least_one: the text begins with a tag
        int(rest.partition("</n>")[0])
    short = {"type": "tag", "begin": "<n>", "content": {"type": "any_text", "max_tokens": 3}, "end": "</n>"}
    described = {"type": "structural_tag", "format": short}
    (choice,) = ask(client, "story", max_tokens=60, response_format=described).choices
    assert choice.finish_reason == "stop"
    assert choice.message.content.endswith("</n>")


def test_completions(client: OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt=["colour", "story"], n=2, temperature=0, stop="\n", logprobs=1
    )
    assert [choice.text for choice in answer.choices] == ["purple"] * 2 + ["once upon a time"] * 2
    first = answer.choices[0].logprobs
    assert first is not None
    assert (first.tokens, first.text_offset) == (list("purple"), list(range(6)))
    chunks = client.completions.create(model=MODEL, prompt="colour", temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == "purple"
    ids: Any = list(b"colour")
    assert client.completions.create(model=MODEL, prompt=ids, temperature=0).choices[0].text == "purple"
    limited = client.completions.create(
        model=MODEL, prompt="x", max_tokens=2, extra_body={"structured_outputs": {"regex": "[0-9]{2}"}}
    )
    assert limited.choices[0].text.isdigit()


def test_an_error_names_the_place(client: OpenAI) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"(a)\1"}}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with pytest.raises(BadRequestError) as refused:
        ask(client, "hi", response_format=form)
    error: Any = refused.value
    assert (error.code, error.param) == ("unsupported_constraint", "response_format.json_schema.schema")
    assert error.body["problems"][0]["place"] == "#/properties/a/pattern"
    assert error.body["problems"][0]["keyword"] == "pattern"


def test_the_async_client(server: Served) -> None:
    async def ask_all() -> list[str | None]:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            answers = await asyncio.gather(
                *(
                    client.chat.completions.create(
                        model=MODEL, messages=[{"role": "user", "content": text}], temperature=0
                    )
                    for text in ("story", "colour", "hi", "naïve") * 4
                )
            )
            stream = await client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "story"}], stream=True
            )
            parts = [chunk.choices[0].delta.content or "" async for chunk in stream]
        return [*(answer.choices[0].message.content for answer in answers), "".join(parts)]

    assert asyncio.run(ask_all()) == [
        *[SCRIPT["story"], SCRIPT["colour"], "hello", SCRIPT["naïve"]] * 4,
        SCRIPT["story"],
    ]


def test_a_city_of_the_message_that_no_call_has_comes_before_the_end_of_the_reply() -> None:
    law = {("Rome", "Rome"): 0.6, ("Rome", "Oslo"): 0.02, ("Rome",): 0.3}
    with served(MixtureModel(HERMES, law)) as server:
        for text, cities in (("How are Rome and Oslo?", ["Rome", "Oslo"]), ("How is Rome?", ["Rome"])):
            reply = ask(server.openai(), text, tools=[CITY_WEATHER], tool_choice="required", max_tokens=400)
            found = [
                json.loads(one.function.arguments)["city"] for one in reply.choices[0].message.tool_calls
            ]
            assert found == cities
