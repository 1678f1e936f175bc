"""The schemas: out of a local checkout, a file of JSON lines, or a data set of the `datasets` package."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from constrained.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Item:
    """One schema.

    Attributes:
        id: its name, the same in every run.
        split: the part of the data it belongs to.
        schema: as JSON values.
        tests: recorded instances, ``{"valid", "data"}``; may be empty.
    """

    id: str
    split: str
    schema: Any
    tests: list[Mapping[str, Any]] = field(default_factory=list)


def read(source: str) -> list[Item]:
    """All schemas.

    Args:
        source: a folder with ``SPLIT/NAME.json`` in it (or in its ``data``), a file of JSON lines, plain or gzipped,
            with ``id`` and ``schema`` (or ``unique_id`` and ``json_schema``), or the name of a data set.

    Raises:
        InvalidArgument: there is nothing like that, or it is something else.
    """
    path = Path(source)
    try:
        if path.is_dir():
            items = list(_folder(path / "data" if (path / "data").is_dir() else path))
        elif path.is_file():
            items = [_item(row) for row in _lines(path)]
        else:
            items = [_item(row, split) for split, row in _named(source)]
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise InvalidArgument(
            f"{source!r} cannot be read as JSONSchemaBench data: {type(error).__name__}: {error}",
            action="name a checkout of the benchmark, a file of JSON lines, or a data set",
        ) from None
    if not items:
        raise InvalidArgument(f"{source!r} holds no schemas", action="check --data")
    return items


def draw(items: list[Item], splits: tuple[str, ...], count: int, seed: int) -> list[Item]:
    """Some schemas of each split; the same seed draws the same ones.

    Args:
        items: all of them.
        splits: those that are wanted, by the beginning of their names; none: all.
        count: of each split; 0: all.
        seed: of the draw.

    Raises:
        InvalidArgument: there is no such split.
    """
    by_split: dict[str, list[Item]] = {}
    for item in items:
        by_split.setdefault(item.split, []).append(item)
    for wanted in splits:
        if wanted not in by_split:
            known = ", ".join(sorted(by_split))
            raise InvalidArgument(f"there is no split {wanted!r}", action=f"use some of: {known}")
    drawn: list[Item] = []
    for split in sorted(by_split):
        if splits and split not in splits:
            continue
        some = sorted(by_split[split], key=lambda item: item.id)
        random.Random(f"{seed} {split}").shuffle(some)
        drawn += some[: count or None]
    return drawn


def split_of(name: str) -> str:
    """The split that an id names: what stands before ``---``, or its letters."""
    before, found, _ = name.partition("---")
    if found:
        return before
    letters = re.match(r"[A-Za-z]+", name)
    return letters[0] if letters else "other"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _folder(path: Path) -> Iterator[Item]:
    for file in sorted(path.glob("*/*.json")):
        yield Item(f"{file.parent.name}---{file.stem}", file.parent.name, json.loads(file.read_bytes()))


def _item(row: Mapping[str, Any], split: str | None = None) -> Item:
    name = str(row["id"] if "id" in row else row["unique_id"])
    schema = row["schema"] if "schema" in row else row["json_schema"]
    if isinstance(schema, str):
        schema = json.loads(schema)
    return Item(name, split or split_of(name), schema, list(row.get("tests", ())))


def _named(name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        import datasets
    except ImportError:
        raise InvalidArgument(
            f"{name!r} is no file or folder, and the package datasets is not installed",
            action="name a file or folder, or: pip install datasets",
        ) from None
    for split in datasets.get_dataset_config_names(name):
        if split == "default":
            continue
        for part in datasets.load_dataset(name, split).values():
            for row in part:
                yield split, row
