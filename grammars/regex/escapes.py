r"""Escapes and character classes: the part of the notation that stands for single characters."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from constrained.grammars import ir
from constrained.grammars.errors import InvalidConstraint, UnsupportedConstraint
from constrained.grammars.regex import charset
from constrained.grammars.regex.ast import pattern_problem
from constrained.grammars.regex.charset import CodePointRanges

RegexDialect = Literal["python", "ecma", "rust"]
MAX_CLASS_DEPTH = 50
"""Deepest nesting of classes (Rust)."""

_POSIX = re.compile(r"\[(?::\^?[A-Za-z]+:|=[^\\\]]=|\.[A-Za-z-]+\.)\]")
_NAMED_CLASS = re.compile(r"\[:(\^?)(\w+):\]")
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}


class PatternReader:
    """A position in a pattern, with methods that read one character, escape or class there.

    Attributes:
        pattern: the whole pattern.
        at: index of the next character.
        flags: those in force here.
    """

    def __init__(self, pattern: str, dialect: RegexDialect, flags: str = "") -> None:
        if dialect not in ("python", "ecma", "rust"):
            raise ValueError(f"unknown dialect {dialect!r}: use 'python', 'ecma' or 'rust'")
        self.pattern = pattern
        self.dialect = dialect
        self.flags = frozenset(flags)
        if unknown := self.flags - set("imsxau"):
            raise ValueError(f"unknown flags {''.join(sorted(unknown))!r}: use any of i, m, s, x, a")
        self.at = 0
        self.newline = charset.ECMA_NEWLINE if dialect == "ecma" else charset.NEWLINE

    def invalid_pattern(self, reason: str, at: int | None = None) -> InvalidConstraint:
        """The error for a malformed pattern."""
        problem = pattern_problem(self.pattern, self.at if at is None else at, reason)
        return InvalidConstraint("the regular expression is malformed", problem)

    def unsupported_construct(self, reason: str, at: int) -> UnsupportedConstraint:
        """The error for a construct that is not regular."""
        return UnsupportedConstraint(
            "the regular expression cannot be enforced",
            pattern_problem(self.pattern, at, reason),
            action="rewrite it without this construct",
        )

    def peek(self, text: str) -> bool:
        """Whether this string comes next."""
        return self.pattern.startswith(text, self.at)

    def take(self, text: str) -> bool:
        """Reads this string if it comes next."""
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def character(self, code: int) -> ir.Regex:
        """One literal character under the flags in force."""
        ranges = self.any_case(((code, code),))
        if ranges != ((code, code),):
            return ir.chars(ranges)
        return ir.EMPTY_SET if 0xD800 <= code <= 0xDFFF else ir.Literal(chr(code).encode())

    def any_case(self, ranges: CodePointRanges) -> CodePointRanges:
        """Characters under the flags in force."""
        if "i" not in self.flags:
            return ranges
        return charset.ignore_case(ranges, self.dialect, ascii_only="a" in self.flags)

    def shorthand_class(self, letter: str) -> CodePointRanges:
        r"""``\d``, ``\w`` or ``\s`` in this dialect."""
        if self.dialect == "ecma" or "a" in self.flags:
            space = charset.ECMA_SPACE if self.dialect == "ecma" else charset.SPACE
            return {"d": charset.DIGIT, "w": charset.WORD, "s": space}[letter]
        if self.dialect == "rust":
            if letter == "w":
                return charset.rust_word()
            return charset.unicode_property({"d": "Nd", "s": "White_Space"}[letter]) or ()
        return charset.python_class(letter)

    def escaped_set(self, letter: str, at: int) -> CodePointRanges:
        r"""``\d``, ``\p{...}`` and the like under the flags in force; the letter is upper case for all other characters.

        ECMA-262 ignores case in what is left after the negation; the others before it, and not in ``\d``, ``\w``
        and ``\s``.
        """
        ecma = self.dialect == "ecma"
        if letter in "dDwWsS":
            ranges = self.shorthand_class(letter.lower())
        else:
            ranges = self.unicode_property(at) if ecma else self.any_case(self.unicode_property(at))
        ranges = ir.invert_ranges(ranges) if letter.isupper() else ranges
        return self.any_case(ranges) if ecma else ranges

    def class_escape(self, at: int, *, in_class: bool) -> tuple[CodePointRanges, int | None]:
        """An escape that stands for a set of characters, or for one (then its code point comes second)."""
        char = self.pattern[self.at : self.at + 1]
        if not char:
            raise self.invalid_pattern("the pattern ends in the middle of an escape", at)
        self.at += 1
        code: int | None = None
        if char in "dDwWsSpP":
            return self.escaped_set(char, at), None
        if char in _CONTROLS:
            code = _CONTROLS[char]
        elif char == "b" and in_class and self.dialect != "rust":
            code = 8
        elif char == "a" and self.dialect != "ecma":
            code = 7
        elif char in "01234567" and (in_class or char == "0"):
            code = self.octal(at, char)
        elif char == "x":
            code = self.braced(at) if self.dialect == "rust" and self.peek("{") else self.hexadecimal(at, 2)
        elif char == "u":
            code = self.braced(at) if self.dialect != "python" and self.peek("{") else self.utf16_unit(at)
        elif char == "U" and self.dialect != "ecma":
            code = self.hexadecimal(at, 8)
        elif char == "c" and self.dialect == "ecma":
            letter = self.pattern[self.at : self.at + 1]
            if not (letter.isascii() and letter.isalpha()):
                raise self.invalid_pattern("a control escape needs a letter", at)
            self.at += 1
            code = ord(letter) % 32
        elif char == "N" and self.dialect == "python" and self.peek("{"):
            code = self.named(at)
        elif char in "<>" and self.dialect == "rust":
            raise self.unsupported_construct("starts and ends of words are not read here", at)
        elif char.isascii() and char.isalnum():
            raise self.invalid_pattern(f"\\{char} is not an escape of this dialect", at)
        else:
            code = ord(char)
        if code > ir.MAX_CODE_POINT:
            raise self.invalid_pattern("no such code point", at)
        return ((code, code),), code

    def octal(self, at: int, first: str) -> int:
        """An octal escape whose first digit is already read."""
        count = 0
        limit = 2 if self.dialect == "python" else 0
        while count < limit and self.pattern[self.at + count : self.at + count + 1] in tuple("01234567"):
            count += 1
        text = first + self.pattern[self.at : self.at + count]
        self.at += count
        if self.dialect != "python" and first != "0":
            raise self.invalid_pattern("back-references have no place here", at)
        return int(text, 8)

    def hexadecimal(self, at: int, digits: int) -> int:
        """A fixed number of hexadecimal digits."""
        text = self.pattern[self.at : self.at + digits]
        if len(text) < digits or any(c not in "0123456789abcdefABCDEF" for c in text):
            raise self.invalid_pattern(f"this escape needs {digits} hexadecimal digits", at)
        self.at += digits
        return int(text, 16)

    def utf16_unit(self, at: int) -> int:
        """Four hexadecimal digits; in ECMA-262 two surrogates in a row are one code point."""
        code = self.hexadecimal(at, 4)
        if self.dialect == "ecma" and 0xD800 <= code <= 0xDBFF and self.peek("\\u"):
            back = self.at
            self.at += 2
            if not self.peek("{"):
                low = self.hexadecimal(at, 4)
                if 0xDC00 <= low <= 0xDFFF:
                    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            self.at = back
        return code

    def braced(self, at: int) -> int:
        """Hexadecimal digits in braces."""
        stop = self.pattern.find("}", self.at)
        text = self.pattern[self.at + 1 : stop] if stop > 0 else ""
        if not text or len(text) > 8 or any(c not in "0123456789abcdefABCDEF" for c in text):
            raise self.invalid_pattern("this escape needs hexadecimal digits in braces", at)
        self.at = stop + 1
        return int(text, 16)

    def named(self, at: int) -> int:
        r"""The character of ``\N{...}``."""
        stop = self.pattern.find("}", self.at)
        try:
            code = ord(unicodedata.lookup(self.pattern[self.at + 1 : stop] if stop > 0 else ""))
        except (KeyError, TypeError):
            raise self.invalid_pattern("no character has this name", at) from None
        self.at = stop + 1
        return code

    def unicode_property(self, at: int) -> CodePointRanges:
        r"""The class of ``\p{...}`` or ``\pL``."""
        if self.take("{"):
            stop = self.pattern.find("}", self.at)
            name = self.pattern[self.at : stop] if stop > 0 else ""
            self.at = stop + 1
        else:
            name = self.pattern[self.at : self.at + 1] if self.dialect == "rust" else ""
            self.at += 1
        negated, name = name.startswith("^"), name.removeprefix("^")
        ranges = charset.unicode_property(name) if name else None
        if ranges is None:
            raise self.invalid_pattern("unknown Unicode property", at)
        return ir.invert_ranges(ranges) if negated else ranges

    # ------------------------------------------------------------ classes

    def char_set(self, at: int, depth: int) -> CodePointRanges:
        """Reads a class from after its bracket to its end."""
        if depth > MAX_CLASS_DEPTH:
            raise self.invalid_pattern("classes are nested too deeply", at)
        negated = self.take("^")
        found: list[tuple[int, int]] = []  # characters as they are written
        classes: list[tuple[int, int]] = []  # from escapes and inner classes, under the flags in force
        total: CodePointRanges | None = None  # left operand of a set operation (Rust)
        operation = ""
        first = True
        while self.dialect == "rust" and self.take("-"):
            found.append((0x2D, 0x2D))
            first = False

        def combined() -> CodePointRanges:
            ranges = ir.merge_ranges((*self.any_case(ir.merge_ranges(found)), *classes))
            if total is None:
                return ranges
            if operation == "&&":
                return charset.intersection(total, ranges)
            if operation == "--":
                return charset.difference(total, ranges)
            return ir.merge_ranges((*charset.difference(total, ranges), *charset.difference(ranges, total)))

        while True:
            if self.at >= len(self.pattern):
                raise self.invalid_pattern("this class is never closed", at)
            if self.peek("]") and not (first and self.dialect != "ecma"):
                self.at += 1
                nested = self.dialect == "python" and self.pattern.startswith("[[", at) and self.at > at + 3
                if nested and "]" in self.pattern[self.at :]:
                    raise self.misread("a class in a class is a bracket in this dialect", at + 1)
                ranges = combined()
                return ir.invert_ranges(ranges) if negated else ranges
            if self.dialect == "rust" and self.pattern[self.at : self.at + 2] in ("&&", "--", "~~"):
                total = combined()
                operation = self.pattern[self.at : self.at + 2]
                self.at += 2
                found, classes = [], []
                continue
            if self.dialect != "rust" and not first:
                self.refuse_operation()
            first = False
            ranges, single = self.class_item(depth)
            if single is not None and self.peek("-") and not self.peek("-]"):
                if self.dialect == "rust" and self.peek("--"):
                    found.extend(ranges)
                    continue
                dash = self.at
                if self.dialect != "rust":
                    self.refuse_operation()
                self.at += 1
                if self.at >= len(self.pattern):
                    raise self.invalid_pattern("this class is never closed", at)
                after, last = self.class_item(depth, ends_range=True)
                if last is None:
                    if self.dialect != "ecma":
                        raise self.invalid_pattern("a range ends in a class", dash)
                    found.extend((*ranges, (0x2D, 0x2D)))
                    classes.extend(after)
                elif last < single:
                    raise self.invalid_pattern("this range is in the wrong order", dash)
                else:
                    found.append((single, last))
            else:
                if single is None and self.peek("-") and not self.peek("-]") and self.dialect == "python":
                    raise self.invalid_pattern("a range begins with a class")
                (classes if single is None else found).extend(ranges)

    def refuse_operation(self) -> None:
        """Refuses an operation on classes, such as ``&&``, where the dialect has only its characters."""
        pair = self.pattern[self.at : self.at + 2]
        if pair in ("--", "&&", "~~", "||") and (self.dialect == "python" or self.peek(f"{pair}[")):
            raise self.misread(f"{pair} is two characters of a class in this dialect", self.at)

    def misread(self, reason: str, at: int) -> UnsupportedConstraint:
        """The error for what a dialect reads by the letter, and people write for what it is in another one."""
        problem = pattern_problem(self.pattern, at, reason)
        action = r"write [0-9] for [[:digit:]] and [ab] for [[a]b], or a backslash before the character: \["
        return UnsupportedConstraint(
            "the regular expression may be meant for another engine", problem, action=action
        )

    def class_item(self, depth: int, *, ends_range: bool = False) -> tuple[CodePointRanges, int | None]:
        """One character, escape or inner class of a class; a bracket at the end of a range is a character."""
        at = self.at
        char = self.pattern[at]
        self.at += 1
        if char == "\\":
            if self.pattern[self.at : self.at + 1] in ("B", "A", "Z", "z") and self.dialect != "ecma":
                raise self.invalid_pattern("this escape has no place in a class", at)
            return self.class_escape(at, in_class=True)
        if char == "[" and self.dialect == "rust" and not ends_range:
            if named := _NAMED_CLASS.match(self.pattern, at):
                ranges = charset.POSIX.get(named[2])
                if ranges is None:
                    raise self.invalid_pattern("unknown POSIX class", at)
                self.at = named.end()
                ranges = self.any_case(ranges)
                return (ir.invert_ranges(ranges) if named[1] else ranges), None
            return self.char_set(at, depth + 1), None
        if char == "[" and self.dialect != "rust" and _POSIX.match(self.pattern, at):
            raise self.misread(
                "a POSIX class is single characters and a bracket in this dialect: write its characters", at
            )
        return ((ord(char), ord(char)),), ord(char)
