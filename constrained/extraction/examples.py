"""Examples for the prompt, checked against the constraint before the model runs."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.automaton import Automaton
from constrained.automaton.protocol import DEAD
from constrained.constraint import Constraint
from constrained.constraint.json_text import write_exact
from constrained.errors import ConstrainedError, InvalidArgument, VocabularyError
from constrained.extraction.values.exact_json import in_schema_order

_FORM = (
    "pass examples=[(text, value), ...]; a value is an instance of the type, a JSON value, or its JSON text"
)
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class PromptExample:
    """An example as the model sees it.

    Attributes:
        text: a text.
        answer: the completion that is right for it.
    """

    text: str
    answer: str


def check_examples(examples: Any, constraint: Constraint, automaton: Automaton) -> tuple[PromptExample, ...]:
    """The examples as completions that the constraint accepts.

    Args:
        examples: pairs of a text and its value.
        constraint: what the values have to satisfy.
        automaton: the compiled constraint.

    Raises:
        InvalidArgument: not a list of pairs, or a value that the constraint does not accept; names its index.
    """
    if isinstance(examples, str | bytes | Mapping) or not isinstance(examples, Sequence):
        raise InvalidArgument(f"examples is of type {type(examples).__name__}", action=_FORM)
    return tuple(_check(i, example, constraint, automaton) for i, example in enumerate(examples))


def _check(number: int, example: Any, constraint: Constraint, automaton: Automaton) -> PromptExample:
    if not isinstance(example, tuple | list) or len(example) != 2 or not isinstance(example[0], str):
        raise InvalidArgument(f"example {number} is not a pair of a text and a value", action=_FORM)
    text, value = example
    tried: list[str] = []
    for answer in answer_texts(value, constraint):
        if accepts_text(automaton, answer):
            _check_value(number, answer, constraint)
            return PromptExample(text.strip(), answer)
        tried.append(answer)
    shown = tried[0] if tried else repr(value)
    shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
    problems = constraint.problems(tried[0]) if tried else []
    raise InvalidArgument(
        f"the value of example {number} does not satisfy {constraint.render()}: {shown}",
        problems,
        action="correct the value, or the constraint",
    )


def _check_value(number: int, answer: str, constraint: Constraint) -> None:
    try:
        constraint.parse(answer)
    except ConstrainedError as error:
        raise InvalidArgument(
            f"the value of example {number} is refused: {error.summary}", action="correct the value"
        ) from error


def answer_texts(value: Any, constraint: Constraint) -> Iterator[str]:
    """Completions that could stand for a value, in the forms that a constraint may want."""
    if isinstance(value, str):
        yield value
    if not constraint.is_json:
        if isinstance(value, bool | int | float | enum.Enum):
            yield str(value.value if isinstance(value, enum.Enum) else value)
        return
    schema = constraint.local_schema
    for decimals in (False, True):
        try:
            plain = to_json(value, decimals_as_strings=decimals)
            ordered = in_schema_order(plain, schema, schema)
            for separators in json_separators(constraint):
                yield write_exact(ordered, separators)
        except TypeError:
            continue


def json_separators(constraint: Constraint) -> list[tuple[str, str]]:
    """The separators that JSON of a constraint may have, those that it asks for first."""
    named = constraint.json_options.separators
    return [*([named] if named else []), (", ", ": "), (",", ":")]


def to_json(value: Any, *, decimals_as_strings: bool = False) -> Any:
    """A Python value as JSON: models, dataclasses, enumerations, dates and collections.

    Members of models and dataclasses that have their default are left out.

    Raises:
        TypeError: part of it has no JSON form.
    """

    def convert(part: Any) -> Any:
        import datetime
        import decimal
        import pathlib
        import uuid

        if part is None or isinstance(part, str | bool | int | float):
            return part.value if isinstance(part, enum.Enum) else part
        if isinstance(part, enum.Enum):
            return convert(part.value)
        if isinstance(part, decimal.Decimal):
            return str(part) if decimals_as_strings else part
        if isinstance(part, datetime.date | datetime.time):
            return part.isoformat()
        if isinstance(part, uuid.UUID | pathlib.PurePath):
            return str(part)
        if hasattr(part, "model_dump"):
            mode = "json" if decimals_as_strings else "python"
            return convert(part.model_dump(mode=mode, exclude_unset=True, by_alias=True))
        if dataclasses.is_dataclass(part) and not isinstance(part, type):
            return {
                field.name: convert(getattr(part, field.name))
                for field in dataclasses.fields(part)
                if field.default is dataclasses.MISSING or getattr(part, field.name) != field.default
            }
        if isinstance(part, Mapping):
            return {
                name.value if isinstance(name, enum.Enum) else name: convert(one)
                for name, one in part.items()
            }
        if isinstance(part, list | tuple | set | frozenset):
            names = getattr(part, "_fields", None)
            return (
                [convert(one) for one in part]
                if names is None
                else {n: convert(v) for n, v in zip(names, part, strict=True)}
            )
        raise TypeError(f"a {type(part).__name__} has no JSON form")

    return convert(value)


def accepts_text(automaton: Automaton, text: str) -> bool:
    """Whether a text is a complete text of a constraint, exactly as the automaton would generate it."""
    state = automaton.start
    try:
        for token in automaton.vocabulary.encode(text):
            state = automaton.next(state, token)
            if state == DEAD:
                return False
    except (VocabularyError, UnicodeError):
        return False
    return automaton.accepts(state)
