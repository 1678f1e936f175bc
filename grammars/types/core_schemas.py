"""What pydantic's core schemas say of a type and its JSON Schemas do not: checks, what it can read from JSON, what can be hashed.

Each function of a content or of checks returns keywords to add to the JSON Schema: `CONTENT_KEYWORD` where the grammar can enforce the check,
`CHECKED_KEYWORD` where pydantic alone can make it, after generation.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from constrained.grammars.content import CHECKED_KEYWORD, CONTENT_KEYWORD

_BOUNDS = ("ge", "gt", "le", "lt")
_MARGIN = dt.timedelta(hours=2)
"""A moment in the future must still be one when its completion is validated. Whole hours and minutes, so that a type that
is read again soon has the same language."""


def content_of_datetime(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Offset, bounds, past or future of a core schema ``datetime``; the present is the time of reading."""
    if isinstance(schema.get("tz_constraint"), int):
        return {CHECKED_KEYWORD: f"the offset is {schema['tz_constraint']} seconds"}
    low, high = _limits(schema, dt.timedelta(seconds=1))
    now = dt.datetime.now(_timezone(schema)).replace(second=0, microsecond=0)
    later = now.replace(minute=0) + _MARGIN
    lows = [bound for bound in (low, later if schema.get("now_op") == "future" else None) if bound]
    highs = [bound for bound in (high, now if schema.get("now_op") == "past" else None) if bound]
    if len(lows) > 1 or len(highs) > 1:
        return {CHECKED_KEYWORD: "a bound, and past or future"}
    content = {"zone": schema.get("tz_constraint", "any")}
    content |= {"low": lows[0].isoformat()} if lows else {}
    content |= {"high": highs[0].isoformat()} if highs else {}
    return {CONTENT_KEYWORD: {"datetime": content}}


