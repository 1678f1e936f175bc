"""Types that pydantic (version 2) defines: their schema and their validation are pydantic's own.

Pydantic is imported when the first of its types is read. Its schemas are adjusted where they allow more than its
validation accepts: see `_generator`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

_PYDANTIC_ATTRIBUTES = ("__get_pydantic_core_schema__", "__pydantic_core_schema__")


class PydanticSchemaError(Exception):
    """Pydantic has no schema for a type; the message is its reason, `place` the field within the type."""

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(reason)
        self.place = place


def is_pydantic(thing: Any) -> bool:
    """Whether pydantic reads this type or this piece of `Annotated` metadata."""
    marked = isinstance(thing, type) and any(hasattr(thing, mark) for mark in _PYDANTIC_ATTRIBUTES)
    return marked or type(thing).__module__.partition(".")[0] == "pydantic" or _is_version_1(thing)


def _is_version_1(thing: Any) -> bool:
    return isinstance(thing, type) and hasattr(thing, "__fields_set__") and hasattr(thing, "__validators__")


def adapter_of(hint: Any) -> Any:
    """The `TypeAdapter` of a type (itself, if it is one)."""
    from pydantic import TypeAdapter

    if _is_version_1(hint):
        raise PydanticSchemaError(
            f"{hint.__name__} is a model of pydantic 1: use pydantic.BaseModel of version 2"
        )
    if isinstance(hint, TypeAdapter):
        return hint
    try:
        return TypeAdapter(hint)
    except _failures() as error:
        raise PydanticSchemaError(_first_line(error)) from None


def validating_builder(adapter: Any) -> Callable[[Any], Any]:
    """JSON value -> validated value. It goes through JSON text, so that strict models take dates and enums."""
    return lambda value: adapter.validate_json(json.dumps(value))


def pydantic_schema(adapter: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type, its own definitions moved to `definitions` under names that are free there."""
    for template in _templates():
        try:
            schema = adapter.json_schema(
                mode="validation", schema_generator=_generator(), ref_template=f"#/$defs/{template}"
            )
        except _failures() as error:
            raise PydanticSchemaError(_first_line(error), _blame(adapter)) from None
        own = {template.format(model=name): body for name, body in schema.pop("$defs", {}).items()}
        if all(definitions.get(name, body) == body for name, body in own.items()):
            definitions.update(own)
            return dict(schema)
    raise AssertionError("unreachable: templates are endless")


def _failures() -> tuple[type[Exception], ...]:
    from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

    return PydanticUserError, PydanticUndefinedAnnotation


def _templates() -> Iterator[str]:
    yield "{model}"
    number = 2
    while True:
        yield f"{{model}}_{number}"
        number += 1


def _first_line(error: Exception) -> str:
    line = str(error).splitlines()[0].rstrip(".")
    core = re.search(r"core_schema\.(\w+?)Schema\b(?: \((.*)\))?", line)
    return f"pydantic has no JSON Schema for {core[1].lower()}" if core else line


def _blame(adapter: Any) -> str:
    """The field of a model that has no schema, as `.field`; empty if no single field is the reason."""
    from pydantic import TypeAdapter

    fields = getattr(adapter._type, "model_fields", {})
    for name, field in fields.items() if isinstance(fields, dict) else ():
        inner = TypeAdapter(field.annotation)
        try:
            inner.json_schema(schema_generator=_generator())
        except _failures():
            return f".{name}{_blame(inner)}"
    return ""


