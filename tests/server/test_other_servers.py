"""What clients of other servers send is honoured or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from constrained.server.other_servers import ANY, NEUTRAL
from tests.server.serving import scripted, served
from tests.tools import server_parameters as tool

ANSWERS = {
    "guided_json": ({"type": "integer"}, "7"),
    "guided_regex": ("[A-Z]{3}", "YES"),
    "guided_choice": (["no", "nay"], "nay"),
    "guided_grammar": ('root ::= "a" | "b"', "b"),
    "grammar": ('root ::= "a" | "b"', "b"),
    "ebnf": ('root ::= "a" | "b"', "b"),
    "regex": ("[A-Z]{3}", "YES"),
    "json_schema": ('{"type": "integer"}', "7"),
}


@pytest.mark.ci
def test_constraints_under_other_names_hold() -> None:
    wanted = {"text": ""}
    with served(scripted(lambda prompt: wanted["text"])) as server:
        for name, (value, text) in ANSWERS.items():
            wanted["text"] = text
            answer = server.chat(**{name: value}).json()
            assert answer["choices"][0]["message"]["content"] == text, name
        wanted["text"] = "what the constraints forbid"
        for name, (value, _) in ANSWERS.items():
            answer = server.chat(**{name: value}, max_tokens=8).json()
            assert answer["choices"][0]["message"]["content"] != wanted["text"][:8], name
        two = server.chat(guided_regex="a", grammar='root ::= "a"')
        assert (two.status_code, two.json()["error"]["param"]) == (400, "grammar")
        bad = server.chat(guided_regex="(")
        assert (bad.status_code, bad.json()["error"]["param"]) == (400, "guided_regex")


def test_values_that_change_nothing_are_taken_and_others_named() -> None:
    neutral: dict[str, Any] = {name: values[0] for name, values in NEUTRAL.items() if values}
    everything = {name: "x" if value is ANY else value for name, value in neutral.items()}
    with served(scripted("hello")) as server:
        assert server.chat(**everything).status_code == 200
        assert server.chat(**dict.fromkeys(NEUTRAL)).status_code == 200
        assert server.chat(repetition_penalty=1.3).status_code == 200
        for name, value in (
            ("typical_p", 0.5),
            ("ignore_eos", True),
            ("min_tokens", True),
            ("stop_token_ids", [104]),
        ):
            error = server.chat(**{name: value}).json()["error"]
            assert (error["param"], error["code"]) == (name, "unsupported_value")


@pytest.mark.ci
def test_names_of_llama_cpp() -> None:
    """`repeat_penalty` looks at the last 64 tokens, or `repeat_last_n`; `n_predict` is `max_tokens`; -1 is no limit."""
    positive = {str(i): 40.0 for i in range(97, 123)}  # a penalty divides what is not zero
    drawn = {"temperature": 12, "seed": 4, "guided_regex": "[a-z ]{40}", "logit_bias": positive}

    def text(**more: Any) -> str:
        answer = server.chat("hi", **drawn, **more).json()
        return str(answer["choices"][0]["message"]["content"])

    with served(scripted("hello " * 7)) as server:
        plain = text()
        assert text(repeat_penalty=3.0, repeat_last_n=-1) == text(repetition_penalty=3.0) != plain
        assert text(repeat_penalty=3.0) == text(repeat_penalty=3.0, repeat_last_n=64)
        windows = {text(repeat_penalty=3.0, repeat_last_n=n) for n in (0, 2, 30)}
        assert plain in windows
        assert len(windows) == 3
        assert text(repeat_last_n=5) == text(repeat_penalty=1.0, repetition_penalty=1) == plain
        for limit in ({"n_predict": 5}, {"n_predict": 5, "max_tokens": 5}):
            assert server.chat(**limit).json()["usage"]["completion_tokens"] == 5
        assert server.chat(n_predict=-1, stop_token_ids=[256]).json()["usage"]["completion_tokens"] > 5
        for name, more in (
            ("n_predict", {"n_predict": 5, "max_tokens": 6}),
            ("repeat_penalty", {"repeat_penalty": 2.0, "repetition_penalty": 2.0}),
            ("repeat_penalty", {"repeat_penalty": 0}),
            ("repeat_last_n", {"repeat_last_n": -2}),
        ):
            error = server.chat(**more).json()["error"]
            assert (error["param"], error["code"]) == (name, "invalid_value")


def test_penalties_and_biases_change_the_text_and_drafts_do_not() -> None:
    texts: dict[str | None, dict[str, str]] = {}
    wanted = {
        "plain": {},
        "bias": {"logit_bias": {"104": -100}},
        "presence": {"presence_penalty": 2.0, "temperature": 12, "seed": 4},
        "neither": {"temperature": 12, "seed": 4},
    }
    for speculation in (None, "auto"):
        with served(scripted("hello hello hello"), speculation=speculation) as server:
            answers = {name: server.chat(guided_regex="[a-z ]{17}", **more) for name, more in wanted.items()}
        texts[speculation] = {
            name: answer.json()["choices"][0]["message"]["content"] for name, answer in answers.items()
        }
    assert texts[None] == texts["auto"]
    found = texts[None]
    assert (found["plain"], "h" in found["bias"]) == ("hello hello hello", False)
    assert len(set(found.values())) == 4


@pytest.mark.slow
def test_the_table_of_the_documentation_is_what_the_server_does() -> None:
    page = tool.PAGE.read_text(encoding="utf-8")
    assert page.partition(tool.BEGIN)[2].partition(tool.END)[0] == tool.table()


def test_every_value_that_is_looked_up_is_in_the_table() -> None:
    quiet = {
        "add_special_tokens", "detokenize", "logits_processors", "no_stop_trim", "n_keep", "post_sampling_probs", "priority",
        "request_id", "return_progress", "return_token_ids", "return_tokens",
        "return_tokens_as_token_ids", "spaces_between_special_tokens", "stream_reasoning", "timings_per_token",
    }  # fmt: skip
    assert set(NEUTRAL) - set(tool.PARAMETERS) == quiet
