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
_COUNTS: dict[type, int] = {ir.Repeat: REPEAT, ir.Loop: LOOP}


Known = Mapping[int, tuple[ir.Regex, int]]
"""Expressions that the core has read: ``id(expression)`` to the expression itself and the core's number for it."""


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
        objects: the expression of each row that is not a reference, with the row's number.
    """

    nodes: array[int]
    args: array[int]
    data: bytes
    objects: tuple[tuple[ir.Regex, int], ...]


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
    """Rows under construction; the caller keeps every node alive meanwhile, so ids of objects are good keys."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.objects: list[tuple[Any, int]] = []
        self.nodes = array("i")
        self.args = array("i")
        self.data = bytearray()
        self.terminals: dict[int, ir.Regex] = {}
        self.terminal_index: dict[int, int] = {}
        self.rule_index: dict[str, int] = {}
        self.rows: dict[int, int] = {}

    def add(self, root: ir.Regex | ir.Expr) -> int:
        """The row of a node; emits it and whatever is below it, depth first without recursion."""
        rows = self.rows
        stack: list[ir.Regex | ir.Expr] = [root]
        while stack:
            node = stack[-1]
            if id(node) in rows:
                stack.pop()
                continue
            kind = type(node)
            if (held := self.known.get(id(node))) is not None:
                rows[id(node)] = len(self.nodes) >> 2
                self.nodes.extend((REFERENCE, held[1], 0, 0))
                stack.pop()
                continue
            if kind in _LISTS:
                parts = node.parts  # type: ignore[union-attr]
                missing = [part for part in parts if id(part) not in rows]
                if missing:
                    missing.reverse()
                    stack.extend(missing)
                    continue
                row = (_LISTS[kind], len(self.args), len(parts), 0)
                self.args.extend([rows[id(part)] for part in parts])
            elif kind in _COUNTS or kind is ir.Complement:
                part = node.part  # type: ignore[union-attr]
                if id(part) not in rows:
                    stack.append(part)
                    continue
                if kind is ir.Complement:
                    row = (COMPLEMENT, rows[id(part)], 0, 0)
                else:
                    high = node.high  # type: ignore[union-attr]
                    row = (_COUNTS[kind], rows[id(part)], node.low, -1 if high is None else high)  # type: ignore[union-attr]
            else:
                row = self.leaf(node)
            rows[id(node)] = len(self.nodes) >> 2
            self.objects.append((node, rows[id(node)]))
            self.nodes.extend(row)
            stack.pop()
        return rows[id(root)]

    def leaf(self, node: ir.Regex | ir.Expr) -> tuple[int, int, int, int]:
        if isinstance(node, ir.Terminal):
            index = self.terminal_index.setdefault(id(node.regex), len(self.terminals))
            self.terminals[id(node.regex)] = node.regex
            return TERMINAL, index, 0, 0
        if isinstance(node, ir.Call):
            return CALL, self.rule_index[node.rule], 0, 0
        if isinstance(node, ir.Literal):
            start = len(self.data)
            self.data += node.data
            return LITERAL, start, len(node.data), 0
        if isinstance(node, ir.Chars):
            start = len(self.args)
            for bounds in node.ranges:
                self.args.extend(bounds)
            return CHARS, start, len(node.ranges), 0
        assert isinstance(node, ir.Nothing), node
        return NOTHING, 0, 0, 0


def flatten(grammar: ir.Grammar) -> FlatGrammar:
    """The rules of a grammar.

    Raises:
        KeyError: a rule that is called does not exist.
    """
    rows = _Rows({})
    names = tuple(grammar.rules)
    rows.rule_index = {name: index for index, name in enumerate(names)}
    roots = array("i", [rows.add(body) for body in grammar.rules.values()])
    start = rows.rule_index[grammar.start]
    return FlatGrammar(rows.nodes, rows.args, tuple(rows.terminals.values()), roots, names, start)


def flatten_regexes(regexes: Iterable[ir.Regex], known: Known) -> FlatRegexes:
    """Several regular expressions at once; those in `known` by reference."""
    rows = _Rows(known)
    for regex in regexes:
        rows.add(regex)
    return FlatRegexes(rows.nodes, rows.args, bytes(rows.data), tuple(rows.objects))