def content_of_date(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Bounds, past or future of a core schema ``date``; the present is the day of reading."""
    day = dt.timedelta(days=1)
    low, high = _limits(schema, day)
    today = dt.datetime.now(_timezone(schema)).date()
    if schema.get("now_op") == "future":
        low = max(low or dt.date.min, today + day)
    if schema.get("now_op") == "past":
        high = min(high or dt.date.max, today - day)
    content = {name: bound.isoformat() for name, bound in (("low", low), ("high", high)) if bound}
    return {CONTENT_KEYWORD: {"date": content}}


def content_of_time(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The offset of a core schema ``time``; its bounds are checked afterwards."""
    zone = schema.get("tz_constraint", "any")
    if not isinstance(zone, str):
        return {CONTENT_KEYWORD: {"time": {}}, CHECKED_KEYWORD: f"the offset is {zone} seconds"}
    return {CONTENT_KEYWORD: {"time": {"zone": zone}}} | checked_bounds(schema)


def checked_bounds(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Bounds that are checked afterwards."""
    bounds = [f"{name} {schema[name]}" for name in _BOUNDS if schema.get(name) is not None]
    return {CHECKED_KEYWORD: ", ".join(bounds)} if bounds else {}


def checked_lengths(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Lengths of bytes, where JSON Schema counts characters."""
    bounds = [
        f"{name} {schema[name]}" for name in ("min_length", "max_length") if schema.get(name) is not None
    ]
    return {CHECKED_KEYWORD: ", ".join(bounds)} if bounds else {}


def _limits(schema: Mapping[str, Any], step: dt.timedelta) -> tuple[Any, Any]:
    """The least and greatest value within `ge`, `gt`, `le` and `lt`, up to a step."""
    lows = [schema["ge"]] if schema.get("ge") is not None else []
    lows += [schema["gt"] + step] if schema.get("gt") is not None else []
    highs = [schema["le"]] if schema.get("le") is not None else []
    highs += [schema["lt"] - step] if schema.get("lt") is not None else []
    return max(lows, default=None), min(highs, default=None)


def _timezone(schema: Mapping[str, Any]) -> dt.tzinfo:
    """That of the present: pydantic's is the local one, unless the schema has an offset."""
    offset = schema.get("now_utc_offset")
    if offset is not None:
        return dt.timezone(dt.timedelta(seconds=offset))
    local = dt.datetime.now().astimezone().tzinfo
    assert local is not None
    return local


def content_of_url(schema: Mapping[str, Any], *, hosts: bool = False) -> dict[str, Any]:
    """Schemes, host and length of a core schema ``url`` or ``multi-host-url``."""
    # Pydantic fills in a default host; a default port or path alone makes an absent host an error.
    defaults = schema.get("default_host") is None and (
        schema.get("default_port") is not None or schema.get("default_path") is not None
    )
    required = bool(schema.get("host_required")) and schema.get("default_host") is None
    host = required or hosts or defaults
    content: dict[str, Any] = {
        "schemes": list(schema.get("allowed_schemes") or ()),
        "host": host,
        "hosts": hosts,
    }
    if schema.get("max_length") is not None:
        content["longest"] = schema["max_length"]
    return {CONTENT_KEYWORD: {"url": content}}


def without_outer_space(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A pattern for strings that pydantic strips before it measures them."""
    if not schema.get("strip_whitespace") or schema.get("pattern") is not None:
        return {}
    if schema.get("min_length") is None:
        return {}
    return {CONTENT_KEYWORD: {"stripped": {}}}


def _function(schema: Mapping[str, Any]) -> Any:
    function = schema["function"]["function"]
    return function.func if isinstance(function, partial) else function


def function_name(schema: Mapping[str, Any]) -> str:
    """The name of the function of a core schema ``function-*``."""
    function = _function(schema)
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


_ENFORCED = frozenset(
    {
        "ip_v4_address_validator", "ip_v6_address_validator", "ip_v4_network_validator", "ip_v6_network_validator",
        "ip_v4_interface_validator", "ip_v6_interface_validator", "IPvAnyAddress._validate",
        "IPvAnyNetwork._validate", "IPvAnyInterface._validate", "path_validator", "SecretStr", "SecretBytes",
        "pattern_either_validator", "pattern_str_validator", "pattern_bytes_validator",
        "sequence_validator", "<lambda>", "PathType.validate_file", "PathType.validate_directory", "PathType.validate_new",
        "_BaseUrl.__get_pydantic_core_schema__.<locals>.wrap_val",
        "_BaseMultiHostUrl.__get_pydantic_core_schema__.<locals>.wrap_val",
    }
)  # fmt: skip
"""Functions of pydantic whose checks are formats of the schema, or that only convert."""


def content_of_function(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What the function of a core schema ``function-*`` checks; empty if the schema says it already."""
    function, name = _function(schema), function_name(schema)
    own = str(getattr(function, "__module__", "")).partition(".")[0] == "pydantic"
    owner: Any = getattr(function, "__self__", None)
    if own and type(owner).__name__ in ("EncodedBytes", "EncodedStr"):
        alphabet = {"Base64Encoder": "standard", "Base64UrlEncoder": "url"}.get(
            getattr(owner.encoder, "__name__", "")
        )
        if alphabet is not None:
            text = type(owner).__name__ == "EncodedStr"
            return {CONTENT_KEYWORD: {"base64": {"alphabet": alphabet, "text": text}}}
    if own and name == "EmailStr._validate":
        return {CONTENT_KEYWORD: {"email": {}}}
    if own and name in _ENFORCED:
        return {}
    return {CHECKED_KEYWORD: name}


def merged_checks(schema: Mapping[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Keywords to add, beside the checks that a schema has already."""
    if CHECKED_KEYWORD in found and CHECKED_KEYWORD in schema:
        return {**found, CHECKED_KEYWORD: f"{schema[CHECKED_KEYWORD]}, {found[CHECKED_KEYWORD]}"}
    return found


def reads_from_json(value: Any) -> bool:
    """Whether pydantic finds a value of a `Literal` in JSON: a member of an enum is found where it is a string or a number itself."""
    return (
        value is None
        or isinstance(value, str | int)
        or (isinstance(value, float) and not isinstance(value, enum.Enum))
    )


def keys_are_read(schema: Mapping[str, Any]) -> bool:
    """Whether pydantic reads the keys of a core schema from the names of members: numbers of a `Literal` or of a plain enum it does not."""
    if schema["type"] == "literal":
        return all(isinstance(value, str) for value in schema["expected"])
    if schema["type"] == "enum" and schema.get("sub_type") is None:
        return all(isinstance(member.value, str) for member in schema["members"])
    return all(map(keys_are_read, _inner(schema)))


def unhashable(schema: Mapping[str, Any]) -> bool:
    """Whether values of a core schema cannot be items of a set."""
    kind = schema["type"]
    if kind in ("model", "dataclass"):
        return getattr(schema["cls"], "__hash__", None) is None
    if kind == "tuple":
        return any(map(unhashable, schema["items_schema"]))
    return kind in ("list", "dict", "set", "typed-dict", "generator") or any(map(unhashable, _inner(schema)))


def _inner(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schemas of which a core schema is made without a container."""
    for name in ("schema", "lax_schema", "json_schema"):
        if isinstance(schema.get(name), Mapping) and "type" in schema[name]:
            yield schema[name]
    choices = schema.get("choices", ())
    for choice in choices.values() if isinstance(choices, Mapping) else choices:
        yield choice[0] if isinstance(choice, tuple) else choice


def length_of(schema: Mapping[str, Any]) -> bool:
    """Whether a core schema is a function of pydantic's own that measures the length of what it has read."""
    return schema["type"] == "function-after" and function_name(schema) in (
        "min_length_validator",
        "max_length_validator",
    )


def is_object(schema: Mapping[str, Any]) -> bool:
    """Whether what such a function measures is an instance of a class, whose length is its own matter."""
    while schema["type"] == "function-after":
        schema = schema["schema"]
    return schema["type"] in ("model", "dataclass")


def kinds_of(schema: Mapping[str, Any], resolve: Callable[[Any], Any], depth: int = 9) -> set[str]:
    """The types of the values of a JSON Schema."""
    if isinstance(reference := schema.get("$ref"), str) and depth:
        return kinds_of(resolve(reference) or {}, resolve, depth - 1)
    if "anyOf" in schema:
        return {kind for part in schema["anyOf"] for kind in kinds_of(part, resolve, depth)}
    kinds = schema.get("type", ())
    return {kinds} if isinstance(kinds, str) else set(kinds)


def only_paths(alias: Any) -> bool:
    """Whether a field is read from inside another member alone."""
    if not isinstance(alias, list):
        return False
    return all(
        isinstance(path, list) and len(path) > 1
        for path in (alias if isinstance(alias[0], list) else [alias])
    )


def combined_flags(members: Sequence[enum.Flag]) -> list[int]:
    """The numbers of all combinations of up to eight flags; of more flags, those of each alone."""
    numbers = [member.value for member in members]
    whole = functools.reduce(operator.or_, numbers)
    return [part for part in range(whole + 1) if part | whole == whole] if whole < 256 else numbers
