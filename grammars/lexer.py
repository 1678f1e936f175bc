"""Grammars whose text a lexer cuts into tokens before the rules look at it.

Text is cut from left to right. Where a token begins, the candidates are the tokens that the rules can take there (with
`everywhere`, all tokens). Of the candidates that match at all, those of the highest rank win over the others; among them the longest
match wins, and of equally long ones the token that comes first in `LexerGrammar.tokens`. The rules then read the tokens. Terminals of the rules that are no tokens are read byte by byte, in every way there is, and a
border to one of those is no cut of the lexer.

What a lexer drops, such as white space, stands in the rules like everything else: where it may come.
"""

from __future__ import annotations

from dataclasses import dataclass

from grammars import ir
from grammars.errors import Problem, UnsupportedConstraint


@dataclass(frozen=True, slots=True, eq=False)
class LexerToken:
    """A kind of token.

    Attributes:
        name: in messages.
        regex: its texts, none of them empty. An object of its own: a terminal of the rules is this token iff it has
            this very regular expression.
        rank: the greater wins.
        inherits_rank_from: numbers of tokens whose rank this one takes wherever one of them is a candidate too: the first that is.
            As ``~number``, only for the texts that are the other's too, and for all texts its own rank counts as well.
    """

    name: str
    regex: ir.Regex
    rank: int = 0
    inherits_rank_from: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LexerGrammar(ir.Grammar):
    """Rules behind a lexer.

    Attributes:
        tokens: the preferred first; only among those of one rank does the order matter.
        basic_lexer: whether every token is a candidate everywhere, or only those that the rules can take.
    """

    tokens: tuple[LexerToken, ...] = ()
    basic_lexer: bool = False


def reject_lexer_grammar(grammar: ir.Grammar, where: str) -> None:
    """Sees to it that a grammar means its texts character by character.

    Raises:
        UnsupportedConstraint: it stands behind a lexer.
    """
    if isinstance(grammar, LexerGrammar):
        raise UnsupportedConstraint(
            f"a grammar with a lexer cannot stand {where}",
            Problem("lexer", "cuts a whole text, and this would be part of one"),
            action='make it with lexer="dynamic"',
        )
