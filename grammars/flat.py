"""The IR as flat arrays, as the core reads it.

Rules and regular expressions travel apart: a grammar's arrays name its terminals by number, and an expression may
refer to one that the core has read before, so that what many grammars share (a string, white space) is read once
per vocabulary.
The operation codes are those of `constrained/_core/grammar.cpp`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grammars import ir

LITERAL, CHARS, CONCAT, UNION, INTERSECTION, COMPLEMENT, REPEAT, NOTHING = range(8)
TERMINAL, CALL, SEQUENCE, CHOICE, LOOP = range(8, 13)
REFERENCE = 13

_LISTS: dict[type, int] = {
    ir.Concat: CONCAT,
    ir.Union: UNION,
    ir.Intersection: INTERSECTION,
    ir.Sequence: SEQUENCE,
    ir.Choice: CHOICE,
}
_WRAPPERS: dict[type, int] = {ir.Repeat: REPEAT, ir.Loop: LOOP, ir.Complement: COMPLEMENT}
_LEAVES = frozenset((ir.Terminal, ir.Call, ir.Literal, ir.Chars, ir.Nothing))


Node = ir.Regex | ir.Expr
Known = Mapping[ir.Regex, int]
"""Expressions that the core has read, with the core's numbers for them."""


@dataclass(frozen=True, slots=True, eq=False)
class FlatRegexes:
    """Regular expressions, shared parts once, children before parents.

    Attributes:
        nodes: int32, four a node: operation, then by operation
            LITERAL offset and length in `data`; CHARS offset in `args` and number of ranges (two ints each);
            CONCAT, UNION, INTERSECTION offset in `args` and number of children; COMPLEMENT the child;
            REPEAT the child, low, high (-1: none); REFERENCE the core's number of an expression read before.
        args: int32 pool of children and range bounds.
        data: bytes of all literals.
        rows: the row of every expression.
    """

    nodes: array[int]
    args: array[int]
    data: bytes
    rows: Mapping[ir.Regex, int]


@dataclass(frozen=True, slots=True, eq=False)
class FlatGrammar:
    """Rules, shared parts once, children before parents.

    Attributes:
        nodes: int32, four a node: operation, then by operation
            TERMINAL index in `terminals`; CALL the rule's index; SEQUENCE, CHOICE offset in `args` and number of
            children; LOOP the child, low, high (-1: none).
        args: int32 pool of children.
        terminals: the regular expressions of the terminals, each once.
        rules: int32, the root node of each rule.
        names: the rules' names, in the same order.
        start: index of the start rule.
    """

    nodes: array[int]
    args: array[int]
    terminals: tuple[ir.Regex, ...]
    rules: array[int]
    names: tuple[str, ...]
    start: int


class _Rows:
    """Rows under construction. Nodes compare by identity, so they are their own keys."""

    def __init__(self, known: Known, rule_index: Mapping[str, int]) -> None:
        self.known = known
        self.rule_index = rule_index
        self.nodes: list[int] = []
        self.args: list[int] = []
        self.data = bytearray()
        self.terminals: dict[ir.Regex, int] = {}
        self.rows: dict[Node, int] = {}

    def add(self, root: Node) -> int:
        """The row of a node; emits it and whatever is below it, depth first without recursion."""
        rows = self.rows
        stack = [root]
        while stack:
            node = stack[-1]
            if node in rows:
                stack.pop()
                continue
            kind = type(node)
            parts: tuple[Node, ...]
            if node in self.known:
                parts = ()
            elif kind in _LISTS:
                parts = node.parts  # type: ignore[union-attr]
            elif kind in _WRAPPERS:
                parts = (node.part,)  # type: ignore[union-attr]
            else:
                parts = ()
            deeper = False
            for part in reversed(parts):
                if part not in rows:
                    if type(part) in _LEAVES:
                        self.emit(part, ())
                    else:
                        stack.append(part)
                        deeper = True
            if not deeper:
                self.emit(node, parts)
                stack.pop()
        return rows[root]

    def emit(self, node: Any, parts: tuple[Node, ...]) -> None:
        """One row, after those of its parts."""
        kind = type(node)
        rows = self.rows
        row: tuple[int, int, int, int]
        if node in self.known:
            row = (REFERENCE, self.known[node], 0, 0)
        elif kind in _LISTS:
            row = (_LISTS[kind], len(self.args), len(parts), 0)
            self.args += [rows[part] for part in parts]
        elif kind is ir.Terminal:
            row = (TERMINAL, self.terminals.setdefault(node.regex, len(self.terminals)), 0, 0)
        elif kind is ir.Call:
            row = (CALL, self.rule_index[node.rule], 0, 0)
        elif kind is ir.Literal:
            row = (LITERAL, len(self.data), len(node.data), 0)
            self.data += node.data
        elif kind is ir.Chars:
            row = (CHARS, len(self.args), len(node.ranges), 0)
            for bounds in node.ranges:
                self.args += bounds
        elif kind is ir.Complement:
            row = (COMPLEMENT, rows[parts[0]], 0, 0)
        elif kind is ir.Nothing:
            row = (NOTHING, 0, 0, 0)
        else:
            row = (_WRAPPERS[kind], rows[parts[0]], node.low, -1 if node.high is None else node.high)
        rows[node] = len(self.nodes) >> 2
        self.nodes += row


def flatten(grammar: ir.Grammar) -> FlatGrammar:
    """The rules of a grammar.

    Raises:
        KeyError: a rule that is called does not exist.
    """
    names = tuple(grammar.rules)
    rows = _Rows({}, {name: index for index, name in enumerate(names)})
    roots = array("i", [rows.add(body) for body in grammar.rules.values()])
    start = rows.rule_index[grammar.start]
    return FlatGrammar(
        array("i", rows.nodes), array("i", rows.args), tuple(rows.terminals), roots, names, start
    )


def flatten_regexes(regexes: Iterable[ir.Regex], known: Known) -> FlatRegexes:
    """Several regular expressions at once; those in `known` by reference."""
    rows = _Rows(known, {})
    for regex in regexes:
        rows.add(regex)
    return FlatRegexes(array("i", rows.nodes), array("i", rows.args), bytes(rows.data), rows.rows)  # type: ignore[arg-type]
