r"""The parser of regular expressions: pattern text to a syntax tree.

Parts without assertions become `ir.Regex` at once. The parser keeps its own stack, so that nested groups need no recursion.
"""

from __future__ import annotations

import re
import sys

from constrained.grammars import ir
from constrained.grammars.regex.ast import (
    EndAnchor,
    Lookaround,
    RegexNode,
    StartAnchor,
    WordBoundary,
)
from constrained.grammars.regex.escapes import RegexDialect
from constrained.grammars.regex.tree import OpenGroup, TreeBuilder
from constrained.grammars.work import counted_work

__all__ = ["RegexDialect", "RegexParser"]

_BEGINNING = 12
"""Groups are found by this number of leading characters before they are compared as a whole."""
_GROUPS_KEPT = 200
_LONGEST_GROUP = 2_000
"""Groups of one pattern that are cached, and the characters of one at most."""
_CLASSES_KEPT = 1_000
_CLASSES: dict[str, ir.Regex] = {}
_RUN = re.compile(r"[A-Za-z0-9 :;,@/_=%~'<>!&#\"-]{2,}(?![*+?{])")
"""Characters that stand for themselves in every dialect, with no quantifier after the last."""
_OWN_FLAGS = {"python": "au", "rust": "uU", "ecma": ""}
_PLAIN_CLASS = re.compile(r"\[\^?(?:[A-Za-z0-9 _.:;,@/=%'<>!](?:-[A-Za-z0-9])?)+\]")
"""A class that is written alike in every dialect."""


