"""Lark grammars, and `lark.Lark` parsers, to the grammar IR.

    settings      how a grammar is read: start rule, lexer, what @name stands for
    additions     what a grammar may hold beyond Lark: %json, @name, and what llguidance adds
    attributes    name[lazy, suffix="..."]
    parameters    name::set_bit(0), %if bit_clear(0)
    tokens        <|call|>, <[128-140]>
    structured_regex    %regex {"substring_words": "..."}
    combined      A & B, ~A, and patterns that end early
    loader        from the text to definitions, by Lark's own loader
    definitions   what the loader leaves, with places
    patterns      from the tree of a terminal to its regular expression
    terminals     from regular expressions to languages
    preference    which terminal wins
    rules         rules with their templates filled in
    captures      name[capture]: a grammar in which the texts of rules can be found
    instance      a parser that was compiled already
    overlaps      terminals that match the same text

Must not know: tokenizers, models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lark import Lark

from grammars import ir
from grammars.errors import ConstraintTooLarge, InvalidConstraint, Problem, UnsatisfiableConstraint
from grammars.lexer import LexerGrammar, LexerToken, reject_lexer_grammar
from grammars.notation.lark.additions import EmbeddedGrammar, without_additions
from grammars.notation.lark.captures import CapturedRule, CaptureGrammar
from grammars.notation.lark.combined import CombinedPattern
from grammars.notation.lark.definitions import LarkDefinitions
from grammars.notation.lark.instance import (
    compiled_rules,
    global_flags,
    lexer_of,
    parser_fingerprint,
    start_rule,
)
from grammars.notation.lark.loader import imported_files, load
from grammars.notation.lark.overlaps import ComparedTerminal, OverlapReport, TerminalOverlap, find_overlaps
from grammars.notation.lark.patterns import as_regex
from grammars.notation.lark.preference import TerminalPreference, lexer_tokens
from grammars.notation.lark.rules import LarkRules
from grammars.notation.lark.settings import LarkSettings, Lexer
from grammars.notation.lark.terminals import LarkTerminal, LarkTerminals
from grammars.notation.lark.tokens import TokenReference, token_parts
from grammars.transform.inline_regular import inline_regular_rules
from grammars.transform.interleave import reject_distinct_entries
from grammars.transform.left_recursion import remove_left_recursion
from grammars.transform.nullable import remove_nullable_loops
from grammars.transform.productive import prune_unproductive
from grammars.visit import drop_unreachable

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

_START = "text"  # taken names get a stroke
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
    cutter, rules, start = _lowered(source, settings)
    return cutter.finish(rules, start, settings.prefer)


def capture_grammar(source: str | Lark, settings: LarkSettings = _DEFAULT) -> CaptureGrammar | None:
    """The grammar in which the captures of a text are found; None if no rule has any. Arguments and errors as for `parse`."""
    if isinstance(source, Lark) or not without_additions(source).captured:
        return None
    opaque: dict[ir.Regex, ir.Grammar] = {}

    def as_terminal(grammar: ir.Grammar) -> ir.Grammar:
        stand_in = ir.Concat((ir.EMPTY_SET,))
        opaque[stand_in] = grammar
        return ir.Grammar.of(stand_in)

    definitions, cutter, start = _read(source, settings)
    ignored = cutter.between
    if ignored is not ir.EPSILON:
        cutter.between = ir.call(_IGNORED)
    lowering = _rules_of(definitions, cutter, start, settings, as_terminal)
    whole = cutter.productive({**lowering.rules, _IGNORED: ignored}, start)
    bodies = {lazy.rule: (body, lazy.ending) for body, lazy in definitions.plain.lazy.items()}
    captured = {}
    for full, rule in lowering.rule_of.items():
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
    cutter, _, _ = _lowered(source, settings)
    return OverlapReport() if cutter.lexer == "dynamic" else find_overlaps(cutter.regular_terminals())


def _lowered(source: str | Lark, settings: LarkSettings) -> tuple[_Cutter, Mapping[str, ir.Expr], str]:
    """The terminals, the rules and the start rule."""
    if isinstance(source, Lark):
        own_lexer = lexer_of(source)
        start = start_rule(source, settings.start)
        ignored = list(source.lexer_conf.ignore)
        cutter = _Cutter(_parser_terminals(source), ignored, settings.lexer or own_lexer)
        return cutter, compiled_rules(source, cutter.leaf), start
    definitions, cutter, start = _read(source, settings)
    return cutter, _rules_of(definitions, cutter, start, settings).rules, start


def _read(source: str, settings: LarkSettings) -> tuple[LarkDefinitions, _Cutter, str]:
    """The definitions of a text, their terminals, and the start rule."""
    start = "start" if settings.start is None else settings.start
    definitions = load(source, settings.import_paths)
    _check_start(definitions, start)
    terminals = LarkTerminals(
        definitions.terminals,
        lambda name, reason: definitions.plain.source.problem(reason, definitions.place(name)),
        literals=definitions.literals,
        may_be_empty=definitions.plain.llguidance,
    )
    return definitions, _Cutter(terminals, definitions.ignored, settings.lexer or "contextual"), start


def _rules_of(
    definitions: LarkDefinitions,
    cutter: _Cutter,
    start: str,
    settings: LarkSettings,
    change: Callable[[ir.Grammar], ir.Grammar] = lambda grammar: grammar,
) -> LarkRules:
    """The rules of a text; `change` is made of each grammar that is embedded."""
    plain, tokens = definitions.plain, settings.tokens
    parts = token_parts(plain.source, plain.tokens.values())

    def token(reference: TokenReference) -> ir.Expr:
        if tokens is not None and not tokens.keys() >= {*parts[reference]}:
            reason = f"at most {len(tokens)} tokens, or sets of tokens without overlap, can be named"
            problem = plain.source.problem(reason, reference.at)
            raise ConstraintTooLarge("the Lark grammar is too large", problem)
        marks = [ir.literal(_ANY_MARK if tokens is None else tokens[name]) for name in parts[reference]]
        return ir.sequence(ir.Terminal(ir.union(*marks)), cutter.between)

    lower = _embedder(definitions, settings.embedded)

    def embed(node: EmbeddedGrammar) -> tuple[ir.Grammar, ir.Expr]:
        return change(lower(node)), cutter.between

    lowering = LarkRules(definitions, cutter.leaf, embed, token)
    lowering.lower(start)
    return lowering


def embedded_names(text: str) -> list[str]:
    """What a grammar holds that Lark's own parser cannot read: ``%json``, ``@name`` by name, and what llguidance adds.

    Raises:
        ConstraintError: as `parse`.
    """
    plain = without_additions(text)
    names = ["%json" if node.name is None else f"@{node.name}" for node in plain.embedded.values()]
    names += [one.written for one in plain.tokens.values()]
    names += ["%regex"] * bool(plain.structured)
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


class _Cutter:
    """Rules and terminals become a grammar, behind a lexer or without one.

    Attributes:
        between: what may stand after every terminal: any number of ignored ones.
    """

    def __init__(self, terminals: LarkTerminals, ignored: Sequence[str], lexer: Lexer) -> None:
        self.terminals = terminals
        self.ignored = [str(name) for name in ignored]
        self.lexer = lexer
        self.used: dict[str, LarkTerminal] = {}
        ignored_terminals = [terminals.terminal(name) for name in self.ignored]
        self.between = ir.loop(ir.choice(*(ir.Terminal(terminal.regex) for terminal in ignored_terminals)))

    def leaf(self, name: str) -> ir.Expr:
        """What stands in a rule for a terminal."""
        if self.lexer != "dynamic" and name in self.ignored:
            return ir.EMPTY_LANGUAGE  # the lexer drops it wherever it comes
        terminal = self.used[name] = self.terminals.terminal(name)
        once = ir.sequence(ir.Terminal(terminal.regex), self.between)
        return ir.loop(once, 0, 1) if terminal.optional else once

    def regular_terminals(self) -> list[ComparedTerminal]:
        """The terminals in use that are regular expressions."""
        compared = []
        for name in dict.fromkeys((*self.used, *self.ignored)):
            terminal = self.terminals.terminal(name)
            if terminal.literal is None:
                pattern = self.terminals.patterns[name].pattern
                combined = isinstance(pattern, CombinedPattern)
                text = None if combined else as_regex(pattern, self.terminals.flags)
                compared.append(ComparedTerminal(terminal.name, text, terminal.regex, terminal.priority))
        return compared

    def finish(self, rules: Mapping[str, ir.Expr], start: str, prefer: TerminalPreference) -> ir.Grammar:
        """The grammar of these rules."""
        whole = self.productive(rules, start)
        if self.lexer == "dynamic":
            return remove_left_recursion(
                remove_nullable_loops(drop_unreachable(inline_regular_rules(drop_unreachable(whole))))
            )
        reject_distinct_entries(whole, "behind a lexer")
        ready = remove_left_recursion(remove_nullable_loops(drop_unreachable(whole)))
        return LexerGrammar(ready.rules, ready.start, self.tokens(prefer), basic_lexer=self.lexer == "basic")

    def productive(self, rules: Mapping[str, ir.Expr], start: str) -> ir.Grammar:
        """The rules that lead to a complete text, with ignored text before the start rule.

        Raises:
            UnsatisfiableConstraint: the start rule leads to none.
        """
        name = _START
        while name in rules:
            name += "'"
        whole = prune_unproductive(
            ir.Grammar({name: ir.sequence(self.between, ir.call(start)), **rules}, name)
        )
        if whole is None:
            reason = "can never be completed: it always calls itself again, or a dropped terminal"
            raise UnsatisfiableConstraint(
                "no completion follows the grammar", Problem(f"rule {start}", reason)
            )
        return whole

    def tokens(self, prefer: TerminalPreference) -> tuple[LexerToken, ...]:
        """What the lexer cuts the text into: the terminals in use, and the ignored ones."""
        competing = [*self.used, *(name for name in self.ignored if name not in self.used)]
        for one in competing:
            self.terminals.check_not_empty(one)
        return lexer_tokens(dict.fromkeys(map(self.terminals.terminal, competing)), prefer)


def _check_start(definitions: LarkDefinitions, start: str) -> None:
    rule = definitions.rules.get(start)
    if rule is None or rule.tree is None or rule.parameters:
        usable = (
            name for name, one in definitions.rules.items() if one.tree is not None and not one.parameters
        )
        raise InvalidConstraint(
            f"the Lark grammar has no rule {start}",
            Problem("rules", f"defined: {', '.join(usable) or 'none'}"),
            action="name the start rule start, or pass start=",
        )


def _embedder(
    definitions: LarkDefinitions, embedded: Mapping[str, ir.Grammar]
) -> Callable[[EmbeddedGrammar], ir.Grammar]:
    def embed(node: EmbeddedGrammar) -> ir.Grammar:
        if node.name is None:
            from grammars.json_schema import lower_schema

            return lower_schema(node.schema).grammar
        if node.name not in embedded:
            names = ", ".join(embedded) or "none"
            definitions.fail(f"no constraint is passed for @{node.name}; passed: {names}", node.at)
        reject_lexer_grammar(embedded[node.name], f"at @{node.name}")
        return embedded[node.name]

    return embed


def _parser_terminals(parser: Lark) -> LarkTerminals:
    return LarkTerminals(
        parser.terminals,
        lambda name, reason: Problem(f"terminal {name}", reason),
        flags=global_flags(parser),
    )
