"""What the text notations of grammars share: places in the text, characters, counts, alternatives in brackets.

A notation is a subclass of `Reader` that says where white space may stand, what an element looks like and where
a rule ends. Nothing recurses over brackets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from grammars import ir
from grammars.notation.source import MAX_DIGITS, GrammarSource

_HEX = re.compile(r"[0-9A-Fa-f]+")
_COUNT = re.compile(r"\{\s*(\d+)\s*(?:(,)\s*(\d*)\s*)?\}")


@dataclass(slots=True)
class Definitions:
    """Rules as they were written.

    Attributes:
        rules: by name. A rule in `differences` is a choice of two parts: what it says, and what to leave out.
        defined: the place of each rule's name in the text.
        called: the first place where each rule is called.
        differences: names of rules made for ``A - B``, with the place of the ``-``.
    """

    rules: dict[str, ir.Expr] = field(default_factory=dict)
    defined: dict[str, int] = field(default_factory=dict)
    called: dict[str, int] = field(default_factory=dict)
    differences: dict[str, int] = field(default_factory=dict)


class _Minus(ir.Expr):
    def __init__(self, at: int) -> None:
        self.at = at


@dataclass(slots=True)
class _Group:
    """An open bracket: alternatives that are finished, and the parts of the last one."""

    at: int
    choices: list[ir.Expr] = field(default_factory=list)
    parts: list[ir.Expr] = field(default_factory=list)


class Reader(GrammarSource):
    """The text of a grammar and a position in it.

    Attributes:
        at: index of the next character.
        made: what was read so far.
    """

    name: ClassVar[str]  # of the notation, in messages
    escapes: dict[str, str]  # after a backslash
    class_escapes: dict[str, str]  # after a backslash inside brackets

    def __init__(self, text: str) -> None:
        super().__init__(text, self.name)
        self.at = 0
        self.made = Definitions()

    # ------------------------------------------------------------ what a notation says

    def space(self, *, nested: bool) -> None:
        """Skips white space and comments; `nested` in brackets and wherever else a line may be broken."""
        raise NotImplementedError

    def element(self) -> ir.Expr | None:
        """A literal, class or rule name, or None if there is none here."""
        raise NotImplementedError

    # ------------------------------------------------------------ characters

    def next(self) -> str:
        """The next character, or an empty string at the end."""
        return self.text[self.at : self.at + 1]

    def take(self, text: str) -> bool:
        """Whether `text` comes next; goes past it if so."""
        found = self.text.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """What a pattern matches here, gone past; None if it does not."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found.group()

    def hexadecimal(self, at: int, least: int, most: int | None) -> str:
        """The character of the hexadecimal digits that come next."""
        stop = None if most is None else self.at + most
        found = _HEX.match(self.text, self.at, len(self.text) if stop is None else stop)
        digits = found.group() if found else ""
        if len(digits) < least:
            self.fail(f"{least} hexadecimal digits expected", at)
        self.at += len(digits)
        return self.code_point(digits, at)

    def escaped(self, known: dict[str, str]) -> str:
        """The character that an escape stands for; the backslash was read."""
        at = self.at - 1
        letter = self.next()
        self.at += 1
        if letter == "x":
            return self.hexadecimal(at, *self.x_digits)
        if letter in ("u", "U"):
            count = 4 if letter == "u" else 8
            return self.hexadecimal(at, count, count)
        if letter in known and letter:
            return known[letter]
        return self.fail(f"unknown escape \\{letter}" if letter else "the text ends after a backslash", at)

    x_digits: tuple[int, int | None] = (2, 2)

    def literal(self, quote: str) -> ir.Expr:
        """The rest of a literal whose opening quote was read."""
        opened = self.at - 1
        out: list[str] = []
        while not self.take(quote):
            letter = self.next()
            if not letter or letter in "\r\n":
                self.fail("the quote is never closed", opened)
            self.at += 1
            out.append(self.escaped(self.escapes) if letter == "\\" else letter)
        text = "".join(out)
        try:
            return ir.terminal(text) if text else ir.EPSILON
        except UnicodeEncodeError:
            self.fail("half of a surrogate pair is no character", opened)

    def class_character(self) -> str:
        """One character between brackets."""
        letter = self.next()
        if not letter or letter in "\r\n":
            self.fail("the bracket is never closed", self.text.rfind("[", 0, self.at))
        self.at += 1
        return self.escaped(self.class_escapes) if letter == "\\" else letter

    def character_class(self) -> ir.Expr:
        """The rest of a class whose opening bracket was read."""
        opened = self.at - 1
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        while not self.take("]"):
            at = self.at
            low = high = ord(self.class_character())
            if self.next() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = ord(self.class_character())
                if high < low:
                    self.fail("the range ends before it begins", at)
            ranges.append((low, high))
        if negated:
            ranges = list(ir.invert_ranges(ranges))
        made = ir.chars(ranges)
        if isinstance(made, ir.EmptySet):
            self.fail("no character is in this class", opened)
        return ir.Terminal(made)

    def call(self, name: str, at: int) -> ir.Expr:
        """A rule is called."""
        self.made.called.setdefault(name, at)
        return ir.call(name)

    # ------------------------------------------------------------ structure

    def define(self, name: str, at: int, body: ir.Expr) -> None:
        """A rule is complete."""
        if name in self.made.rules:
            first = self.problem("", self.made.defined[name]).place
            self.fail(f"the rule {name} is defined before, at {first}", at)
        self.made.rules[name] = body
        self.made.defined[name] = at

    def alternatives(self) -> ir.Expr:
        """Everything up to a place where no element and no operator stands."""
        stack = [_Group(self.at)]
        while True:
            group = stack[-1]
            at = self.at
            if self.take("("):
                self.check_group(at)
                stack.append(_Group(at))
            elif self.next() == ")":
                if len(stack) == 1:
                    self.fail("nothing is open that could be closed here", self.at)
                self.at += 1
                stack.pop()
                stack[-1].parts.append(self.closed(group))
            elif self.take("|"):
                group.choices.append(self.joined(group.parts))
                group.parts = []
                self.space(nested=True)
                continue
            elif self.repetition(group.parts):
                pass
            elif (element := self.element()) is not None:
                group.parts.append(element)
            elif self.minus():
                if not group.parts or isinstance(group.parts[-1], _Minus):
                    self.fail("nothing stands before the -", at)
                group.parts.append(_Minus(at))
            elif len(stack) > 1:
                if not self.next():
                    self.fail("the parenthesis is never closed", group.at)
                self.fail("unexpected character", self.at)
            else:
                return self.closed(group)
            self.space(nested=len(stack) > 1)

    def check_group(self, at: int) -> None:
        """Refuses what begins like a group and is none."""

    def minus(self) -> bool:
        """Whether a minus comes next, gone past; only some notations have it."""
        return False

    def closed(self, group: _Group) -> ir.Expr:
        """The alternatives of a group."""
        return ir.choice(*group.choices, self.joined(group.parts))

    def joined(self, parts: list[ir.Expr]) -> ir.Expr:
        """The parts of one alternative in sequence."""
        whole: list[ir.Expr] = []
        rest = iter(parts)
        for part in rest:
            if not isinstance(part, _Minus):
                whole.append(part)
                continue
            without = next(rest, None)
            if without is None:
                self.fail("nothing stands after the -", part.at)
            name = f"{len(self.made.differences)} - "  # no rule that someone writes is called so
            self.made.rules[name] = ir.Choice((whole.pop(), without))
            self.made.differences[name] = part.at
            whole.append(ir.call(name))
        return ir.sequence(*whole)

    def repetition(self, parts: list[ir.Expr]) -> bool:
        """Whether a quantifier comes next; applies it to the part before it."""
        at = self.at
        low, high = 0, None
        if self.take("*"):
            pass
        elif self.take("+"):
            low = 1
        elif self.take("?"):
            high = 1
        elif self.next() == "{":
            found = _COUNT.match(self.text, at)
            if found is None:
                self.fail("a count is {m}, {m,} or {m,n}", self.at)
            self.at = found.end()
            low = int(found[1][:MAX_DIGITS])
            high = low if found[2] is None else int(found[3][:MAX_DIGITS]) if found[3] else None
            if high is not None and high < low:
                self.fail("the greater count comes first", at)
        else:
            return False
        if not parts or isinstance(parts[-1], _Minus):
            self.fail("nothing stands before this that could be repeated", at)
        parts[-1] = ir.loop(parts[-1], low, high)
        return True
