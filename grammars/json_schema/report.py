"""What a lowered schema guarantees, keyword by keyword."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from grammars.json_schema.document import Node, step


@dataclass(frozen=True, slots=True)
class Entry:
    """One keyword at one place.

    Attributes:
        pointer: JSON Pointer of the keyword, as a URI fragment.
        keyword: its name.
        status: ``"enforced"``, or ``"annotation"``: it limits nothing.
        note: why it limits nothing, when that is not plain from its name.
    """

    pointer: str
    keyword: str
    status: Literal["enforced", "annotation"]
    note: str = ""


class Report:
    """The keywords of every schema that a value can meet, in the order they are met."""

    def __init__(
        self,
        nodes: Sequence[Node] = (),
        entries_of: Callable[[Node], list[tuple[str, bool, str]]] = lambda node: [],
    ) -> None:
        self._nodes = nodes
        self._entries_of = entries_of  # asked when the report is read, which it seldom is

    def __iter__(self) -> Iterator[Entry]:
        for node in self._nodes:
            for keyword, enforced, note in self._entries_of(node):
                yield Entry(
                    step(node.pointer, keyword), keyword, "enforced" if enforced else "annotation", note
                )

    @property
    def entries(self) -> list[Entry]:
        """All entries."""
        return list(self)

    @property
    def annotations(self) -> list[Entry]:
        """What is not enforced."""
        return [entry for entry in self if entry.status == "annotation"]
