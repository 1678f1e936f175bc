"""`Document` and `Extraction`: what is read, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class Extraction(Generic[ValueT]):
    """The result for one document: a value, or the error that prevented it.

    Attributes:
        id: the document's.
        document: its text.
        output: the completion that the value was parsed from; None after an error.
        error: why there is no value; None otherwise.
        attempts: completions that were generated for it, at least 1 unless the document was refused unread.
    """

    id: str | int | None
    document: str
    output: Output[ValueT] | None = None
    error: ConstrainedError | None = None
    attempts: int = 1

    @property
    def value(self) -> ValueT:
        """The value.

        Raises:
            ConstrainedError: `error`, if there is one.
        """
        if self.error is not None:
            raise self.error
        assert self.output is not None
        return self.output.value

    def __repr__(self) -> str:
        shown: Any = self.error if self.error is not None else self.value
        name = "error" if self.error is not None else "value"
        return f"Extraction(id={self.id!r}, {name}={shown!r})"
