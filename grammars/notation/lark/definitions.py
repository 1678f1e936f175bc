"""A Lark grammar as its loader leaves it: trees of rules, patterns of terminals, and their places in the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from lark import Token, Tree
from lark.grammar import Symbol
from lark.lexer import TerminalDef

from constrained.grammars.notation.lark.additions import EmbeddedGrammar, PlainLark

Node: TypeAlias = Any  # a `lark.Tree`, whose children are trees, symbols and tokens


@dataclass(frozen=True, slots=True)
class RuleDefinition:
    """A rule as Lark's loader leaves it, with terminals instead of literals.

    Attributes:
        tree: Lark's tree of its alternatives; None for a rule that is only declared.
        parameters: of a template.
    """

    tree: Node | None
    parameters: tuple[str, ...]


@dataclass(slots=True)
class LarkDefinitions:
    """A grammar as Lark's loader leaves it.

    Attributes:
        plain: the text.
        rules: by name.
        terminals: named ones in the order of their definitions, then the literals of rules.
        literals: of rules as they are written, by the name of their terminal.
        declared: names of terminals that are only declared.
        ignored: names of ignored terminals.
        places: offsets in the text by name: of the definition, of the import, or of a literal.
    """

    plain: PlainLark
    rules: dict[str, RuleDefinition] = field(default_factory=dict)
    terminals: list[TerminalDef] = field(default_factory=list)
    literals: dict[str, str] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)
    ignored: list[str] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    @property
    def embedded(self) -> dict[str, EmbeddedGrammar]:
        """``%json`` and ``@name``, by the name of the rule that stands for them."""
        return self.plain.embedded

    def place(self, name: str) -> int:
        """The offset of a rule or terminal."""
        return self.places.get(name, 0)

    def place_of(self, part: object, inside: str) -> int:
        """The offset of a name or literal that stands in the definition of `inside`."""
        name = part.name if isinstance(part, Symbol) else part
        at = name.start_pos if isinstance(name, Token) else None
        if at is None or not self.plain.text.startswith(str(name), at):  # it stands in an imported file
            return self.place(inside)
        return self.plain.original(at)

    def fail(self, reason: str, at: int, action: str | None = None) -> NoReturn:
        """Raises `InvalidConstraint` at an offset."""
        self.plain.source.fail(reason, at, action)

    def refuse(self, reason: str, at: int, action: str | None = None) -> NoReturn:
        """Raises `UnsupportedConstraint` at an offset."""
        self.plain.source.refuse(reason, at, action)


def subtrees(root: Node) -> list[Node]:
    """A tree and all trees inside it, each once, parts first (`Tree.iter_subtrees` fails where trees are shared)."""
    nodes: dict[int, Node] = {}
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, complete = stack.pop()
        if complete:
            nodes[id(node)] = node
        elif id(node) not in nodes:
            stack.append((node, True))
            stack.extend((part, False) for part in reversed(node.children) if isinstance(part, Tree))
    return list(nodes.values())
