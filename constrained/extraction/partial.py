"""Values while they are generated: `Partial` instances, and complete items of an array."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, get_args

from constrained.constraint import Constraint, python_type
from constrained.decoding import Generator
from constrained.decoding.cut import OnLimit, truncation_first
from constrained.decoding.output import ValueT
from constrained.decoding.partial_json import TOKEN
from constrained.errors import InvalidArgument
from constrained.extraction.extraction import Extraction
from constrained.extraction.read import ListsRead
from constrained.extraction.values.exact_json import resolve

if TYPE_CHECKING:
    from constrained.extraction.closed_members import MemberQuestions
    from constrained.extraction.first_pass import FirstText


@dataclass(frozen=True)
class Partial(Generic[ValueT]):
    """What a completion says so far. Members are attributes: ``partial.name``, ``partial.address.city``.

    A member that has not begun raises `AttributeError`; ``"name" in partial`` tells. Strings are as far as they go, numbers and
    names are there when they are complete. Values are JSON: dates are strings, for instance.

    Attributes:
        json: the JSON value so far; None before the first one. For a constraint that is not JSON: the text so far.
        text: the text so far.
        result: the result, in the last item of a stream; None before.
    """

    json: Any
    text: str = ""
    result: Extraction[ValueT] | None = None

    def __getattr__(self, name: str) -> Any:
        members = self.__dict__.get("json")
        if isinstance(members, Mapping) and name in members:
            value = members[name]
            return Partial[Any](value) if isinstance(value, Mapping) else value
        raise AttributeError(f"there is no {name!r} yet")

    def __contains__(self, name: object) -> bool:
        return isinstance(self.json, Mapping) and name in self.json


def stream_partials(
    generator: Generator[ValueT],
    first: FirstText,
    document: str,
    settings: Mapping[str, Any],
    on_limit: OnLimit,
    decided: MemberQuestions | ListsRead | None,
) -> Iterator[Partial[ValueT]]:
    """The value so far, for each step of a stream."""
    questions = None if isinstance(decided, ListsRead) else decided
    request = generator._request(first.prompt, questions=questions, **settings)
    chunks = generator._chunks(request, time.perf_counter())

    def partials() -> Iterator[Partial[ValueT]]:
        with truncation_first(on_limit):
            for chunk in chunks:
                if chunk.output is None:
                    yield Partial(chunk.value, chunk.text)
                    continue
                chunk.output.raise_if_cut(on_limit)
                value = json.loads(chunk.text) if generator.constraint.is_json else chunk.text
                yield Partial(
                    value,
                    chunk.text,
                    Extraction(
                        None,
                        document,
                        chunk.output,
                        first_pass=first.text,
                        decisions={} if decided is None else decided.decisions,
                        _requests=((generator, first.prompt),),
                    ),
                )

    return partials()


def item_parser(constraint: Constraint) -> Callable[[str], Any]:
    """The function that parses the text of an item of an array.

    Raises:
        InvalidArgument: the constraint is not an array.
    """
    schema = constraint.local_schema
    root = resolve(schema, schema) if constraint.is_json else None
    if not isinstance(root, Mapping) or root.get("type") != "array":
        raise InvalidArgument(
            f"items can be streamed of an array only, and not of {constraint.render()}",
            action="pass list[T], or a schema of type array; or use stream",
        )
    arguments = get_args(getattr(constraint, "hint", None))
    if len(arguments) == 1:
        return python_type(arguments[0]).parse
    return json.loads


def stream_item_values(parse: Callable[[str], Any], partials: Iterator[Partial[Any]]) -> Iterator[Any]:
    """The items of an array, each as soon as the text behind it says that it is complete."""
    done = 0  # items that were yielded
    for partial in partials:
        complete = item_texts(partial.text)
        for text in complete[done:]:
            yield parse(text)
        done = len(complete)


def item_texts(text: str) -> list[str]:
    """The texts of the complete items of an array of which `text` is a prefix."""
    items = []
    at = depth = start = 0
    while (match := TOKEN.match(text, at)) is not None:  # none behind the beginning of a string
        token, at = match.group(), match.end()
        depth += (token in "[{") - (token in "]}")
        if (token in ",[{" and depth == 1) or (token in "]}" and depth == 0):
            if token not in "[{" and text[start : match.start()].strip():
                items.append(text[start : match.start()])
            start = at
    return items