class RegexParser(TreeBuilder):
    """Reads one pattern; see `constrained.grammars.regex.parse`."""

    # ------------------------------------------------------------ groups

    @counted_work("the pattern")
    def parse(self) -> RegexNode:
        """The tree of the whole pattern."""
        stack = [OpenGroup(0, self.flags)]
        pattern = self.pattern
        groups: dict[
            str, list[tuple[str, frozenset[str], ir.Regex]]
        ] = {}  # groups, by their first characters
        group_count = 0
        while self.at < len(pattern):
            at = self.at
            char = pattern[at]
            group = stack[-1]
            if char == "(":
                again = groups.get(pattern[at : at + _BEGINNING])
                if again is not None and (node := self.reuse_group(again)) is not None:
                    group.items.append(self.read_quantifier(node, at))
                    continue
                self.open(stack)
            elif char == ")":
                if len(stack) == 1:
                    raise self.invalid_pattern("this group was never opened")
                self.at += 1
                group = stack.pop()
                closed = self.close(group)
                if (
                    isinstance(closed, ir.Regex)
                    and group_count < _GROUPS_KEPT
                    and self.at - group.at <= _LONGEST_GROUP
                ):
                    group_count += 1
                    begin = pattern[group.at : group.at + _BEGINNING]
                    groups.setdefault(begin, []).append((pattern[group.at : self.at], group.flags, closed))
                stack[-1].items.append(self.read_quantifier(closed, group.at))
            elif char == "|":
                self.at += 1
                group.alternatives.append(self.alternative(group))
                group.items = []
            elif "x" in self.flags and (char.isspace() or char == "#"):
                self.skip_verbose()
            elif char in "*+?" or (char == "{" and (self.dialect == "rust" or self.counts(at))):
                raise self.invalid_pattern("nothing to repeat")
            elif (run := _RUN.match(pattern, at)) and self.flags.isdisjoint("ix"):
                self.at = run.end()
                group.items.append(ir.Literal(run[0].encode()))
            else:
                group.items.append(self.read_quantifier(self.atom(), at))
        if len(stack) > 1:
            raise self.invalid_pattern("this group is never closed", stack[-1].at)
        return self.close(stack.pop())

    def reuse_group(self, groups: list[tuple[str, frozenset[str], ir.Regex]]) -> ir.Regex | None:
        """The node of an earlier group with equal source and equal flags."""
        for text, flags, node in groups:
            if flags == self.flags and self.pattern.startswith(text, self.at):
                self.at += len(text)
                return node
        return None

    def skip_verbose(self) -> None:
        """Skips a space or a comment of a verbose pattern."""
        if self.pattern[self.at] == "#":
            stop = self.pattern.find("\n", self.at)
            self.at = len(self.pattern) if stop < 0 else stop
        else:
            self.at += 1

    def open(self, stack: list[OpenGroup]) -> None:
        """Reads ``(`` and what follows it."""
        at = self.at
        self.at += 1
        group = OpenGroup(at, self.flags)
        if not self.take("?"):
            if self.peek("*"):
                raise self.unsupported_construct("control verbs are not regular", at)
        elif self.take("#"):
            stop = self.pattern.find(")", self.at)
            if stop < 0:
                raise self.invalid_pattern("this comment is never closed", at)
            self.at = stop + 1
            return
        elif self.take("="):
            group.look = (True, False)
        elif self.take("!"):
            group.look = (True, True)
        elif self.take("<="):
            group.look = (False, False)
        elif self.take("<!"):
            group.look = (False, True)
        elif self.take("P=") or self.take("P>") or self.take("&"):
            raise self.unsupported_construct("back-references and recursion are not regular", at)
        elif self.take("P<") or self.take("<"):
            stop = self.pattern.find(">", self.at)
            if stop < 0 or not self.pattern[self.at : stop].isidentifier():
                raise self.invalid_pattern("the name of this group is malformed", at)
            self.at = stop + 1
        elif self.dialect == "python" and self.take(">"):
            group.atomic = True
        elif self.take("("):
            raise self.unsupported_construct("conditional groups are not regular", at)
        elif not self.take(":"):
            outer = stack[-1]
            if not self.inline_flags(at):  # they hold until the group around them closes
                if self.dialect != "rust" and (len(stack) > 1 or outer.items or outer.alternatives):
                    raise self.invalid_pattern("flags for the whole pattern must come first", at)
                return
        stack.append(group)

    def inline_flags(self, at: int) -> bool:
        """Reads ``i-s:`` or ``i)``; True when a group with its own flags opens."""
        on: set[str] = set()
        off: set[str] = set()
        target = on
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            self.at += 1
            if char in "imsx" or (char in _OWN_FLAGS[self.dialect] and target is on):
                target.add(char)
            elif char == "-" and target is on:
                target = off
            elif char in ":)" and (on or off):
                if self.dialect == "python" and (on & off or (off and char == ")")):
                    break
                self.flags = (self.flags | on) - off - ({"a"} if "u" in on else set())
                return char == ":"
            elif char.isdigit() or char in "R+&":
                raise self.unsupported_construct("recursion is not regular", at)
            elif char == "u" and self.dialect == "rust":
                raise self.unsupported_construct("texts are Unicode here", at)
            else:
                break
        raise self.invalid_pattern("unknown extension after '(?'", at)

    def close(self, group: OpenGroup) -> RegexNode:
        """The tree of a finished group."""
        self.flags = group.flags
        group.alternatives.append(self.alternative(group))
        node = self.either(group.alternatives)
        if group.atomic:
            self.settled.add(node)
        if group.look:
            node = Lookaround(node, *group.look, group.at, self.check_depth(node))
        return node

    # ------------------------------------------------------------ quantifiers

    def counts(self, at: int) -> tuple[int, int | None, int] | None:
        """``{m}``, ``{m,}``, ``{m,n}`` at a place: bounds and where it ends; None when the brace is literal."""
        stop = self.pattern.find("}", at)
        low, comma, high = self.pattern[at + 1 : stop].partition(",") if stop > 0 else ("", "", "")
        if not all(part == "" or (part.isascii() and part.isdigit()) for part in (low, high)):
            return None
        if not low and (self.dialect == "ecma" or not comma or (not high and self.dialect == "rust")):
            return None
        limit = str(ir.MAX_COUNT + 1)  # an int this large is refused (low) or no bound at all (high)
        low = limit if len(low) > 10 else low
        high = limit if len(high) > 10 else high
        least = int(low or "0")
        most = least if not comma else int(high) if high else None
        return least, most, stop + 1

    def read_quantifier(self, node: RegexNode, at: int) -> RegexNode:
        """The node with the quantifier after it, if there is one."""
        quantified = False
        while True:
            while "x" in self.flags and self.at < len(self.pattern):
                if not (self.pattern[self.at].isspace() or self.pattern[self.at] == "#"):
                    break
                self.skip_verbose()
            char = self.pattern[self.at : self.at + 1]
            start = self.at
            if char and char in "*+?":
                low, high = (1 if char == "+" else 0), (1 if char == "?" else None)
                self.at += 1
            elif char == "{" and (counts := self.counts(self.at)) is not None:
                low, high, self.at = counts
                if high is not None and high < low:
                    raise self.invalid_pattern("the bounds of this repetition are in the wrong order", start)
            else:
                return node
            if self.dialect != "rust":
                if quantified:
                    raise self.invalid_pattern("a quantifier follows a quantifier", start)
                if self.pattern[at] != "(" and isinstance(node, (StartAnchor, EndAnchor, WordBoundary)):
                    raise self.invalid_pattern("nothing to repeat", start)
            quantified = True
            lazy = self.take("?")
            if not lazy and self.dialect == "python" and self.take("+"):
                node = self.possessive(node, low, high, self.at - 1)
            else:
                node = self.loop(node, low, high, at)
                if not lazy:
                    self.greedy.add(node)

    # ------------------------------------------------------------ atoms

    def atom(self) -> RegexNode:
        """One character, class, escape or anchor."""
        char = self.pattern[self.at]
        self.at += 1
        if char == ".":
            return ir.ANY_CHAR if "s" in self.flags else ir.chars(ir.invert_ranges(self.newline))
        if char == "^":
            return StartAnchor(self.newline if "m" in self.flags else None)
        if char == "$":
            if "m" in self.flags:
                return EndAnchor(self.newline)
            return EndAnchor(self.newline, final=True) if self.dialect == "python" else EndAnchor(None)
        if char == "[":
            return self.character_class()
        if char == "\\":
            return self.escape()
        return self.character(ord(char))

    def character_class(self) -> ir.Regex:
        """A class; the plain ones recur within a pattern and from pattern to pattern."""
        begin = self.at - 1
        plain = _PLAIN_CLASS.match(self.pattern, begin)
        if plain is None or "i" in self.flags:
            return ir.chars(self.char_set(begin, 0))
        regex = _CLASSES.get(plain[0])
        if regex is None:
            regex = ir.chars(self.char_set(begin, 0))
            if len(_CLASSES) < _CLASSES_KEPT:
                _CLASSES[plain[0]] = regex
        self.at = plain.end()
        return regex

    def escape(self) -> RegexNode:
        """An escape outside of classes."""
        at = self.at - 1
        char = self.pattern[self.at : self.at + 1]
        if char in ("b", "B"):
            self.at += 1
            if self.dialect == "rust" and self.peek("{") and self.counts(self.at) is None:
                raise self.unsupported_construct("starts and ends of words are not read here", at)
            in_empty = self.dialect != "python" or sys.version_info >= (3, 14)
            return WordBoundary(self.shorthand_class("w"), char == "B", in_empty)
        if char in ("A", "Z", "z", "G"):
            self.at += 1
            if self.dialect == "ecma":
                raise self.invalid_pattern(f"\\{char} is not an escape of ECMA-262: write ^ or $", at)
            if char == "A":
                return StartAnchor(None)
            if char == ("Z" if self.dialect == "python" else "z"):
                return EndAnchor(None)
            raise self.invalid_pattern(f"\\{char} is not an escape of this dialect", at)
        if (char.isdigit() and char != "0") or (char == "k" and self.peek("k<")):
            return self.back_reference(at)
        ranges, single = self.class_escape(at, in_class=False)
        return ir.chars(ranges) if single is None else self.character(single)

    def back_reference(self, at: int) -> ir.Regex:
        """Refuses a back-reference (three octal digits are a character in Python)."""
        if self.dialect == "python" and self.octal_digits() == 3:
            text = self.pattern[self.at : self.at + 3]
            self.at += 3
            return self.character(int(text, 8))
        raise self.unsupported_construct("back-references are not regular", at)

    def octal_digits(self) -> int:
        """How many octal digits come next, three at most."""
        count = 0
        while count < 3 and self.pattern[self.at + count : self.at + count + 1] in tuple("01234567"):
            count += 1
        return count
