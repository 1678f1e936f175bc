"""From the tree of a terminal to its pattern: one regular expression, joined as text from its parts, as Lark does it."""

from __future__ import annotations

from typing import Any

from lark import Token, Tree
from lark.exceptions import GrammarError
from lark.grammar import NonTerminal, Terminal
from lark.lexer import Pattern, PatternRE, PatternStr
from lark.load_grammar import _literal_to_pattern as literal_to_pattern

from constrained.grammars.errors import ConstraintTooLarge
from constrained.grammars.notation.lark.additions import MAX_COPIES
from constrained.grammars.notation.lark.combined import (
    CombinedPattern,
    SubstringPattern,
    bind_operators,
    check_depth,
)
from constrained.grammars.notation.lark.definitions import LarkDefinitions, Node, subtrees

MAX_PATTERN = 200_000
"""Greatest number of characters of the regular expression of a terminal."""


def literal_pattern(definitions: LarkDefinitions, token: Token, inside: str) -> Pattern:
    """The pattern of a string or regular expression as it is written.

    Raises:
        InvalidConstraint: it has a malformed escape.
        UnsupportedConstraint: the empty string, or a flag that depends on the machine.
    """
    at = definitions.place_of(token, inside)
    if token in ('""', '""i'):
        definitions.refuse('the literal "" is empty', at, "write nothing, or [x] for what may be left out")
    try:
        pattern: Pattern = literal_to_pattern(token)
    except (GrammarError, SyntaxError, ValueError):
        definitions.fail("the literal has a malformed escape", at)
    if "l" in pattern.flags:
        definitions.refuse("the flag l depends on the locale of a machine", at)
    try:
        pattern.value.encode()
    except UnicodeEncodeError:
        definitions.fail("half of a surrogate pair is not a character", at)
    return pattern


def range_pattern(definitions: LarkDefinitions, node: Node, inside: str) -> Pattern:
    """The pattern of ``"a".."z"``."""
    ends: list[Token] = node.children
    at = definitions.place_of(ends[0], inside)
    if any(not end.endswith('"') for end in ends):
        definitions.fail("the ends of a range take no flags", at)
    letters = [literal_pattern(definitions, end, inside).value for end in ends]
    for end, letter in zip(ends, letters, strict=True):
        if len(letter) != 1:
            definitions.fail("the ends of a range are single characters", definitions.place_of(end, inside))
    if letters[1] < letters[0]:
        definitions.fail("the range ends before it begins", at)
    low, high = (end[1:-1] for end in ends)
    if low == "^" or high == "]":
        definitions.refuse("Lark reads this range as another set", at, "write a regular expression")
    return PatternRE(f"[{low}-{high}]", (), raw=f"{ends[0]}..{ends[1]}")


