"""Grammars with texts of a limited number of tokens.

How many tokens a text has depends on how a model writes it, which rules cannot say. So where such a text stands, the rules
have a byte that is in no text, and the text has a language of its own. Who compiles the grammar counts
(`constrained.automaton.counted`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from constrained.grammars import ir


@dataclass(frozen=True, slots=True)
class CountedText:
    """A text of a limited number of tokens.

    A token counts where its first byte is in the text. One that begins before the text and reaches into it does not count; one
    that reaches beyond the end does.

    Attributes:
        letter: the byte that stands for the text in the rules.
        grammar: of the text; it may have a lexer of its own.
        most: greatest number of tokens.
        whole: whether the text is one token, no more and no less: it begins and ends where the token does.
        place: of the limit, for messages.
    """

    letter: bytes
    grammar: ir.Grammar
    most: int
    whole: bool = False
    place: str = "max_tokens"


@dataclass(frozen=True, slots=True, eq=False)
class CountedGrammar(ir.Grammar):
    """A grammar with texts of a limited number of tokens. Its rules are those of `relaxed`.

    Attributes:
        relaxed: the grammar of the same texts of any number of tokens, or of more texts.
        outer: the rules in which letters stand for the limited texts.
        texts: what the letters stand for.
    """

    relaxed: ir.Grammar
    outer: ir.Grammar
    texts: tuple[CountedText, ...]

    @classmethod
    def joined(cls, relaxed: ir.Grammar, outer: ir.Grammar, texts: Iterable[CountedText]) -> CountedGrammar:
        """The grammar of its parts."""
        return cls(relaxed.rules, relaxed.start, relaxed, outer, tuple(texts))