@functools.cache
def _generator() -> Any:
    """Pydantic's schema generator, with these differences.

    * Objects are closed unless the model takes extra keys.
    * A discriminated union is `anyOf` with the discriminator required in every member, as validation requires it.
    * `Decimal` is a number, or a string of digits if digits are counted.
    * `type[T]` is refused, where pydantic would take any value and then refuse it.
    * Fields have no title of their own, and keys keep their order.
    """
    from pydantic.json_schema import GenerateJsonSchema

    class _PydanticJsonSchema(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

        def sort(self, value: Any, parent_key: str | None = None) -> Any:
            return value

        def generate(self, schema: Any, mode: Any = "validation") -> Any:
            document = super().generate(schema, mode)
            _require_tags(document, document.get("$defs", {}))
            return document

        def model_schema(self, schema: Any) -> Any:
            return _closed(super().model_schema(schema))

        def dataclass_schema(self, schema: Any) -> Any:
            return _closed(super().dataclass_schema(schema))

        def typed_dict_schema(self, schema: Any) -> Any:
            return _closed(super().typed_dict_schema(schema))

        def is_subclass_schema(self, schema: Any) -> Any:
            return self.handle_invalid_for_json_schema(schema, "core_schema.IsSubclassSchema")

        def tagged_union_schema(self, schema: Any) -> Any:
            made = super().tagged_union_schema(schema)
            if "oneOf" in made:
                made["anyOf"] = made.pop("oneOf")
            return made

        def decimal_schema(self, schema: Any) -> Any:
            counted = schema.get("max_digits") is not None or schema.get("decimal_places") is not None
            bounded = any(schema.get(bound) is not None for bound in ("ge", "gt", "le", "lt", "multiple_of"))
            if counted and not bounded:
                return {
                    "type": "string",
                    "pattern": _digits(schema.get("max_digits"), schema.get("decimal_places")),
                }
            made = super().decimal_schema(schema)
            number = next((part for part in made.get("anyOf", ()) if part.get("type") == "number"), made)
            if counted:
                number |= _counted(schema)
            return number

    return _PydanticJsonSchema


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    return schema


def _require_tags(document: Any, definitions: dict[str, Any]) -> None:
    """Replaces every `discriminator` (an OpenAPI keyword) by `required` in the members."""
    pending = [document]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            pending += part.values()
            tag = part.get("discriminator")
            if isinstance(tag, dict) and isinstance(part.get("anyOf"), list) and "propertyName" in tag:
                del part["discriminator"]
                _require(part["anyOf"], tag["propertyName"], definitions)


def _require(members: list[Any], tag: str, definitions: dict[str, Any]) -> None:
    for member in members:
        while "$ref" in member:
            member = definitions[member["$ref"].removeprefix("#/$defs/")]
        if "anyOf" in member:
            _require(member["anyOf"], tag, definitions)
        elif tag in member.get("properties", {}) and tag not in member.get("required", []):
            member["required"] = [
                name for name in member["properties"] if name == tag or name in member.get("required", [])
            ]


def _digits(most: int | None, places: int | None) -> str:
    """Pattern of decimal numbers with limits for all digits and for those after the point."""
    if places is not None and most is not None and most <= places:
        return f"^-?0\\.[0-9]{{1,{most}}}$"  # a zero before the point counts as a digit unless digits follow
    if places is not None:
        rest = "*" if most is None else f"{{0,{most - places - 1}}}"
        return f"^-?(?:0|[1-9][0-9]{rest}){_fraction(places)}$"
    assert most is not None
    sized = [f"[1-9][0-9]{{{size - 1}}}{_fraction(most - size)}" for size in range(1, most + 1)]
    return f"^-?(?:{'|'.join([f'0{_fraction(most)}', *sized])})$"


def _fraction(places: int) -> str:
    return f"(?:\\.[0-9]{{1,{places}}})?" if places else ""


def _counted(schema: Any) -> dict[str, Any]:
    """Digit counts of a bounded number, as far as numeric keywords can express them."""
    from pydantic.errors import PydanticInvalidForJsonSchema

    most, places = schema.get("max_digits"), schema.get("decimal_places")
    if places is None or most is not None or schema.get("multiple_of") is not None:
        raise PydanticInvalidForJsonSchema("a Decimal with both max_digits and bounds has no JSON Schema")
    return {"multipleOf": 1 if places == 0 else float(f"1e-{places}")}
