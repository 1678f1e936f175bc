"""Constraints whose texts are not JSON: a pattern, a list of values, a span of a document, a grammar in GBNF or EBNF."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from constrained.constraint.base import Constraint, digest, shorten
from constrained.constraint.coerce import as_constraint
from constrained.errors import InvalidConstraint, Problem, RejectedValue, UnsatisfiableConstraint

if TYPE_CHECKING:
    from constrained.grammars.ir import Grammar
    from constrained.grammars.notation import Notation

_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x", re.ASCII: "a"}


@dataclass(frozen=True, eq=False, repr=False)
class _RegexConstraint(Constraint):
    """Text that a pattern matches as a whole; the value is the text."""

    pattern: str
    dialect: Literal["python", "ecma", "rust"]
    flags: str

    @cached_property
    def key(self) -> str:
        return digest("regex", self.pattern, self.dialect, self.flags)

    @cached_property
    def grammar(self) -> Grammar:
        from constrained.grammars import ir
        from constrained.grammars.regex import parse

        return ir.Grammar.of(parse(self.pattern, dialect=self.dialect, flags=self.flags))

    def parse(self, text: str) -> str:
        return text

    def render(self) -> str:
        return f"text that matches {shorten(self.pattern)}"

    def __repr__(self) -> str:
        flags = f", flags={self.flags!r}" if self.flags else ""
        dialect = f", dialect={self.dialect!r}" if self.dialect != "python" else ""
        return f"regex({shorten(repr(self.pattern))}{dialect}{flags})"


@as_constraint.register(re.Pattern)
def regex(
    pattern: str | re.Pattern[str], *, dialect: Literal["python", "ecma", "rust"] = "python", flags: str = ""
) -> Constraint:
    """Text that a regular expression matches as a whole; the value is the text.

    Args:
        pattern: the expression, or a compiled one of `re`, which brings its flags along.
        dialect: how to read it: as Python's `re`, as JavaScript (the dialect of JSON Schema), or as Rust's `regex`.
        flags: any of `i` (ignore case), `m` (multi-line), `s` (dot matches all), `x` (verbose), `a` (ASCII classes).

    Raises:
        InvalidConstraint: not a text pattern, or an unknown flag. Mistakes inside the pattern are found when
            it is compiled.
    """
    if isinstance(pattern, re.Pattern):
        flags += "".join(
            letter for flag, letter in _FLAGS.items() if pattern.flags & flag and letter not in flags
        )
        pattern = pattern.pattern
    if not isinstance(pattern, str):
        raise InvalidConstraint(
            f"a regex is a str, not {type(pattern).__name__}", action="write the pattern as text, not bytes"
        )
    unknown = sorted(set(flags) - set(_FLAGS.values()))
    if unknown:
        raise InvalidConstraint(f"unknown regex flag {unknown[0]!r}", action="use letters out of 'imsxa'")
    return _RegexConstraint(pattern, dialect, "".join(sorted(set(flags))))


@dataclass(frozen=True, eq=False, repr=False)
class _ChoiceConstraint(Constraint):
    """One of several texts, each standing for a value."""

    _values: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        return digest("choice", *sorted(self._values))

    @cached_property
    def schema(self) -> Any:
        return {"enum": [_plain(value) for value in self._values.values()]}

    @cached_property
    def grammar(self) -> Grammar:
        from constrained.grammars import ir

        return ir.Grammar.of(ir.union(*(ir.literal(text) for text in self._values)))

    def parse(self, text: str) -> Any:
        if text not in self._values:
            raise RejectedValue(f"the text is not one of {self.render()}", text=text)
        return self._values[text]

    def render(self) -> str:
        return f"{len(self._values)} choices: {shorten(', '.join(self._values))}"

    def __repr__(self) -> str:
        return f"choice([{shorten(', '.join(map(repr, self._values.values())))}])"

    @property
    def _meaning(self) -> Any:
        return self._values  # 1 == True in Python: the texts, which are the key, tell them apart


def choice(values: Any, *more: Any) -> Constraint:
    """One of several values, as bare text: a string is generated without quotes.

    Args:
        values: strings, which stand for themselves; other JSON values, which are written as JSON
            (`3`, `true`, `null`, `{"a": 1}`); enum members, which are written as their value and returned as
            members (an `Enum` class is the list of its members). The same value twice counts once.
        more: further values, where they are passed one by one: ``choice("yes", "no")``.

    Raises:
        UnsatisfiableConstraint: no values.
        InvalidConstraint: a value that is not JSON, or two values that are the same text (`1` and `"1"`).
    """
    if more:
        values = (values, *more)
    if isinstance(values, (str, bytes, Mapping)):
        raise InvalidConstraint(
            f"choice takes a list of values, not one {type(values).__name__}", action="write choice([...])"
        )
    if not isinstance(values, Iterable):
        raise InvalidConstraint(
            f"choice takes a list of values, not a {type(values).__name__}", action="write choice([...])"
        )
    texts: dict[str, Any] = {}
    for index, value in enumerate(values):
        text = _text_of(value, index)
        if text in texts and _digest_of(texts[text]) != _digest_of(value):
            raise InvalidConstraint(
                "two choices have equal text",
                Problem(f"choice {index}", f"has the text of the choice {texts[text]!r}", value),
                action="remove one of them",
            )
        texts.setdefault(text, value)
    if not texts:
        raise UnsatisfiableConstraint("choice() needs at least one value", action="pass a non-empty list")
    return _ChoiceConstraint(texts)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def _digest_of(value: Any) -> tuple[type, str]:
    return type(value), repr(value)


def _text_of(value: Any, index: int) -> str:
    plain = _plain(value)
    try:
        text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, allow_nan=False)
        str(text).encode()
    except (TypeError, ValueError) as error:
        raise InvalidConstraint(
            "a choice is not a JSON value",
            Problem(f"choice {index}", str(error), repr(value)),
            action="use str, int, float, bool, None, or lists and dicts of them",
        ) from None
    return str(text)


@dataclass(frozen=True, eq=False, repr=False)
class _SubstringConstraint(Constraint):
    """Text that stands in a document."""

    document: str
    min_length: int

    @cached_property
    def key(self) -> str:
        return digest("spans", self.document, str(self.min_length))

    @cached_property
    def grammar(self) -> Grammar:
        from constrained.grammars.text.substring import substring_grammar

        return substring_grammar(self.document, min_length=self.min_length)

    def parse(self, text: str) -> str:
        return text

    def render(self) -> str:
        return f"a span of {shorten(self.document)}"

    def __repr__(self) -> str:
        return f"substring_of({shorten(repr(self.document))}, min_length={self.min_length})"


def substring_of(text: str, *, min_length: int = 1) -> Constraint:
    """A verbatim span of a document; the value is the text.

    A span begins and ends between any two characters, so it may begin inside a word. For where it stands use
    ``document.find(value)``.

    Args:
        text: the document; `constrained.grammars.text.substring.MAX_DOCUMENT_LENGTH` says how long it may be.
        min_length: characters of the shortest span; 0 allows the empty text.

    Raises:
        InvalidConstraint: not a text, or a negative length. A document that is too short or too long is found
            when the constraint is compiled.
    """
    if not isinstance(text, str):
        raise InvalidConstraint(f"a document is a str, not {type(text).__name__}")
    if not isinstance(min_length, int) or min_length < 0:
        raise InvalidConstraint(
            f"min_length={min_length!r} is not a whole number >= 0", action="pass a number of characters"
        )
    return _SubstringConstraint(text, min_length)


@dataclass(frozen=True, eq=False, repr=False)
class _GrammarConstraint(Constraint):
    """Text that the rules of a grammar derive."""

    source: str
    notation: Notation
    start: str | None
    around: tuple[str, ...] = ()
    """Special tokens of the text that this one is a part of."""
    _ambiguous = True

    @cached_property
    def key(self) -> str:
        around = ("around", *self.around) if self.around else ()
        return digest("grammar", self.source, self.notation, self.start or "", *around)

    @cached_property
    def special_tokens(self) -> tuple[str, ...]:
        from constrained.grammars.notation import special_tokens

        return tuple(dict.fromkeys((*self.around, *special_tokens(self.source, self.notation))))

    def among_special_tokens(self, names: Sequence[str]) -> Constraint:
        return replace(self, around=tuple(names)) if self.special_tokens else self

    @cached_property
    def grammar(self) -> Grammar:
        from constrained.grammars.notation import parse
        from constrained.vocabulary.special_tokens import free_letters, letters  # loads numpy

        names = self.special_tokens
        letter = next(iter(free_letters(names)), None)
        return parse(self.source, self.notation, start=self.start, marks=letters(names), letter=letter)

    def parse(self, text: str) -> str:
        return text

    def render(self) -> str:
        return f"text of the {self.notation.upper()} grammar {shorten(self.source)}"

    def __repr__(self) -> str:
        start = "" if self.start is None else f", start={self.start!r}"
        return f"{self.notation}({shorten(repr(self.source))}{start})"


def gbnf(text: str, *, start: str | None = None) -> Constraint:
    """Text that a grammar in llama.cpp's GBNF derives; the value is the text.

    Every derivation counts, character by character: no lexer cuts greedily. Ambiguous, empty,
    left- and right-recursive rules are all fine.

    Args:
        text: the grammar (not the name of a file).
        start: the rule that a whole text follows, ``root`` by default.

    Raises:
        InvalidConstraint: not a text. Mistakes inside are found when the grammar is compiled, with line and column.
    """
    return _GrammarConstraint(_checked(text), "gbnf", start)


def ebnf(text: str, *, start: str | None = None) -> Constraint:
    """Text that a grammar in EBNF derives, XGrammar's with the W3C's additions; the value is the text.

    As `gbnf`, with literals in single quotes, code points ``#x41``, comments ``/* */``, and ``A - B`` for what A
    says unless B says it too; lines may be broken anywhere.

    Args:
        text: the grammar (not the name of a file).
        start: the rule that a whole text follows; by default ``root``, or the first rule where there is none.

    Raises:
        InvalidConstraint: not a text. Mistakes inside are found when the grammar is compiled, with line and column.
    """
    return _GrammarConstraint(_checked(text), "ebnf", start)


def _checked(text: str) -> str:
    if not isinstance(text, str):
        raise InvalidConstraint(
            f"a grammar is a str, not {type(text).__name__}", action="read the file: path.read_text()"
        )
    return text
