"""`Document` and `Extraction`: what is read, and what became of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Generic

from constrained.decisions import Decision
from constrained.decoding.output import Output, ValueT
from constrained.errors import ConstrainedError, InvalidArgument
from constrained.extraction.completion_scores import ScoredRequest, completion_tax, output_fields
from constrained.extraction.quantities import StatedMember
from constrained.extraction.values.document_view import (
    FieldView,
    field_views,
    html_page,
    render_document,
    render_fields,
    render_html,
)
from constrained.extraction.values.fields import FieldProbability, by_doubt
from constrained.extraction.values.grounding import NO_SPAN, SpanMatch, find_spans, json_value


@dataclass(frozen=True, slots=True)
class Document:
    """A text to extract from, perhaps with images.

    Attributes:
        id: names the document in results; None: its number in the iterable, from 0.
        text: what is read; it may be empty beside images.
        images: what is read before it, as parts of a message's content, see `constrained.prompting.images`.
    """

    id: str | int | None
    text: str
    images: tuple[Mapping[str, Any], ...] = ()


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


@dataclass(frozen=True, slots=True)
class FailedPart:
    """A part of a document from which nothing was read.

    Attributes:
        start: offset of its first character in the document.
        end: offset behind its last character.
        error: why.
    """

    start: int
    end: int
    error: ConstrainedError


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
        failed: the parts without a value, in whose place the others were merged.
        decisions: the closed members, numbers, dates and strings that were decided, with the probability of each option, by JSON Pointer.
        first_pass: what the model wrote before the value: the draft (``draft_first=True``), or the reasoning (``thinking=``); None
            without these, and for a document that was read in parts.
    """

    # Generator and prompt of `output`, or of each part, for `fields`.

    id: str | int | None
    document: str
    output: Output[ValueT] | None = None
    error: ConstrainedError | None = None
    attempts: int = 1
    parts: tuple[Part, ...] = ()
    origins: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    merged: tuple[str, ValueT] | None = None
    failed: tuple[FailedPart, ...] = ()
    first_pass: str | None = None
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    _requests: tuple[ScoredRequest, ...] = field(default=(), repr=False)
    _stated: Sequence[StatedMember] = field(default=(), repr=False)

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
        return standard_text(self.output)

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

        A value of a part is looked for in that part, and in the whole document only if it is not there.

        Raises:
            ConstrainedError: `error`, if there is one.
        """
        whole = find_spans(self.document, self.json_value)
        if self.merged is None:
            return whole
        parts = [part_spans(self.document, part) for part in self.parts]
        spans = {}
        for pointer, match in whole.items():
            part, place = self.origins.get(pointer, (0, None))
            found = NO_SPAN if place is None else parts[part].get(place, NO_SPAN)
            spans[pointer] = match if found.start is None else found
        return spans

    @cached_property
    def fields(self) -> dict[str, FieldProbability]:
        """How likely each scalar of the value was under the model, by JSON Pointer; one more pass of the model.

        For a document that was read in parts: under the model as it read the part that the value came from.

        Raises:
            ConstrainedError: `error`, if there is one.
            InvalidArgument: the model is not known any more, as after unpickling.
        """
        requests = self._known_requests()
        if self.merged is None:
            assert self.output is not None
            return output_fields(requests[0], self.output)
        scored = {
            part: output_fields(requests[part], self.parts[part].output)
            for part in {part for part, _ in self.origins.values()}
        }
        return {
            pointer: scored[part][place]
            for pointer, (part, place) in self.origins.items()
            if place in scored[part]  # and not an empty array or object
        }

    @cached_property
    def projection_tax(self) -> float:
        """What the constraint cost the model: -log, in nats, of the mass that it left of what the model would write, over all tokens.

        It is the `-log_weight` that a completion with weights has at temperature 1; one more pass of the model for each part.

        Raises:
            ConstrainedError: as `fields`.
        """
        outputs = [part.output for part in self.parts] if self.merged is not None else [self.output]
        requests = self._known_requests()
        return sum(
            completion_tax(request, output)
            for request, output in zip(requests, outputs, strict=True)
            if output is not None
        )

    def doubts(self) -> list[tuple[str, FieldProbability]]:
        """`fields`, first those that the model would least have written by itself.

        Raises:
            ConstrainedError: as `fields`.
        """
        return by_doubt(self.fields)

    def _known_requests(self) -> tuple[ScoredRequest, ...]:
        if self.error is not None:
            raise self.error
        if not self._requests:
            raise InvalidArgument(
                "the probabilities of fields need the model, which this extraction does not have",
                action="read `fields` in the process that generated it",
            )
        return self._requests

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
        return {**kept, "_requests": ()}  # a model stays in its process

    def __repr__(self) -> str:
        shown: Any = self.error if self.error is not None else self.value
        name = "error" if self.error is not None else "value"
        return f"Extraction(id={self.id!r}, {name}={shown!r})"


def standard_text(output: Output[Any]) -> str:
    """The text of a completion in the standard form of its constraint; see `Constraint.standard_text`."""
    constraint = None if output.automaton is None else output.automaton.constraint
    return output.text if constraint is None else constraint.standard_text(output.text)


def part_spans(document: str, part: Part) -> dict[str, SpanMatch]:
    """Where the scalars of a part's value stand in the document, by their JSON Pointers in the part's value."""
    text = document[part.start : part.end]
    return {
        pointer: match.moved(part.start)
        for pointer, match in find_spans(text, json_value(standard_text(part.output), part.output)).items()
    }


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
