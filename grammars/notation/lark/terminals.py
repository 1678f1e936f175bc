"""Terminals of a Lark grammar: which texts they match, and what decides between them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NoReturn

from lark.lexer import Pattern, PatternStr, TerminalDef

from constrained.grammars import ir
from constrained.grammars.errors import ConstrainedError, InvalidConstraint, Problem, UnsupportedConstraint
from constrained.grammars.notation.lark.combined import CombinedPattern, SubstringPattern
from constrained.grammars.notation.lark.patterns import as_regex
from constrained.grammars.regex import analysis
from constrained.grammars.regex.ast import (
    AlternationNode,
    ConcatNode,
    EndAnchor,
    Lookaround,
    RegexNode,
    RepeatNode,
    StartAnchor,
    WordBoundary,
)
from constrained.grammars.regex.lookaround import lower_to_regex
from constrained.grammars.regex.syntax import RegexParser

_TRIED = 20_000
_TRIED_LENGTH = 9
"""Texts on which a lazy regular expression is tried, and their length."""
_LAZY = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|([*+?}]\?)", re.DOTALL)
_SPELLED = re.compile(r"\\(.)|([^\\()\[\]{}?*+|.^$])", re.DOTALL)


@dataclass(frozen=True, slots=True, eq=False)
class LarkTerminal:
    """A terminal that rules use, or that is ignored.

    Attributes:
        name: its name, or the literal as it is written.
        regex: its texts; an object that no other terminal has.
        priority: of the lexer.
        literal: its text if it is a string.
        flags: those that hold for all of it.
        shortest: whether it ends where it can end first, before any other terminal wins.
        optional: whether it also matches the empty string, which is not among the texts of `regex`.
        order: ascending by how much it can match, the length of its pattern, and its name; the greatest comes first.
    """

    name: str
    regex: ir.Regex
    priority: int
    literal: str | None
    flags: str
    shortest: bool
    optional: bool
    order: tuple[float, int, str]


class LarkTerminals:
    """The terminals of a grammar by name, made when they are needed first."""

    def __init__(
        self,
        patterns: Iterable[TerminalDef],
        problem: Callable[[str, str], Problem],
        *,
        literals: Mapping[str, str] = MappingProxyType({}),
        flags: str = "",
        may_be_empty: bool = False,
    ) -> None:
        """Makes no terminal yet.

        Args:
            patterns: of all terminals.
            problem: gives the problem with the terminal of a name, for a reason.
            literals: how terminals without a name of their own are shown.
            flags: of regular expressions, that hold for all of them.
            may_be_empty: whether a terminal may match the empty string; rules then need not write it.
        """
        self.patterns = {str(one.name): one for one in patterns}
        self.problem = problem
        self.literals = literals
        self.flags = flags
        self.may_be_empty = may_be_empty
        self.terminals: dict[str, LarkTerminal] = {}
        self._shortest_terminals: dict[str, LarkTerminal] = {}  # by pattern

    def terminal(self, name: str) -> LarkTerminal:
        """The terminal of a name.

        Raises:
            InvalidConstraint: its regular expression is malformed.
            UnsupportedConstraint: its regular expression cannot be enforced.
        """
        if name not in self.terminals:
            self.terminals[name] = self._made(name)
        return self.terminals[name]

    def _made(self, name: str) -> LarkTerminal:
        definition = self.patterns[name]
        pattern = definition.pattern
        flags = "".join(sorted({*pattern.flags, *self.flags} - {"u"}))
        label = self.literals.get(name) or definition.user_repr()
        literal = pattern.value if isinstance(pattern, PatternStr) else None
        shortest = isinstance(pattern, CombinedPattern) and pattern.kind == "shortest"
        if shortest and pattern.value in self._shortest_terminals:
            # Rules with equal bodies that end early are one terminal: what follows tells them apart.
            return self._shortest_terminals[pattern.value]
        if isinstance(pattern, CombinedPattern):
            regex = self._combined(pattern, name, label)
        elif literal is not None and not flags:
            regex = ir.literal(literal)
        else:
            regex = self._regex(as_regex(pattern, self.flags), name, label)
        width = analysis.widths(regex)[1]
        order = (float("-inf") if width is None else -width, -len(pattern.value), name)
        if not isinstance(pattern, CombinedPattern) and _lazy(text := as_regex(pattern, self.flags)):
            regex = self._lazy_regex(regex, text, name, label)
        optional = self.may_be_empty and not shortest and analysis.nullable(regex)
        if optional:
            regex = _without_empty(regex)
        whole = ir.Concat((regex,))
        terminal = LarkTerminal(label, whole, definition.priority, literal, flags, shortest, optional, order)
        if shortest:
            self._shortest_terminals[pattern.value] = terminal
        return terminal

    def _combined(self, pattern: Pattern, name: str, label: str, *, may_be_lazy: bool = False) -> ir.Regex:
        """The texts of a pattern that `CombinedPattern` may make."""
        if not isinstance(pattern, CombinedPattern):
            text = as_regex(pattern, self.flags)
            if _lazy(text) and not may_be_lazy:
                self._refuse(
                    name, f"the terminal {label} has a lazy loop beside & or ~", "leave out the ? of the loop"
                )
            return self._regex(text, name, label)
        if isinstance(pattern, SubstringPattern):
            return pattern.regex
        shortest = pattern.kind == "shortest"
        parts = [self._combined(part, name, label, may_be_lazy=shortest) for part in pattern.parts]
        if pattern.kind == "union":
            return ir.union(*parts)
        if pattern.kind == "repeat":
            return ir.repeat(parts[0], *pattern.count)
        if pattern.kind == "both":
            return ir.intersection(*parts)
        if pattern.kind == "not":
            return ir.difference(ir.TEXT, parts[0])
        regex = ir.concat(*parts)
        return _without_longer(regex) if shortest else regex

    def ending(self, body: str, ending: str) -> tuple[ir.Regex, ir.Regex]:
        """What a terminal that ends early reads in front of its ending, and that ending, by the names of both terminals."""
        pattern = self.patterns[body].pattern
        assert isinstance(pattern, CombinedPattern)
        before = self._combined(pattern.parts[0], body, self.literals[body], may_be_lazy=True)
        return before, self._combined(
            self.patterns[ending].pattern, ending, self.literals[ending], may_be_lazy=True
        )

    def check_not_empty(self, name: str) -> None:
        """Refuses a terminal that a lexer cannot use.

        Raises:
            InvalidConstraint: it matches the empty string.
        """
        terminal = self.terminal(name)
        if analysis.nullable(terminal.regex):
            raise InvalidConstraint(
                "the Lark grammar is malformed",
                self.problem(name, f"the terminal {terminal.name} matches the empty string"),
                action="let it match at least one character, and make it optional where rules use it",
            )

    def _refuse(self, name: str, reason: str, action: str | None = None) -> NoReturn:
        raise UnsupportedConstraint(
            "the Lark grammar cannot be enforced", self.problem(name, reason), action=action
        )

    def _regex(self, text: str, name: str, label: str) -> ir.Regex:
        """The texts that a regular expression matches."""
        try:
            node = RegexParser(text, "python", "").parse()
            looks_out = _looks_out(node, last=True) or _looks_out(node, last=False)
            regex = ir.EMPTY_STRING if looks_out else lower_to_regex(node, text, search=False)
        except ConstrainedError as error:
            problem = self.problem(name, f"the terminal {label} has a bad regular expression")
            raise type(error)(error.summary, (problem, *error.problems), action=error.action) from None
        if looks_out:
            self._refuse(
                name,
                f"the terminal {label} looks at what stands before or after it",
                "let terminals match their own characters, and let rules say what follows what",
            )
        return regex

    def _lazy_regex(self, regex: ir.Regex, text: str, name: str, label: str) -> ir.Regex:
        """The texts of a lazy regular expression: those that do not begin with another one of its texts.

        That is what a lazy loop up to an end marker means. Short texts are tried to see whether the order in which
        Python matches gives the same result.
        """
        compiled = re.compile(text)
        letters = dict.fromkeys(match[1] or match[2] for match in _SPELLED.finditer(text))
        tried_letters = [*list(letters)[:5], "a"]
        tried = 0
        for length in range(1, _TRIED_LENGTH):
            tried += len(tried_letters) ** length
            if tried > _TRIED:
                break
            for word in map("".join, itertools.product(tried_letters, repeat=length)):
                match = compiled.match(word)
                if match and any(compiled.fullmatch(word, 0, end) for end in range(match.end())):
                    self._refuse(
                        name,
                        f"the terminal {label} is lazy and yet does not match as little as it can: {word!r}",
                        r'write which characters may stand inside, as in /"([^"\\]|\\.)*"/',
                    )
        return _without_longer(regex)


def _without_longer(regex: ir.Regex) -> ir.Regex:
    """The texts of a language that do not begin with another one of its texts."""
    return ir.difference(regex, ir.concat(regex, ir.repeat(ir.ANY_CHAR, 1)))


def _without_empty(regex: ir.Regex) -> ir.Regex:
    """The texts of a language but the empty one."""
    if isinstance(regex, ir.Substring) and regex.chunk_starts is not None:
        return ir.Substring(regex.symbols, regex.spellings, least=1, chunk_starts=regex.chunk_starts)
    return ir.intersection(regex, ir.repeat(ir.ANY_CHAR, 1))


def _lazy(pattern: str) -> bool:
    return any(match[1] for match in _LAZY.finditer(pattern))


def _looks_out(node: RegexNode, *, last: bool) -> bool:
    """Whether an assertion at the end (or the start) looks beyond the text. Trees of assertions are shallow."""
    if isinstance(node, ir.Regex):
        return False
    if isinstance(node, Lookaround):
        return node.ahead == last and not node.by_order
    if isinstance(node, AlternationNode):
        return any(_looks_out(part, last=last) for part in node.parts)
    if isinstance(node, RepeatNode):
        return _looks_out(node.part, last=last)
    if isinstance(node, ConcatNode):
        for part in reversed(node.parts) if last else node.parts:
            if _looks_out(part, last=last):
                return True
            if isinstance(part, ir.Regex) and not analysis.nullable(part):
                return False
            if not isinstance(part, (ir.Regex, Lookaround, StartAnchor, EndAnchor, WordBoundary)):
                return False
        return False
    return isinstance(node, WordBoundary) or isinstance(node, EndAnchor) == last
