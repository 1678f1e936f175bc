"""Base64, byte sizes, fractions and complex numbers."""

from __future__ import annotations

from functools import cache

from constrained.grammars import ir
from constrained.grammars.json_schema.text.rfc.notation import any_case, fragment_regex

_STANDARD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_URL_SAFE = _STANDARD[:-2] + "-_"
_UNITS = ("b", "bit", *(prefix + unit for prefix in "kmgtpe" for unit in ("", "b", "ib", "bit", "ibit")))
"""Units of `pydantic.ByteSize`: bytes and bits, of thousands and of 1024s."""


@cache
def stripped() -> ir.Regex:
    """Texts without white space at either end."""
    return fragment_regex(r"(?:[^\s](?:.*[^\s])?)?")


@cache
def byte_size() -> ir.Regex:
    """Texts of `pydantic.ByteSize`: a number, and a unit in any case."""
    number = fragment_regex(r"[0-9]{1,15}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}")
    return ir.concat(number, ir.optional(ir.concat(fragment_regex(" ?"), any_case(_UNITS))))


@cache
def fraction() -> ir.Regex:
    """Texts of `fractions.Fraction`: a whole number, or two."""
    return fragment_regex("-?[0-9]{1,24}(?:/0{0,9}[1-9][0-9]{0,23})?")


@cache
def complex_number() -> ir.Regex:
    """Texts of `complex` without parentheses and non-finite parts."""
    number = r"(?:[0-9]{1,24}(?:\.[0-9]{0,24})?|\.[0-9]{1,24})(?:[eE][+-]?[0-9]{1,2})?"
    return fragment_regex(f"[+-]?{number}(?:[+-](?:{number})?[jJ])?|[+-]?(?:{number})?[jJ]")


def base64(alphabet: str = "standard", text: bool = False) -> ir.Grammar:
    """Base64 with padding (RFC 4648); `alphabet` is ``"standard"`` or ``"url"``; `text`: of valid UTF-8."""
    letters = _URL_SAFE if alphabet == "url" else _STANDARD
    return _utf8_in_base64(letters) if text else ir.Grammar.of(_bytes_in_base64(letters))


def _letters(letters: str, values: list[int]) -> ir.Regex:
    return ir.chars((ord(letters[value]), ord(letters[value])) for value in values)


@cache
def _bytes_in_base64(letters: str) -> ir.Regex:
    some = _letters(letters, list(range(64)))
    last_of_two, last_of_three = (_letters(letters, list(range(0, 64, step))) for step in (16, 4))
    end = ir.union(
        ir.concat(some, last_of_two, ir.literal("==")), ir.concat(some, some, last_of_three, ir.literal("="))
    )
    return ir.concat(ir.repeat(ir.repeat(some, 4, 4)), ir.optional(end))


_UTF8: dict[str, list[tuple[range, str]]] = {
    "": [
        (range(0x80), ""), (range(0xC2, 0xE0), "1"), (range(0xE0, 0xE1), "E0"), (range(0xE1, 0xED), "2"),
        (range(0xED, 0xEE), "ED"), (range(0xEE, 0xF0), "2"), (range(0xF0, 0xF1), "F0"), (range(0xF1, 0xF4), "3"),
        (range(0xF4, 0xF5), "F4"),
    ],
    "1": [(range(0x80, 0xC0), "")],
    "2": [(range(0x80, 0xC0), "1")],
    "3": [(range(0x80, 0xC0), "2")],
    "E0": [(range(0xA0, 0xC0), "1")],
    "ED": [(range(0x80, 0xA0), "1")],
    "F0": [(range(0x90, 0xC0), "2")],
    "F4": [(range(0x80, 0x90), "2")],
}  # fmt: skip
"""The automaton of valid UTF-8 (Unicode 15, table 3-7): after the bytes read so far, bytes and the next state."""


def _utf8_in_base64(letters: str) -> ir.Grammar:
    """A right-linear grammar; a state is a state of UTF-8 and the bits read of the next byte."""
    rules: dict[str, ir.Expr] = {}
    queue = [
        ("", 0, 0, 0)
    ]  # UTF-8 state, number of pending bits, their value, letters read of a group of four
    for state, size, bits, place in queue:
        steps: dict[tuple[str, int, int, int], list[int]] = {}
        for value in range(64):
            if size + 6 < 8:
                nexts = [(state, size + 6, bits << 6 | value)]
            else:
                left = size + 6 - 8
                byte = (bits << 6 | value) >> left
                kept = (bits << 6 | value) & ((1 << left) - 1)
                nexts = [(after, left, kept) for some, after in _UTF8[state] if byte in some]
            for after in nexts:
                if not _may_continue(*after):
                    continue
                steps.setdefault((*after, (place + 1) % 4), []).append(value)
        options: list[ir.Expr] = []
        for target, values in steps.items():
            if _name(target) not in rules and target not in queue:
                queue.append(target)
            options.append(ir.sequence(ir.terminal(_letters(letters, values)), ir.call(_name(target))))
        if state == "" and bits == 0:  # the end: only zero bits are left
            padding = {0: "", 2: "==", 3: "="}.get(place)
            if padding is not None:
                options.append(ir.terminal(padding) if padding else ir.EPSILON)
        rules[_name((state, size, bits, place))] = ir.choice(*options)
    return ir.Grammar(rules, _name(("", 0, 0, 0)))


def _may_continue(state: str, size: int, bits: int) -> bool:
    """Whether some byte that may follow begins with these bits."""
    return any(byte >> (8 - size) == bits for some, _ in _UTF8[state] for byte in some)


def _name(state: tuple[str, int, int, int]) -> str:
    return "base64 " + " ".join(map(str, state))
