"""Random regular expressions of a dialect, with what its engines quarrel about, and texts that tell readings apart."""

from __future__ import annotations

import random
from typing import Literal

Dialect = Literal["python", "ecma", "rust"]

_CASED = "aksiKSIAéÉßẞſKιΙ\u0345ıİµμΜςσΣ"
_LETTERS = "ab" + _CASED + "1_-. "
_ALPHABET = "aab" + _CASED + "ABc1_- .\n[]:&"
_SETS = (
    "[ab]", "[^a]", "[a-k]", "[^a-k]", r"[\w-]", r"[^\W1]", r"[\W\d]", "[^é-ι]", "[ß-ſ]", "[]", "[]a]", "[^]a]", "[a-]",
    "[-a]", r"[\s_]", "[:a]", "[^:-a]", r"[\]a]", r"[\n-\r]", "[.$^]", "[&a]", r"[\x61-c]", r"[\D]", r"[^\S]", r"[\b]", "[[]",
)  # fmt: skip
_NESTED = (
    "[[:alpha:]]", "[[:^digit:]a]", "[^[:space:]]", "[a[:upper:]]", "[[a]b]", "[[ab]]", "[^[a]]", "[a&&b]", "[a-k&&[^b]]", "[a--b]",
    "[a||b]", "[a~~b]", "[--a]", "[a--]", "[&&a]", "[[=a=]]", "[[.a.]]", "[[]a]", "[[a-k]--[b]]", "[a-k--b]", r"[\w&&[a-k]]",
)  # fmt: skip
_SINGLES = (
    "",
    ".",
    r"\d",
    r"\D",
    r"\w",
    r"\W",
    r"\s",
    r"\S",
    r"\n",
    r"\.",
    r"\-",
    r"\x61",
    r"\u00e9",
    "()",
    "(?:)",
    r"\/",
    r"\]",
    "]",
)
_OWN: dict[Dialect, tuple[str, ...]] = {
    "python": (r"\141", r"\07", r"\0", r"\N{LATIN SMALL LETTER A}", r"[\N{BULLET}-\N{EURO SIGN}a]", r"\U0001F600", r"\a", r"\'", "{", "}"),
    "ecma": (r"\u{61}", r"\p{L}", r"\P{Lu}", r"\cJ", r"\0", r"[\w-.]", r"[^]", r"\$", "{", "}"),
    "rust": (r"\p{L}", r"\PL", r"\P{Lu}", r"\x{61}", r"\pN", "[[a-k]~~[b-z]]", r"\u{e9}"),
}  # fmt: skip
_ANCHORS = ("^", "$", r"\b", r"\B")
_OWN_ANCHORS: dict[Dialect, tuple[str, ...]] = {
    "python": (r"\A", r"\Z", "(?m:^)", "(?m:$)"),
    "ecma": (),
    "rust": (r"\A", r"\z", "(?m:^)", "(?m:$)"),
}
_COUNTS = ("*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?", "??", "{1,2}?", "{0}")
_OWN_COUNTS: dict[Dialect, tuple[str, ...]] = {
    "python": ("*+", "++", "?+", "{1,2}+", "{,2}", "{,}"),
    "ecma": ("{,2}",),
    "rust": ("{0,1}",),
}
_FLAGS = {
    "python": ("", "", "i", "i", "s", "m", "a", "ai", "x"),
    "ecma": ("", "", "i", "s", "m"),
    "rust": ("", "", "i", "s", "m"),
}


def random_pattern(rng: random.Random, dialect: Dialect) -> tuple[str, str, bool]:
    """A pattern, which the dialect may refuse, flags, and whether one character of the pattern was changed at random."""
    pattern = _grown(rng, dialect, rng.choice((0, 1, 1, 2, 2, 3)))
    changed = rng.random() < 0.1
    if changed:
        at = rng.randrange(len(pattern) + 1)
        pattern = pattern[:at] + rng.choice(r"()[]{}*+?|\^$-,:#12ab") + pattern[at + rng.randrange(2) :]
    return pattern, rng.choice(_FLAGS[dialect]), changed


def _grown(rng: random.Random, dialect: Dialect, depth: int) -> str:
    if depth == 0:
        return _atom(rng, dialect)
    parts = [_grown(rng, dialect, depth - 1) for _ in range(rng.choice((1, 2, 2, 3)))]
    joined = "".join(parts)
    kind = rng.randrange(12)
    if kind < 4:
        return joined
    if kind < 6:
        return f"(?:{'|'.join(parts)})"
    if kind == 6:
        return f"({joined})"
    if kind < 9:
        return f"(?:{joined}){rng.choice(_COUNTS + _OWN_COUNTS[dialect])}"
    if (
        kind == 9 and dialect != "ecma"
    ):  # without (?a: and (?u:, with which Python's own search and match differ
        return f"(?{rng.choice(('i', '-i', 's', 'x', 'x' if dialect == 'python' else 'u'))}:{joined})"
    if kind == 10 and dialect != "rust":
        return f"(?{rng.choice(('=', '!', '<=', '<!'))}{joined if depth == 1 else _atom(rng, dialect)})"
    if kind == 11 and dialect == "python":
        return f"(?>{'|'.join(parts)})"
    return _atom(rng, dialect) + rng.choice(_COUNTS + _OWN_COUNTS[dialect])


def _atom(rng: random.Random, dialect: Dialect) -> str:
    kind = rng.randrange(16)
    if kind < 6:
        return rng.choice(_LETTERS)
    if kind < 9:
        return rng.choice(_SETS)
    if kind == 9:
        return rng.choice(_NESTED)
    if kind < 12:
        return rng.choice(_SINGLES)
    if kind == 12:
        return rng.choice(_OWN[dialect])
    if kind == 13:
        return rng.choice(_ANCHORS + _OWN_ANCHORS[dialect])
    return rng.choice(_LETTERS) + rng.choice(_COUNTS + _OWN_COUNTS[dialect])


def random_texts(rng: random.Random, pattern: str, count: int) -> list[str]:
    """Short texts, the empty one first, of letters that differ by case, white space and characters of the pattern."""
    alphabet = _ALPHABET + "".join(char for char in pattern if char.isalnum() or char in "[]:&-~{}")
    return [""] + ["".join(rng.choices(alphabet, k=rng.choice((1, 1, 2, 2, 3, 4)))) for _ in range(count - 1)]
