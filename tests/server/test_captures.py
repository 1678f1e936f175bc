"""Captures in the answers of all endpoints, with the real OpenAI client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

import constrained
from constrained import Vocabulary
from constrained.sandbox import Sandbox, SandboxTimeout
from constrained.server import captures
from constrained.testing import ScriptedModel
from tests.server.serving import MODEL, Served, scripted, served

ORDER = r"""
    start: item ("," item)*
    item[capture]: count "x" name
    count[capture]: /[0-9]+/
    name[capture="article"]: /[a-zé]+/
    %ignore " "
"""
TEXT = "2 x pens, 1 x béret"


def part(text: str, start: int, end: int) -> dict[str, Any]:
    return {"text": text, "start": start, "end": end}


PARTS = {
    "count": [part("2", 0, 1), part("1", 10, 11)],
    "article": [part("pens", 4, 8), part("béret", 14, 19)],
    "item": [part("2 x pens", 0, 8), part("1 x béret", 10, 19)],
}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(scripted(lambda prompt: TEXT)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[OpenAI]:
    with server.openai() as made:
        yield made


def under(grammar: str, **more: Any) -> Any:
    return {
        "model": MODEL,
        "temperature": 0,
        "extra_body": {"structured_outputs": {"grammar": grammar}},
        **more,
    }


CHAT: Any = {"messages": [{"role": "user", "content": "x"}]}


def test_they_are_those_of_the_library() -> None:
    found = constrained.captures(constrained.lark(ORDER), TEXT)
    assert {
        name: [part(one.text, one.start, one.end) for one in listed] for name, listed in found.items()
    } == PARTS


def test_a_chat_completion_has_them_beside_its_content(client: OpenAI) -> None:
    answer = client.chat.completions.create(**under(ORDER, n=2, logprobs=True, **CHAT))
    for choice in answer.choices:
        assert (choice.message.content, choice.finish_reason) == (TEXT, "stop")
        assert choice.message.model_extra == {"captures": PARTS}
    *before, last = client.chat.completions.create(**under(ORDER, stream=True, **CHAT))
    assert not any(chunk.choices[0].delta.model_extra for chunk in before)
    assert last.choices[0].finish_reason == "stop"
    assert last.choices[0].delta.model_extra == {"captures": PARTS}


def test_a_completion_has_them_beside_its_text(client: OpenAI) -> None:
    for choice in client.completions.create(**under(ORDER, prompt=["a", "b"])).choices:
        assert (choice.text, choice.model_extra) == (TEXT, {"captures": PARTS})
    *before, last = client.completions.create(**under(ORDER, prompt="x", stream=True))
    assert not any(chunk.choices[0].model_extra for chunk in before)
    assert last.choices[0].model_extra == {"captures": PARTS}


def test_a_response_has_them_in_its_message(client: OpenAI) -> None:
    for more in ({}, {"include": ["message.output_text.logprobs"]}):
        answer = client.responses.create(**under(ORDER, input="x", **more))
        (message,) = answer.output
        assert (answer.output_text, message.model_extra) == (TEXT, {"captures": PARTS})
    events = list(client.responses.create(**under(ORDER, input="x", stream=True)))
    (done,) = [event.item for event in events if event.type == "response.output_item.done"]
    (added,) = [event.item for event in events if event.type == "response.output_item.added"]
    assert done.model_extra == events[-1].response.output[0].model_extra == {"captures": PARTS}
    assert not added.model_extra


def test_without_captures_there_is_no_such_field(client: OpenAI) -> None:
    for grammar in (ORDER.replace("[capture]", "").replace('[capture="article"]', ""), 'root ::= "a"'):
        answer = client.chat.completions.create(**under(grammar, **CHAT))
        assert not answer.choices[0].message.model_extra
    free: Any = {"model": MODEL, "temperature": 0}
    assert not client.chat.completions.create(**free, **CHAT).choices[0].message.model_extra
    unread = 'start: a | /[0-9]/ /.*/\na[capture]: "!"'
    assert client.completions.create(**under(unread, prompt="x")).choices[0].model_extra == {"captures": {}}


def test_a_stop_string_and_a_token_limit_end_the_parts_too(client: OpenAI) -> None:
    stopped = client.completions.create(**under(ORDER, prompt="x", stop=",")).choices[0]
    assert stopped.text == "2 x pens"
    assert stopped.model_extra is not None
    assert stopped.model_extra["captures"]["item"] == [part("2 x pens", 0, 8)]
    cut = client.completions.create(**under(ORDER, prompt="x", max_tokens=12)).choices[0]
    assert cut.finish_reason == "length"
    found = constrained.captures(constrained.lark(ORDER), cut.text)
    assert cut.model_extra is not None
    assert [one["text"] for one in cut.model_extra["captures"]["article"]] == [
        one.text for one in found["article"]
    ]


HALVES = Vocabulary.from_bytes(
    [*(bytes((byte,)) for byte in range(256)), b"a\xc3", b"\xa9b", b"b,c", b""], [259]
)


def test_parts_that_are_not_characters_have_their_bytes() -> None:
    with served(ScriptedModel(HALVES, lambda prompt: "aéb")) as server, server.openai() as client:
        asked = under("start: x y\nx[capture]: <[256]>\ny[capture]: <[257]>", prompt="x")
        (choice,) = client.completions.create(**asked).choices
        assert choice.text == "aéb"
        assert choice.model_extra == {
            "captures": {
                "x": [{**part("a\ufffd", 0, 2), "bytes": list(b"a\xc3")}],
                "y": [{**part("\ufffdb", 2, 3), "bytes": list(b"\xa9b")}],
            }
        }
        (choice,) = client.completions.create(
            **under('start: x "!"\nx[capture]: <[256]>', prompt="x")
        ).choices
        assert choice.text == "a\ufffd!"
        assert choice.model_extra == {"captures": {"x": [{**part("a\ufffd", 0, 2), "bytes": list(b"a\xc3")}]}}


@pytest.mark.ci
def test_halves_of_characters_with_log_probabilities() -> None:
    """In the Responses API, where each token has the item of its text: the text is the same as without them."""
    texts = {
        'start: x "!"\nx[capture]: <[256]>': "a\ufffd!",
        'start: "!" x\nx[capture]: <[256]>': "!a\ufffd",
        "start: x y\nx[capture]: <[256]>\ny: <[257]>": "aéb",
    }
    with served(ScriptedModel(HALVES, lambda prompt: "aéb")) as server, server.openai() as client:
        for grammar, text in texts.items():
            for more in ({}, {"top_logprobs": 1}):
                answer = client.responses.create(**under(grammar, input="x", **more))
                assert answer.output_text == text
                events = client.responses.create(**under(grammar, input="x", stream=True, **more))
                assert (
                    "".join(one.delta for one in events if one.type == "response.output_text.delta") == text
                )


def test_a_stop_string_may_begin_inside_of_a_token() -> None:
    with served(ScriptedModel(HALVES, lambda prompt: "ab,c")) as server, server.openai() as client:
        asked = under('start: x ("," x)*\nx[capture]: /[a-z]+/', prompt="x", stop=",")
        (choice,) = client.completions.create(**asked).choices
        assert (choice.text, choice.model_extra) == ("ab", {"captures": {"x": [part("ab", 0, 2)]}})


@pytest.mark.ci
def test_what_takes_longer_to_find_is_found_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures, "FEW_STEPS", 3)
    with served(scripted(lambda prompt: TEXT), sandbox=True) as server, server.openai() as client:
        called: list[str] = []
        call = server.workers.call

        def watched(task: Any, *arguments: Any, **named: Any) -> Any:
            called.append(task.function.__name__)
            return call(task, *arguments, **named)

        monkeypatch.setattr(server.workers, "call", watched)
        for more in ({}, {"n": 2}, {"stream": True}):
            answer = client.completions.create(**under(ORDER, prompt="x", **more))
            choices = (answer if not more.get("stream") else [*answer][-1]).choices
            assert [one.model_extra for one in choices] == [{"captures": PARTS}] * len(choices)
        assert called == ["_compile"] + ["_captures"] * 4
        monkeypatch.setattr(Sandbox, "run", _timeout)
        with pytest.raises(BadRequestError) as refused:
            client.completions.create(**under(ORDER, prompt="x"))
        assert (refused.value.code, refused.value.status_code) == ("constraint_too_large", 400)
        assert "captures" in refused.value.message


def _timeout(*arguments: Any) -> Any:
    raise SandboxTimeout


def test_a_known_grammar_is_not_read_again(monkeypatch: pytest.MonkeyPatch, client: OpenAI) -> None:
    client.completions.create(**under(ORDER, prompt="x"))

    def unread(self: Any) -> Any:
        raise AssertionError("it is read for each request")

    from constrained.constraint import lark_grammar

    monkeypatch.setattr(lark_grammar._LarkConstraint, "_settings", unread)
    assert client.completions.create(**under(ORDER, prompt="x")).choices[0].model_extra == {"captures": PARTS}


def test_parts_that_take_too_long_to_find_are_an_error(
    client: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captures, "MAX_STEPS", 3)
    with pytest.raises(BadRequestError) as refused:
        client.completions.create(**under(ORDER, prompt="x"))
    assert refused.value.code == "constraint_too_large"
