"""The report of a lowered schema: which keywords are enforced, and which are annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from constrained.grammars.errors import Problem
from constrained.grammars.json_schema.source.document import SchemaNode, child_pointer
from constrained.grammars.json_schema.text.patterns import ENDLESS_DIGITS

UNKNOWN_PREFIX = "unknown "
"""Prefix of the note of a keyword or format that the dialect does not define."""
CHECKED_PREFIX = "checked afterwards: "
"""Prefix of the note of a condition that a Python type checks itself, after generation."""


@dataclass(frozen=True, slots=True)
class KeywordEntry:
    """One keyword at one place.

    Attributes:
        pointer: JSON Pointer of the keyword, as a URI fragment.
        keyword: its name.
        status: ``"enforced"``; ``"annotation"``: it does not constrain values; ``"unknown"``: the dialect does not define
            it, so it is an annotation; ``"unchecked"``: it constrains values, but the grammar does not enforce it.
        note: why it is not enforced; empty where its name tells.
    """

    pointer: str
    keyword: str
    status: Literal["enforced", "annotation", "unknown", "unchecked"]
    note: str = ""


class KeywordReport:
    """The keywords of every schema that applies to some part of a value, in the order of lowering."""

    def __init__(
        self,
        read: Callable[[], Iterable[tuple[SchemaNode, list[tuple[str, bool, str]]]]] = tuple,
        unchecked: Sequence[Problem] = (),
    ) -> None:
        self._read = read  # called when the report is read, which is rare
        self._unchecked = {problem.place: problem for problem in unchecked}

    def __iter__(self) -> Iterator[KeywordEntry]:
        left = dict(self._unchecked)
        for node, entries in self._read():
            for keyword, enforced, note in entries:
                place = child_pointer(node.pointer, keyword)
                problem = left.pop(place, None)
                if problem is not None:
                    yield KeywordEntry(place, keyword, "unchecked", problem.reason)
                elif enforced:
                    yield KeywordEntry(place, keyword, "enforced", note)
                else:
                    yield KeywordEntry(place, keyword, _status(note), note)
        for (
            place,
            problem,
        ) in left.items():  # its place is inside a keyword, such as one pattern of patternProperties
            yield KeywordEntry(place, problem.keyword or "", "unchecked", problem.reason)

    @property
    def entries(self) -> list[KeywordEntry]:
        """All entries."""
        return list(self)


def _status(note: str) -> Literal["annotation", "unknown", "unchecked"]:
    """The status of a keyword that is not enforced."""
    if note.startswith(CHECKED_PREFIX):
        return "unchecked"
    return "unknown" if note.startswith(UNKNOWN_PREFIX) else "annotation"


def noting_bounds(
    rows: Iterable[tuple[SchemaNode, list[tuple[str, bool, str]]]], **bounds: int | None
) -> Iterator[tuple[SchemaNode, list[tuple[str, bool, str]]]]:
    """Rows in which each ``type`` and ``format`` mentions the bounds where the schema has none: `max_digits`, `max_string_length`, `max_items`."""
    for node, entries in rows:
        notes = _notes(node.value, **bounds) if isinstance(node.value, dict) else {}
        yield node, [(name, done, notes.get(name, said) if done else said) for name, done, said in entries]


def _notes(
    schema: dict[str, Any], max_digits: int | None, max_string_length: int | None, max_items: int | None
) -> dict[str, str]:
    """Keyword -> what is bounded there."""
    names = schema.get("type", ())
    kinds = {names} if isinstance(names, str) else set(names)
    digits, said = f"at most {max_digits} digits", []
    notes = {}
    if max_digits is not None:
        closed = all(keywords & schema.keys() for keywords in _TWO_BOUNDS)
        if "number" in kinds or ("integer" in kinds and not closed):
            said.append(f"{digits} before and after the point (max_digits)")
        if schema.get("format") in ENDLESS_DIGITS:
            notes["format"] = f"at most {max(max_digits, 4)} digits in a row (max_digits)"
    if max_string_length is not None and "string" in kinds and "maxLength" not in schema:
        said.append(f"at most {max_string_length} characters (max_string_length)")
    if max_items is not None and "array" in kinds and "maxItems" not in schema:
        said.append(f"at most {max_items} items (max_items)")
    return {**notes, "type": "; ".join(said)} if said else notes


_TWO_BOUNDS = ({"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"})
