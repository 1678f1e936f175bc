r"""llama.cpp's GBNF, read into rules.

    root ::= "[" (item ("," item)*)? "]"     # a comment
    item ::= [a-z]+ | [^\x00-\x7F]{1,3} | root

Literals, classes, ``.``, groups, alternatives, ``* + ? {m} {m,} {m,n}``; a rule ends with its line, but goes on in
parentheses and after ``|``. Beyond what llama.cpp takes: ``_`` in names, which its documentation has too, and
counts of any size. Escapes mean code points, as there.
"""

from __future__ import annotations

import re

from grammars import ir
from grammars.notation.reader import Definitions, Reader

_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n"} | {letter: letter for letter in '\\"[]-'}


class _Gbnf(Reader):
    name = "GBNF"
    escapes = class_escapes = _ESCAPES

    def space(self, *, nested: bool) -> None:
        self.match(_LINES if nested else _SPACE)

    def element(self) -> ir.Expr | None:
        at = self.at
        if self.take('"'):
            return self.literal('"')
        if self.take("["):
            return self.character_class()
        if self.take("."):
            return ir.Terminal(ir.ANY_CHAR)
        if self.next() in ("<", "!"):
            self.refuse(
                "names a token; a constraint is about text, whatever its tokens",
                at,
                action="write the text of the token as a literal",
            )
        name = self.match(_NAME)
        return None if name is None else self.call(name, at)

    def run(self) -> Definitions:
        """Reads the whole text."""
        self.space(nested=True)
        while self.next():
            at = self.at
            name = self.match(_NAME)
            if name is None:
                self.fail("the name of a rule expected", self.at)
            self.space(nested=False)
            if not self.take("::="):
                self.fail(f"::= expected after the rule name {name}", self.at)
            self.space(nested=True)
            self.define(name, at, self.alternatives())
            if self.next() not in ("", "\r", "\n"):
                self.fail("unexpected character", self.at)
            self.space(nested=True)
        return self.made


def read(text: str) -> tuple[Definitions, Reader]:
    """The rules of a GBNF text, as they are written.

    Raises:
        InvalidConstraint: not GBNF; line, column and a caret are in the message.
        UnsupportedConstraint: it names tokens.
    """
    reader = _Gbnf(text)
    return reader.run(), reader
