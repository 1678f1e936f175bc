"""What a lowered schema guarantees, keyword by keyword."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from grammars.errors import Problem
from grammars.json_schema.source.document import SchemaNode, child_pointer

UNKNOWN_PREFIX = "unknown "
"""How the note of a keyword or format begins that nobody defines."""


@dataclass(frozen=True, slots=True)
class KeywordEntry:
    """One keyword at one place.

    Attributes:
        pointer: JSON Pointer of the keyword, as a URI fragment.
        keyword: its name.
        status: ``"enforced"``; ``"annotation"``: it limits nothing; ``"unknown"``: a name that nobody defines, and so
            an annotation; ``"unchecked"``: it limits values, and the grammar does not.
        note: why it is not enforced, when that is not plain from its name.
    """

    pointer: str
    keyword: str
    status: Literal["enforced", "annotation", "unknown", "unchecked"]
    note: str = ""


class KeywordReport:
    """The keywords of every schema that a value can meet, in the order they are met."""

    def __init__(
        self,
        read: Callable[[], Iterable[tuple[SchemaNode, list[tuple[str, bool, str]]]]] = tuple,
        unchecked: Sequence[Problem] = (),
    ) -> None:
        self._read = read  # asked when the report is read, which it seldom is
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
                    yield KeywordEntry(
                        place, keyword, "unknown" if note.startswith(UNKNOWN_PREFIX) else "annotation", note
                    )
        for place, problem in left.items():  # not at a keyword of its own, such as a pattern of keys
            yield KeywordEntry(place, problem.keyword or "", "unchecked", problem.reason)

    @property
    def entries(self) -> list[KeywordEntry]:
        """All entries."""
        return list(self)
