"""The state of reading one type: definitions of named types, unsupported parts, names for messages.

`kinds.py` reads each kind of type, and passes its `read` to the `TypeReader`.
"""

from __future__ import annotations

import inspect
import itertools
import re
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from constrained.grammars.errors import Problem, UnsupportedConstraint
from constrained.grammars.types.contents import Contents

ValueBuilder = Callable[[Any], Any]
SchemaAndBuilder = tuple[dict[str, Any], ValueBuilder]


@dataclass(slots=True, eq=False)
class TypeNode:
    """One part of a type.

    Attributes:
        schema: of its JSON values; a reference for a named type.
        build: JSON value -> value of the type. A named type that is still being read has none yet, so this is
            looked up when values are built, never before.
    """

    schema: dict[str, Any]
    build: ValueBuilder


class TypeReader:
    """One reading of one type.

    Attributes:
        definitions: name -> schema of the named types met so far.
        contents: constraints of strings met so far, by key.
        owner: the record whose fields are being read, for `Self`; None outside of any.
    """

    def __init__(self, read: Callable[[TypeReader, Any, str], TypeNode]) -> None:
        self._read = read
        self.definitions: dict[str, dict[str, Any]] = {}
        self.contents: Contents = {}
        self.owner: Any = None
        self._named: dict[Any, TypeNode] = {}
        self._uses: dict[str, int] = {}
        self._local: dict[str, Any] = {}
        self._problems: list[Problem] = []

    def document(self, hint: Any, title: str) -> SchemaAndBuilder:
        """The schema of a whole type with its `$defs`, and the function that builds its values.

        Raises:
            UnsupportedConstraint: naming every part that has no JSON Schema.
        """
        node = self.read(hint, title)
        if self._problems:
            count = len(self._problems)
            raise UnsupportedConstraint(
                f"{count} part{'s' if count > 1 else ''} of {title} cannot be expressed in JSON Schema",
                self._problems,
            )
        schema = node.schema
        name = definition_name(schema)
        if self._uses.get(name) == 1 and schema.keys() == {"$ref"}:
            schema = self.definitions.pop(name)
        return (schema | {"$defs": self.definitions} if self.definitions else schema), node.build

    def read(self, hint: Any, path: str) -> TypeNode:
        """The node of a type; `path` is its place (`Order.items[]`)."""
        return self._read(self, hint, path)

    def define(self, hint: Any, lower: Callable[[], SchemaAndBuilder]) -> TypeNode:
        """The node of a named type, read once; its schema goes under `$defs`, where it may refer to itself."""
        node = self._known(hint)
        if node is None:
            name = next(name for name in _names(hint) if name not in self.definitions)
            node = self._named[_key(hint)] = TypeNode({"$ref": f"#/$defs/{name}"}, _unfinished)
            self._uses[name] = 1
            self.definitions[name] = {}
            self.definitions[name], node.build = lower()
        return node

    def define_shared(self, hint: Any, lower: Callable[[], SchemaAndBuilder]) -> TypeNode:
        """The node of a named type that does not refer to itself, or does so by definitions of its own.

        An equal definition that exists already is shared.
        """
        node = self._known(hint)
        if node is None:
            schema, build = lower()
            if schema.keys() != {"$ref"}:
                name = next(name for name in _names(hint) if self.definitions.get(name, schema) == schema)
                self._uses[name] = self._uses.get(name, 0) + (2 if name in self.definitions else 1)
                self.definitions[name] = schema
                schema = {"$ref": f"#/$defs/{name}"}
            node = self._named[_key(hint)] = TypeNode(schema, build)
        return node

    def _known(self, hint: Any) -> TypeNode | None:
        node = self._named.get(_key(hint))
        if node is not None:
            name = definition_name(node.schema)
            self._uses[name] = self._uses.get(name, 0) + 1
        return node

    def local_names(self, thing: Any) -> dict[str, Any] | None:
        """Names that annotations of a class made inside a function may use although no module has them.

        They are the names of that function while it runs, and the local classes met so far.
        """
        if isinstance(thing, type) and "<locals>" in thing.__qualname__:
            inner = {name: value for name, value in vars(thing).items() if isinstance(value, type)}
            self._local |= _locals_of_maker(thing) | {thing.__name__: thing} | inner
        return dict(self._local) or None

    def refuse(self, path: str, reason: str) -> TypeNode:
        """Notes a part that has no JSON Schema; `document` reports them all."""
        self._problems.append(Problem(path, reason))
        return TypeNode({}, _unfinished)


def _locals_of_maker(thing: type) -> dict[str, Any]:
    maker = thing.__qualname__.rpartition(".<locals>")[0].rpartition(".")[2]
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == maker and frame.f_globals.get("__name__") == thing.__module__:
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def name_of(hint: Any) -> str:
    """A short name of a type for titles and messages: `Order`, `list[Order]`, `int | None`."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return name_of(hint.__origin__)
    if origin is None:
        name = getattr(hint, "__name__", None) or getattr(hint, "_name", None)
        return "None" if hint is type(None) else name if isinstance(name, str) else repr(hint)
    arguments = typing.get_args(hint)
    if origin is typing.Literal:
        return f"Literal[{', '.join(repr(value) for value in arguments)}]"
    if origin in (typing.Union, types.UnionType):
        return " | ".join(name_of(member) for member in arguments)
    inner = ", ".join("..." if part is ... else name_of(part) for part in arguments)
    return f"{name_of(origin)}[{inner}]" if inner else name_of(origin)


def definition_name(schema: dict[str, Any]) -> str:
    """The name of the definition that a schema refers to; empty if it is not a reference."""
    return str(schema.get("$ref", "")).removeprefix("#/$defs/")


def _names(hint: Any) -> Iterator[str]:
    """Names for the definition of a type, best first."""
    name = re.sub(r"\W+", "_", name_of(hint)).strip("_") or "Type"
    return itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))


def _key(hint: Any) -> Any:
    try:
        hash(hint)
    except TypeError:  # a method of an object that is not hashable
        return id(hint)
    return hint


def _unfinished(value: Any) -> Any:
    raise RuntimeError("a value was built before its type was read")
