"""Rules whose texts are given back: ``name[capture]``, ``name[capture="other"]``, ``name[suffix=..., stop_capture="end"]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from constrained.grammars import ir
from constrained.grammars.lexer import LexerToken


@dataclass(frozen=True, slots=True)
class CapturedRule:
    """A rule whose texts are given back.

    Attributes:
        name: of the capture; None: only its ending is given back.
        stop_name: of the capture of its ending; None: it is not given back.
        ending: what the rule reads in front of its ending, and the ending; None: it has none.
    """

    name: str | None
    stop_name: str | None = None
    ending: tuple[ir.Regex, ir.Regex] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CaptureGrammar:
    """A grammar as it is written: no rule is rewritten, so texts of rules can be found.

    Attributes:
        rules: by name.
        start: name of the start rule.
        captured: by the name of the rule.
        tokens: of the lexer, see `constrained.grammars.lexer.LexerGrammar`; empty without one.
        basic_lexer: see there.
        embedded: grammars of ``%json`` and ``@name``, by the expression that stands for their texts.
        between: name of the rule of ignored text.
        marks: what stands for each special token in texts, by name.
    """

    rules: Mapping[str, ir.Expr]
    start: str
    captured: Mapping[str, CapturedRule]
    tokens: tuple[LexerToken, ...]
    basic_lexer: bool
    embedded: Mapping[ir.Regex, ir.Grammar]
    between: str
    marks: Mapping[str, bytes]
