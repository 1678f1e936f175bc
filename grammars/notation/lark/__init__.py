"""Lark grammars, and `lark.Lark` parsers, to the grammar IR.

    settings      how a grammar is read: start rule, lexer, what @name stands for
    additions     what a grammar may hold beyond Lark: %json, @name, and what llguidance adds
    attributes    name[lazy, suffix="..."]
    parameters    name::set_bit(0), %if bit_clear(0)
    structured_regex    %regex {"substring_words": "..."}
    combined      A & B, ~A, and patterns that end early
    loader        from the text to definitions, by Lark's own loader
    definitions   what the loader leaves, with places
    patterns      from the tree of a terminal to its regular expression
    terminals     from regular expressions to languages
    rules         rules with their templates filled in
    cutter        from rules and terminals to a grammar, behind a lexer, and which terminal wins there, or without one
    limits        name[max_tokens=10]: rules whose texts have a limit of tokens
    captures      name[capture]: a grammar in which the texts of rules can be found
    instance      a parser that was compiled already
    overlaps      terminals that match the same text

Must not know: tokenizers, models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lark import Lark

from constrained.grammars import ir
from constrained.grammars.counted import CountedGrammar
from constrained.grammars.errors import ConstraintTooLarge, InvalidConstraint, Problem
from constrained.grammars.lexer import reject_lexer_grammar
from constrained.grammars.notation.lark.additions import EmbeddedGrammar, without_additions
from constrained.grammars.notation.lark.captures import CapturedRule, CaptureGrammar
from constrained.grammars.notation.lark.cutter import Cutter
from constrained.grammars.notation.lark.definitions import LarkDefinitions
from constrained.grammars.notation.lark.instance import (
    compiled_rules,
    global_flags,
    lexer_of,
    parser_fingerprint,
    start_rule,
)
from constrained.grammars.notation.lark.limits import LimitedRule, LimitedTexts, UncountedTexts, nested
from constrained.grammars.notation.lark.loader import imported_files, load
from constrained.grammars.notation.lark.overlaps import OverlapReport, TerminalOverlap, find_overlaps
from constrained.grammars.notation.lark.rules import LarkRules
from constrained.grammars.notation.lark.settings import LarkSettings, Lexer, TerminalPreference
from constrained.grammars.notation.lark.terminals import LarkTerminals
from constrained.grammars.notation.source import TokenReference, token_parts

__all__ = [
    "LarkSettings",
    "Lexer",
    "OverlapReport",
    "TerminalOverlap",
    "TerminalPreference",
    "capture_grammar",
    "embedded_names",
    "fingerprint",
    "load",
    "parse",
    "special_tokens",
    "terminal_overlaps",
]

_ANY_MARK = b"\xff"
_IGNORED = "%ignore"
_DEFAULT = LarkSettings()


def parse(source: str | Lark, settings: LarkSettings = _DEFAULT) -> ir.Grammar:
    """A Lark grammar, ready for the core: a `LexerGrammar`, unless the lexer is ``"dynamic"``.

    Args:
        source: the text of the grammar, or a parser that Lark made of one.
        settings: how it is read.

    Raises:
        InvalidConstraint: malformed, or something is undefined or defined twice; with line, column and a caret.
        UnsupportedConstraint: rules that cannot be generated from, or constructs of other engines.
        UnsatisfiableConstraint: no completion follows the start rule.
        ConstraintTooLarge: the text, templates or terminals are too large, or too many rules begin with one another.
    """
    if isinstance(source, Lark):
        cutter, rules, start = _of_parser(source, settings)
        return cutter.finish(rules, start, settings.prefer)
    reading = _SourceReading(source, settings)
    if not reading.definitions.plain.limits:
        return reading.finish(reading.rules(nested(reading.definitions)))
    limited = reading.limited_texts()
    outer = reading.finish(reading.rules(limited.letter))
    if not limited.texts:
        return outer
    reading = _SourceReading(source, settings)
    uncounted = reading.uncounted_texts(reading.cutter.anew(cuts=False))
    relaxed = reading.rules(uncounted.call)
    return CountedGrammar.joined(reading.finish({**relaxed, **uncounted.rules}), outer, limited.texts)


def capture_grammar(source: str | Lark, settings: LarkSettings = _DEFAULT) -> CaptureGrammar | None:
    """The grammar in which the captures of a text are found; None if no rule has any. Arguments and errors as for `parse`."""
    if isinstance(source, Lark) or not without_additions(source).captured:
        return None
    opaque: dict[ir.Regex, ir.Grammar] = {}

    def as_terminal(grammar: ir.Grammar) -> ir.Grammar:
        stand_in = ir.Concat((ir.EMPTY_SET,))
        opaque[stand_in] = grammar
        return ir.Grammar.of(stand_in)

    reading = _SourceReading(source, settings, as_terminal)
    definitions, cutter = reading.definitions, reading.cutter
    ignored = cutter.between
    uncut = cutter.anew(cuts=False)
    if ignored is not ir.EPSILON:
        cutter.between = uncut.between = ir.call(_IGNORED)
    uncounted = reading.uncounted_texts(uncut)
    lowering = reading.lowering(cutter, uncounted.call)
    lowering.lower(reading.start)
    rules = {**lowering.rules, **uncounted.rules, _IGNORED: ignored}
    whole = cutter.productive(rules, reading.start)
    bodies = {lazy.rule: (body, lazy.ending) for body, lazy in definitions.plain.lazy.items()}
    captured = {}
    for full, rule in {**lowering.rule_of, **uncounted.rule_of}.items():
        if rule in definitions.plain.captured and full in whole.rules:
            body, ending = bodies.get(rule, ("", None))
            endings = None if ending is None else cutter.terminals.ending(body, ending)
            captured[full] = CapturedRule(*definitions.plain.captured[rule], endings)
    behind_lexer = cutter.lexer != "dynamic"
    return CaptureGrammar(
        whole.rules,
        whole.start,
        captured,
        cutter.tokens(settings.prefer) if behind_lexer else (),
        cutter.lexer == "basic",
        opaque,
        _IGNORED,
        settings.tokens or {},
    )


def terminal_overlaps(source: str | Lark, settings: LarkSettings = _DEFAULT) -> OverlapReport:
    """Which terminals match the same text, as Lark's strict mode has it: regular expressions of equal priority.

    Terminals that the start rule needs and ignored ones are compared, also those that never come at the same place.
    Without a lexer nothing is compared. Arguments and errors as for `parse`.
    """
    if isinstance(source, Lark):
        cutter, _, _ = _of_parser(source, settings)
    else:
        reading = _SourceReading(source, settings)
        cutter = reading.cutter
        reading.rules(reading.limited_texts().letter)
    return OverlapReport() if cutter.lexer == "dynamic" else find_overlaps(cutter.regular_terminals())


def _of_parser(parser: Lark, settings: LarkSettings) -> tuple[Cutter, Mapping[str, ir.Expr], str]:
    """The terminals, the rules and the start rule of a parser."""
    own_lexer = lexer_of(parser)
    start = start_rule(parser, settings.start)
    terminals = LarkTerminals(
        parser.terminals,
        lambda name, reason: Problem(f"terminal {name}", reason),
        flags=global_flags(parser),
    )
    cutter = Cutter(terminals, list(parser.lexer_conf.ignore), settings.lexer or own_lexer)
    return cutter, compiled_rules(parser, cutter.leaf), start


class _SourceReading:
    """The text of a grammar, while it is read.

    Attributes:
        definitions: the definitions of the text.
        cutter: of their terminals.
        start: name of the start rule.
    """

    def __init__(
        self,
        source: str,
        settings: LarkSettings,
        change: Callable[[ir.Grammar], ir.Grammar] = lambda grammar: grammar,
    ) -> None:
        """Reads the definitions; `change` is made of each grammar that is embedded."""
        self.settings = settings
        self.start = "start" if settings.start is None else settings.start
        self.definitions = definitions = load(source, settings.import_paths)
        _check_start(definitions, self.start)
        terminals = LarkTerminals(
            definitions.terminals,
            lambda name, reason: definitions.plain.source.problem(reason, definitions.place(name)),
            literals=definitions.literals,
            may_be_empty=definitions.plain.llguidance,
        )
        self.cutter = Cutter(terminals, definitions.ignored, settings.lexer or "contextual")
        self._parts = token_parts(definitions.plain.source, definitions.plain.tokens.values())
        self._change = change

    def rules(self, limited: LimitedRule) -> Mapping[str, ir.Expr]:
        """The rules that the start rule needs; `limited` gives what stands for those with a limit of tokens."""
        lowering = self.lowering(self.cutter, limited)
        lowering.lower(self.start)
        return lowering.rules

    def finish(self, rules: Mapping[str, ir.Expr]) -> ir.Grammar:
        """The grammar of rules."""
        return self.cutter.finish(rules, self.start, self.settings.prefer)

    def limited_texts(self) -> LimitedTexts:
        """The rules with a limit of tokens, where they are counted."""
        settings = self.settings
        return LimitedTexts(self.definitions, self.cutter, self.lowering, settings.prefer, settings.letters)

    def uncounted_texts(self, cutter: Cutter) -> UncountedTexts:
        """The rules with a limit of tokens, where they are not counted."""
        return UncountedTexts(self.definitions, cutter, self.lowering)

    def lowering(self, cutter: Cutter, limited: LimitedRule, prefix: str = "") -> LarkRules:
        """Rules of a cutter, of which none is made yet."""
        plain, tokens = self.definitions.plain, self.settings.tokens

        def token(reference: TokenReference) -> ir.Expr:
            parts = self._parts[reference]
            if tokens is not None and not tokens.keys() >= {*parts}:
                reason = f"at most {len(tokens)} tokens, or sets of tokens without overlap, can be named"
                problem = plain.source.problem(reason, reference.at)
                raise ConstraintTooLarge("the Lark grammar is too large", problem)
            marks = [ir.literal(_ANY_MARK if tokens is None else tokens[name]) for name in parts]
            return ir.sequence(ir.Terminal(ir.union(*marks)), cutter.between)

        def embed(node: EmbeddedGrammar) -> tuple[ir.Grammar, ir.Expr]:
            return self._change(self._embedded(node)), cutter.between

        return LarkRules(self.definitions, cutter.leaf, embed, token, limited, prefix)

    def _embedded(self, node: EmbeddedGrammar) -> ir.Grammar:
        """The grammar of ``%json`` or ``@name``."""
        if node.name is None:
            from constrained.grammars.json_schema import lower_schema

            return lower_schema(node.schema).grammar
        embedded = self.settings.embedded
        if node.name not in embedded:
            names = ", ".join(embedded) or "none"
            self.definitions.fail(f"no constraint is passed for @{node.name}; passed: {names}", node.at)
        reject_lexer_grammar(embedded[node.name], f"at @{node.name}")
        return embedded[node.name]


def embedded_names(text: str) -> list[str]:
    """What a grammar holds that Lark's own parser cannot read: ``%json``, ``@name`` by name, and what llguidance adds.

    Raises:
        ConstraintError: as `parse`.
    """
    plain = without_additions(text)
    names = ["%json" if node.name is None else f"@{node.name}" for node in plain.embedded.values()]
    names += [one.written for one in plain.tokens.values()]
    names += ["%regex"] * bool(plain.structured)
    names += [f"{rule}[max_tokens]" for rule in plain.limits]
    names += [f"{rule}[capture]" for rule in plain.captured]
    names += [f"{lazy.rule}[lazy]" for lazy in plain.lazy.values()]
    names += [f"{name}::_" for name in sorted(plain.parametric)]
    return names + sorted(set(plain.operators.values()))


def special_tokens(source: str | Lark) -> tuple[str, ...]:
    """The tokens that rules name, each once: by name, or by numbers as `parse` tells them apart.

    Raises:
        ConstraintError: as `parse`.
    """
    if isinstance(source, Lark):
        return ()
    plain = without_additions(source)
    parts = token_parts(plain.source, plain.tokens.values())
    return tuple(dict.fromkeys(name for names in parts.values() for name in names))


def fingerprint(source: str | Lark, import_paths: Sequence[Any] = ()) -> str:
    """A text that is equal for equal grammars: it covers the files that are imported, and the rules of a parser."""
    if isinstance(source, Lark):
        return parser_fingerprint(source)
    return "\n".join([source, *imported_files(source, import_paths)]) if import_paths else source


def _check_start(definitions: LarkDefinitions, start: str) -> None:
    rule = definitions.rules.get(start)
    if rule is None or rule.tree is None or rule.parameters:
        usable = (
            name for name, one in definitions.rules.items() if one.tree is not None and not one.parameters
        )
        raise InvalidConstraint(
            f"the Lark grammar has no rule {start}",
            Problem("rules", f"defined: {', '.join(usable) or 'none'}"),
            action="name the start rule start, or in Python pass start=",
        )
