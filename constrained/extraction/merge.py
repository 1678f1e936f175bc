"""Merges the values of the parts of a document into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from constrained.extraction.exact_json import write_exact
from grammars.json_pointer import escape

Origin = tuple[int, str]
"""Where a merged value comes from: the index of the part, and the JSON pointer in its value."""


@dataclass
class MergedValue:
    """The value of a document, and where its parts come from.

    Attributes:
        value: a JSON value.
        origins: by JSON pointer of each scalar and each empty container in `value`, where it comes from.
    """

    value: Any
    origins: dict[str, Origin] = field(default_factory=dict)


def merge_values(values: Sequence[Any], confidences: Sequence[float]) -> MergedValue:
    """Merges JSON values of one type.

    - Objects: the members of all of them, merged.
    - Arrays: all items, in order, without those that an earlier part has too. An item is taken as often as the part in which
      it is most frequent has it. An object whose members all stand in another item is that item, cut at the edge of a part.
    - Others: the value with the greatest confidence, of equals the first. Null and empty strings give way to anything.

    Args:
        values: as `read_exact` gives them, in the order of the parts; at least one.
        confidences: one per value.
    """
    merged = MergedValue(None)
    merged.value = _merge([(i, "", value) for i, value in enumerate(values)], confidences, "", merged.origins)
    return merged


_Candidate = tuple[int, str, Any]  # part, pointer in its value, value


def _merge(
    candidates: list[_Candidate], confidences: Sequence[float], pointer: str, origins: dict[str, Origin]
) -> Any:
    telling = [one for one in candidates if one[2] not in (None, "", [], {})] or candidates
    kind = (
        Mapping if isinstance(telling[0][2], Mapping) else list if isinstance(telling[0][2], list) else None
    )
    if kind is not None and all(isinstance(value, kind) for _, _, value in telling):
        if not telling[0][2]:
            origins[pointer] = telling[0][:2]
            return telling[0][2]
        return (
            _merge_objects(telling, confidences, pointer, origins)
            if kind is Mapping
            else _merge_arrays(telling, pointer, origins)
        )
    best = max(telling, key=lambda one: confidences[one[0]])
    _copy_origins(best, pointer, origins)
    return best[2]


def _merge_objects(
    candidates: list[_Candidate], confidences: Sequence[float], pointer: str, origins: dict[str, Origin]
) -> dict[str, Any]:
    names = dict.fromkeys(name for _, _, value in candidates for name in value)
    return {
        name: _merge(
            [
                (part, f"{place}/{escape(name)}", value[name])
                for part, place, value in candidates
                if name in value
            ],
            confidences,
            f"{pointer}/{escape(name)}",
            origins,
        )
        for name in names
    }


def _merge_arrays(candidates: list[_Candidate], pointer: str, origins: dict[str, Origin]) -> list[Any]:
    kept: list[_Candidate] = []
    for part, place, value in candidates:
        free = list(range(len(kept)))  # items of earlier parts that are not matched by an item of this part
        for i, item in enumerate(value):
            match = next((k for k in free if _same(kept[k][2], item)), None)
            if match is None:
                kept.append((part, f"{place}/{i}", item))
                continue
            free.remove(match)
            if _size(item) > _size(kept[match][2]):
                kept[match] = (part, f"{place}/{i}", item)
    for i, one in enumerate(kept):
        _copy_origins(one, f"{pointer}/{i}", origins)
    return [item for _, _, item in kept]


def _same(one: Any, other: Any) -> bool:
    """Whether two items are equal, or one is an object that the other one completes."""
    if isinstance(one, Mapping) and isinstance(other, Mapping) and one and other:
        small, large = (one, other) if len(one) <= len(other) else (other, one)
        return all(name in large and _same(value, large[name]) for name, value in small.items())
    return write_exact(one) == write_exact(other)


def _size(item: Any) -> int:
    return len(item) if isinstance(item, Mapping) else 0


def _copy_origins(source: _Candidate, pointer: str, origins: dict[str, Origin]) -> None:
    part, place, value = source
    children: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        children = [(escape(name), member) for name, member in value.items()]
    elif isinstance(value, list):
        children = [(str(i), item) for i, item in enumerate(value)]
    if not children:
        origins[pointer] = (part, place)
    for name, child in children:
        _copy_origins((part, f"{place}/{name}", child), f"{pointer}/{name}", origins)
