"""Patterns of terminals that no regular expression of Python writes: ``A & B``, ``~A``, rules that end early, ``%regex``."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

from lark import Tree
from lark.grammar import Terminal
from lark.lexer import Pattern

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge
from constrained.grammars.notation.lark.definitions import LarkDefinitions, Node, subtrees

MAX_DEPTH = 100
"""Greatest depth of a pattern that is made of such patterns."""

Combination = Literal["concat", "union", "repeat", "both", "not", "shortest", "substring"]
_JOINED = {
    "concat": " ",
    "union": " | ",
    "both": " & ",
    "shortest": " ",
    "repeat": "",
    "not": "",
    "substring": "",
}


class CombinedPattern(Pattern):
    """A pattern made of others.

    Attributes:
        kind: how. ``"not"``: the texts that the part does not match; ``"shortest"``: one part after the other, and no
            match begins with another one.
        parts: patterns.
        count: bounds of a ``"repeat"``.
        depth: of combined patterns in it.
        value: how it is shown; equal for equal patterns.
    """

    __slots__ = ("count", "depth", "kind", "parts")
    type = "combined"

    def __init__(
        self,
        kind: Combination,
        parts: tuple[Pattern, ...],
        count: tuple[int, int | None] = (1, 1),
    ) -> None:
        shown = _JOINED[kind].join(f"({part.value})" for part in parts)
        flags = "".join(sorted({flag for part in parts for flag in part.flags}))
        super().__init__(f"{kind}{count if kind == 'repeat' else ''}[{shown}]{flags}")
        self.kind = kind
        self.parts = parts
        self.count = count
        self.depth: int = 1 + max(
            (part.depth for part in parts if isinstance(part, CombinedPattern)), default=0
        )

    def to_regexp(self) -> str:
        """Not to be called: there is no regular expression of it."""
        raise NotImplementedError(self.kind)

    @property
    def min_width(self) -> int:
        """Of no use here; `LarkTerminals` measures languages."""
        return 1

    @property
    def max_width(self) -> int:
        """Of no use here; `LarkTerminals` measures languages."""
        return 1


class SubstringPattern(CombinedPattern):
    """The substrings of a document: ``%regex``.

    Attributes:
        regex: its texts.
    """

    __slots__ = ("regex",)

    def __init__(self, regex: ir.Substring) -> None:
        super().__init__("substring", ())
        self.regex = regex
        self.value = f"%regex {blake2b(regex.packed, digest_size=16).hexdigest()}"


def check_depth(definitions: LarkDefinitions, pattern: Pattern, name: str) -> None:
    """Refuses what is nested too deeply.

    Raises:
        ConstraintTooLarge: deeper than `MAX_DEPTH`.
    """
    if isinstance(pattern, CombinedPattern) and pattern.depth > MAX_DEPTH:
        raise ConstraintTooLarge(
            "a terminal of the Lark grammar is too large",
            definitions.plain.source.problem(
                f"{name} has & and ~ more than {MAX_DEPTH} deep", definitions.place(name)
            ),
        )


def bind_operators(definitions: LarkDefinitions, tree: Node, name: str) -> None:
    """Turns the marks of ``&`` and ``~`` in the tree of a terminal into nodes ``both`` and ``not``.

    ``~`` binds more tightly than a repetition, ``&`` less tightly than one after the other and more than ``|``.

    Raises:
        InvalidConstraint: a side is missing.
    """
    if not definitions.plain.operators:
        return
    for node in subtrees(tree):
        if node.data != "expansion" or not any(_operator(definitions, part) for part in node.children):
            continue
        sides: list[list[Node]] = [[]]
        negations = 0
        at = definitions.place(name)
        for part in node.children:
            sign = _operator(definitions, part)
            if sign:
                at = definitions.place_of(part.children[0], name)
            if sign == "~":
                negations += 1
            elif sign == "&":
                if negations or not sides[-1]:
                    definitions.fail("nothing stands before the &" if not negations else "~ of nothing", at)
                sides.append([])
            else:
                sides[-1].append(_negated(part, negations))
                negations = 0
        if negations or not sides[-1]:
            definitions.fail("~ of nothing" if negations else "nothing stands after the &", at)
        if len(sides) == 1:
            node.children = sides[0]
        else:
            node.data, node.children = "both", [Tree("expansion", side) for side in sides]


def _operator(definitions: LarkDefinitions, part: Node) -> str | None:
    """The operator that a part of an expansion stands for."""
    if not isinstance(part, Tree) or part.data != "value" or not isinstance(part.children[0], Terminal):
        return None
    return definitions.plain.operators.get(part.children[0].name)


def _negated(part: Node, times: int) -> Node:
    if times and part.data == "expr":  # ~A+ is (~A)+
        atom, *count = part.children
        return Tree("expr", [_negated(atom, times), *count])
    return Tree("not", [part]) if times % 2 else part
