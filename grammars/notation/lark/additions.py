"""What Lark grammars may hold beyond Lark: ``%json {...}``, ``@name``, and what llguidance adds.

They are replaced by names of rules and terminals before Lark's own loader reads the text. The text that it reads is safe to
lex: its literals are closed, and it has no long runs of empty lines (Lark's patterns take exponential and quadratic time
there).

    name[lazy]: A "x"      becomes   name: lazy0       lazy0 is a terminal whose pattern is the text that was the rule's
    A & ~B                           A both0 not0 B    joined in `patterns`
    perm::set_bit(0)                 call0             a rule that is only declared, as %json is
    %if bit_clear(0)                 if0               the same, nothing or no text at all
    "a"{2,3}                         "a"~2..3
    <|call|> <[5-9]>                 token0 token1     the same as call0
    %regex {...}                     REGEX0            a terminal with its pattern
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, TypeVar

from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.notation.lark.attributes import TokenLimit, read_attributes
from constrained.grammars.notation.lark.parameters import Condition, RuleNumberReader, Value
from constrained.grammars.notation.lark.structured_regex import StructuredRegex, read_structured_regex
from constrained.grammars.notation.source import GrammarSource, TokenReference, read_token

MAX_CHARACTERS = 1_000_000
"""Greatest length of a grammar."""
MAX_COPIES = 1_000_000_000
"""Greatest count of a repetition."""

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
  | (?P<structured> %regex (?![a-z_]) )
  | (?P<foreign> %lark (?![a-z_]) )
  | (?P<token> < (?: \[ [^\]\n]* \] | [^<>\s]+ ) > )
  | (?P<angle> < )
  | (?P<both> & )
  | (?P<complement> (?<! ["/\w)\]}] ) ~ (?! [ ]* [0-9] ) )
  | (?P<attributed> ^ [ \t]* [?!]{0,2} (?P<rule> [a-z_][a-z0-9_]* ) (?: \.[0-9]+ )? [ \t]* (?= \[ ) )
  | (?P<parametric> ^ [ \t]* [?!]{0,2} (?P<definition> [a-z_][a-z0-9_]* ) [ \t]* :: [ \t]* _ [ \t]* (?= [:\[] ) )
  | (?P<called> [a-z_][a-z0-9_]* ) [ \t]* ::
  | (?P<condition> %if (?![a-z_]) )
  | (?P<count> \{ [ ]* (?P<low> [0-9]* ) [ ]* (?P<comma> ,? ) [ ]* (?P<high> [0-9]* ) [ ]* \} )
  | (?P<word> [A-Za-z_][A-Za-z0-9_]* )
    """,
    re.VERBOSE | re.MULTILINE,
)
_KINDS = (
    "comment", "empty", "string", "regexp", "opened", "json", "name", "header", "structured", "foreign", "token", "angle", "both",
    "complement", "attributed", "parametric", "called", "condition", "count", "word",
)  # fmt: skip
_LLGUIDANCE = {
    "header",
    "structured",
    "token",
    "both",
    "complement",
    "attributed",
    "parametric",
    "called",
    "condition",
}
_COLON = re.compile(r"[ \t]*:")
_SPACE = re.compile(r"[ \t]*")
_Added = TypeVar("_Added")
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


@dataclass(frozen=True, slots=True, eq=False)
class ParametricCall:
    """``name::value`` in a rule, or ``%if condition``.

    Attributes:
        at: its offset in the text.
        rule: the rule that is called; None for a condition.
        makes: gives the number that the call passes, or whether the condition holds, from the number of the rule around.
        constant: whether that number is not used.
    """

    at: int
    rule: str | None
    makes: Value | Condition
    constant: bool


@dataclass(frozen=True, slots=True, eq=False)
class LazyRule:
    """A rule that ends where it can end first.

    Attributes:
        rule: its name.
        ending: the terminal in `PlainLark.text` that ends it after its body; None: there is none.
        is_stop: whether rules around it write the ending once more, as for llguidance's ``stop``.
    """

    rule: str
    ending: str | None
    is_stop: bool


