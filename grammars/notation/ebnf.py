r"""EBNF as XGrammar has it, with the additions of the W3C's specifications, read into rules.

    root  ::= "[" (name ("," name)*)? "]"        # a comment
    name  ::= ([a-zA-Z] | #xE9 | 'ü')+ - reserved  /* another one */
    reserved ::= "if" | "else"

From XGrammar: ``::=``, literals in double quotes with escapes, classes, groups, ``|``, ``* + ? {m} {m,} {m,n}``, rule
names with ``_ - .``; lines may be broken anywhere, a rule ends where the next one begins. From the W3C: literals
in single quotes, ``#xN`` for a code point (in classes too), ``/* */``, and ``A - B``: what A says unless B says it
too, for A and B without recursion. A backslash escapes in single quotes too, so the W3C's ``'\'`` is written
``'\\'``. ``{m,n}`` never means a group as in ISO 14977, nor ``[...]`` an option.
"""

from __future__ import annotations

import re

from grammars import ir
from grammars.notation.reader import Definitions, Reader

_CODE_POINT = re.compile(r"#x[0-9A-Fa-f]+(?![0-9A-Za-z_])")
_SPACE = re.compile(r"(?:\s|(?!#x[0-9A-Fa-f]+(?![0-9A-Za-z_]))#[^\r\n]*)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_OPTIONS = re.compile(r"\[[^\]\r\n]*\](?=\s*::=)")
_DEFINITION = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(?:\[[^\]\r\n]*\])?\s*::=")
_MACRO = re.compile(r"(?:TagDispatch|TokenTagDispatch|Token|ExcludeToken)\s*\(")
_CONTROLS = {
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "b": "\b",
    "f": "\f",
    "a": "\a",
    "v": "\v",
    "0": "\0",
    "e": "\x1b",
}
_ESCAPES = _CONTROLS | {letter: letter for letter in "\"\\/'?"}
_CLASS_ESCAPES = _ESCAPES | {letter: letter for letter in "^$\\.*+?()[]{}|/-"}


class _Ebnf(Reader):
    name = "EBNF"
    escapes = _ESCAPES
    class_escapes = _CLASS_ESCAPES
    x_digits = (1, None)

    def space(self, *, nested: bool) -> None:
        self.match(_SPACE)
        while self.take("/*"):
            at = self.at - 2
            end = self.text.find("*/", self.at)
            if end < 0:
                self.fail("the comment is never closed", at)
            self.at = end + 2
            self.match(_SPACE)

    def class_character(self) -> str:
        coded = self.match(_CODE_POINT)
        return (
            super().class_character() if coded is None else self.code_point(coded[2:], self.at - len(coded))
        )

    def character_class(self) -> ir.Expr:
        if self.text.startswith("^]", self.at):  # nothing is left out
            self.at += 2
            return ir.Terminal(ir.ANY_CHAR)
        return super().character_class()

    def element(self) -> ir.Expr | None:
        at = self.at
        for quote in ('"', "'"):
            if self.take(quote):
                return self.literal(quote)
        if self.take("["):
            return self.character_class()
        if (coded := self.match(_CODE_POINT)) is not None:
            return ir.terminal(self.code_point(coded[2:], at))
        if _DEFINITION.match(self.text, at):
            return None
        if _MACRO.match(self.text, at):
            self.refuse("is a macro of XGrammar", at, action="use tag() for free text with structured parts")
        name = self.match(_NAME)
        return None if name is None else self.call(name, at)

    def minus(self) -> bool:
        return self.take("-")

    def check_group(self, at: int) -> None:
        if self.next() == "=" or self.text.startswith("?=", self.at):
            self.refuse(
                "looks ahead; that is a hint to another engine, not a language", at, action="remove it"
            )

    def run(self) -> Definitions:
        """Reads the whole text."""
        self.space(nested=True)
        while self.next():
            at = self.at
            name = self.match(_NAME)
            if name is None:
                self.fail("the name of a rule expected", self.at)
            if (options := self.match(_OPTIONS)) is not None:
                self.refuse("sets an option of another engine", self.at - len(options), action="remove it")
            self.space(nested=True)
            if not self.take("::="):
                self.fail(f"::= expected after the rule name {name}", self.at)
            self.space(nested=True)
            self.define(name, at, self.alternatives())
            if self.next() and not _DEFINITION.match(self.text, self.at):
                self.fail("unexpected character", self.at)
        return self.made


def read(text: str) -> tuple[Definitions, Reader]:
    """The rules of an EBNF text, as they are written.

    Raises:
        InvalidConstraint: not EBNF; line, column and a caret are in the message.
        UnsupportedConstraint: it uses what is no language: tokens, options, look-ahead.
    """
    reader = _Ebnf(text)
    return reader.run(), reader
