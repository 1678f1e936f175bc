"""`Document` and `Extraction`: what is read, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from constrained.decoding.output import Output, ValueT
from constrained.errors import ConstrainedError


@dataclass(frozen=True, slots=True)
class Document:
    """A text to extract from.

    Attributes:
        id: names the document in results; None: its number in the iterable, from 0.
        text: what is read.
    """

    id: str | int | None
    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """What was read in a part of a document.

    Attributes:
        start: offset of its first character in the document.
        end: offset behind its last character.
        output: the completion; its value is plain JSON.
    """

    start: int
    end: int
    output: Output[Any]


@dataclass(frozen=True, eq=False)
class Extraction(Generic[ValueT]):
    """The result for one document: a value, or the error that prevented it.

    Attributes:
        id: the document's.
        document: its text.
        output: the completion that the value was parsed from; None after an error, and for a document that was read in parts.
        error: why there is no value; None otherwise.
        attempts: completions that were generated for it, at least 1 unless the document was refused unread.
        parts: what was read where, if the document was read in parts; in each pass from its start to its end.
        origins: for a document read in parts, by JSON pointer of each scalar of the value: the index of its part, and its JSON
            pointer in that part's value.
        merged: JSON text and value of a document that was read in parts.
    """

    id: str | int | None
    document: str
    output: Output[ValueT] | None = None
    error: ConstrainedError | None = None
    attempts: int = 1
    parts: tuple[Part, ...] = ()
    origins: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    merged: tuple[str, ValueT] | None = None

    @property
    def value(self) -> ValueT:
        """The value.

        Raises:
            ConstrainedError: `error`, if there is one.
        """
        if self.error is not None:
            raise self.error
        if self.merged is not None:
            return self.merged[1]
        assert self.output is not None
        return self.output.value

    @property
    def text(self) -> str:
        """The value as the constraint writes it: JSON, for a type or a schema.

        Raises:
            ConstrainedError: `error`, if there is one.
        """
        if self.error is not None:
            raise self.error
        if self.merged is not None:
            return self.merged[0]
        assert self.output is not None
        return self.output.text

    def __repr__(self) -> str:
        shown: Any = self.error if self.error is not None else self.value
        name = "error" if self.error is not None else "value"
        return f"Extraction(id={self.id!r}, {name}={shown!r})"
