"""Python types as JSON Schema, and the conversion of JSON values to instances.

`type_spec(T)` reads a type into a `TypeSpec`: the schema that its JSON follows (draft 2020-12) and `build`, which
converts a JSON value of that schema to a value of the type. Must not know: automata, models, prompts.

    kinds.py       dispatch: the reader for each kind of type
    reader.py      the state of reading one type: definitions, recursion, names, unsupported parts
    containers.py  lists, tuples, sets, dicts and their keys
    values.py      Literal and Enum; which member of a union a JSON value belongs to
    scalars.py     str, int, Decimal, datetime, UUID, ...: one table entry each
    records.py     dataclasses, TypedDict, NamedTuple, callables: types with named fields
    metadata.py    metadata of `Annotated`, bounds, lengths, descriptions; docstrings
    contents.py    strings of a constraint, of a type or of the document (`Span`): the schema for the grammar and that for a prompt
    models.py      types that pydantic (version 2) defines, read by pydantic
    core_schemas.py  what its core schemas say and its JSON Schemas do not
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from constrained.grammars.content import StringConstraint
from constrained.grammars.types.contents import enforced, shown
from constrained.grammars.types.kinds import read_type
from constrained.grammars.types.reader import TypeReader, name_of

__all__ = ["TypeSpec", "type_spec"]


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """A Python type as JSON Schema, and the function that builds its values.

    Attributes:
        schema: JSON Schema, draft 2020-12. Named types that are recursive or nested are under `$defs`.
        enforced_schema: for the grammar: `schema` with the strings that the types read and check, where JSON Schema
            says less or something else (`constrained.grammars.content`).
        contents: constraints in ``Annotated[str, ...]``, by the names that `enforced_schema` uses.
        build: JSON value (as `json.loads` gives it) -> value of the type. Raises a `ValueError` for a value
            that does not follow the schema, and any exception that the type's own code raises
            (`__post_init__`, pydantic validators).
        title: the type's name, for messages.
    """

    schema: dict[str, Any]
    enforced_schema: dict[str, Any]
    contents: Mapping[str, StringConstraint]
    build: Callable[[Any], Any]
    title: str


def type_spec(hint: Any) -> TypeSpec:
    r"""Reads a Python type.

    | type | JSON | built back into |
    |---|---|---|
    | `str int float bool None Any`, `Decimal` | as is (`Decimal`: number) | the same |
    | `datetime date time UUID timedelta`, `Path`, `ipaddress` types, `complex`, `Fraction`, `bytes`, `re.Pattern` | string; a date-time or time has an offset or none | the same; a month of a duration is 30 days, a year 365, as in pydantic |
    | `list[T]`, `Sequence[T]`, `deque[T]`, `tuple[T, ...]`, `tuple[A, B]` | array | list, deque, tuple |
    | `set[T]`, `frozenset[T]` | array of unique items | set, frozenset |
    | `Annotated[str, constraint]` | string that contains a text of the constraint | str |
    | `dict[K, T]`, `Mapping[K, T]`, `defaultdict`, `OrderedDict`, `Counter` | object; keys are the texts of their JSON values | dict, or its kind |
    | `Literal`, `Enum` | the values | the value, the member |
    | `Optional`, `Union`, `X \| Y` | any of them | the most specific member that fits, the first of equals |
    | dataclass, `TypedDict`, `NamedTuple` | closed object, fields in order | instance (dict for a `TypedDict`) |
    | pydantic model, dataclass, `TypeAdapter`, pydantic's own types | as pydantic says | validated by pydantic |
    | function | object of its parameters | dict of keyword arguments |

    Fields with a default are optional in the schema. Objects are closed (`additionalProperties: false`), those
    of pydantic models too unless they say `extra="allow"`: pydantic would drop other keys, so nothing is gained
    by generating them. The tag of a discriminated union is required, because pydantic needs it. Docstrings,
    `Annotated[T, "text"]`, `field(metadata={"description": ...})` and pydantic descriptions become `description`.

    Args:
        hint: a type, or anything that may stand in an annotation.

    Raises:
        UnsupportedConstraint: parts of the type have no JSON Schema; names the place of each,
            such as `Order.items[].price`.
        InvalidConstraint: an annotation cannot be resolved.
        UnsatisfiableConstraint: an `Enum` without members.
    """
    reader = TypeReader(read_type)
    title = name_of(hint)
    schema, build = reader.document(hint, title)
    contents = reader.contents
    return TypeSpec(shown(schema, contents), enforced(schema), contents, build, title)