@dataclass(slots=True)
class PlainLark:
    """A grammar without additions.

    Attributes:
        source: the grammar as it was written.
        text: what Lark's loader reads.
        embedded: by the name of the rule that stands for it in `text`.
        tokens: by the name of the rule that stands for them.
        calls: of parametric rules, and conditions, by the name of the rule that stands for them.
        parametric: names of parametric rules.
        captured: by the rule, the names under which its texts and what ends them are given back; None: they are not.
        limits: of the tokens of a rule's texts, by the rule.
        lazy: rules that end where they can end first, by the terminal that stands for their body.
        structured: ``%regex``, by the terminal that stands for it.
        operators: ``"&"`` or ``"~"`` by the terminal that stands for it.
        llguidance: whether the grammar says that it is llguidance's, or uses what that adds. Literals and terminals may then
            be empty.
        offsets: where the parts of `text` start.
        originals: where these parts start in `source`, and whether they were replaced.
    """

    source: GrammarSource
    text: str
    embedded: dict[str, EmbeddedGrammar] = field(default_factory=dict)
    tokens: dict[str, TokenReference] = field(default_factory=dict)
    calls: dict[str, ParametricCall] = field(default_factory=dict)
    parametric: set[str] = field(default_factory=set)
    captured: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    limits: dict[str, TokenLimit] = field(default_factory=dict)
    lazy: dict[str, LazyRule] = field(default_factory=dict)
    structured: dict[str, StructuredRegex] = field(default_factory=dict)
    operators: dict[str, str] = field(default_factory=dict)
    llguidance: bool = False
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
    return _Replacement(GrammarSource(text, "Lark")).plain_grammar()


