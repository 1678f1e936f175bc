"""A Lark grammar as it was written: what `reader` makes and the other pages of this room work on.

Nodes compare by identity, may be as deep as a user likes, and know their place in the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """Part of what a rule or terminal says; `at` is its place."""

    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Text(Node):
    """A string literal; `flags` is ``""`` or ``"i"``."""

    text: str
    flags: str


@dataclass(frozen=True, slots=True, eq=False)
class Pattern(Node):
    """A regular expression, with its flags."""

    pattern: str
    flags: str


@dataclass(frozen=True, slots=True, eq=False)
class Range(Node):
    """``"a".."z"``."""

    low: str
    high: str


@dataclass(frozen=True, slots=True, eq=False)
class Name(Node):
    """A rule, a terminal (in capitals), or a parameter of a template."""

    name: str

    @property
    def terminal(self) -> bool:
        """Whether terminals are named so."""
        return is_terminal(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Use(Node):
    """A template with arguments."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Json(Node):
    """``%json {...}``: JSON of a schema."""

    schema: Any


@dataclass(frozen=True, slots=True, eq=False)
class Embedded(Node):
    """``@name``: a constraint that the caller passes."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Sequence(Node):
    """One part after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Choice(Node):
    """Any of the parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Node):
    """From `low` to `high` copies (no upper bound when `high` is None)."""

    part: Node
    low: int
    high: int | None


@dataclass(slots=True)
class Definition:
    """A rule or terminal."""

    at: int
    body: Node
    parameters: tuple[str, ...] = ()
    priority: int = 0


@dataclass(slots=True)
class Source:
    """A whole grammar.

    Attributes:
        rules: by name.
        terminals: by name.
        ignored: what every ``%ignore`` says.
    """

    rules: dict[str, Definition] = field(default_factory=dict)
    terminals: dict[str, Definition] = field(default_factory=dict)
    ignored: list[Node] = field(default_factory=list)


def is_terminal(name: str) -> bool:
    """Whether a name is one of a terminal."""
    return name.removeprefix("common.").lstrip("_")[:1].isupper()


def parts_of(node: Node) -> tuple[Node, ...]:
    """What a node is made of."""
    if isinstance(node, (Sequence, Choice)):
        return node.parts
    if isinstance(node, Use):
        return node.arguments
    return (node.part,) if isinstance(node, Loop) else ()
