"""Calls of tools among the rows of MaskBench: rows of BFCL and of Glaive, by the tool that they call.

A row has a schema of arguments, or of calls by the tools' names, and one call or several.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

MAX_CALLS = 4
"""Earlier calls in a prompt."""


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
