"""Types that pydantic (version 2) defines: their schema and their validation are pydantic's own.

Pydantic is imported when the first of its types is read. Its schemas are adjusted where they allow more than its
validation accepts: see `_generator`.
"""

from __future__ import annotations

import enum
import functools
import itertools
import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, get_origin

from constrained.grammars.content import CHECKED_KEYWORD, CONTENT_KEYWORD
from constrained.grammars.types import core_schemas
from constrained.grammars.types.containers import NO_KEYS, SCALARS_ALONE, key_schema
from constrained.grammars.types.contents import UnsupportedMetadata
from constrained.grammars.types.metadata import IGNORED_PATTERN, LENGTHS, find_ignored_pattern

_PYDANTIC_ATTRIBUTES = ("__get_pydantic_core_schema__", "__pydantic_core_schema__")


class PydanticSchemaError(Exception):
    """Pydantic has no schema for a type; the message is its reason, `place` the field within the type."""

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(reason)
        self.place = place


def is_pydantic(thing: Any) -> bool:
    """Whether pydantic reads this type or this piece of `Annotated` metadata."""
    origin = get_origin(thing) or thing  # `Secret[date]` is a class with an argument
    marked = isinstance(origin, type) and any(hasattr(origin, mark) for mark in _PYDANTIC_ATTRIBUTES)
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


