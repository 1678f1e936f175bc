"""Values of ``enum`` and ``const``: their equality, and their JSON texts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable
from decimal import Decimal
from typing import Any

from constrained.grammars import ir
from constrained.grammars.json_schema.text.punctuation import JsonPunctuation
from constrained.grammars.json_schema.text.strings import encode_json_string
from constrained.grammars.transform.interleave import interleave

_SHORT = 1e16
"""Floats below it are written without exponent."""

_LEVELS = 16
"""Common beginnings inside common beginnings that `values_regex` looks for."""


def equality_key(value: Any) -> Hashable:
    """A key that is equal for values that JSON Schema calls equal: 1 and 1.0, objects in any order; not True and 1."""
    if value is None or isinstance(value, (bool, str)):
        return type(value).__name__, value
    if isinstance(value, (int, float, Decimal)):
        return "number", value  # equal numbers have equal hashes in Python
    if isinstance(value, (list, tuple)):
        return "array", tuple(equality_key(item) for item in value)
    return "object", frozenset((name, equality_key(item)) for name, item in value.items())


def with_whole_numbers(value: Any, convert: Callable[[float], Any]) -> Any:
    """A value whose floats without a fraction, at any depth, are converted; the same object if it has none."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _SHORT:
        return convert(value)
    if isinstance(value, (list, tuple)):
        items = [with_whole_numbers(item, convert) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        members = {name: with_whole_numbers(item, convert) for name, item in value.items()}
        return members if any(members[name] is not item for name, item in value.items()) else value
    return value


def value_regex(value: Any, punctuation: JsonPunctuation) -> ir.Regex:
    """The texts of one value: members in their order, numbers as `json.dumps` writes them, any allowed whitespace.

    A float without a fraction is written with or without `.0`, a `Decimal` as it is.
    """
    if isinstance(value, str):
        return encode_json_string(value)
    if isinstance(value, Decimal):
        return ir.literal(str(value))
    if isinstance(value, float) and value.is_integer() and abs(value) < _SHORT:
        return ir.concat(ir.literal(str(int(value))), ir.optional(ir.literal(".0")))
    if isinstance(value, (list, tuple)):
        if not value:
            return _regex(punctuation.empty_array)
        parts = [_regex(punctuation.open_array)]
        for i, item in enumerate(value):
            parts += [punctuation.comma.regex] if i else []
            parts.append(value_regex(item, punctuation))
        return ir.concat(*parts, _regex(punctuation.close_array))
    if isinstance(value, dict):
        if not value:
            return _regex(punctuation.empty_object)
        parts = [_regex(punctuation.open_object)]
        for i, (name, item) in enumerate(value.items()):
            parts += [punctuation.comma.regex] if i else []
            parts += [encode_json_string(name), punctuation.colon, value_regex(item, punctuation)]
        return ir.concat(*parts, _regex(punctuation.close_object))
    return ir.literal(str(value) if type(value) is int else json.dumps(value))


def values_regex(values: Iterable[Any], punctuation: JsonPunctuation) -> ir.Regex:
    """The texts of any of these values, each as in `value_regex`.

    What several of them begin with is written once: reading a byte of it takes one step, and not one for each value.
    """
    texts = [value_regex(value, punctuation) for value in values]
    if not any(isinstance(text, ir.Concat) for text in texts):
        return ir.union(*texts)
    return _factored([text.parts if isinstance(text, ir.Concat) else (text,) for text in texts], _LEVELS)


def _factored(texts: list[tuple[ir.Regex, ...]], levels: int) -> ir.Regex:
    """The union of sequences, with common beginnings in front, that of their rests likewise up to this depth."""
    if len(texts) == 1 or levels == 0:
        return ir.union(*(ir.concat(*text) for text in texts))
    groups: dict[Hashable, list[tuple[ir.Regex, ...]]] = {}
    for text in texts:
        groups.setdefault(_beginning(text), []).append(text)
    factored: list[ir.Regex] = []
    for group in groups.values():
        if not group[0]:
            factored.append(ir.EMPTY_STRING)
            continue
        common = 0  # parts that all of them begin with
        if len(group) > 1:
            for column in zip(*group, strict=False):
                if len(set(map(_part_key, column))) > 1:
                    break
                common += 1
        head, rests = list(group[0][:common]), [text[common:] for text in group]
        if common == 0 and isinstance(group[0][0], ir.Literal):
            words = [text[0].data for text in group if isinstance(text[0], ir.Literal)]
            shared = _shared(min(words), max(words))
            head.append(ir.Literal(words[0][:shared]))
            rests = [
                (ir.Literal(word[shared:]), *text[1:]) if len(word) > shared else text[1:]
                for word, text in zip(words, group, strict=True)
            ]
        factored.append(ir.concat(*head, _factored(rests, levels - 1)))
    return ir.union(*factored)


def _shared(a: bytes, b: bytes) -> int:
    """Length of the longest common prefix."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _part_key(part: ir.Regex) -> Hashable:
    """Equal for literals with equal texts; other parts are those of the punctuation, which are the same objects."""
    return part.data if isinstance(part, ir.Literal) else id(part)


def _beginning(text: tuple[ir.Regex, ...]) -> Hashable:
    """Equal for sequences that begin with the same byte, or the same part that is no literal."""
    if not text:
        return b""
    return text[0].data[:1] if isinstance(text[0], ir.Literal) else id(text[0])


def value_expr(value: Any, punctuation: JsonPunctuation) -> ir.Expr:
    """As `value_regex`, with members in every order."""
    if not _may_be_reordered(value):
        return ir.Terminal(value_regex(value, punctuation))
    if isinstance(value, dict):
        entries = [
            ir.InterleaveEntry(punctuation.property_key(name), value_expr(item, punctuation), slot)
            for slot, (name, item) in enumerate(value.items())
        ]
        inside = interleave(entries, required=range(len(entries)), separator=punctuation.comma)
        return ir.sequence(punctuation.open_object, inside, punctuation.close_object)
    items = [part for item in value for part in (punctuation.comma, value_expr(item, punctuation))]
    return ir.sequence(punctuation.open_array, *items[1:], punctuation.close_array)


def _may_be_reordered(value: Any) -> bool:
    if isinstance(value, dict):
        return len(value) > 1 or any(map(_may_be_reordered, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_may_be_reordered, value))


def _regex(expr: ir.Expr) -> ir.Regex:
    assert isinstance(expr, ir.Terminal)
    return expr.regex


_SURE = frozenset((str, int, bool, type(None)))
"""Types whose values are all JSON."""


def is_json_value(value: Any) -> bool:
    """Whether a value can be written as JSON: no infinity or NaN, and every key is a string."""
    if isinstance(value, list) and _SURE.issuperset(map(type, value)):
        return True
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return False
        elif isinstance(item, dict):
            if not all(isinstance(name, str) for name in item):
                return False
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
        elif not (item is None or isinstance(item, (bool, int, str))):
            return False
    return True