class TerminalPatterns:
    """The patterns of named terminals, made when they are needed first."""

    def __init__(self, definitions: LarkDefinitions, trees: dict[str, Node]) -> None:
        """Makes no pattern yet.

        Args:
            definitions: where the trees come from.
            trees: Lark's trees of terminals by name.
        """
        self.definitions = definitions
        self.trees = trees
        for name, tree in trees.items():
            bind_operators(definitions, tree, name)
        self._patterns: dict[str, Pattern] = {}

    def pattern(self, name: str) -> Pattern:
        """The pattern of a terminal, after those of the terminals in it.

        Raises:
            InvalidConstraint: undefined, circular or malformed.
            ConstraintTooLarge: longer than `MAX_PATTERN`.
        """
        open_names = {name: self._references(name)}
        while open_names:
            last = next(reversed(open_names))
            missing = next((one for one in open_names[last] if str(one.name) not in self._patterns), None)
            if missing is None:
                self._patterns[last] = self._joined(last)
                del open_names[last]
            elif str(missing.name) in open_names:
                self.definitions.fail(
                    f"the terminal {missing.name} is made of itself", self.definitions.place_of(missing, last)
                )
            else:
                open_names[str(missing.name)] = self._references(str(missing.name))
        return self._patterns[name]

    def _references(self, name: str) -> list[Terminal]:
        symbols = [part for node in subtrees(self.trees[name]) for part in node.children]
        if (lazy := self.definitions.plain.lazy.get(name)) is not None and lazy.ending is not None:
            symbols.append(Terminal(lazy.ending))
        for symbol in symbols:
            if isinstance(symbol, Terminal) and symbol.name in self.definitions.declared:
                self.definitions.refuse(
                    f"the terminal {symbol.name} is declared without a pattern",
                    self.definitions.place_of(symbol, name),
                )
        return [symbol for symbol in symbols if isinstance(symbol, Terminal)]

    def _joined(self, name: str) -> Pattern:
        if (structured := self.definitions.plain.structured.get(name)) is not None:
            return SubstringPattern(structured.regex)
        patterns: dict[int, Pattern] = {}
        for node in subtrees(self.trees[name]):
            parts = [
                patterns[id(part)]
                if isinstance(part, Tree)
                else self._patterns[str(part.name)]
                if isinstance(part, Terminal)
                else part
                for part in node.children
            ]
            pattern = self._part(name, node, parts)
            if len(pattern.value) > MAX_PATTERN:
                raise ConstraintTooLarge(
                    "a terminal of the Lark grammar is too large",
                    self.definitions.plain.source.problem(
                        f"{name} becomes a pattern of more than {MAX_PATTERN} characters",
                        self.definitions.place(name),
                    ),
                )
            check_depth(self.definitions, pattern, name)
            patterns[id(node)] = pattern
        whole = patterns[id(self.trees[name])]
        if (lazy := self.definitions.plain.lazy.get(name)) is None:
            return whole
        ending = [] if lazy.ending is None else [self._patterns[lazy.ending]]
        return CombinedPattern("shortest", (whole, *ending))

    def _part(self, name: str, node: Node, parts: list[Any]) -> Pattern:
        kind = node.data
        if kind == "literal":
            return literal_pattern(self.definitions, parts[0], name)
        if kind == "range":
            return range_pattern(self.definitions, node, name)
        if kind == "value" and not isinstance(parts[0], NonTerminal):
            pattern: Pattern = parts[0]
            return pattern
        if kind in ("expansion", "expansions"):
            if len(parts) == 1:
                return self._part(name, Tree("value", parts), parts)
            if any(isinstance(part, CombinedPattern) for part in parts):
                return CombinedPattern("concat" if kind == "expansion" else "union", tuple(parts))
            joined = [as_regex(part) for part in parts]
            return PatternRE("".join(joined) if kind == "expansion" else f"(?:{'|'.join(joined)})")
        if kind in ("both", "not"):
            return CombinedPattern(kind, tuple(parts))
        if kind == "maybe" and isinstance(parts[0], CombinedPattern):
            return CombinedPattern("repeat", (parts[0],), (0, 1))
        if kind == "maybe":
            return PatternRE(f"(?:{as_regex(parts[0])})?")
        if kind == "expr":
            low, high = repetition(self.definitions, parts, name)
            if isinstance(parts[0], CombinedPattern):
                return CombinedPattern("repeat", (parts[0],), (low, high))
            count = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high), f"{{{low},{high}}}")
            return PatternRE(f"(?:{as_regex(parts[0])}){count}")
        if kind == "alias":
            self.definitions.fail("a terminal has no aliases", self.definitions.place_of(parts[1], name))
        at = self.definitions.place_of(parts[0], name)
        if isinstance(parts[0], NonTerminal) and parts[0].name in self.definitions.plain.tokens:
            self.definitions.fail("a token is no text: it stands in rules only", at)
        if isinstance(parts[0], NonTerminal) and parts[0].name not in self.definitions.embedded:
            self.definitions.fail(f"a terminal cannot be made of the rule {parts[0].name}", at)
        return self.definitions.fail("a terminal is made of literals and terminals only", at)


def repetition(definitions: LarkDefinitions, parts: list[Any], inside: str) -> tuple[int, int | None]:
    """The bounds of Lark's node ``expr``: what is repeated, then ``?``, ``*``, ``+``, or ``~`` with one or two counts.

    Raises:
        InvalidConstraint: the counts are negative, too large, or in the wrong order.
    """
    operator = str(parts[1])
    if operator != "~":
        return (int(operator == "+"), 1 if operator == "?" else None)
    for count in parts[2:]:
        if not 0 <= int(count[:20]) <= MAX_COPIES:
            definitions.fail(f"a count is between 0 and {MAX_COPIES}", definitions.place_of(count, inside))
    low, high = int(parts[2]), int(parts[-1])
    if high < low:
        definitions.fail("the greater count comes first", definitions.place_of(parts[1], inside))
    return low, high


def as_regex(pattern: Pattern, more_flags: str = "") -> str:
    """A pattern as a regular expression, with its flags and others that hold for all of it."""
    text: str = PatternStr(pattern.value).to_regexp() if isinstance(pattern, PatternStr) else pattern.value
    for flag in sorted({*pattern.flags, *more_flags} - {"u"}):
        # The line break ends a comment in a verbose expression.
        text = f"(?{flag}:{text}\n)" if flag == "x" else f"(?{flag}:{text})"
    return text
