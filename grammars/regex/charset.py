r"""Character classes: what ``\w``, ``\p{Greek}``, ``.`` and case-insensitive letters stand for, as code point ranges.

The tables come from Python's `re`, and from the `regex` package for Unicode properties, so they have the Unicode
version of the running interpreter. Each is computed once.
"""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable
from functools import cache, lru_cache

from constrained.grammars.ir import MAX_CODE_POINT, invert_ranges, merge_ranges

CodePointRanges = tuple[tuple[int, int], ...]

ALL_CHARS: CodePointRanges = ((0, 0xD7FF), (0xE000, MAX_CODE_POINT))
DIGIT: CodePointRanges = ((0x30, 0x39),)
WORD: CodePointRanges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
SPACE: CodePointRanges = ((0x09, 0x0D), (0x20, 0x20))
ECMA_SPACE: CodePointRanges = (
    (0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029),
    (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip
NEWLINE: CodePointRanges = ((0x0A, 0x0A),)
ECMA_NEWLINE: CodePointRanges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))

POSIX: dict[str, CodePointRanges] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0x00, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x1F), (0x7F, 0x7F)),
    "digit": DIGIT,
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": SPACE,
    "upper": ((0x41, 0x5A),),
    "word": WORD,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}


def _characters(low: int, high: int) -> str:
    """The characters from one code point to another, both included and no surrogate between them."""
    return array("I", range(low, high + 1)).tobytes().decode(f"utf-32-{sys.byteorder[0]}e")


_WRITTEN: CodePointRanges = ((0x00, 0xD7FF), (0xE000, 0x3FFFF), (0xE0000, 0xE0FFF))
"""Where characters differ from their neighbours. Elsewhere nothing is assigned, or all is private, plane by plane."""
_ALIKE: CodePointRanges = (
    *((plane << 16, (plane << 16) + 0xFFFD) for plane in (*range(4, 14), 15, 16)),
    (0xE1000, 0xEFFFD),
    *(((plane << 16) + 0xFFFE, (plane << 16) + 0xFFFF) for plane in range(4, 17)),
)


def _spans(compiled: re.Pattern[str]) -> CodePointRanges:
    """Code points matched by a pattern of the form ``[...]+``."""
    spans: list[tuple[int, int]] = [span for span in _ALIKE if compiled.match(chr(span[0]))]
    for low, high in _WRITTEN:
        matches = (match.span() for match in compiled.finditer(_characters(low, high)))
        spans += [(low + start, low + stop - 1) for start, stop in matches]
    return merge_ranges(spans)


@cache
def python_class(letter: str) -> CodePointRanges:
    r"""Unicode ``\d``, ``\w`` or ``\s`` as Python's `re` has them."""
    return _spans(re.compile(rf"\{letter}+"))


@lru_cache(maxsize=64)
def unicode_property(expression: str) -> CodePointRanges | None:
    r"""What ``\p{expression}`` stands for (general categories, scripts, binary properties); None if unknown."""
    import regex

    if not re.fullmatch(r"[A-Za-z0-9_ \-]+(=[A-Za-z0-9_ \-]+)?", expression):
        return None
    try:
        return _spans(regex.compile(rf"\p{{{expression}}}+"))
    except regex.error:
        return None


@cache
def rust_word() -> CodePointRanges:
    r"""Unicode ``\w`` as in UTS #18, which Rust follows."""
    import regex

    return _spans(regex.compile(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+"))


_MAYBE_CASED: CodePointRanges = ((0x00, 0x2FFF), (0xA000, 0xABFF), (0xF900, 0x1FFFF))
"""Where letters with case are: not among ideographs, Hangul and private characters, nor in the planes after the first."""
_BLOCK = 0x80


@cache
def _cased() -> str:
    """The characters that have another case, found block by block: few blocks hold any."""
    chars: list[str] = []
    for first, last in _MAYBE_CASED:
        for low in range(first, last + 1, _BLOCK):
            block = _characters(low, low + _BLOCK - 1)
            if block.lower() != block or block.upper() != block:
                chars.extend(c for c in block if c.lower() != c or c.upper() != c)
    return "".join(chars)


_CASES_OF_ASCII = "".join(map(chr, range(0x80))) + "\u0130\u0131\u017f\u212a"
"""ASCII, and the letters beyond it that differ from one of its own by case: dotted and dotless i, long s, kelvin."""


def _ecma_case(char: str) -> str:
    """What ECMA-262 compares without the flag ``u``: the upper case, if it is one character and no letter turns ASCII."""
    upper = char.upper()
    return char if len(upper) > 1 or (upper.isascii() and not char.isascii()) else upper


def _simple_case(char: str) -> str:
    """Unicode's simple case folding, which Rust follows."""
    return next((folded for folded in (char.casefold(), char.lower()) if len(folded) == 1), char)


@cache
def _other_cases(folded: Callable[[str], str]) -> dict[int, CodePointRanges]:
    """By letter, all letters that fold alike, where there are more than one."""
    alike: dict[str, list[int]] = {}
    for char in _cased():
        alike.setdefault(folded(char), []).append(ord(char))
    classes = [codes for codes in alike.values() if len(codes) > 1]
    return {code: tuple((other, other) for other in codes) for codes in classes for code in codes}


@lru_cache(maxsize=4096)
def ignore_case(ranges: CodePointRanges, dialect: str, *, ascii_only: bool = False) -> CodePointRanges:
    """The class with every character that differs from a member by case only, by the rule of a dialect.

    Args:
        ranges: the members.
        dialect: ``"python"``, ``"ecma"`` or ``"rust"``.
        ascii_only: only letters of ASCII have another case (`re.ASCII`).
    """
    if not ranges:
        return ranges
    if dialect == "python":
        body = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
        compiled = re.compile(f"[{body}]", re.IGNORECASE | (re.ASCII if ascii_only else 0))
        others = _CASES_OF_ASCII if ascii_only or ranges[-1][1] < 0x80 else _cased()
        return merge_ranges([*ranges, *((ord(c), ord(c)) for c in compiled.findall(others))])
    cases = _other_cases(_ecma_case if dialect == "ecma" else _simple_case)
    found = [*ranges]
    for low, high in ranges:
        codes = (
            range(low, high + 1)
            if high - low < len(cases)
            else filter(range(low, high + 1).__contains__, cases)
        )
        found += (case for code in codes for case in cases.get(code, ()))
    return merge_ranges(found)


def difference(ranges: CodePointRanges, without: CodePointRanges) -> CodePointRanges:
    """Code points of the first that are not in the second."""
    return intersection(ranges, invert_ranges(without))


def intersection(first: CodePointRanges, second: CodePointRanges) -> CodePointRanges:
    """Code points in both; both are sorted and disjoint."""
    if not first or not second:
        return ()
    i = max(0, bisect_right(first, (second[0][0], MAX_CODE_POINT)) - 1)
    j = max(0, bisect_right(second, (first[0][0], MAX_CODE_POINT)) - 1)
    ranges = []
    while i < len(first) and j < len(second):
        low, high = first[i]
        other_low, other_high = second[j]
        if high < other_high:
            i += 1
        else:
            j += 1
            high = other_high
        if low < other_low:
            low = other_low
        if low <= high:
            ranges.append((low, high))
    return tuple(ranges)


def contains(ranges: CodePointRanges, code: int) -> bool:
    """Whether a code point is in the class."""
    at = bisect_right(ranges, (code, MAX_CODE_POINT))
    return at > 0 and ranges[at - 1][1] >= code
