"""Requests with many tools: calls are accepted, and a changed tool is met."""

from __future__ import annotations

import random

import jsonschema
import pytest

from constrained.evaluate.many_tools import format_tools, measure_tools, synthetic_tool, tools_tag
from constrained.evaluate.masks.workload import VocabularyData

TOKENS = VocabularyData([*(bytes([i]) for i in range(256)), b"<tool_call>", b"arguments", b""], (258,))


def test_calls_satisfy_their_schemas() -> None:
    rng = random.Random(3)
    tools = [synthetic_tool(i, rng) for i in range(30)]
    for tool in tools:
        jsonschema.validate(tool.arguments, tool.schema)
    assert len({tool.name for tool in tools}) == 30
    assert len(tools_tag(tools)["format"]["tags"]) == 30


@pytest.mark.parametrize("engine", ["constrained", "xgrammar"])
def test_every_request_is_measured(engine: str) -> None:
    if engine == "xgrammar":
        pytest.importorskip("xgrammar")
    costs = measure_tools([engine], TOKENS, [2, 5], requests=3)
    assert [(one.engine, one.tools, len(one.first), len(one.memory)) for one in costs] == [
        (engine, 2, 3, 3),
        (engine, 5, 3, 3),
    ]
    assert all(len(one.masks) > 100 for one in costs)
    assert len(format_tools(costs)) == 4
