"""Types with named fields: dataclasses, `TypedDict`, `NamedTuple`, attrs classes, and parameters of functions.

Each kind defines its fields and the construction of an instance; all share the schema and the conversion from JSON.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from constrained.grammars.content import CHECKED_KEYWORD
from constrained.grammars.errors import InvalidConstraint, Problem
from constrained.grammars.types.metadata import own_docstring, split_docstring

if TYPE_CHECKING:
    from constrained.grammars.types.reader import TypeNode, TypeReader

_QUALIFIERS = ("Required", "NotRequired", "ReadOnly", "Final")


@dataclass(frozen=True, slots=True)
class RecordField:
    """One named field: its annotation, whether it is required, its default and its description."""

    name: str
    hint: Any
    required: bool
    default: Any = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class RecordType:
    """A type with named fields.

    Attributes:
        fields: in the order of their declaration.
        make: keyword arguments -> instance.
        description: the docstring before its sections.
        check: the name of the method that checks an instance after it is made.
    """

    fields: list[RecordField]
    make: Callable[..., Any]
    description: str = ""
    check: str = ""


def lower_record(
    record: RecordType, name: str, reader: TypeReader, path: str
) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """The closed object schema of a record, and the function from such an object to an instance."""
    nodes = {field.name: reader.read(field.hint, f"{path}.{field.name}") for field in record.fields}
    schema: dict[str, Any] = {"title": name}
    if record.description:
        schema["description"] = record.description
    schema["type"] = "object"
    schema["properties"] = {field.name: _property(field, nodes[field.name]) for field in record.fields}
    required = [field.name for field in record.fields if field.required]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    if record.check:
        schema[CHECKED_KEYWORD] = record.check

    def build(value: Any) -> Any:
        if (
            not isinstance(value, dict)
            or not value.keys() <= nodes.keys()
            or not value.keys() >= set(required)
        ):
            raise ValueError(f"{value!r} is not an object with the fields of {name}")
        return record.make(**{key: node.build(value[key]) for key, node in nodes.items() if key in value})

    return schema, build


def _property(field: RecordField, node: TypeNode) -> dict[str, Any]:
    schema = dict(node.schema)
    if field.description and ("$ref" in schema or "description" not in schema):
        schema["description"] = field.description
    default = field.default.value if isinstance(field.default, enum.Enum) else field.default
    if isinstance(default, (str, bool, int)) or (isinstance(default, float) and default - default == 0):
        schema["default"] = default
    return schema


def dataclass_record(hint: Any, reader: TypeReader, path: str) -> RecordType:
    """Fields that `__init__` takes; `InitVar` included, `init=False` left out."""
    declared = {field.name: field for field in dataclasses.fields(origin_class(hint))}

    def said(name: str) -> str:
        field = declared.get(name)
        text = field.metadata.get("description") if field else None
        text = text or getattr(field, "doc", None)  # `field(doc=...)` of Python 3.14
        return text if isinstance(text, str) else ""

    return _of_signature(hint, reader, path, said)


def attrs_record(hint: Any, reader: TypeReader, path: str) -> RecordType:
    """Fields of an attrs class under the names that `__init__` takes."""
    declared = {field.alias or field.name: field for field in origin_class(hint).__attrs_attrs__}

    def said(name: str) -> str:
        text = declared[name].metadata.get("description") if name in declared else None
        return text if isinstance(text, str) else ""

    return _of_signature(hint, reader, path, said, {alias: field.name for alias, field in declared.items()})


def _of_signature(
    hint: Any,
    reader: TypeReader,
    path: str,
    said: Callable[[str], str] = lambda name: "",
    attributes: Mapping[str, str] | None = None,
) -> RecordType:
    """The parameters by which a class or function is called.

    Args:
        hint: the class or function.
        reader: of its types.
        path: its place.
        said: descriptions by name, where there are others than those of the docstring.
        attributes: names of annotations by parameter, where they differ.
    """
    cls = origin_class(hint)
    hints = resolved_hints(hint, reader, path)
    description, documented = split_docstring(own_docstring(cls))
    fields = []
    for name, parameter in inspect.signature(cls).parameters.items():
        of_field, _ = strip_qualifiers(hints.get((attributes or {}).get(name, name), Any))
        fields.append(_field(parameter, of_field, said(name) or documented.get(name, ""), reader, path))
    checks = [name for name in ("__post_init__", "__attrs_post_init__") if hasattr(cls, name)]
    return RecordType(fields, cls, description, " and ".join(checks))


def typed_dict_record(hint: Any, reader: TypeReader, path: str) -> RecordType:
    """Keys; required without `total=False` and `NotRequired`."""
    cls = origin_class(hint)
    description, documented = split_docstring(own_docstring(cls))
    fields = []
    for name, qualified in resolved_hints(hint, reader, path).items():
        of_field, qualifiers = strip_qualifiers(qualified)
        # In annotations that are strings `NotRequired` escapes the class's own bookkeeping.
        required = "Required" in qualifiers or (
            "NotRequired" not in qualifiers and name in cls.__required_keys__
        )
        fields.append(RecordField(name, of_field, required, description=documented.get(name, "")))
    return RecordType(fields, dict, description)


def named_tuple_record(hint: Any, reader: TypeReader, path: str) -> RecordType:
    """Fields as members of an object: names help a model more than positions in an array."""
    return _of_signature(hint, reader, path)


def callable_record(function: Any, reader: TypeReader, path: str) -> RecordType:
    """Parameters by name; the value is the dict of keyword arguments to call the function with."""
    return replace(_of_signature(function, reader, path), make=dict)


def _field(
    parameter: inspect.Parameter, hint: Any, description: str, reader: TypeReader, path: str
) -> RecordField:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        reader.refuse(
            f"{path}.{parameter.name}",
            f"a parameter of kind {parameter.kind.description} has no name in JSON",
        )
    required = parameter.default is parameter.empty
    unknown = (
        required or type(parameter.default).__module__.partition(".")[0] == "attr"
    )  # attr.NOTHING: a factory
    return RecordField(parameter.name, hint, required, None if unknown else parameter.default, description)


def strip_qualifiers(hint: Any) -> tuple[Any, set[str]]:
    """The annotation without `Required`, `NotRequired`, `ReadOnly`, `Final` and `InitVar`, and which it had."""
    found: set[str] = set()
    while True:
        origin = typing.get_origin(hint)
        name = getattr(origin, "_name", None) or getattr(origin, "__name__", "")
        if isinstance(hint, dataclasses.InitVar):
            hint, name = hint.type, "InitVar"
        elif name in _QUALIFIERS:
            hint = typing.get_args(hint)[0]
        else:
            return hint, found
        found.add(name)


def origin_class(hint: Any) -> Any:
    """The class of a type that may have type arguments: `Box` of `Box[int]`."""
    return typing.get_origin(hint) or hint


def resolved_hints(hint: Any, reader: TypeReader, path: str) -> dict[str, Any]:
    """The annotations of a class or function, names resolved and type variables bound.

    Raises:
        InvalidConstraint: an annotation names something that is not defined where the class is.
    """
    thing = origin_class(hint)
    with _resolving(path):
        hints = typing.get_type_hints(
            inspect.unwrap(thing), localns=reader.local_names(thing), include_extras=True
        )
    bound = type_variable_bindings(hint)
    if not any(bound.values()):
        return hints
    return {name: substitute(value, bound[_owner(thing, name, bound)]) for name, value in hints.items()}


def alias_value(hint: Any, reader: TypeReader, path: str) -> Any:
    """What a `TypeAliasType` stands for, names in it resolved (its own too) and type variables bound.

    Raises:
        InvalidConstraint: it names something that is not defined where the alias is.
    """
    alias = origin_class(hint)
    names = {**(reader.local_names(None) or {}), alias.__name__: alias}
    with _resolving(path):
        holder = types.SimpleNamespace(__annotations__={"value": alias.__value__})
        module = vars(sys.modules.get(alias.__module__ or "", holder))
        body = typing.get_type_hints(holder, globalns=module, localns=names, include_extras=True)["value"]
    return substitute(body, next(iter(type_variable_bindings(hint).values())))


@contextlib.contextmanager
def _resolving(path: str) -> Iterator[None]:
    """Reads annotations; InvalidConstraint where one names something that is not there."""
    try:
        yield
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        raise InvalidConstraint(
            f"an annotation of {path} cannot be resolved",
            Problem(path, str(error)),
            action="define every type that it names at module level",
        ) from None


def type_variable_bindings(hint: Any) -> dict[Any, dict[Any, Any]]:
    """What each type variable stands for, in a class and in each of its generic bases."""
    cls = origin_class(hint)
    own = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(hint), strict=False))
    found: dict[Any, dict[Any, Any]] = {}
    inherited: dict[Any, Any] = {}
    for base in getattr(cls, "__orig_bases__", ()):
        for owner, bound in (
            type_variable_bindings(base).items() if origin_class(base) is not typing.Generic else ()
        ):
            found[owner] = {variable: substitute(value, own) for variable, value in bound.items()}
            inherited |= found[owner]
    return {cls: inherited | own, **found}


def _owner(cls: Any, name: str, known: Mapping[Any, Any]) -> Any:
    """The class among the known ones that declares this field."""
    declaring = (base for base in getattr(cls, "__mro__", ()) if name in getattr(base, "__annotations__", {}))
    return next((base for base in declaring if base in known), cls)


def substitute(hint: Any, bound: Mapping[Any, Any]) -> Any:
    """The annotation with type variables replaced by what they stand for."""
    if isinstance(hint, typing.TypeVar):
        return bound.get(hint, hint)
    variables = getattr(hint, "__parameters__", ())
    if not variables or (isinstance(hint, type) and typing.get_origin(hint) is None):
        return hint
    return hint[tuple(bound.get(variable, variable) for variable in variables)]
