"""What stands in the prompt of a replay: a document that the value could have been extracted from, or earlier calls of a tool.

A document is made of the value: every string and every number of it stands in a sentence of its own, between sentences that
have nothing to do with it, in another order, without the names of the members, and in another spelling: strings
unescaped, one in ten of them in lower case; numbers from 1,000 on with separators for every other one; truth values,
nulls and empty strings not at all.

Calls of tools are among the rows of MaskBench: rows of BFCL and of Glaive. A row has a schema of arguments, or of calls by the
tools' names, and one call or several.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from typing import Any

MAX_CALLS = 4
"""Earlier calls in a prompt."""
_OPENINGS = (
    "It was noted that {}.",
    "The record mentions {} in passing.",
    "According to the file, {} was agreed.",
    "Somebody wrote down {}.",
    "{} came up more than once.",
    "There was also talk of {}.",
)
_FILLERS = (
    "Nothing else happened that day.",
    "The meeting was moved twice, and nobody minded.",
    "As far as anyone remembers, the weather was fine.",
    "Questions were left for another time.",
)


def make_document(value: Any, seed: int) -> str:
    """Prose that holds the leaves of a JSON value.

    Args:
        value: what will be extracted.
        seed: of order and spelling.
    """
    rng = random.Random(seed)
    leaves = [_spelled(leaf, rng) for leaf in _leaves(value)]
    sentences = [rng.choice(_OPENINGS).format(leaf) for leaf in leaves if leaf]
    sentences += [rng.choice(_FILLERS) for _ in range(1 + len(sentences) // 4)]
    rng.shuffle(sentences)
    return " ".join(sentences)


def _leaves(value: Any) -> list[Any]:
    found, stack = [], [value]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            stack += part.values()
        elif isinstance(part, list):
            stack += part
        elif part is not None and not isinstance(part, bool):
            found.append(part)
    return found


def _spelled(leaf: Any, rng: random.Random) -> str:
    if isinstance(leaf, str):
        return leaf.lower() if rng.random() < 0.1 else leaf
    if abs(leaf) >= 1000 and rng.random() < 0.5:
        return f"{leaf:,}"
    return str(leaf)


def tool_name(row: Mapping[str, Any]) -> str | None:
    """The tool that a row calls; None for rows that are no calls."""
    split, _, name = row["id"].partition("---")
    if split.startswith("Glaive"):
        return str(name.rpartition("_")[0])  # a hash of the schema follows
    if split.startswith("BFCL"):
        return " ".join(sorted(row["schema"].get("properties", ()))) or None
    return None


def calls_by_tool(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    """The id of a row and its last valid value as JSON, for each tool that rows call."""
    found: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        name = tool_name(row)
        values = [test["data"] for test in row["tests"] if test["valid"]]
        if name is not None and values:
            found.setdefault(name, []).append((row["id"], json.dumps(values[-1], ensure_ascii=False)))
    return found


def earlier_calls(row: Mapping[str, Any], calls: Mapping[str, list[tuple[str, str]]]) -> list[str]:
    """Calls of the same tool in other rows, at most `MAX_CALLS`; the call itself is not among them."""
    own = [text for name, text in calls.get(tool_name(row) or "", ()) if name == row["id"]]
    others = [text for _, text in calls.get(tool_name(row) or "", ()) if text not in own]
    return list(dict.fromkeys(others))[:MAX_CALLS]
