"""Which terminal wins: the longest match, or the first one in Lark's own order of trying."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from constrained.grammars.lexer import LexerToken
from constrained.grammars.notation.lark.terminals import LarkTerminal
from constrained.grammars.regex.languages import matches

TerminalPreference = Literal["longest", "lark"]
"""The longest match of the highest priority; or what python-lark takes, which tries terminals one after the other."""


def lexer_tokens(terminals: Iterable[LarkTerminal], prefer: TerminalPreference) -> tuple[LexerToken, ...]:
    """Terminals as tokens of a lexer, the preferred first."""
    ordered = sorted(terminals, key=lambda one: (one.literal is None, *one.order))
    if prefer == "longest":
        return tuple(LexerToken(one.name, one.regex, one.priority, shortest=one.shortest) for one in ordered)
    # Lark joins all candidates into one regular expression, in this order, and takes the alternative that matches first.
    # A string that a regular expression of its priority matches as a whole stands where that one stands.
    tried = sorted(ordered, key=lambda one: (-one.priority, *one.order))
    rank = {one: -place for place, one in enumerate(tried)}
    number = {one: index for index, one in enumerate(ordered)}
    tokens = []
    for one in ordered:
        hosts = [
            number[other] if set(one.flags) <= set(other.flags) else ~number[other]
            for other in tried
            if one.literal is not None
            and other.literal is None
            and other.priority == one.priority
            and matches(other.regex, one.literal)
        ]
        tokens.append(LexerToken(one.name, one.regex, rank[one], tuple(hosts), shortest=one.shortest))
    return tuple(tokens)
