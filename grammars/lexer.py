"""Grammars behind a lexer, which splits the text into tokens before the rules apply.

The lexer splits from left to right. At the start of a token the candidates are the tokens that the rules accept there
(a contextual lexer) or all tokens (`basic_lexer`). Of the candidates that match, those of the highest rank win; among them
the longest match; among equally long ones the first in `LexerGrammar.tokens`. Terminals of the rules that are not tokens
are matched byte by byte, in every possible way, and their ends are not token boundaries.

A *shortest* token comes before all of this: where one has matched, it has won, and the token ends there.

Ignored tokens, such as white space, are part of the rules, wherever they may occur.
"""

from __future__ import annotations

from dataclasses import dataclass

from constrained.grammars import ir
from constrained.grammars.counted import CountedGrammar
from constrained.grammars.errors import Problem, UnsupportedConstraint


@dataclass(frozen=True, slots=True, eq=False)
class LexerToken:
    """A token of the lexer.

    Attributes:
        name: for messages.
        regex: its language, which must not be nullable. A terminal of the rules is this token if and only if it has this
            very object.
        rank: of several candidates that match, the highest rank wins.
        inherits_rank_from: indices of tokens; where some of them are candidates too, this one has the rank of the first of
            them. As ``~index``: only for strings that the other token matches as well, in addition to its own rank.
        shortest: whether it wins as soon as it matches, whatever the rank of others. No string of its language begins with
            another one. Of several that match at the same place the first one wins.
    """

    name: str
    regex: ir.Regex
    rank: int = 0
    inherits_rank_from: tuple[int, ...] = ()
    shortest: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LexerGrammar(ir.Grammar):
    """Rules behind a lexer.

    Attributes:
        tokens: in order of preference, which decides between tokens of one rank.
        basic_lexer: whether every token is a candidate everywhere, or only those that the rules accept.
    """

    tokens: tuple[LexerToken, ...] = ()
    basic_lexer: bool = False


def reject_lexer_grammar(grammar: ir.Grammar, where: str) -> None:
    """Checks that a grammar can be a part of another: it has no lexer, and counts no tokens.

    Raises:
        UnsupportedConstraint: it has or does.
    """
    if isinstance(grammar, CountedGrammar):
        raise UnsupportedConstraint(
            f"a grammar with texts of a limited number of tokens cannot be used {where}",
            Problem("max_tokens", "tokens are counted where the grammar describes the whole output"),
            action="limit the characters",
        )
    if isinstance(grammar, LexerGrammar):
        raise UnsupportedConstraint(
            f"a grammar with a lexer cannot be used {where}",
            Problem("lexer", "a lexer splits the whole output, and here the grammar describes a part of it"),
            action='use another constraint there, or in Python make it with lexer="dynamic"',
        )
