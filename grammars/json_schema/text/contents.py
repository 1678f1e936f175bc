r"""JSON strings whose value is in the language of a grammar.

Escapes are those of `CANONICAL_ESCAPES`: every character stands for itself except ``"``, ``\`` and control characters,
which are escaped in their short form or as ``\uXXXX``; DEL and characters beyond ASCII may be escaped as ``\uXXXX``.
So every text has a spelling with and one without ``ensure_ascii``, as `json.dumps` writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from constrained.grammars import ir
from constrained.grammars.errors import ConstrainedError, Problem, UnsupportedConstraint
from constrained.grammars.json_schema.text.patterns import StringPattern
from constrained.grammars.json_schema.text.strings import CANONICAL_ESCAPES
from constrained.grammars.lexer import reject_lexer_grammar
from constrained.grammars.transform.interleave import is_distinct
from constrained.grammars.visit import children, drop_unreachable, fold, with_children


class StringContent:
    """A language of string values that is given by a grammar.

    Args:
        name: unique in a document; for rules and messages.
        make: makes the grammar of the values. It is called once, when the content is first used.

    Raises:
        UnsupportedConstraint: on first use: the grammar has a lexer, describes bytes that are not UTF-8, or requires
            distinct items.
    """

    def __init__(self, name: str, make: Callable[[], ir.Grammar]) -> None:
        self.name = name
        self._make = make

    @cached_property
    def _grammar(self) -> ir.Grammar:
        grammar = self._make()
        reject_lexer_grammar(grammar, "inside a JSON string")
        return drop_unreachable(grammar)

    def is_regular(self) -> bool:
        """Whether `pattern` exists; False if the grammar cannot be made."""
        try:
            return self.pattern is not None
        except ConstrainedError:
            return False

    @cached_property
    def pattern(self) -> StringPattern | None:
        """The language as one regular expression, if the grammar is one terminal; it can then be conjoined with others."""
        body = self._grammar.rules[self._grammar.start]
        if not isinstance(body, ir.Terminal):
            return None
        _require_text(body.regex)
        return StringPattern(self.name, body.regex)

    @cached_property
    def rules(self) -> ir.Grammar:
        """The grammar of the encodings, without quotes; the name of each rule begins with `name`."""
        return json_string_body(self._grammar, f"{self.name}: ")


def json_string_body(grammar: ir.Grammar, prefix: str = "") -> ir.Grammar:
    """The grammar of the JSON encodings of the texts of a grammar, without quotes.

    Args:
        grammar: without a lexer; its terminals hold whole characters.
        prefix: put before the name of each rule.

    Raises:
        UnsupportedConstraint: a terminal is not UTF-8 text, or items of a list must differ as JSON values.
    """
    encoded: dict[ir.Expr, ir.Expr] = {}

    def value(expr: ir.Expr, known: dict[ir.Expr, ir.Expr]) -> ir.Expr:
        if is_distinct(expr):
            raise UnsupportedConstraint(
                "a grammar cannot stand inside a JSON string",
                Problem("uniqueItems", "different items are compared as JSON, and here they are escaped"),
                action="leave uniqueItems and sets out of what the string contains",
            )
        if isinstance(expr, ir.Terminal):
            _require_text(expr.regex)
            return ir.Terminal(CANONICAL_ESCAPES.encode(expr.regex))
        if isinstance(expr, ir.Call):
            return ir.Call(prefix + expr.rule)
        return with_children(expr, tuple(known[part] for part in children(expr)))

    rules = {prefix + name: fold(body, children, value, encoded) for name, body in grammar.rules.items()}
    return ir.Grammar(rules, prefix + grammar.start)


def _require_text(regex: ir.Regex) -> None:
    """Checks that all literals are whole characters."""
    from constrained.grammars.regex.analysis import children as parts

    def value(node: ir.Regex, known: dict[ir.Regex, None]) -> None:
        if isinstance(node, ir.Literal):
            try:
                node.data.decode()
            except UnicodeDecodeError as error:
                raise UnsupportedConstraint(
                    "a grammar cannot stand inside a JSON string",
                    Problem(repr(node.data), f"is not UTF-8 text: {error.reason}"),
                    action="describe whole characters",
                ) from None

    fold(regex, parts, value, {})
