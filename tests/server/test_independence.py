"""The answer to a request does not depend on the requests before it: its status, its code, its text."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.serving import Served, scripted, served

MEMORY = 10 << 20
"""Bytes for a compile: a few of the larger constraints below take as much together, and the largest one alone."""

TAGS = ["".join(random.Random(i).choices("abcdefghij", k=6)) for i in range(20)]
"""Names in requests: new constraints, and sometimes known ones."""


def members(count: int) -> Callable[[str], dict[str, Any]]:
    def schema(tag: str) -> dict[str, Any]:
        return {"guided_json": {"type": "object", "properties": {f"k{tag}{i}": {} for i in range(count)}}}

    return schema


def tool(tag: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {tag: {"type": "integer"}}, "required": [tag]}
    function = {"name": f"f{tag}", "parameters": parameters}
    return {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}


KINDS: tuple[Callable[[str], dict[str, Any]], ...] = (
    lambda tag: {},
    lambda tag: {"stop": ["l", tag]},
    lambda tag: {"guided_regex": f"{tag}[a-z]{{3,9}}"},
    lambda tag: {"guided_choice": [f"{tag}{i}" for i in range(300)]},
    lambda tag: {"guided_json": {"properties": {tag: {"pattern": r"(a)\1"}}}},
    lambda tag: {"guided_json": {"const": tag, "type": "integer"}},
    lambda tag: {"guided_json": {"properties": {tag: {"format": "date-time"}}, "required": [tag]}},
    lambda tag: {"guided_grammar": f'start: "{tag}" item*\nitem[capture]: /[0-9]+/ | "(" item ")"'},
    lambda tag: {"guided_grammar": f"start: <|{tag}|>"},
    lambda tag: {"guided_grammar": f'root ::= "{tag}" | root "x"'},
    lambda tag: {"guided_json": {"type": 7, "title": tag}},
    tool,
    members(300),
    members(3000),
    members(2999),
    members(12_000),
)


def answer(server: Served, kind: Callable[[str], dict[str, Any]], tag: str) -> tuple[Any, ...]:
    """Status, code and text, with one name for all tags."""
    body = server.chat(**{"temperature": 1.5, "seed": 3, "max_tokens": 40, **kind(tag)})
    shown = body.json()
    if body.status_code != 200:
        return body.status_code, shown["error"]["code"], shown["error"]["message"].replace(tag, "TAG")
    message = shown["choices"][0]["message"]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return 200, str([message["content"], calls]).replace(tag, "TAG")


@pytest.mark.ci
@pytest.mark.parametrize("rounds", [2, pytest.param(34, marks=pytest.mark.slow)])
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_answers_do_not_depend_on_earlier_requests(rounds: int) -> None:
    """Each round has a request of every kind with names of its own, in an order of its own."""
    rng = random.Random(0)
    seen: dict[Any, set[tuple[Any, ...]]] = {kind: set() for kind in KINDS}
    with served(scripted("hello"), sandbox=True, compile_memory=MEMORY, compile_threads=1) as server:
        for _ in range(rounds):
            for kind in rng.sample(KINDS, len(KINDS)):
                seen[kind].add(answer(server, kind, rng.choice(TAGS)))
    assert all(len(answers) == 1 for answers in seen.values()), {len(a): a for a in seen.values()}
    codes = [one[1] for answers in seen.values() for one in answers if one[0] != 200]
    assert "constraint_too_large" in codes
    assert all(one[0] in (200, 400) for answers in seen.values() for one in answers)