def pydantic_schema(adapter: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type, its own definitions moved to `definitions` under names that are free there."""
    if (place := find_ignored_pattern(adapter._type)) is not None:
        raise PydanticSchemaError(IGNORED_PATTERN, place)
    further = (f"{{model}}_{number}" for number in itertools.count(2))
    for template in itertools.chain(["{model}"], further):
        try:
            schema = adapter.json_schema(
                mode="validation", schema_generator=_generator(), ref_template=f"#/$defs/{template}"
            )
        except PydanticSchemaError as refused:
            raise PydanticSchemaError(str(refused), _blame(adapter)) from None
        except _failures() as error:
            raise PydanticSchemaError(_first_line(error), _blame(adapter)) from None
        own = {template.format(model=name): body for name, body in schema.pop("$defs", {}).items()}
        if all(definitions.get(name, body) == body for name, body in own.items()):
            definitions.update(own)
            return dict(schema)
    raise AssertionError("unreachable: templates are endless")


def _failures() -> tuple[type[Exception], ...]:
    from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

    return PydanticUserError, PydanticUndefinedAnnotation, UnsupportedMetadata


def _first_line(error: Exception) -> str:
    line = str(error).splitlines()[0].rstrip(".")
    core = re.search(r"core_schema\.(\w+?)Schema\b(?: \((.*)\))?", line)
    return f"pydantic has no JSON Schema for {core[1].lower()}" if core else line


def _blame(adapter: Any) -> str:
    """The field of a model that has no schema, as `.field`; empty if no single field is the reason."""
    from pydantic import AliasPath, TypeAdapter

    refused: tuple[type[Exception], ...] = (PydanticSchemaError, *_failures())
    fields = getattr(getattr(adapter._type, "__origin__", adapter._type), "__pydantic_fields__", None) or {}
    for name, field in fields.items():
        hint: Any = Annotated.__class_getitem__((field.annotation, *field.metadata, ""))  # type: ignore[attr-defined]
        inner: Any = TypeAdapter(hint)
        try:
            inner.json_schema(schema_generator=_generator())
        except refused:
            return f".{name}{_blame(inner)}"
    paths = [name for name, field in fields.items() if isinstance(field.validation_alias, AliasPath)]
    return f".{paths[0]}" if paths else ""


@functools.cache
def _generator() -> Any:
    """Pydantic's schema generator, with these differences.

    * Objects are closed unless the model takes extra keys.
    * A discriminated union is `anyOf` with the discriminator required in every member, as validation requires it.
    * `Decimal` is a number, or a string of digits if all digits are counted.
    * Keys of dicts are the texts of their type; items of sets are hashable; bounds of lengths are those of the kind of value.
    * What pydantic never reads from JSON is refused: members of plain enums in a `Literal`, enums of tuples, aliases that are paths.
    * `type[T]` and `ImportString` are refused, where pydantic would take any value and then refuse it.
    * What a type checks beyond JSON Schema stands in the keywords of `constrained.grammars.content`.
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

        def datetime_schema(self, schema: Any) -> Any:
            return super().datetime_schema(schema) | core_schemas.content_of_datetime(schema)

        def date_schema(self, schema: Any) -> Any:
            return super().date_schema(schema) | core_schemas.content_of_date(schema)

        def time_schema(self, schema: Any) -> Any:
            return super().time_schema(schema) | core_schemas.content_of_time(schema)

        def timedelta_schema(self, schema: Any) -> Any:
            made = super().timedelta_schema(schema) | {CONTENT_KEYWORD: {"duration": {}}}
            if self._config.ser_json_timedelta == "float":
                most = int(timedelta(days=timedelta.max.days).total_seconds())
                made = {"anyOf": [made, {"type": "number", "minimum": -most, "maximum": most}]}
            return made | core_schemas.checked_bounds(schema)

        def bytes_schema(self, schema: Any) -> Any:
            made = {
                name: value for name, value in super().bytes_schema(schema).items() if "Length" not in name
            }
            said = getattr(self._config, "val_json_bytes", None)  # since pydantic 2.9
            if said == "base64":
                made[CONTENT_KEYWORD] = {"base64": {"alphabet": "url", "text": False}}
            elif said == "hex":
                made["pattern"] = "^(?:[0-9a-f]{2})*$"
            return made | core_schemas.checked_lengths(schema)

        def literal_schema(self, schema: Any) -> Any:
            for value in schema["expected"]:
                if not core_schemas.reads_from_json(value):
                    raise PydanticSchemaError(
                        f"pydantic does not read {value!r} of a Literal from JSON: use its value, or an Enum that is a str or an int, too"
                    )
            return super().literal_schema(schema)

        def enum_schema(self, schema: Any) -> Any:
            for member in schema["members"]:
                if not isinstance(member.value, str | int | float | None):
                    raise PydanticSchemaError(
                        f"pydantic does not read the value {member.value!r} of {member!r} from JSON: use str"
                    )
            made = super().enum_schema(schema)
            if issubclass(schema["cls"], enum.Flag):
                made |= {"enum": core_schemas.combined_flags(schema["members"])}
            return made

        def dict_schema(self, schema: Any) -> Any:
            keys = schema.get("keys_schema")
            without: Any = {name: part for name, part in schema.items() if name != "keys_schema"}
            made = super().dict_schema(without)
            if keys is None:
                return made
            names = key_schema(self.generate_inner(keys), self.get_schema_from_definitions)
            if names is None:
                raise PydanticSchemaError(f"keys of type {keys['type']}{NO_KEYS}")
            if not core_schemas.keys_are_read(keys):
                raise PydanticSchemaError(
                    "pydantic reads no key that is a number of a Literal or of a plain Enum: use int, IntEnum or strings"
                )
            return made if names == {"type": "string"} else {**made, "propertyNames": names}

        def counter_schema(self, schema: Any) -> Any:
            return self.dict_schema(schema)

        def fraction_schema(self, schema: Any) -> Any:
            return super().fraction_schema(schema) | core_schemas.checked_bounds(schema)

        def float_schema(self, schema: Any) -> Any:
            step = schema.get("multiple_of")
            inexact = step is not None and Decimal(step) != Decimal(repr(step))
            checked = {CHECKED_KEYWORD: f"multiple_of {step}, which no binary number is"} if inexact else {}
            return super().float_schema(schema) | checked

        def set_schema(self, schema: Any) -> Any:
            return self._of_hashable(super().set_schema(schema), schema)

        def frozenset_schema(self, schema: Any) -> Any:
            return self._of_hashable(super().frozenset_schema(schema), schema)

        def _of_hashable(self, made: Any, schema: Any) -> Any:
            items = schema.get("items_schema", {"type": "any"})
            if core_schemas.unhashable(items):
                raise PydanticSchemaError(
                    "the items of a set have to be hashable: use list, or frozen classes"
                )
            return made if made.get("items") else {**made, "items": SCALARS_ALONE}

        def custom_error_schema(self, schema: Any) -> Any:
            hashable = schema["custom_error_type"] == "is_hashable"
            return dict(SCALARS_ALONE) if hashable else super().custom_error_schema(schema)

        def url_schema(self, schema: Any) -> Any:
            return super().url_schema(schema) | core_schemas.content_of_url(schema)

        def multi_host_url_schema(self, schema: Any) -> Any:
            return super().multi_host_url_schema(schema) | core_schemas.content_of_url(schema, hosts=True)

        def complex_schema(self, schema: Any) -> Any:
            return super().complex_schema(schema) | {CONTENT_KEYWORD: {"complex": {}}}

        def json_schema(self, schema: Any) -> Any:
            return {"contentSchema": {}} | super().json_schema(schema) | {CONTENT_KEYWORD: {"json": None}}

        def str_schema(self, schema: Any) -> Any:
            config = {
                "strip_whitespace": self._config.str_strip_whitespace,
                "min_length": self._config.str_min_length or None,
            }
            return super().str_schema(schema) | core_schemas.without_outer_space(config | schema)

        def function_after_schema(self, schema: Any) -> Any:
            return self._checked(super().function_after_schema(schema), schema)

        def function_before_schema(self, schema: Any) -> Any:
            return self._checked(super().function_before_schema(schema), schema)

        def function_wrap_schema(self, schema: Any) -> Any:
            return self._checked(super().function_wrap_schema(schema), schema)

        def generate_inner(self, schema: Any) -> Any:
            if schema["type"] == "function-plain" and core_schemas.function_name(schema) == "import_string":
                raise PydanticSchemaError(
                    "ImportString: which names can be imported is not known; use a Literal of them, or str"
                )
            by_name = any(
                getattr(self._config, name, None) for name in ("populate_by_name", "validate_by_name")
            )
            if not by_name and core_schemas.only_paths(schema.get("validation_alias")):
                raise PydanticSchemaError(
                    "its alias is a path, which no schema says: give it a plain alias, too"
                )
            made = super().generate_inner(schema)
            return self._counted(made, schema) if core_schemas.length_of(schema) else made

        def _counted(self, made: Any, schema: Any) -> Any:
            """The schema of what pydantic measures by a function, with the bound that its kind of value has."""
            bounds = {name: made.pop(name) for name in ("minLength", "maxLength") if name in made}
            kinds = (
                set()
                if core_schemas.is_object(schema)
                else core_schemas.kinds_of(made, self.get_schema_from_definitions)
            )
            for kind in sorted(kinds & LENGTHS.keys()):
                made |= {name.replace("Length", LENGTHS[kind]): bound for name, bound in bounds.items()}
            return made

        def function_plain_schema(self, schema: Any) -> Any:
            return self._checked(super().function_plain_schema(schema), schema)

        def _checked(self, made: Any, schema: Any) -> Any:
            """The schema of a function, with what the function checks."""
            if core_schemas.function_name(schema) == "ByteSize._validate":
                strings: dict[str, Any] = {CONTENT_KEYWORD: {"byte size": {}}}
                members = [part | strings if part.get("type") == "string" else part for part in made["anyOf"]]
                return made | {"anyOf": members}
            found = core_schemas.content_of_function(schema)
            if not found or (core_schemas.length_of(schema) and not core_schemas.is_object(schema)):
                return made
            if (
                found.keys() == {CHECKED_KEYWORD} and "$ref" in made
            ):  # beside the reference it would hide the model
                body = self.get_schema_from_definitions(made["$ref"])
                if body is not None:
                    body.update(core_schemas.merged_checks(body, found))
                return made
            return made | core_schemas.merged_checks(made, found)

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
            if not counted:
                return number
            most, places = schema.get("max_digits"), schema.get("decimal_places")
            if places is not None and most is None and schema.get("multiple_of") is None:
                return number | {"multipleOf": 1 if places == 0 else float(f"1e-{places}")}
            return {"type": "string", "pattern": _digits(most, places), CONTENT_KEYWORD: {"json": number}}

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
