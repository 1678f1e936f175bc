"""Ready grammars, as text that can be read, changed and passed on.

    text("sql")   the grammar's source
    load("sql")   its grammar

Each file says in its first lines what it covers and what no context-free grammar can check.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from constrained.grammars import ir
from constrained.grammars.errors import InvalidConstraint
from constrained.grammars.notation import Notation, parse

__all__ = ["NAMES", "load", "notation", "text"]

_FILES: dict[str, Notation] = {
    "arithmetic": "gbnf",
    "iso8601": "gbnf",
    "json": "gbnf",
    "pddl": "ebnf",
    "python": "ebnf",
    "smiles": "gbnf",
    "sql": "ebnf",
    "xml": "ebnf",
}
NAMES = tuple(_FILES)
"""The grammars there are."""


def notation(name: str) -> Notation:
    """In which notation a grammar is written.

    Raises:
        InvalidConstraint: unknown name.
    """
    if name not in _FILES:
        raise InvalidConstraint(f"unknown grammar {name!r}", action=f"use one of {', '.join(NAMES)}")
    return _FILES[name]


def text(name: str) -> str:
    """The source of a grammar.

    Raises:
        InvalidConstraint: unknown name.
    """
    return (files(__name__) / f"{name}.{notation(name)}").read_text(encoding="utf-8")


@lru_cache(maxsize=len(_FILES))
def load(name: str) -> ir.Grammar:
    """A grammar, ready for the core.

    Raises:
        InvalidConstraint: unknown name.
    """
    return parse(text(name), notation(name))
