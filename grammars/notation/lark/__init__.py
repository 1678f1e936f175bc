"""Lark's notation and its lexer, to the grammar IR.

    source      what was written
    reader      from text to that
    common      what ``%import common.X`` brings
    terminals   which texts a terminal matches
    ranks       which terminal wins
    rules       rules with their templates filled in

Must not know: tokenizers, models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from grammars import ir
from grammars.errors import InvalidConstraint, Problem, UnsatisfiableConstraint
from grammars.lexer import LexerGrammar, reject_lexer_grammar
from grammars.notation.lark import source as src
from grammars.notation.lark.priority import Prefer, ranked
from grammars.notation.lark.reader import read
from grammars.notation.lark.rules import Rules
from grammars.notation.lark.terminals import Terminal, Terminals
from grammars.transform.inline_regular import inline_regular_rules
from grammars.transform.interleave import reject_distinct_entries
from grammars.transform.left_recursion import remove_left_recursion
from grammars.transform.nullable import remove_nullable_loops
from grammars.transform.productive import prune_unproductive
from grammars.visit import drop_unreachable

__all__ = ["Lexer", "Prefer", "parse"]

Lexer = Literal["contextual", "basic", "dynamic"]
"""Which terminals compete where: those that the parser can take, all of them everywhere, or none at all."""

_START = "text"  # taken names get a stroke


def parse(
    text: str,
    *,
    start: str = "start",
    lexer: Lexer = "contextual",
    prefer: Prefer = "longest",
    embedded: Mapping[str, ir.Grammar] | None = None,
) -> ir.Grammar:
    """The grammar of a Lark text, ready for the core: a `LexerGrammar` one, unless `lexer` is ``"dynamic"``.

    Args:
        text: the grammar; `grammars.notation.lark.reader` describes the notation.
        start: the rule that a whole text follows.
        lexer: see `Lexer`.
        prefer: see `Prefer`.
        embedded: what ``@name`` stands for.

    Raises:
        InvalidConstraint: malformed, or something is undefined or defined twice; line, column and a caret are told.
        UnsupportedConstraint: what no text can be generated for, or constructs of other engines.
        UnsatisfiableConstraint: no text follows the start rule.
        ConstraintTooLarge: templates or terminals that grow too large, too many rules that begin with one another.
    """
    for setting, value, known in (("lexer", lexer, Lexer), ("prefer", prefer, Prefer)):
        if value not in get_args(known):
            choices = ", ".join(map(repr, get_args(known)))
            raise InvalidConstraint(f"{setting}={value!r} is not known", action=f"use one of {choices}")
    source, reader = read(text)
    if start not in source.rules or source.rules[start].parameters:
        names = ", ".join(name for name, made in source.rules.items() if not made.parameters) or "none"
        raise InvalidConstraint(
            f"the Lark grammar has no rule {start}",
            Problem("rules", f"defined are: {names}"),
            action="call the rule that a whole text follows start, or pass start=",
        )
    terminals = Terminals(source, reader)
    ignored = [terminals.terminal(node) for node in source.ignored]
    cut = lexer != "dynamic"
    between = ir.loop(ir.choice(*(ir.Terminal(terminal.regex) for terminal in ignored)))

    def leaf(terminal: Terminal) -> ir.Expr:
        if cut and terminal in ignored:
            return ir.EMPTY_LANGUAGE  # the lexer drops it wherever it comes
        return ir.sequence(ir.Terminal(terminal.regex), between)

    def embed(node: src.Json | src.Embedded) -> tuple[ir.Grammar, ir.Expr]:
        if isinstance(node, src.Json):
            from grammars.json_schema import lower_schema

            return lower_schema(node.schema).grammar, between
        if node.name not in (embedded or {}):
            known = ", ".join(embedded or ()) or "nothing"
            reader.fail(f"no constraint is passed for @{node.name}; passed is: {known}", node.at)
        grammar = (embedded or {})[node.name]
        reject_lexer_grammar(grammar, f"at @{node.name}")
        return grammar, between

    rules = Rules(source, reader, terminals, leaf, embed)
    rules.lower(start)
    name = _START
    while name in rules.made:
        name += "'"
    whole = prune_unproductive(ir.Grammar({name: ir.sequence(between, ir.call(start)), **rules.made}, name))
    if whole is None:
        raise UnsatisfiableConstraint(
            "no text follows the grammar",
            Problem(
                f"rule {start}", "can never be completed: it always calls itself again, or a dropped terminal"
            ),
        )
    if not cut:
        return remove_left_recursion(
            remove_nullable_loops(drop_unreachable(inline_regular_rules(drop_unreachable(whole))))
        )
    reject_distinct_entries(whole, "behind a lexer")
    ready = remove_left_recursion(remove_nullable_loops(drop_unreachable(whole)))
    competing = {*rules.used, *ignored}
    for terminal in competing:
        terminals.check_not_empty(terminal)
    return LexerGrammar(ready.rules, ready.start, ranked(competing, prefer), basic_lexer=lexer == "basic")
