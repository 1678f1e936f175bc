"""`Document` and `Extraction`: what is read, and what became of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic

from constrained.decoding.output import Output, ValueT
from constrained.errors import ConstrainedError, InvalidArgument
from constrained.extraction.document_view import (
    FieldView,
    field_views,
    html_page,
    render_document,
    render_fields,
    render_html,
)
from constrained.extraction.fields import FieldProbability, score_fields
from constrained.extraction.grounding import SpanMatch, find_spans, json_value

if TYPE_CHECKING:
    from constrained.decoding import Generator
    from constrained.extraction.prompt import Messages


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

    # Generator and prompt of the last completion, for `fields`.

    id: str | int | None
    document: str
    output: Output[ValueT] | None = None
    error: ConstrainedError | None = None
    attempts: int = 1
    parts: tuple[Part, ...] = ()
    origins: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    merged: tuple[str, ValueT] | None = None
    _request: tuple[Generator[Any], Messages] | None = field(default=None, repr=False)

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

    @cached_property
    def json_value(self) -> Any:
        """The value as JSON: what was written, before it became an instance of the type.

        Raises:
            ConstrainedError: `error`, if there is one.
        """
        output = self.parts[0].output if self.merged is not None else self.output
        return json_value(self.text, output)

    @cached_property
    def spans(self) -> dict[str, SpanMatch]:
        """Where each scalar of the value stands in the document, by JSON Pointer; see `find_spans`.

        Raises:
            ConstrainedError: `error`, if there is one.
        """
        return find_spans(self.document, self.json_value)

    @cached_property
    def fields(self) -> dict[str, FieldProbability]:
        """How likely each scalar of the value was under the model, by JSON Pointer; one more pass of the model.

        Raises:
            ConstrainedError: `error`, if there is one.
            InvalidArgument: the document was read in parts, or the model is not known any more, as after unpickling.
        """
        if self.error is not None:
            raise self.error
        if self.merged is not None:
            raise InvalidArgument(
                f"the document was read in {len(self.parts)} parts, whose values were merged: the model wrote no completion "
                "whose fields have a probability",
                action="read the parts as documents of their own",
            )
        if self._request is None or self.output is None:
            raise InvalidArgument(
                "the probabilities of fields need the model, which this extraction does not have",
                action="read `fields` in the process that generated it",
            )
        generator, messages = self._request
        prompt = generator.model.encode(messages, chat=generator.chat)
        return score_fields(
            generator.model,
            generator.automaton,
            prompt,
            self.output.tokens,
            is_json=generator.constraint.is_json,
            ended=self.output.finish == "end",
        )

    @property
    def views(self) -> list[FieldView]:
        """The scalars with their places, and with their probabilities if `fields` was read before."""
        return field_views(self.json_value, self.spans, self.__dict__.get("fields"))

    def show(self, *, document: bool = True, file: IO[str] | None = None) -> None:
        """Prints the document with the extracted values highlighted, and the values with their places.

        Args:
            document: False: only the values.
            file: where to; standard output by default. Colours are for terminals only.
        """
        from rich.console import Console

        console = Console(file=file, highlight=False)
        if self.error is not None:
            console.print(str(self.error), soft_wrap=True, markup=False)
            return
        views = self.views
        if document:
            console.print(render_document(self.document, views), soft_wrap=True)
            console.print()
        console.print(render_fields(views))

    def _repr_html_(self) -> str:
        views, title, error = self._view()
        return render_html(self.document, views, title=title, error=error)

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Writes a page: the document with the extracted values highlighted, beside the values. See `write_html`."""
        write_html([self], path)

    def _view(self) -> tuple[list[FieldView], str, str]:
        title = "" if self.id is None else str(self.id)
        return ([], title, str(self.error)) if self.error is not None else (self.views, title, "")

    def __getstate__(self) -> dict[str, Any]:
        kept = {one.name: getattr(self, one.name) for one in dataclass_fields(self)}
        return {**kept, "_request": None}  # a model stays in its process

    def __repr__(self) -> str:
        shown: Any = self.error if self.error is not None else self.value
        name = "error" if self.error is not None else "value"
        return f"Extraction(id={self.id!r}, {name}={shown!r})"


def write_html(
    extractions: Iterable[Extraction[Any]], path: str | os.PathLike[str], *, title: str = "Extractions"
) -> None:
    """Writes a page of HTML that shows extractions beside their documents; it needs no network and runs no script.

    Args:
        extractions: shown one below the other; errors are shown too.
        path: of the page.
        title: of the page.
    """
    with Path(path).open("w", encoding="utf-8", errors="replace") as file:
        file.writelines(html_page(((one.document, *one._view()) for one in extractions), title=title))
