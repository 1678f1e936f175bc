"""Attributes of rules, ``name[lazy, suffix="</x>"]: ...``, as llguidance has them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from constrained.grammars.notation.source import MAX_DIGITS, GrammarSource

_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"[a-z_]+")
_TERMINAL = re.compile(
    r"""
    " (?: \\[^\n] | [^"\\\n] )* " i? (?: [ ]* \.\. [ ]* " (?: \\[^\n] | [^"\\\n] )* " )?
  | /(?!/) (?: \\. | [^/\\\n] )+ / [imsux]*
  | _?[A-Z][A-Z0-9_]*
    """,
    re.VERBOSE,
)
_REFUSED = {
    "temperature": (
        "changes how tokens are drawn, by how a lexer has cut the text so far, and not what is allowed",
        "pass temperature to the call; it holds for the whole text",
    ),
}
_KNOWN = ("lazy", "suffix", "stop", "max_tokens", "capture", "stop_capture")
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_STRING = re.compile(r'"((?:\\[^\n]|[^"\\\n])*)"')


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """The greatest number of tokens of each text of a rule.

    Attributes:
        at: offset of the attribute.
        most: the number; at least 1.
    """

    at: int
    most: int


@dataclass(frozen=True, slots=True)
class RuleAttributes:
    """What stands in the brackets of a rule.

    Attributes:
        end: offset behind the brackets.
        lazy: whether the rule ends where it can end first.
        ending: where the terminal begins and ends in the text that ends the rule; None: there is none.
        is_stop: whether that terminal is a ``stop``, which the rules around write once more.
        capture: the name under which the texts of the rule are given back; "": that of the rule; None: they are not.
        stop_capture: the same for what ends the rule.
        limit: of the tokens of each of its texts; None: there is none.
    """

    end: int
    lazy: bool = False
    ending: tuple[int, int] | None = None
    is_stop: bool = False
    capture: str | None = None
    stop_capture: str | None = None
    limit: TokenLimit | None = None


def read_attributes(source: GrammarSource, at: int) -> RuleAttributes:
    """Reads the brackets that open at an offset.

    Raises:
        InvalidConstraint: malformed, or an unknown attribute.
        UnsupportedConstraint: an attribute that cannot be enforced.
    """
    found: dict[str, tuple[int, int]] = {}
    captures: dict[str, str] = {}
    limit: TokenLimit | None = None
    at = _skip(source, at + 1)
    while not source.text.startswith("]", at):
        key = _KEY.match(source.text, at)
        if key is None:
            source.fail("the name of an attribute expected, or ]", at)
        name, start = key[0], at
        if name in _REFUSED:
            source.refuse(f"the attribute {name} {_REFUSED[name][0]}", start, _REFUSED[name][1])
        if name not in _KNOWN:
            source.fail(f"unknown attribute {name}; known: {', '.join(_KNOWN)}", start)
        if name in found or (name in ("suffix", "stop") and {"suffix", "stop"} & found.keys()):
            source.fail(f"the rule has an attribute before that says what {name} says", start)
        at = _skip(source, key.end())
        found[name] = (start, at)
        if name in ("capture", "stop_capture"):
            captures[name] = ""
            if source.text.startswith("=", at):
                at = _skip(source, at + 1)
                value = _STRING.match(source.text, at)
                if value is None or not value[1] or "\\" in value[1]:
                    source.fail(f'the name of a {name} expected, as in {name}="city"', at)
                captures[name] = value[1]
                at = _skip(source, value.end())
            elif name == "stop_capture":
                source.fail("= and a name expected after stop_capture", at)
        elif name == "max_tokens":
            number = None
            if source.text.startswith("=", at):
                at = _skip(source, at + 1)
                number = _NUMBER.match(source.text, at)
            if number is None or len(number[0]) > MAX_DIGITS or int(number[0]) == 0:
                source.fail("= and a number of tokens expected after max_tokens, at least 1", at)
            limit = TokenLimit(start, int(number[0]))
            at = _skip(source, number.end())
        elif name != "lazy":
            if not source.text.startswith("=", at):
                source.fail(f"= and a terminal expected after {name}", at)
            at = _skip(source, at + 1)
            value = _TERMINAL.match(source.text, at)
            if value is None:
                source.fail("a string, a regular expression or the name of a terminal expected", at)
            if value[0] in ('""', '""i'):
                source.refuse(
                    "an empty ending is the end of the sequence, and the grammar goes on", at, "leave it out"
                )
            found[name] = value.span()
            at = _skip(source, value.end())
        if source.text.startswith(",", at):
            at = _skip(source, at + 1)
        elif not source.text.startswith("]", at):
            source.fail(", or ] expected after an attribute", at)
    ending = found.get("suffix", found.get("stop"))
    if ending is None and "stop_capture" in found:
        source.fail("stop_capture without suffix or stop", found["stop_capture"][0])
    lazy = "lazy" in found or ending is not None
    return RuleAttributes(
        at + 1, lazy, ending, "stop" in found, captures.get("capture"), captures.get("stop_capture"), limit
    )


def _skip(source: GrammarSource, at: int) -> int:
    space = _SPACE.match(source.text, at)
    return at if space is None else space.end()
