"""JSON text in and out: schemas that users write, values that models write.

Text from a user is read strictly, with the place of each mistake. Text from a model is valid already; what can
still go wrong is that Python cannot hold the value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NoReturn

from constrained.errors import InvalidConstraint, Problem, RejectedValue
from constrained.grammars._core import copy_json
from constrained.grammars.json_pointer import escape

_DIGITS = 4000  # int() of more digits is refused by default
_TOO_LONG = 10**_DIGITS
_EXCERPT = 60


def read_schema(text: str | bytes) -> Any:
    """Reads a JSON Schema from its text.

    Raises:
        InvalidConstraint: not JSON (line, column and excerpt are in the message), or a key stands twice in one
            object, of which JSON readers would silently drop the first.
    """
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidConstraint(
            "the schema is not UTF-8 text",
            Problem(f"byte {error.start}", error.reason),
            action="save it as UTF-8",
        ) from None
    decoded = decoded.removeprefix("\ufeff")
    try:
        return json.loads(
            decoded,
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_int=_schema_integer,
            parse_float=_schema_float,
        )
    except json.JSONDecodeError as error:
        raise InvalidConstraint(
            "the schema is not valid JSON",
            Problem(f"line {error.lineno}, column {error.colno}", error.msg.lower(), excerpt=_caret(error)),
            action="fix the text, or pass the schema as a dict",
        ) from None
    except RecursionError:
        raise InvalidConstraint("the schema is nested too deeply") from None


def _caret(error: json.JSONDecodeError) -> str:
    line = error.doc.split("\n")[error.lineno - 1].rstrip("\r")
    start = max(0, error.colno - 1 - _EXCERPT // 2)
    return f"{line[start : start + _EXCERPT]}\n{' ' * (error.colno - 1 - start)}^"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidConstraint(
            "duplicate key in an object of the schema",
            Problem(f"key {json.dumps(twice, ensure_ascii=False)}", "only one of the two could be enforced"),
            action="remove or rename one of them",
        )
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidConstraint("the schema is not valid JSON", Problem(name, "is not a JSON value"))


def _schema_integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        _refuse_integer("a number")
    return int(digits)


def _schema_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise InvalidConstraint(
            "the schema contains a number that is out of range",
            Problem(digits[:_EXCERPT], "exceeds the range of double precision"),
            action="remove the bound, or write it as an integer",
        )
    return value


def _refuse_integer(place: str) -> NoReturn:
    raise InvalidConstraint(
        "the schema contains an integer that is too long",
        Problem(place, f"has more than {_DIGITS} digits"),
        action="remove the bound: no completion is that long",
    )


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def write_schema(schema: Any) -> str:
    """The text of a schema; the order of keys is kept, as properties are generated in it."""
    return _encode(schema)


def copy_schema(schema: Any) -> tuple[Any, str]:
    """A deep copy of a schema in plain dicts and lists, and its text.

    Raises:
        InvalidConstraint: part of it is not a JSON value; the JSON Pointer is in the message.
    """
    copied = copy_json(schema)
    if copied is not None:
        return copied
    try:
        # Written and read by the native code of `json`, which is several times as fast as a walk and
        # goes deeper. What does not come back equal (a key that is not a string, a tuple) is for the walk to judge.
        text = _encode(schema)
        read = json.loads(text)
        if read == schema:
            return read, text
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        read = _copy(schema, "#")
        return read, _encode(read)
    except RecursionError:
        raise InvalidConstraint(
            "the schema is nested too deeply, or contains itself",
            action='write recursion as {"$ref": "#/$defs/..."}',
        ) from None


def _copy(value: Any, pointer: str) -> Any:
    if isinstance(value, int) and abs(value) >= _TOO_LONG:
        _refuse_integer(pointer)
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InvalidConstraint(
                    "the schema is not JSON",
                    Problem(pointer, f"the key {key!r} is not a string"),
                    action="quote it",
                )
        return {key: _copy(part, f"{pointer}/{escape(key)}") for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_copy(part, f"{pointer}/{index}") for index, part in enumerate(value)]
    raise InvalidConstraint(
        "the schema is not JSON", Problem(pointer, f"{value!r} ({type(value).__name__}) is not a JSON value")
    )


def read_value(text: str) -> Any:
    """Reads a JSON value that was generated; integers of any length.

    Raises:
        RejectedValue: not JSON, or nested deeper than Python's recursion limit.
    """
    try:
        return json.loads(text, parse_int=_integer)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise RejectedValue(
            f"the text is not valid JSON: {error.msg.lower()} ({place})", text=text
        ) from error
    except RecursionError as error:
        raise RejectedValue(
            "the JSON is nested deeper than Python can read",
            action="bound the depth of the schema, or raise sys.setrecursionlimit",
            text=text,
        ) from error


def is_json(text: str) -> bool:
    """Whether `read_value` reads a text."""
    try:
        read_value(text)
    except RejectedValue:
        return False
    return True


def _integer(digits: str) -> int:
    if len(digits) <= _DIGITS:
        return int(digits)
    head, tail = digits[:-_DIGITS], digits[-_DIGITS:]
    sign = -1 if digits.startswith("-") else 1
    number: int = _integer(head) * 10**_DIGITS + sign * int(tail)
    return number


def read_exact(text: str) -> Any:
    """A JSON value whose numbers are `Decimal`: 1.10 keeps its zero, and long integers their digits."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


def write_exact(value: Any, separators: tuple[str, str] = (", ", ": "), *, ensure_ascii: bool = False) -> str:
    """JSON text of a value of `read_exact`, or of plain Python values.

    Raises:
        TypeError: the value is not JSON.
    """
    comma, colon = separators
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise TypeError(f"{value} is not a JSON number")
        return str(value)
    if isinstance(value, Mapping):
        members = (
            f"{json.dumps(name, ensure_ascii=ensure_ascii)}{colon}"
            f"{write_exact(member, separators, ensure_ascii=ensure_ascii)}"
            for name, member in value.items()
            if isinstance(name, str) or _refuse_key(name)
        )
        return "{" + comma.join(members) + "}"
    if isinstance(value, list | tuple):
        items = (write_exact(item, separators, ensure_ascii=ensure_ascii) for item in value)
        return "[" + comma.join(items) + "]"
    try:
        return json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False)
    except ValueError as error:
        raise TypeError(str(error)) from error


def _refuse_key(name: object) -> bool:
    raise TypeError(f"the key {name!r} is not a str")
