"""Whitespace, indentation and separators: the terminals of JSON's punctuation under a whitespace policy.

bounded   nothing before a comma or a colon, and in every other gap nothing, one space, or one newline with at most 40
          spaces or 10 tabs (the default): accepts compact JSON, the default of `json.dumps` and any usual indentation,
          and bounds runs of spaces; a model that may break the line before a comma does so, and goes on badly
none      no whitespace
any       all whitespace that JSON permits
indent    exactly one space after ``:``, and a newline with at most 40 spaces in every other gap

With separators, as `json.dumps` takes them, commas and colons are written exactly as passed; other whitespace is
forbidden except the newlines of `indent`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from constrained.grammars import ir
from constrained.grammars.errors import InvalidConstraint, Problem
from constrained.grammars.json_schema.text.strings import encode_json_string

Whitespace = Literal["bounded", "none", "any", "indent"]
"""White space between JSON tokens: as `json.dumps` writes it, none, any, or exactly as with `indent=2`."""

_SPACE, _NEWLINE = ir.Literal(b" "), ir.Literal(b"\n")
_BOUNDED = ir.union(
    ir.EMPTY_STRING,
    _SPACE,
    ir.concat(_NEWLINE, ir.union(ir.repeat(_SPACE, 0, 40), ir.repeat(ir.Literal(b"\t"), 1, 10))),
)
_WHITESPACE = ir.chars([(0x20, 0x20), (0x09, 0x0A), (0x0D, 0x0D)])
_ANY = ir.repeat(_WHITESPACE)
_LINE = ir.concat(_NEWLINE, ir.repeat(_SPACE, 0, 40))


class ArraySigns(NamedTuple):
    """What stands around and between the items of an array; `gap` is whitespace between a comma and the next item."""

    open: ir.Expr
    comma: ir.Expr
    close: ir.Expr
    gap: ir.Expr = ir.EPSILON

    def next_item(self, item: ir.Expr) -> ir.Expr:
        """A comma and the item after it."""
        return ir.sequence(self.comma, self.gap, item)


@dataclass(frozen=True, eq=False)
class JsonPunctuation:
    """Terminals of JSON's punctuation.

    Attributes:
        open_object, close_object, empty_object: ``{``, ``}`` and ``{}``.
        open_array, close_array, empty_array: ``[``, ``]`` and ``[]``.
        comma: ``,`` between members or items.
        distinct: ``[``, ``,`` and ``]`` with the marks of items that must differ.
        colon: the regex of ``:``, which is part of each key's terminal.
    """

    open_object: ir.Expr
    close_object: ir.Expr
    empty_object: ir.Expr
    open_array: ir.Expr
    close_array: ir.Expr
    empty_array: ir.Expr
    comma: ir.Terminal
    colon: ir.Regex
    distinct: ArraySigns | None = None

    def property_key(self, name: str) -> ir.Terminal:
        """`key` of a declared name."""
        return self.key(encode_json_string(name))

    def next_property_key(self, name: str) -> ir.Terminal:
        """A comma and the key of a declared name as one terminal, for places where no other key may follow."""
        return ir.Terminal(ir.concat(self.comma.regex, encode_json_string(name), self.colon))

    def key(self, regex: ir.Regex) -> ir.Terminal:
        """A key, quotes included, and its colon."""
        return ir.Terminal(ir.concat(regex, self.colon))

    @property
    def array(self) -> ArraySigns:
        """What stands around and between the items of an array."""
        return ArraySigns(self.open_array, self.comma, self.close_array)


Separators = tuple[str, str]
"""The item separator and the key separator, as `json.dumps` takes them."""


def gap_of(whitespace: Whitespace, max_whitespace: int | None = None) -> ir.Regex:
    """White space between two tokens of a policy, or any of at most `max_whitespace` characters."""
    if max_whitespace is not None:
        return ir.repeat(_WHITESPACE, 0, max_whitespace)
    return {"none": ir.EMPTY_STRING, "any": _ANY}.get(whitespace, _BOUNDED)


@cache
def punctuation_for(
    whitespace: Whitespace, separators: Separators | None = None, max_whitespace: int | None = None
) -> JsonPunctuation:
    """The terminals of a whitespace policy.

    Args:
        whitespace: the policy.
        separators: what is written between items and after keys.
        max_whitespace: in place of the policy, any white space of at most so many characters in every gap.

    Raises:
        InvalidConstraint: the policy is unknown, a separator is not a comma or a colon in whitespace, or separators
            are combined with ``whitespace="any"``.
    """
    gaps: dict[str, tuple[ir.Regex, ir.Regex, ir.Regex, ir.Regex, ir.Regex]] = {
        # within brackets, before and after a comma, before and after a colon
        "bounded": (_BOUNDED, ir.EMPTY_STRING, _BOUNDED, ir.EMPTY_STRING, _BOUNDED),
        "none": (ir.EMPTY_STRING,) * 5,
        "any": (_ANY,) * 5,
        "indent": (_LINE, ir.EMPTY_STRING, _LINE, ir.EMPTY_STRING, _SPACE),
    }
    if whitespace not in gaps:
        raise InvalidConstraint(
            f"whitespace={whitespace!r} is not known", action=f"use one of {', '.join(map(repr, gaps))}"
        )
    if max_whitespace is not None:
        gaps["any"] = (gap_of(whitespace, max_whitespace),) * 5
        whitespace = "any"
    inside, before_comma, after_comma, before_colon, after_colon = gaps[whitespace]
    if separators is not None:
        comma, colon = _checked(separators, whitespace)
        inside, after_line = (_LINE, _LINE) if whitespace == "indent" else (ir.EMPTY_STRING, ir.EMPTY_STRING)
        before_comma, before_colon = (
            ir.literal(text[: text.index(sign)]) for text, sign in ((comma, ","), (colon, ":"))
        )
        after_comma = ir.concat(ir.literal(comma[comma.index(",") + 1 :]), after_line)
        after_colon = ir.literal(colon[colon.index(":") + 1 :])
    within_empty = ir.EMPTY_STRING if whitespace == "indent" else inside

    def around(left: ir.Regex, text: bytes, right: ir.Regex) -> ir.Terminal:
        return ir.Terminal(ir.concat(left, ir.Literal(text), right))

    def marked(left: ir.Regex, text: bytes, mark: ir.Mark, right: ir.Regex) -> ir.Expr:
        return ir.sequence(around(left, text, ir.EMPTY_STRING), mark, ir.Terminal(right))

    return JsonPunctuation(
        open_object=around(ir.EMPTY_STRING, b"{", inside),
        close_object=around(inside, b"}", ir.EMPTY_STRING),
        empty_object=ir.Terminal(ir.concat(ir.Literal(b"{"), within_empty, ir.Literal(b"}"))),
        open_array=around(ir.EMPTY_STRING, b"[", inside),
        close_array=around(inside, b"]", ir.EMPTY_STRING),
        empty_array=ir.Terminal(ir.concat(ir.Literal(b"["), within_empty, ir.Literal(b"]"))),
        comma=around(before_comma, b",", after_comma),
        colon=ir.concat(before_colon, ir.Literal(b":"), after_colon),
        distinct=ArraySigns(
            marked(ir.EMPTY_STRING, b"[", ir.OPEN_DISTINCT, inside),
            marked(before_comma, b",", ir.NEXT_DISTINCT, ir.EMPTY_STRING),
            marked(inside, b"]", ir.CLOSE_DISTINCT, ir.EMPTY_STRING),
            ir.Terminal(after_comma),
        ),
    )


def _checked(separators: Separators, whitespace: Whitespace) -> Separators:
    comma, colon = separators
    for text, sign in ((comma, ","), (colon, ":")):
        if text.strip(" \t\n\r") != sign:
            raise InvalidConstraint(
                "the separators are not valid in JSON",
                Problem("separators", f"{text!r} is not {sign!r} with optional whitespace around it"),
                action='use (", ", ": ") or (",", ":")',
            )
    if whitespace == "any":
        raise InvalidConstraint(
            "separators and whitespace='any' exclude each other", action="leave one of them out"
        )
    return separators
