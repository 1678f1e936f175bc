"""Documents and public rows as items: what is asked, and what is right."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from constrained.bench.harness.results import json_lines
from constrained.bench.values.settings import (
    DOCUMENTS,
    FORMS,
    LISTS,
    LONG_DOCUMENTS,
    ORDERS,
    ROWS,
    STRICT,
)
from constrained.bench.values.types import TYPES
from constrained.constraint import choice
from constrained.errors import InvalidArgument

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class ValueItem:
    """One question.

    Attributes:
        task: out of `TASKS`.
        id: its name in the task.
        gold: the value that is right; of calls ``[{name: {argument: [accepted values]}}]``.
        text: what is read; of calls what the user says.
        constraint: a type, a JSON Schema or a choice; None: calls.
        instructions: for the prompt.
        messages: of a chat, of calls.
        tools: that can be called.
    """

    task: str
    id: str
    gold: Any
    text: str
    constraint: Any = None
    instructions: str | None = None
    messages: Sequence[dict[str, Any]] = ()
    tools: Sequence[dict[str, Any]] = ()


def documents() -> Iterator[ValueItem]:
    """The project's own documents: the short ones first, then long ones, orders, and values of a form."""
    facts = {}
    for row in json_lines(_HERE / "documents.jsonl"):
        facts[row["id"]] = row
        yield ValueItem(DOCUMENTS, row["id"], row["gold"], row["text"], TYPES[row["type"]])
    for row in json_lines(_HERE / "long_documents.jsonl"):
        short = facts[row["id"]]
        yield ValueItem(LONG_DOCUMENTS, row["id"], short["gold"], row["text"], TYPES[short["type"]])
    for row in json_lines(_HERE / "orders.jsonl"):
        yield ValueItem(ORDERS, row["id"], row["gold"], row["text"], TYPES[row["type"]])
    for row in json_lines(_HERE / "forms.jsonl"):
        yield ValueItem(FORMS, row["id"], row["gold"], row["text"], row["schema"])


def public(data: Path) -> Iterator[ValueItem]:
    """The rows of a file of JSON lines, plain or gzipped, of the tasks `PUBLIC`, with the `LISTS` and `STRICT` ones that they make.

    Raises:
        InvalidArgument: it cannot be read, or holds something else.
    """
    items = list(read_public(data, _item))
    strict = (_strict(task, item) for task, of in STRICT.items() for item in items if item.task == of)
    return chain(items, *(_lists(task, items) for task in LISTS), strict)


def read_public(data: Path, item: Callable[[dict[str, Any]], ValueItem | None]) -> Iterator[ValueItem]:
    """The rows of a file of JSON lines, plain or gzipped, as items.

    Args:
        data: the file.
        item: of a row; None: the row is left out.

    Raises:
        InvalidArgument: it cannot be read, or holds something else.
    """
    try:
        for row in json_lines(data):
            made = item(row)
            if made is not None:
                yield made
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise InvalidArgument(
            f"{str(data)!r} cannot be read: {type(error).__name__}: {error}",
            action="name a file of JSON lines with id, task and gold by --data",
        ) from None


def _item(row: dict[str, Any]) -> ValueItem:
    task = row["task"]
    if task not in ROWS:
        raise ValueError(f"there is no task {task!r}")
    if "tools" in row:
        said = "\n".join(message["content"] for message in row["messages"])
        return ValueItem(task, row["id"], row["gold"], said, messages=row["messages"], tools=row["tools"])
    wanted = choice(row["options"]) if "options" in row else row["schema"]
    return ValueItem(task, row["id"], row["gold"], row["text"], wanted, row["instructions"])


def _lists(task: str, items: Sequence[ValueItem]) -> Iterator[ValueItem]:
    """The items of another task three by three, those of one schema together; no two of the records in a list are alike."""
    of, between = LISTS[task]
    kinds: dict[str, list[ValueItem]] = defaultdict(list)
    for item in sorted((one for one in items if one.task == of), key=lambda one: one.id):
        kind = kinds[json.dumps(item.constraint)]
        if not any(item.gold.get("name", item.text) == one.gold.get("name", one.text) for one in kind):
            kind.append(item)
        if len(kind) == 3:
            text, gold = between.join(one.text for one in kind), {"records": [one.gold for one in kind]}
            schema = {
                "type": "object",
                "properties": {"records": {"type": "array", "items": item.constraint}},
                "required": ["records"],
                "additionalProperties": False,
            }
            yield ValueItem(task, kind[0].id, gold, text, schema, item.instructions)
            kind.clear()


def _strict(task: str, item: ValueItem) -> ValueItem:
    """An item whose members are required, and may be null where they could be left out."""
    schema, members = item.constraint, dict(item.constraint["properties"])
    for name in set(members) - set(schema.get("required", ())):
        members[name] = {"anyOf": [members[name], {"type": "null"}]}
    strict = {**schema, "properties": members, "required": list(members)}
    return replace(item, task=task, constraint=strict)


def draw(items: Sequence[ValueItem], tasks: Sequence[str], limit: int, seed: int) -> list[ValueItem]:
    """Some items of each task, the tasks in turn: a run that is interrupted has about as many of each.

    Args:
        items: all of them.
        tasks: that are wanted.
        limit: of each task; 0: all. A higher one adds items to those of a lower one.
        seed: the same seed draws the same items.
    """
    drawn = []
    for task in tasks:
        some = sorted((item for item in items if item.task == task), key=lambda item: item.id)
        random.Random(f"{seed} {task}").shuffle(some)
        drawn.append(some[: limit or None])
    return [item for item in chain.from_iterable(zip_longest(*drawn)) if item is not None]
