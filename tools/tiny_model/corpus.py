"""Made-up extraction examples: a text, a JSON Schema and the object that the text says.

Everything follows from a seed. The two splits share no schema (no set of keys) and no string value, and three
domains are met in the held-out split alone, so a good score there is earned by copying, not by reciting.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tools.tiny_model.drawing import DocumentGenerator
from tools.tiny_model.values import Split, WrittenNumber


@dataclass(frozen=True)
class Example:
    """One example. `value` holds its keys in the order of the schema."""

    text: str
    schema: dict[str, Any]
    value: Any
    domain: str
    split: Split

    @property
    def completion(self) -> str:
        """The answer as the model must write it."""
        return _written(self.value)


def _written(value: Any) -> str:
    """JSON text of a value; numbers as the text of the example writes them."""
    if isinstance(value, dict):
        members = (f"{json.dumps(key, ensure_ascii=False)}: {_written(part)}" for key, part in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return value.written if isinstance(value, WrittenNumber) else json.dumps(value, ensure_ascii=False)


def draw_example(seed: int, split: Split, level: float = 1.0) -> Example:
    """Draws one example.

    Args:
        seed: the example is a function of it, of the split and of the level.
        split: `train` or `heldout`.
        level: 0 gives short texts of plain labels and values, 1 the whole distribution.
    """
    rng = random.Random(f"{split}:{seed}")
    while True:
        made = DocumentGenerator(rng, split, level).document()
        if made.text and schema_in_split(made.schema, split):
            return Example(made.text, made.schema, made.value, made.domain, split)


def stream(seed: int, split: Split, level: float = 1.0) -> Iterator[Example]:
    """Draws examples without end; two seeds give streams that share nothing."""
    number = seed << 40
    while True:
        yield draw_example(number, split, level)
        number += 1


def key_paths(schema: dict[str, Any]) -> frozenset[str]:
    """What makes two schemas the same to the splits: their keys with the nesting, spelling apart.

    The schema of a plain value has no keys; its description takes their place.
    """
    paths: set[str] = set()

    def walk(node: dict[str, Any], prefix: str) -> None:
        for branch in node.get("anyOf", ()):
            walk(branch, prefix)
        if isinstance(node.get("items"), dict):
            walk(node["items"], prefix + "[]")
        for key, value in node.get("properties", {}).items():
            path = f"{prefix}/{''.join(c for c in key if c.isalnum()).lower()}"
            paths.add(path)
            walk(value, path)

    walk(schema, "")
    return frozenset(paths or {str(schema.get("description"))})


def schema_in_split(schema: dict[str, Any], split: Split) -> bool:
    """Tells whether a schema may be used in this split: one set of keys in eight is held out."""
    signature = "\n".join(sorted(key_paths(schema)))
    return (zlib.crc32(signature.encode()) % 8 == 0) == (split == "heldout")