class _Replacement:
    """Goes through a text once, and replaces what is not Lark's."""

    def __init__(self, source: GrammarSource) -> None:
        self.source = source
        self.plain = PlainLark(source, "")
        self.mark = "added"
        while self.mark in source.text.lower():
            self.mark += "_"
        self._pieces: list[str] = []
        self._length = 0
        self._end = 0  # of what was read
        self._names = 0

    def plain_grammar(self) -> PlainLark:
        """The grammar that Lark's loader reads."""
        text, plain, at = self.source.text, self.plain, 0
        while (match := _SCAN.search(text, at)) is not None:
            at = self._replaced(match)
        self._emit(text[self._end :], self._end)
        if declared := [*plain.embedded, *plain.tokens, *plain.calls, *plain.operators]:
            self._emit("\n%declare " + " ".join(declared), len(text), replaced=True)
        for name, regex in plain.structured.items():  # Lark's loader has to read some pattern
            self._emit(f'\n{name}: "{name}"', regex.at, replaced=True)
        plain.text = "".join(self._pieces)
        return plain

    def _replaced(self, match: re.Match[str]) -> int:
        """Replaces what was found, and returns where to go on."""
        source, plain = self.source, self.plain
        start, at = match.span()
        kind = next(name for name in _KINDS if match[name] is not None)
        plain.llguidance |= kind in _LLGUIDANCE
        if kind == "opened":
            what = "quote" if match["opened"] == '"' else "regular expression"
            source.fail(f"the {what} is never closed", start)
        elif kind == "regexp":
            if "\n" in match["regexp"] and "x" not in match["flags"]:
                source.fail(
                    "the regular expression is never closed in its line; only one with the flag x may be broken "
                    "into lines",
                    start,
                )
        elif kind == "empty":
            self._put(match, "\n", at)
        elif kind == "json":
            schema, at = _json(source, at, "%json")
            self._put(match, self._named(plain.embedded, EmbeddedGrammar(start, schema=schema)), at)
        elif kind == "name":
            if match["identifier"] is None:
                source.fail("the name of a constraint expected after @", at)
            self._put(match, self._named(plain.embedded, EmbeddedGrammar(start, match["identifier"])), at)
        elif kind == "structured":
            value, at = _json(source, at, "%regex")
            regex = read_structured_regex(source, start, value)
            self._put(match, self._named(plain.structured, regex, terminal=True), at)
        elif kind == "header":
            at = _check_header(source, start, at)
            self._put(match, " ", at)
        elif kind == "foreign":
            source.refuse("is a construct of another engine", start, "write a terminal /.../, or use @name")
        elif kind == "token":
            self._put(match, self._named(plain.tokens, read_token(source, start, match["token"])), at)
        elif kind == "angle":
            source.fail(
                "a token is named between < and >, without white space, as in <|call|> or <[128]>", start
            )
        elif kind in ("both", "complement"):
            self._put(match, self._named(plain.operators, match[0], terminal=True), at)
        elif kind == "attributed":
            at = self._attributed(match)
        elif kind == "parametric":
            plain.parametric.add(match["definition"])
            if source.text.startswith("[", at):
                return self._attributed(match)
            self._put(match, source.text[start : match.end("definition")], at)
        elif kind in ("called", "condition"):
            reader = RuleNumberReader(source, at)
            makes = reader.value() if kind == "called" else reader.condition()
            constant = kind == "called" and reader.constant
            call = ParametricCall(start, match["called"], makes, constant)
            at = reader.at
            self._put(match, self._named(plain.calls, call), at)
        elif kind == "count" and match["low"] + match["high"]:
            low, high = match["low"] or "0", match["high"] or (str(MAX_COPIES) if match["comma"] else "")
            self._put(match, f"~{low}..{high}" if high else f"~{low}", at)
        return at

    def _attributed(self, match: re.Match[str]) -> int:
        """The definition of a rule with attributes, up to its colon."""
        source, rule = self.source, match["rule"] or match["definition"]
        head = match["attributed"] or source.text[match.start() : match.end("definition")]
        attributes = read_attributes(source, match.end())
        colon = _COLON.match(source.text, attributes.end)
        if colon is None:
            source.fail(": expected after the attributes of a rule", attributes.end)
        if attributes.lazy and match["definition"] is not None:
            source.refuse(f"{rule} has a number, and rules that end early have none", match.end())
        if attributes.capture is not None or attributes.stop_capture is not None:
            name = None if attributes.capture is None else attributes.capture or rule
            self.plain.captured[rule] = name, attributes.stop_capture
        if attributes.limit is not None:
            self.plain.limits[rule] = attributes.limit
        if not attributes.lazy:
            self._put(match, head + ":", colon.end())
            return colon.end()
        body, ending = self._fresh(terminal=True), None
        self._put(match, f"{head}: {body}\n", colon.end())
        if attributes.ending is not None:
            ending = self._fresh(terminal=True)
            start, stop = attributes.ending
            self._emit(f"{ending}: ", start, replaced=True)
            self._emit(source.text[start:stop], start)
            self._emit("\n", stop, replaced=True)
        self._emit(f"{body}:", colon.start(), replaced=True)
        self.plain.lazy[body] = LazyRule(rule, ending, attributes.is_stop)
        return colon.end()

    def _fresh(self, *, terminal: bool = False) -> str:
        self._names += 1
        name = f"{self.mark}{self._names}"
        return name.upper() if terminal else name

    def _named(self, table: dict[str, _Added], added: _Added, *, terminal: bool = False) -> str:
        """Adds to a table, under a new name, which is returned between spaces."""
        name = self._fresh(terminal=terminal)
        table[name] = added
        return f" {name} "

    def _put(self, match: re.Match[str], piece: str, stop: int) -> None:
        """Writes a piece in the place of what stands from a match up to an offset."""
        self._emit(self.source.text[self._end : match.start()], self._end)
        self._emit(piece, match.start(), replaced=True)
        self._end = stop

    def _emit(self, piece: str, original: int, *, replaced: bool = False) -> None:
        self.plain.offsets.append(self._length)
        self.plain.originals.append((original, replaced))
        self._pieces.append(piece)
        self._length += len(piece)


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
