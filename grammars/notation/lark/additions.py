"""What Lark grammars may hold beyond Lark: ``%json {...}``, ``@name`` and the line ``%llguidance {}``.

They are replaced by names of rules before Lark's own loader reads the text. The text that it reads is safe to lex: its
literals are closed, and it has no long runs of empty lines (Lark's patterns take exponential and quadratic time there).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from grammars.errors import ConstraintTooLarge, Problem
from grammars.notation.source import GrammarSource

MAX_CHARACTERS = 1_000_000
"""Greatest length of a grammar."""

_SCAN = re.compile(
    r"""
    (?P<comment> (?: // | \# ) [^\n]* )
  | (?P<empty> (?: \r?\n ){16,} )
  | (?P<string> " (?: \\[^\n] | [^"\\\n] )* " )
  | (?P<regexp> /(?!/) (?: \\[/\\] | \\(?![/\\]) | [^/\\] )* / (?P<flags> [imslux]* ) )
  | (?P<opened> ["/] )
  | (?P<json> %json (?![a-z_]) )
  | (?P<name> @ (?P<identifier> [A-Za-z_][A-Za-z0-9_]* )? )
  | (?P<header> %llguidance (?![a-z_]) )
  | (?P<foreign> %regex (?![a-z_]) | %lark (?![a-z_]) | < )
  | (?P<both> & )
  | (?P<parameter> :: | %if (?![a-z_]) )
  | (?P<complement> (?<= [:|(,] ) [ ]* ~ )
    """,
    re.VERBOSE,
)
_SPACE = re.compile(r"[ \t]*")
_HARMLESS = frozenset({"no_forcing", "max_items_in_row", "allow_initial_skip"})


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedGrammar:
    """``%json`` or ``@name`` in a rule.

    Attributes:
        at: its offset in the text.
        name: after the ``@``; None for ``%json``.
        schema: after ``%json``.
    """

    at: int
    name: str | None = None
    schema: Any = None


@dataclass(slots=True)
class PlainLark:
    """A grammar without additions.

    Attributes:
        source: the grammar as it was written.
        text: what Lark's loader reads.
        embedded: by the name of the rule that stands for it in `text`.
        offsets: where the parts of `text` start.
        originals: where these parts start in `source`, and whether they were replaced.
    """

    source: GrammarSource
    text: str
    embedded: dict[str, EmbeddedGrammar] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=list)
    originals: list[tuple[int, bool]] = field(default_factory=list)

    def original(self, offset: int) -> int:
        """The offset in the grammar as it was written, for one in `text`."""
        index = bisect_right(self.offsets, offset) - 1
        start, replaced = self.originals[index]
        return start if replaced else min(start + offset - self.offsets[index], len(self.source.text))


def without_additions(text: str) -> PlainLark:
    """Replaces the additions to Lark by names of rules.

    Raises:
        InvalidConstraint: an addition is malformed, or a literal is not closed.
        UnsupportedConstraint: a construct of another engine.
        ConstraintTooLarge: the text is longer than `MAX_CHARACTERS`.
    """
    if len(text) > MAX_CHARACTERS:
        raise ConstraintTooLarge(
            "the Lark grammar is too large",
            Problem("text", f"{len(text)} characters; at most {MAX_CHARACTERS} are read"),
        )
    source = GrammarSource(text, "Lark")
    prefix = "embedded"
    while prefix in text:
        prefix += "_"
    pieces: list[str] = []
    plain = PlainLark(source, "")
    length = end = at = 0

    def emit(piece: str, original: int, *, replaced: bool = False) -> None:
        nonlocal length
        plain.offsets.append(length)
        plain.originals.append((original, replaced))
        pieces.append(piece)
        length += len(piece)

    def replace(match: re.Match[str], piece: str, stop: int) -> None:
        nonlocal end, at
        emit(text[end : match.start()], end)
        emit(piece, match.start(), replaced=True)
        end = at = stop

    while (match := _SCAN.search(text, at)) is not None:
        start, at = match.span()
        if match["opened"]:
            what = "quote" if match["opened"] == '"' else "regular expression"
            source.fail(f"the {what} is never closed", start)
        elif match["regexp"] and "\n" in match["regexp"] and "x" not in match["flags"]:
            source.fail(
                "the regular expression is never closed in its line; only one with the flag x may be broken "
                "into lines",
                start,
            )
        elif match["empty"]:
            replace(match, "\n", at)
        elif match["json"]:
            schema, stop = _json(source, at, "%json")
            plain.embedded[f"{prefix}{len(plain.embedded)}"] = EmbeddedGrammar(start, schema=schema)
            replace(match, f" {next(reversed(plain.embedded))} ", stop)
        elif match["name"]:
            if match["identifier"] is None:
                source.fail("the name of a constraint expected after @", at)
            plain.embedded[f"{prefix}{len(plain.embedded)}"] = EmbeddedGrammar(start, match["identifier"])
            replace(match, f" {next(reversed(plain.embedded))} ", at)
        elif match["header"]:
            replace(match, " ", _check_header(source, start, at))
        elif match["foreign"]:
            source.refuse("is a construct of another engine", start, "write a terminal /.../, or use @name")
        elif match["both"]:
            source.refuse(
                "is the intersection of another engine", start, "write one terminal /.../ of these texts"
            )
        elif match["parameter"]:
            source.refuse("is a parametric rule of another engine", start, "write a rule for each value")
        elif match["complement"]:
            source.refuse(
                "is the complement of another engine", at - 1, "write one terminal /.../ of these texts"
            )
    emit(text[end:], end)
    if plain.embedded:
        emit("\n%declare " + " ".join(plain.embedded), len(text), replaced=True)
    plain.text = "".join(pieces)
    return plain


def _json(source: GrammarSource, at: int, what: str) -> tuple[Any, int]:
    space = _SPACE.match(source.text, at)
    start = at if space is None else space.end()
    try:
        return json.JSONDecoder().raw_decode(source.text, start)
    except json.JSONDecodeError as error:
        source.fail(f"JSON expected after {what}: {error.msg}", error.pos)
    except RecursionError:
        source.fail(f"the JSON after {what} is nested too deeply", start)


def _check_header(source: GrammarSource, start: int, at: int) -> int:
    options, end = _json(source, at, "%llguidance")
    if not isinstance(options, dict):
        source.fail("%llguidance takes an object", start)
    for option, value in options.items():
        if option not in _HARMLESS or (option == "allow_initial_skip" and value is False):
            source.refuse(f"the option {option!r} of %llguidance changes what is allowed", start)
    return end
