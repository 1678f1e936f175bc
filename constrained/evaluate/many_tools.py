"""What many tools cost: requests with 10, 100 or 500 tools, some of which change from one request to the next."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from constrained.automaton.bitmask import allows
from constrained.evaluate.longest_match import longest_tokens
from constrained.evaluate.masks.engines import Engine, load_engine
from constrained.evaluate.masks.workload import VocabularyData

_WORDS = [
    "account",
    "address",
    "amount",
    "city",
    "code",
    "country",
    "currency",
    "date",
    "email",
    "file",
    "id",
    "limit",
    "name",
    "note",
    "order",
    "path",
    "query",
    "region",
    "status",
    "unit",
]


@dataclass(frozen=True, slots=True)
class SyntheticTool:
    """A tool, and a call of it.

    Attributes:
        name: its name.
        schema: of its arguments.
        arguments: arguments that satisfy the schema, in its order.
    """

    name: str
    schema: dict[str, Any]
    arguments: dict[str, Any]

    @property
    def call(self) -> str:
        """The call as a model writes it."""
        return _begin(self.name) + json.dumps(self.arguments) + _END


def _begin(name: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": '


_END = "}\n</tool_call>"


def synthetic_tool(number: int, rng: random.Random) -> SyntheticTool:
    """A tool of three to eight parameters: texts, numbers, choices, lists, and an object."""
    values: dict[str, tuple[dict[str, Any], Any]] = {
        "text": ({"type": "string"}, "a b"),
        "short": ({"type": "string", "maxLength": 40}, "a"),
        "whole": ({"type": "integer", "minimum": 0, "maximum": rng.randrange(10, 10**6)}, 7),
        "number": ({"type": "number"}, 1.5),
        "flag": ({"type": "boolean"}, True),
        "choice": ({"enum": rng.sample(_WORDS, 4)}, None),
        "date": ({"type": "string", "format": "date"}, "2026-01-31"),
        "list": ({"type": "array", "items": {"type": "string"}, "maxItems": 5}, ["a"]),
    }
    names = rng.sample(_WORDS, rng.randrange(3, 9))
    properties, arguments = {}, {}
    for name in names:
        schema, value = values[rng.choice(list(values))]
        properties[name], arguments[name] = schema, schema["enum"][0] if value is None else value
    inner = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    schema = {
        "type": "object",
        "properties": {**properties, "options": {**inner, "additionalProperties": False}},
        "required": [*names, "options"],
        "additionalProperties": False,
    }
    return SyntheticTool(f"{rng.choice(_WORDS)}_{number}", schema, {**arguments, "options": {"x": 1}})


def tools_tag(tools: Sequence[SyntheticTool]) -> dict[str, Any]:
    """The structural tag of free text with calls of these tools."""
    tags = [
        {
            "type": "tag",
            "begin": _begin(tool.name),
            "content": {"type": "json_schema", "json_schema": tool.schema},
            "end": _END,
        }
        for tool in tools
    ]
    form = {"type": "triggered_tags", "triggers": ["<tool_call>"], "tags": tags}
    return {"type": "structural_tag", "format": form}


@dataclass(slots=True)
class ToolCosts:
    """What the requests of one engine cost; all times in seconds of the process.

    Attributes:
        engine: its name.
        version: its version.
        tools: tools of a request.
        first: for each request the time from its tools to the first mask.
        masks: of all masks after the first ones.
        memory: bytes of each request's compiled tools, as the engine has it.
    """

    engine: str
    version: str
    tools: int
    first: list[float] = field(default_factory=list)
    masks: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)


def measure_tools(
    engines: Sequence[str],
    tokens: VocabularyData,
    sizes: Sequence[int],
    *,
    requests: int = 6,
    changed: int = 1,
    seed: int = 0,
) -> list[ToolCosts]:
    """Requests of each size, each engine in turn in each request; every request calls one of its tools.

    Args:
        engines: names of the table of engines.
        tokens: the vocabulary.
        sizes: numbers of tools.
        requests: per size; the first one meets an engine that knows none of its tools.
        changed: tools that are others than in the request before.
        seed: of the tools.

    Raises:
        RuntimeError: an engine refuses the call.
    """
    classes = [load_engine(name) for name in engines]
    ids = {token: number for number, token in reversed(list(enumerate(tokens.tokens))) if token}
    found = []
    for size in sizes:
        rng = random.Random(seed)
        tools = [synthetic_tool(number, rng) for number in range(size)]
        loaded = [one(tokens, 1) for one in classes]
        costs = [ToolCosts(name, one.version, size) for name, one in zip(engines, classes, strict=True)]
        for request in range(requests):
            if request:
                for place in rng.sample(range(size), min(changed, size)):
                    tools[place] = synthetic_tool(request * 10_000 + place, rng)
            text = "I look.\n" + rng.choice(tools).call
            tag = tools_tag(tools)
            written = longest_tokens(text.encode(), ids)
            for engine, cost in zip(loaded, costs, strict=True):
                _measure(engine, cost, tag, written, tokens.size)
        found += costs
    return found


def _measure(engine: Engine, cost: ToolCosts, tag: dict[str, Any], tokens: Sequence[int], size: int) -> None:
    row = np.zeros((1, -(-size // 32)), dtype=np.int32)
    began = time.process_time()
    compiled = engine.compile(tag, "")
    state = compiled.start()
    (target,) = compiled.targets(row)
    compiled.fill(state, *target)
    cost.first.append(time.process_time() - began)
    for token in tokens:
        if not allows(row[0], token):
            raise RuntimeError(f"{cost.engine} refuses a call of a tool")
        result = compiled.commit(state, token)
        state = state if compiled.in_place else result
        began = time.process_time()
        compiled.fill(state, *target)
        cost.masks.append(time.process_time() - began)
    if compiled.memory is not None:
        cost.memory.append(compiled.memory())


def format_tools(costs: Sequence[ToolCosts]) -> list[str]:
    """A table in Markdown: times in milliseconds, masks in microseconds, memory in KiB."""
    lines = [
        "| tools | engine | first request, ms | later ones, ms | mask p50, us | p99, us | memory, KiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in costs:
        later = sorted(one.first[1:]) or [float("nan")]
        masks = sorted(one.masks)
        p50, p99 = (1e6 * masks[min(len(masks) - 1, int(part * len(masks)))] for part in (0.5, 0.99))
        memory = f"{max(one.memory) / 1024:,.0f}" if one.memory else ""
        lines.append(
            f"| {one.tools} | {one.engine} {one.version} | {1e3 * one.first[0]:.1f} | "
            f"{1e3 * later[len(later) // 2]:.1f} | {p50:.1f} | {p99:.0f} | {memory} |"
        )
    return lines
