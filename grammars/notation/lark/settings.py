"""How the text of a Lark grammar, or a parser, is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from constrained.grammars import ir
from constrained.grammars.errors import InvalidConstraint

Lexer = Literal["contextual", "basic", "dynamic"]
"""Which terminals compete where: those that the parser can take, all of them everywhere, or none at all."""
TerminalPreference = Literal["longest", "lark"]
"""The longest match of the highest priority; or what python-lark takes, which tries terminals one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LarkSettings:
    """How a grammar is read.

    Attributes:
        start: the rule that a whole text follows; None: ``"start"``, or the start rule of the parser.
        lexer: see `Lexer`; None: ``"contextual"``, or what the parser has, see `constrained.grammars.notation.lark.instance.lexer_of`.
        prefer: see `TerminalPreference`.
        embedded: what ``@name`` stands for.
        import_paths: folders, or loaders as Lark takes them, that ``%import`` searches before Lark's library.
        tokens: what stands for each of `special_tokens` in texts: bytes of no other text; None: any byte stands for a token.
        letters: other bytes of no text; each stands for the texts of a rule with a limit of tokens.

    Raises:
        InvalidConstraint: `lexer` or `prefer` is unknown.
    """

    start: str | None = None
    lexer: Lexer | None = None
    prefer: TerminalPreference = "longest"
    embedded: Mapping[str, ir.Grammar] = field(default_factory=dict)
    import_paths: Sequence[Any] = ()
    tokens: Mapping[str, bytes] | None = None
    letters: Sequence[bytes] = ()

    def __post_init__(self) -> None:
        for name, value, literal in (
            ("lexer", self.lexer, Lexer),
            ("prefer", self.prefer, TerminalPreference),
        ):
            if value is not None and value not in get_args(literal):
                choices = ", ".join(map(repr, get_args(literal)))
                raise InvalidConstraint(f"{name}={value!r} is not known", action=f"use one of {choices}")
