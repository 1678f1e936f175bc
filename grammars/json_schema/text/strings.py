r"""JSON strings: from a language of string values to the language of their JSON encodings.

JSON decodes a string unit by unit (a character, an escape, a pair of surrogate escapes), so the encodings of a language
are built by replacing every character class with its units. Complements are taken within the language of all units.
Two styles of units:

* `CANONICAL_ESCAPES`: what `json.dumps` writes, with or without ``ensure_ascii``: every character stands for itself,
  except that ``"``, ``\`` and control characters are escaped, and non-ASCII may be a ``\u`` escape. Used for patterns,
  formats and enumerated values.
* `ANY_ESCAPES`: every escape that JSON permits, ``\u0061`` for ``a`` too. Used for free strings and excluded keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product
from json.encoder import encode_basestring, encode_basestring_ascii

from constrained.grammars import ir
from constrained.grammars.ir import MAX_CODE_POINT
from constrained.grammars.regex.analysis import children
from constrained.grammars.regex.charset import CodePointRanges, contains, intersection

QUOTE = ir.Literal(b'"')
_SHORT = {0x08: b"b", 0x09: b"t", 0x0A: b"n", 0x0C: b"f", 0x0D: b"r", 0x22: b'"', 0x5C: b"\\"}
_CONTROLS: CodePointRanges = ((0x00, 0x1F), (0x22, 0x22), (0x5C, 0x5C))
_BEYOND: CodePointRanges = ((0x7F, MAX_CODE_POINT),)
"""Characters that `json.dumps` may escape although JSON does not require it: DEL and non-ASCII."""
_EVERY: CodePointRanges = ((0x00, MAX_CODE_POINT),)


_HEXADECIMAL = {
    f"{value:x}": ir.chars((ord(c), ord(c)) for c in {f"{value:x}", f"{value:X}"}) for value in range(16)
}


_AS_IT_IS = re.compile(rb"[ !#-\[\]-~]*")
"""Text without characters that JSON must escape."""


@dataclass(frozen=True, eq=False)
class EscapeStyle:
    r"""Which escapes a string may use.

    Attributes:
        optional: characters that may be escaped although JSON does not require it.
        slash: ``\/`` is allowed.
        unit_cache: results of `unit`.
    """

    optional: CodePointRanges
    slash: bool
    unit_cache: dict[CodePointRanges, ir.Regex] = field(default_factory=dict)

    @cached_property
    def _escaped(self) -> CodePointRanges:
        """Characters that may or must be escaped."""
        return ir.merge_ranges((*_CONTROLS, *self.optional))

    def unit(self, ranges: CodePointRanges) -> ir.Regex:
        """Every encoding of one character of a set."""
        expr = self.unit_cache.get(ranges)
        if expr is None:
            expr = self._unit(ranges)
            if len(self.unit_cache) < 10_000:
                self.unit_cache[ranges] = expr
        return expr

    def _unit(self, ranges: CodePointRanges) -> ir.Regex:
        code = ranges[0][0] if len(ranges) == 1 and ranges[0][0] == ranges[0][1] else 0
        if 0x20 <= code < 0x7F and code not in (0x22, 0x2F, 0x5C):  # needs no escape, and has no short one
            plain = ir.Chars(ranges)
            if not contains(self.optional, code):
                return plain
            digits = (_HEXADECIMAL[digit] for digit in f"{code:04x}")
            return ir.Union((plain, ir.Concat((ir.Literal(b"\\u"), *digits))))
        raw = ir.chars(intersection(ranges, ((0x20, 0x21), (0x23, 0x5B), (0x5D, MAX_CODE_POINT))))
        short = [code for code in _SHORT if contains(ranges, code)]
        letters = [_SHORT[code] for code in short] + ([b"/"] if self.slash and contains(ranges, 0x2F) else [])
        escapes = [ir.chars((letter[0], letter[0]) for letter in letters)] if letters else []
        points = intersection(ranges, self._escaped)
        if points:
            escapes.append(ir.concat(ir.Literal(b"u"), _hexadecimal_units(points)))
        return ir.union(raw, ir.concat(ir.Literal(b"\\"), ir.union(*escapes))) if escapes else raw

    def encode(self, regex: ir.Regex) -> ir.Regex:
        """The encodings of the strings of a language, without quotes.

        The language contains valid UTF-8 only, or is intersected with one that does.
        """
        done: dict[ir.Regex, ir.Regex] = {}
        stack: list[ir.Regex] = [regex]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            kind = type(node)
            if kind is ir.Literal:
                done[node] = self.literal(node.data)  # type: ignore[attr-defined]
            elif kind is ir.Chars:
                done[node] = self.unit(node.ranges)  # type: ignore[attr-defined]
            elif kind is ir.EmptySet or kind is ir.DecimalMultiple:  # digits stand for themselves
                done[node] = node
            elif kind is ir.Substring:
                done[node] = self.substring(node)  # type: ignore[arg-type]
            else:
                parts = children(node)
                missing = [part for part in parts if part not in done]
                if missing:
                    stack += missing
                    continue
                done[node] = self._encoded(node, [done[part] for part in parts])
            stack.pop()
        return done[regex]

    def _encoded(self, node: ir.Regex, parts: list[ir.Regex]) -> ir.Regex:
        """A compound expression over encoded parts."""
        if isinstance(node, ir.Concat):
            return ir.concat(*parts)
        if isinstance(node, ir.Union):
            return ir.union(*parts)
        if isinstance(node, ir.Intersection):
            return ir.intersection(*parts)
        if isinstance(node, ir.Repeat):
            return ir.repeat(parts[0], node.low, node.high)
        assert isinstance(node, ir.Complement)
        return ir.difference(ir.repeat(self.unit(_EVERY_CHARACTER)), parts[0])

    def literal(self, data: bytes) -> ir.Regex:
        """Every encoding of the text of a literal."""
        if self.optional is _BEYOND and _AS_IT_IS.fullmatch(data):
            return ir.Literal(data)
        return self.text(data.decode())

    def substring(self, node: ir.Substring) -> ir.Regex:
        """The substrings of a document, each character in every encoding."""
        return ir.Substring(
            node.symbols,
            tuple(
                tuple(unit for data in texts for unit in self.spellings(data.decode()))
                for texts in node.spellings
            ),
            spaces=node.spaces,
            words=node.words,
            space=node.space,
            least=node.least,
            whole_words=node.whole_words,
            chunk_starts=node.chunk_starts,
        )

    def spellings(self, char: str) -> list[bytes]:
        """Every encoding of one character, as `unit` has them, one by one."""
        code = ord(char)
        found = [] if contains(_CONTROLS, code) else [char.encode()]
        if code in _SHORT:
            found.append(b"\\" + _SHORT[code])
        elif code == 0x2F and self.slash:
            found.append(b"\\/")
        if contains(self.optional, code) or contains(_CONTROLS, code):
            digits = encode_basestring_ascii(char)[1:-1] if code > 0x7E else f"\\u{code:04x}"
            letters = [(d, d.upper()) if d in "abcdef" else (d,) for d in digits]
            found += ["".join(spelled).encode() for spelled in product(*letters)]
        return found

    def text(self, text: str) -> ir.Regex:
        """Every encoding of one text."""
        parts: list[ir.Regex] = []
        for char in text:
            code = ord(char)
            parts.append(self.unit(((code, code),)))
        return ir.concat(*parts)

    def quoted(self, regex: ir.Regex) -> ir.Regex:
        """The JSON strings whose value is in a language."""
        return ir.concat(QUOTE, self.encode(regex), QUOTE)


@lru_cache(maxsize=4096)
def _hexadecimal(ranges: CodePointRanges, digits: int) -> ir.Regex:
    """Numbers of a set in exactly `digits` hexadecimal digits; equal remainders share one expression."""
    if not ranges:
        return ir.EMPTY_SET
    if digits == 0:
        return ir.EMPTY_STRING
    size = 16 ** (digits - 1)
    groups: dict[CodePointRanges, list[int]] = {}
    for first in range(16):
        rest = tuple(
            (low - first * size, high - first * size)
            for low, high in intersection(ranges, ((first * size, (first + 1) * size - 1),))
        )
        if rest:
            groups.setdefault(rest, []).append(first)
    options = []
    for rest, firsts in groups.items():
        points = [ord(c) for value in firsts for c in {f"{value:x}", f"{value:X}"}]
        options.append(ir.concat(ir.chars((p, p) for p in points), _hexadecimal(rest, digits - 1)))
    return ir.union(*options)


def _hexadecimal_units(points: CodePointRanges) -> ir.Regex:
    r"""What may follow ``\u``: four digits, or a pair of surrogates for characters above U+FFFF."""
    plane = _hexadecimal(intersection(points, ((0x0000, 0xD7FF), (0xE000, 0xFFFF))), 4)
    beyond = intersection(points, ((0x10000, MAX_CODE_POINT),))
    groups: dict[CodePointRanges, list[tuple[int, int]]] = {}
    for low, high in beyond:  # split by high surrogate; runs of full blocks together
        low, high = low - 0x10000, high - 0x10000
        first, last = low >> 10, high >> 10
        if first == last:
            groups.setdefault(((low & 0x3FF, high & 0x3FF),), []).append((first, first))
            continue
        if low & 0x3FF:
            groups.setdefault(((low & 0x3FF, 0x3FF),), []).append((first, first))
            first += 1
        if high & 0x3FF != 0x3FF:
            groups.setdefault(((0, high & 0x3FF),), []).append((last, last))
            last -= 1
        if first <= last:
            groups.setdefault(((0, 0x3FF),), []).append((first, last))
    pairs = [
        ir.concat(
            _hexadecimal(tuple(sorted((0xD800 + a, 0xD800 + b) for a, b in firsts)), 4),
            ir.Literal(b"\\u"),
            _hexadecimal(tuple((0xDC00 + a, 0xDC00 + b) for a, b in rest), 4),
        )
        for rest, firsts in groups.items()
    ]
    return ir.union(plane, *pairs)


_EVERY_CHARACTER: CodePointRanges = ir.ANY_CHAR.ranges
CANONICAL_ESCAPES = EscapeStyle(_BEYOND, slash=False)
ANY_ESCAPES = EscapeStyle(_EVERY, slash=True)

STRING_CHARACTER = ANY_ESCAPES.unit(_EVERY_CHARACTER)
"""One character of a free string."""
STRING_BODY = ir.repeat(STRING_CHARACTER)
ANY_STRING = ir.concat(QUOTE, STRING_BODY, QUOTE)
"""Any JSON string."""


def string_of_length(low: int, high: int | None) -> ir.Regex:
    """JSON strings of `low` to `high` code points (None: no bound)."""
    return ir.concat(QUOTE, ir.repeat(STRING_CHARACTER, low, high), QUOTE)


def encode_json_string(text: str) -> ir.Regex:
    """One string as `json.dumps` writes it, with and without ``ensure_ascii``."""
    plain = encode_basestring(text)
    if text.isascii() and "\x7f" not in text:
        return ir.Literal(plain.encode())
    escaped = encode_basestring_ascii(text)
    if plain == escaped:
        return ir.Literal(escaped.encode())
    if any(0xD800 <= ord(char) <= 0xDFFF for char in text):
        return ir.literal(escaped)  # a lone surrogate has no UTF-8
    return ir.union(ir.literal(plain), ir.literal(escaped))


def strings_excluding(
    names: Sequence[str], without: Sequence[ir.Regex] = (), within: Sequence[ir.Regex] = ()
) -> ir.Regex:
    """JSON strings, with any escapes, except those with excluded values.

    Args:
        names: excluded values.
        without: excluded languages of values.
        within: languages that the value must all belong to.
    """
    if not (names or without or within):
        return ANY_STRING
    ordered = tuple(sorted(set(names)))
    small = len(ordered) <= _MOST_SHARED and all(len(name) <= _MOST_SHARED for name in ordered)
    make = _other_strings if small else _other_strings.__wrapped__
    return make(ordered, tuple(without), tuple(within))


_MOST_SHARED = 64
"""Names, and characters of each, of an expression that objects with the same names have in common: it is made, and compiled, once."""


@lru_cache(maxsize=256)
def _other_strings(
    names: tuple[str, ...], without: tuple[ir.Regex, ...], within: tuple[ir.Regex, ...]
) -> ir.Regex:
    """`strings_excluding` of sorted names."""
    excluded = ir.union(_trie(names), *(ANY_ESCAPES.encode(pattern) for pattern in without))
    body = (
        ir.intersection(*(ANY_ESCAPES.encode(pattern) for pattern in within), STRING_BODY)
        if within
        else STRING_BODY
    )
    return ir.concat(QUOTE, ir.difference(body, excluded), QUOTE)


def _trie(names: Sequence[str]) -> ir.Regex:
    """A trie of sorted names, each character in every encoding; common prefixes are written once."""
    names = [name for name in names if name.isascii() or not _LONE.search(name)]
    # Branching points along the current name: depth, and the suffixes that may follow there.
    places: list[tuple[int, list[ir.Regex]]] = [(0, [])]
    for name, following in zip(names, (*names[1:], ""), strict=False):
        shared = _shared(name, following)
        end = len(name)
        tail: ir.Regex = ir.EMPTY_STRING
        while places[-1][0] > shared:  # no later name passes through this branching point
            depth, options = places.pop()
            tail = ir.union(*options, _spelled(name[depth:end], tail))
            end = depth
        if places[-1][0] < shared:
            places.append((shared, []))
        places[-1][1].append(_spelled(name[shared:end], tail))
    return ir.union(*places[0][1])


_LONE = re.compile("[\ud800-\udfff]")
"""A lone surrogate, which has no UTF-8 encoding."""


def _shared(a: str, b: str) -> int:
    """Length of the longest common prefix."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # slices are compared faster than characters one by one
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _spelled(text: str, tail: ir.Regex) -> ir.Regex:
    """A text in every encoding, then `tail`."""
    if not text:
        return tail
    try:
        units = [_UNITS[char] for char in text]
    except KeyError:
        units = [ANY_ESCAPES.unit(((ord(char), ord(char)),)) for char in text]
        if len(_UNITS) < 10_000:
            _UNITS.update(zip(text, units, strict=True))
    if tail is not ir.EMPTY_STRING:
        units.append(tail)
    return units[0] if len(units) == 1 else ir.Concat(tuple(units))


_UNITS: dict[str, ir.Regex] = {}
