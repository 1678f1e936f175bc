"""A `lark.Lark` parser as it was compiled: its rules, its terminals, and what its lexer does."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from lark import Lark
from lark.grammar import Terminal

from constrained.grammars import ir
from constrained.grammars.errors import InvalidConstraint, Problem, UnsupportedConstraint

_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x"}


def start_rule(parser: Lark, start: str | None) -> str:
    """The start rule of a parser.

    Raises:
        InvalidConstraint: it has several and none was chosen, or not this one.
    """
    starts = [str(name) for name in parser.options.start]
    if start is None and len(starts) == 1:
        return starts[0]
    if start not in starts:
        raise InvalidConstraint(
            f"the Lark parser has {'several start rules' if start is None else f'no start rule {start}'}",
            Problem("start", f"it starts with: {', '.join(starts)}"),
            action="pass one of them as start=",
        )
    return start


def lexer_of(parser: Lark) -> Literal["contextual", "basic", "dynamic"]:
    """The lexer that allows the texts of a parser.

    Earley's ``"dynamic"`` lexer takes the longest match of each terminal, and all terminals that match. What the
    contextual lexer cuts is a part of that. ``"dynamic_complete"`` takes every match.

    Raises:
        UnsupportedConstraint: the parser depends on code of its user, on bytes, or has no rules.
    """
    options = parser.options
    ignored = set(parser.lexer_conf.ignore)
    refused = {
        "postlex": options.postlex is not None,
        "lexer": isinstance(options.lexer, type),
        "lexer_callbacks": bool(set(options.lexer_callbacks) - ignored),
        "use_bytes": bool(options.use_bytes),
        "parser": options.parser is None,
    }
    problems = [
        Problem(name, _REASONS[name], value=type(getattr(options, name)).__name__)
        for name, is_set in refused.items()
        if is_set
    ]
    if problems:
        raise UnsupportedConstraint("the Lark parser cannot be enforced", problems)
    lexers: dict[str, Literal["contextual", "basic", "dynamic"]] = {
        "basic": "basic",
        "dynamic_complete": "dynamic",
    }
    return lexers.get(str(options.lexer), "contextual")


_REASONS = {
    "postlex": "changes the tokens by code after the lexer, as an Indenter does",
    "lexer": "is a lexer of your own",
    "lexer_callbacks": "can change tokens by code",
    "use_bytes": "parses bytes; a constraint is about text",
    "parser": "is missing: the object only lexes",
}


def global_flags(parser: Lark) -> str:
    """The flags of regular expressions that hold for all terminals.

    Raises:
        UnsupportedConstraint: there are others than i, m, s and x.
    """
    flags = re.RegexFlag(parser.options.g_regex_flags)
    letters = "".join(letter for flag, letter in _FLAGS.items() if flag & flags)
    rest = flags & ~(re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE)
    if rest:
        raise UnsupportedConstraint(
            "the Lark parser cannot be enforced",
            Problem("g_regex_flags", "has a flag that is not known", value=str(rest)),
        )
    return letters


def compiled_rules(parser: Lark, leaf: Callable[[str], ir.Expr]) -> dict[str, ir.Expr]:
    """The rules of a parser, with terminals as `leaf` makes them; a list that Lark wrote as recursion is a loop."""
    bodies: dict[str, list[list[Any]]] = {}
    for rule in parser.rules:
        bodies.setdefault(str(rule.origin.name), []).append(list(rule.expansion))
    compiled: dict[str, ir.Expr] = {}
    leaves: dict[str, ir.Expr] = {}

    def symbol(one: Any) -> ir.Expr:
        name = str(one.name)
        if not isinstance(one, Terminal):
            return ir.call(name)
        if name not in leaves:
            leaves[name] = leaf(name)
        return leaves[name]

    for name, alternatives in bodies.items():
        shorter = [body for body in alternatives if not body or body[0].name != name]
        longer = [body[1:] for body in alternatives if body and body[0].name == name and not body[0].is_term]
        parts = [ir.sequence(*map(symbol, body)) for body in (shorter if shorter == longer else alternatives)]
        body = ir.choice(*parts)
        compiled[name] = ir.loop(body, 1) if shorter == longer else body
    return compiled


def parser_fingerprint(parser: Lark) -> str:
    """A text that is equal for parsers with equal rules, terminals and settings."""
    terminals = sorted(
        (str(one.name), one.pattern.type, one.pattern.value, sorted(one.pattern.flags), one.priority)
        for one in parser.terminals
    )
    rules = [(str(rule.origin.name), [str(one.name) for one in rule.expansion]) for rule in parser.rules]
    options = parser.options
    settings = (list(map(str, options.start)), str(options.lexer), int(options.g_regex_flags))
    return repr((settings, sorted(map(str, parser.lexer_conf.ignore)), terminals, rules))
