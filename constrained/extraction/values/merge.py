"""Merges the values of the parts of a document into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from constrained.constraint.json_text import write_exact
from constrained.extraction.values.exact_json import has_unique_items
from constrained.grammars.json_pointer import escape

Origin = tuple[int, str]
"""Where a merged value comes from: the index of the part, and the JSON pointer in its value."""


class PartValue(Protocol):
    """The value of a part, and what is known about it."""

    @property
    def value(self) -> Any:
        """A JSON value, as `read_exact` gives it."""

    @property
    def extent(self) -> tuple[int, int]:
        """Offsets of the part in the document: start and end."""

    def places(self, pointer: str) -> list[tuple[int, int]]:
        """Offsets in the document of the scalars of the value at a JSON pointer, of those that stand there."""

    def confidence(self, pointer: str) -> float:
        """How sure the model was of the scalar at a JSON pointer; greater is surer."""


@dataclass
class MergedValue:
    """The value of a document, and where its parts come from.

    Attributes:
        value: a JSON value.
        origins: by JSON pointer of each scalar and each empty container in `value`, where it comes from.
    """

    value: Any
    origins: dict[str, Origin] = field(default_factory=dict)


def merge_values(parts: Sequence[PartValue], schema: Any = None) -> MergedValue:
    """Merges JSON values of one type.

    - Objects: the members of all of them, merged.
    - Arrays: all items, in order. An item of a part is left out that an earlier part has too, if one of the two stands
      where both parts read, or has no place in the document; with ``uniqueItems`` wherever it stands. Each item of the
      earlier part answers for one. An object whose members all stand in another item is that item, cut at the edge of a part.
    - Others: the value of which the model was surest, of equals the first. Null and empty strings give way to anything.

    Args:
        parts: in the order of the document; at least one.
        schema: of the values.
    """
    return _Merger(parts, schema).merged()


_Candidate = tuple[int, str, Any]  # part, pointer in its value, value


class _Merger:
    def __init__(self, parts: Sequence[PartValue], schema: Any) -> None:
        self._parts = parts
        self._schema = schema
        self._origins: dict[str, Origin] = {}

    def merged(self) -> MergedValue:
        value = self._merge([(i, "", part.value) for i, part in enumerate(self._parts)], "")
        return MergedValue(value, self._origins)

    def _merge(self, candidates: list[_Candidate], pointer: str) -> Any:
        telling = [one for one in candidates if one[2] not in (None, "", [], {})] or candidates
        first = telling[0]
        kind = Mapping if isinstance(first[2], Mapping) else list if isinstance(first[2], list) else None
        if kind is not None and all(isinstance(value, kind) for _, _, value in telling):
            if not first[2]:
                self._origins[pointer] = first[:2]
                return first[2]
            merge = self._merge_objects if kind is Mapping else self._merge_arrays
            return merge(telling, pointer)
        best = first
        if any(write_exact(value) != write_exact(first[2]) for _, _, value in telling):
            best = max(telling, key=lambda one: self._parts[one[0]].confidence(one[1]))
        _copy_origins(best, pointer, self._origins)
        return best[2]

    def _merge_objects(self, candidates: list[_Candidate], pointer: str) -> dict[str, Any]:
        names = dict.fromkeys(name for _, _, value in candidates for name in value)
        return {
            name: self._merge(
                [
                    (part, f"{place}/{escape(name)}", value[name])
                    for part, place, value in candidates
                    if name in value
                ],
                f"{pointer}/{escape(name)}",
            )
            for name in names
        }

    def _merge_arrays(self, candidates: list[_Candidate], pointer: str) -> list[Any]:
        unique = has_unique_items(self._schema, pointer)
        kept: list[_Item] = []
        for part, place, value in candidates:
            earlier = list(kept)  # items of earlier parts that are not matched by an item of this part
            for i, member in enumerate(value):
                item = _Item(part, f"{place}/{i}", member, write_exact(member))
                item.places = self._parts[part].places(item.pointer)
                match = next(
                    (
                        one
                        for one in earlier
                        if (unique or self._may_coincide(one, item)) and _same_items(one, item)
                    ),
                    None,
                )
                if match is None:
                    kept.append(item)
                    continue
                earlier.remove(match)
                if _size(member) > _size(match.value):
                    kept[kept.index(match)] = item
        for i, item in enumerate(kept):
            _copy_origins((item.part, item.pointer, item.value), f"{pointer}/{i}", self._origins)
        return [item.value for item in kept]

    def _may_coincide(self, one: _Item, other: _Item) -> bool:
        """Whether two items may stand at one place: where both parts read, or nobody knows where."""
        if not one.places or not other.places:
            return True
        start = max(self._parts[one.part].extent[0], self._parts[other.part].extent[0])
        end = min(self._parts[one.part].extent[1], self._parts[other.part].extent[1])
        return start < end and any(
            first < end and start < last for first, last in (*one.places, *other.places)
        )


@dataclass(eq=False, slots=True)
class _Item:
    """An item of an array: the part that it is from, where it stands in the part's value, and its JSON text."""

    part: int
    pointer: str
    value: Any
    text: str
    places: list[tuple[int, int]] = field(default_factory=list)


def _same_items(one: _Item, other: _Item) -> bool:
    return one.text == other.text or (
        isinstance(one.value, Mapping) and isinstance(other.value, Mapping) and _same(one.value, other.value)
    )


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal, or one is an object that the other one completes."""
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
