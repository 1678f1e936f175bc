"""Grammars with texts of a limited number of tokens.

How many tokens a text has depends on how a model writes it, which rules cannot say. So where such a text stands, the rules
have a byte that is in no text, and the text has a language of its own. Who compiles the grammar counts
(`constrained.automaton.counted`).
"""

from __future__ import annotations

from dataclasses import dataclass

from grammars import ir


@dataclass(frozen=True, slots=True)
class CountedText:
    """A text of a limited number of tokens.

    A token counts where its first byte is in the text. One that begins before the text and reaches into it does not count; one
    that reaches beyond the end does.

    Attributes:
        letter: the byte that stands for the text in the rules.
        regex: the language of the text.
        most: greatest number of tokens.
        whole: whether the text is one token, no more and no less: it begins and ends where the token does.
    """

    letter: bytes
    regex: ir.Regex
    most: int
    whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CountedGrammar(ir.Grammar):
    """Rules in which letters stand for texts of a limited number of tokens.

    Attributes:
        texts: what the letters stand for.
        relaxed: the grammar of the same texts of any number of tokens.
    """

    texts: tuple[CountedText, ...]
    relaxed: ir.Grammar
