"""Public rows as closed questions, each with the answer that is right; and random sets of labels, where no answer is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from constrained.bench.decisions.settings import BANKING, FIELDS, INTENTS, LABELS, TOOLS
from constrained.bench.values.items import ValueItem, read_public
from constrained.constraint import choice

_SETS = 200
_SYLLABLES = ("ka", "lo", "mi", "ter", "ven", "sol", "ard", "qui", "bex", " on", " Dur", "_t", "7")


def questions(data: Path) -> Iterator[ValueItem]:
    """The rows of a file of JSON lines that have closed questions.

    The gold of a choice is one of its options; of `e2e-closed` an object of the members that the text gives.

    Raises:
        InvalidArgument: as `read_public`.
    """
    return read_public(data, _item)


def label_sets() -> Iterator[ValueItem]:
    """200 questions with 2 to 255 random labels of some 1 to 6 tokens: what they are for is exactness, passes and time."""
    draw = random.Random(48)
    for index in range(_SETS):
        wanted, labels = round(2 * 127.5 ** draw.random()), set[str]()
        while len(labels) < wanted:
            labels.add("".join(draw.choices(_SYLLABLES, k=draw.randint(1, 6))).strip() or "x")
        options = sorted(labels)
        gold, text = draw.choice(options), f"Number {draw.randrange(1000)} of the list."
        yield ValueItem(LABELS, f"set-{index:03}", gold, text, choice(options), "Which label is it?")


def _item(row: dict[str, Any]) -> ValueItem | None:
    match row["task"]:
        case "banking77":
            options, asked = row["options"], row["instructions"]
            return ValueItem(BANKING, row["id"], row["gold"], row["text"], choice(options), asked)
        case "snips":
            asked = "What does the command ask for?"
            return ValueItem(INTENTS, row["id"], row["intent"], row["text"], choice(row["intents"]), asked)
        case "bfcl-multiple":
            return _tool_item(row)
        case "e2e":
            return _field_item(row)
    return None


def _tool_item(row: dict[str, Any]) -> ValueItem | None:
    tools = [tool["function"] for tool in row["tools"]]
    said = "\n".join(message["content"] for message in row["messages"])
    right = next(iter(row["gold"][0]))
    names = [tool["name"] for tool in tools]
    if len(set(names)) < 2 or right not in names:
        return None
    described = "\n".join(f"{tool['name']}: {tool.get('description', '')}" for tool in tools)
    asked = f"Which of these tools does the user need?\n{described}"
    return ValueItem(TOOLS, row["id"], right, said, choice(names), asked)


def _field_item(row: dict[str, Any]) -> ValueItem:
    """The members that have few values; all of them may be left out."""
    closed = {
        name: member
        for name, member in row["schema"]["properties"].items()
        if "enum" in member or member.get("type") == "boolean"
    }
    schema = {**row["schema"], "properties": closed, "required": []}
    gold = {name: value for name, value in row["gold"].items() if name in closed}
    return ValueItem(FIELDS, row["id"], gold, row["text"], schema, row["instructions"])
