"""How a parameter style writes objects and arrays, in the shape that the lowering of objects uses, and strings as Python has them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from constrained.grammars import ir
from constrained.grammars.json_schema.parameters.styles import PARAMETER_STYLES, ParameterStyle
from constrained.grammars.json_schema.text.punctuation import JsonPunctuation
from constrained.grammars.json_schema.text.strings import QUOTE, EscapeStyle
from constrained.grammars.regex.charset import CodePointRanges, contains, intersection

_QUOTE = QUOTE.data


@dataclass(frozen=True, eq=False)
class ParameterPunctuation(JsonPunctuation):
    """Keys are written as the style has them, nothing stands around the parameters but white space.

    Attributes:
        style: the style.
        names: texts before and after a name.
    """

    style: ParameterStyle = PARAMETER_STYLES["qwen_xml"]
    names: tuple[tuple[str, str], ...] = ()

    def property_key(self, name: str) -> ir.Terminal:
        """The text up to the end of a declared name."""
        return ir.Terminal(self._key(ir.literal(self.style.spelled(name))))

    def next_property_key(self, name: str) -> ir.Terminal:
        """White space and the key."""
        return ir.Terminal(ir.concat(self.comma.regex, self.property_key(name).regex))

    def key(self, regex: ir.Regex) -> ir.Terminal:
        """The text up to the end of a name out of a language of JSON strings: those that no style escapes."""
        names = self.style.other_names
        if names is None:
            return ir.Terminal(ir.EMPTY_SET)
        return ir.Terminal(self._key(ir.intersection(names, unquoted(regex))))

    def _key(self, name: ir.Regex) -> ir.Regex:
        style = self.style
        around = self.names or ((style.before, style.after_name),)
        return ir.union(
            *(ir.concat(style.markup(before), name, style.markup(after)) for before, after in around)
        )


def punctuation_of(
    style: ParameterStyle, gap: ir.Regex, *, items: bool = False, inner: bool = False
) -> ParameterPunctuation:
    """The punctuation of objects, or of arrays (`items`), with `gap` as the white space where there may be some.

    Args:
        style: the style.
        gap: the white space.
        items: of arrays.
        inner: of objects that are the value of a parameter, or stand inside one.
    """
    space = ir.Terminal(ir.EMPTY_STRING if style.literals else gap)
    between = ir.Terminal(ir.EMPTY_STRING) if items and not style.spaced_items else space
    empty = space if style.spaced_values else ir.Terminal(ir.EMPTY_STRING)
    return ParameterPunctuation(
        open_object=space,
        close_object=space,
        empty_object=empty,
        open_array=space,
        close_array=space,
        empty_array=empty,
        comma=ir.Terminal(ir.literal(style.separator)) if style.literals else between,
        colon=ir.EMPTY_STRING,
        style=style,
        names=style.inner_names if inner else (),
    )


def unquoted(regex: ir.Regex) -> ir.Regex:
    """The texts that a language of JSON strings has between its quotes.

    Raises:
        ValueError: an expression of another shape than the lowering of keys makes.
    """
    done: dict[ir.Regex, ir.Regex] = {}
    stack: list[ir.Regex] = [regex]
    while stack:
        node = stack[-1]
        parts: tuple[ir.Regex, ...] = ()
        if isinstance(node, (ir.Union, ir.Intersection)):
            parts = node.parts
        elif isinstance(node, ir.Complement):
            parts = (node.part,)
        missing = [part for part in parts if part not in done]
        if missing:
            stack += missing
            continue
        stack.pop()
        if isinstance(node, ir.Union):
            done[node] = ir.union(*(done[part] for part in parts))
        elif isinstance(node, ir.Intersection):
            done[node] = ir.intersection(*(done[part] for part in parts))
        elif isinstance(node, ir.Complement):
            done[node] = ir.complement(done[node.part])
        else:
            done[node] = _between_quotes(node)
    return done[regex]


def _between_quotes(node: ir.Regex) -> ir.Regex:
    parts = node.parts if isinstance(node, ir.Concat) else (node,)
    first, last = parts[0], parts[-1]
    if isinstance(node, ir.EmptySet):
        return node
    if isinstance(first, ir.Literal) and isinstance(last, ir.Literal):
        if len(parts) == 1:
            data = first.data
            if len(data) < 2 or data[:1] != _QUOTE or data[-1:] != _QUOTE:
                return ir.EMPTY_SET
            return ir.Literal(data[1:-1])
        if first.data[:1] == _QUOTE and last.data[-1:] == _QUOTE:
            return ir.concat(ir.Literal(first.data[1:]), *parts[1:-1], ir.Literal(last.data[:-1]))
    raise ValueError(f"not a language of JSON strings: {type(node).__name__}")


ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
"""Characters by the letter of their escape."""


class _QuotedStyle(EscapeStyle):
    """The escapes between two quotes of one kind."""

    def __init__(self, quote: str) -> None:
        super().__init__(optional=(), slash=False)
        plain = [(0x09, 0x0A), (0x0D, 0x0D), (0x20, ir.MAX_CODE_POINT)]
        for code in sorted((ord(quote), ord("\\"))):
            low, high = plain.pop()
            plain += [(low, code - 1), (code + 1, high)]
        object.__setattr__(self, "plain", tuple(plain))

    plain: CodePointRanges

    def _unit(self, ranges: CodePointRanges) -> ir.Regex:
        letters = [letter for letter, char in ESCAPES.items() if contains(ranges, ord(char))]
        escaped = ir.concat(ir.Literal(b"\\"), ir.chars((ord(one), ord(one)) for one in letters))
        raw = ir.chars(intersection(ranges, self.plain))
        return ir.union(raw, escaped) if letters else raw

    def spellings(self, char: str) -> list[bytes]:
        """Every spelling of one character."""
        found = [char.encode()] if contains(self.plain, ord(char)) else []
        return found + [b"\\" + letter.encode() for letter, one in ESCAPES.items() if one == char]


@cache
def _quoted_style(quote: str) -> _QuotedStyle:
    return _QuotedStyle(quote)


def quoted(texts: ir.Regex, quotes: str) -> ir.Regex:
    """The strings whose value is in a language, between two of one of these quotes."""
    return ir.union(
        *(
            ir.concat(ir.literal(quote), _quoted_style(quote).encode(texts), ir.literal(quote))
            for quote in quotes
        )
    )
