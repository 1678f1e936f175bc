"""`record_type`: a record type from a text or a dict of its members, for those who write no class."""

from __future__ import annotations

import ast
import datetime
import decimal
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from constrained.grammars.errors import InvalidConstraint

_NAMES: dict[str, Any] = {
    **{kind.__name__: kind for kind in (str, int, float, bool, list, dict, set, tuple)},
    **{kind.__name__: kind for kind in (datetime.date, datetime.time, datetime.datetime, datetime.timedelta)},
    "Decimal": decimal.Decimal,
    "Literal": Literal,
    "string": str, "text": str, "integer": int, "number": float, "boolean": bool,
}  # fmt: skip
"""What a type may be called."""
_FORM = 'write names with types: "name, born: date, languages: list[str], children: int | None"'


def record_type(members: str | Mapping[str, Any]) -> Any:
    """A `TypedDict` with these members, all required.

    Args:
        members: ``"name, born: date, tags: list[str]"``, where a name without a type is a `str`; or a dict from names to types.

    Raises:
        InvalidConstraint: the text is not of this form, or names a type that is not known.
    """
    fields = _read(members) if isinstance(members, str) else dict(members)
    return TypedDict("Record", fields)  # type: ignore[operator]


def _read(text: str) -> dict[str, Any]:
    try:
        # Names and annotations as of a function's parameters: Python's own parser knows where a type ends.
        parsed = ast.parse(f"def record({text}): ...").body
    except SyntaxError as error:
        raise InvalidConstraint(f"{text!r} does not name the members of a record", action=_FORM) from error
    (function,) = parsed if len(parsed) == 1 else (None,)
    if not isinstance(function, ast.FunctionDef):
        raise InvalidConstraint(f"{text!r} does not name the members of a record", action=_FORM)
    arguments = function.args
    others = (arguments.vararg, arguments.kwarg, *arguments.defaults, *arguments.kw_defaults)
    if (
        not arguments.args
        or any(others)
        or arguments.kwonlyargs
        or arguments.posonlyargs
        or len(function.body) != 1
    ):
        raise InvalidConstraint(f"{text!r} does not name the members of a record", action=_FORM)
    names = [one.arg for one in arguments.args]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InvalidConstraint(f"{min(twice)!r} stands twice in {text!r}", action=_FORM)
    return {
        one.arg: str if one.annotation is None else _type(one.annotation, one.arg) for one in arguments.args
    }


def _type(node: ast.expr, name: str) -> Any:
    """The type that an annotation names; nothing is evaluated but names of the table, subscripts and ``|``."""
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return _NAMES[node.id]
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, str)):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _type(node.left, name) | _type(node.right, name)
    if isinstance(node, ast.Subscript):
        return _type(node.value, name)[_type(node.slice, name)]
    if isinstance(node, ast.Tuple):
        return tuple(_type(one, name) for one in node.elts)
    known = ", ".join(_NAMES)
    raise InvalidConstraint(
        f"{name}: {ast.unparse(node)} is no type that can be named here", action=f"use {known}, or a class"
    )
