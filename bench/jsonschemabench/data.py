"""The schemas: out of a local checkout, a file of JSON lines, or a data set that the package `datasets` reads."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from constrained.bench.harness.results import json_lines
from constrained.errors import InvalidArgument

_SAVED = ("dataset_dict.json", "dataset_info.json")
"""Files by which a folder is known that ``save_to_disk`` wrote."""


@dataclass(frozen=True, slots=True)
class SchemaItem:
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


def read(source: str) -> list[SchemaItem]:
    """All schemas.

    Args:
        source: a folder with ``SPLIT/NAME.json`` in it (or in its ``data``), a file of JSON lines, plain or gzipped,
            with ``id`` and ``schema`` (or ``unique_id`` and ``json_schema``), or a data set with these columns: its
            name, or the folder of a copy, as it is published or as ``save_to_disk`` writes it.

    Raises:
        InvalidArgument: there is nothing like that, or it is something else.
    """
    path = Path(source)
    try:
        if path.is_dir():
            saved = any((path / name).exists() for name in _SAVED)
            items = [] if saved else list(_folder(path / "data" if (path / "data").is_dir() else path))
            items = items or [_item(row, split) for split, row in (_saved(path) if saved else _named(source))]
        elif path.is_file():
            items = [_item(row) for row in json_lines(path)]
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


def draw(items: list[SchemaItem], splits: tuple[str, ...], count: int, seed: int) -> list[SchemaItem]:
    """Some schemas of each split; the same seed draws the same ones.

    Args:
        items: all of them.
        splits: names of the splits to use; none: all.
        count: of each split; 0: all.
        seed: of the draw.

    Raises:
        InvalidArgument: there is no such split.
    """
    by_split: dict[str, list[SchemaItem]] = {}
    for item in items:
        by_split.setdefault(item.split, []).append(item)
    for wanted in splits:
        if wanted not in by_split:
            known = ", ".join(sorted(by_split))
            raise InvalidArgument(f"there is no split {wanted!r}", action=f"use some of: {known}")
    drawn: list[SchemaItem] = []
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


def _folder(path: Path) -> Iterator[SchemaItem]:
    for file in sorted(path.glob("*/*.json")):
        yield SchemaItem(f"{file.parent.name}---{file.stem}", file.parent.name, json.loads(file.read_bytes()))


def _item(row: Mapping[str, Any], split: str | None = None) -> SchemaItem:
    name = str(row["id"] if "id" in row else row["unique_id"])
    schema = row["schema"] if "schema" in row else row["json_schema"]
    if isinstance(schema, str):
        schema = json.loads(schema)
    return SchemaItem(name, split or split_of(name), schema, list(row.get("tests", ())))


def _saved(path: Path) -> Iterator[tuple[str | None, Mapping[str, Any]]]:
    """The rows of a data set that ``save_to_disk`` wrote."""
    loaded = _datasets(str(path)).load_from_disk(str(path))
    for part in loaded.values() if isinstance(loaded, Mapping) else [loaded]:
        for row in part:
            yield None, row


def _named(name: str) -> Iterator[tuple[str | None, Mapping[str, Any]]]:
    """The rows of a data set, each with its configuration, which is a split of the benchmark."""
    datasets = _datasets(name)
    splits: list[str] = datasets.get_dataset_config_names(name)
    for split in splits:
        if split == "default" and len(splits) > 1:  # all of the others together
            continue
        for part in datasets.load_dataset(name, split).values():
            for row in part:
                yield None if split == "default" else split, row


def _datasets(name: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise InvalidArgument(
            f"{name!r} is no file or folder of schemas, and the package datasets is not installed",
            action="name a file or folder, or: pip install datasets",
        ) from None
    return datasets
