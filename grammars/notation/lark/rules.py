"""Rules of a Lark grammar, with templates filled in, as expressions over terminals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lark import Tree
from lark.grammar import NonTerminal, Terminal

from grammars import ir
from grammars.errors import ConstraintTooLarge
from grammars.notation.lark.additions import EmbeddedGrammar
from grammars.notation.lark.definitions import LarkDefinitions, Node, subtrees
from grammars.notation.lark.patterns import repetition
from grammars.transform.imports import import_rules

MAX_RULES = 20_000
"""Greatest number of rules that templates may become."""

Arguments = Mapping[str, ir.Expr]


class LarkRules:
    """The rules that the start needs.

    Attributes:
        made: the rules so far.
        used: names of the terminals in them.
    """

    def __init__(
        self,
        definitions: LarkDefinitions,
        leaf: Callable[[str], ir.Expr],
        embed: Callable[[EmbeddedGrammar], tuple[ir.Grammar, ir.Expr]],
    ) -> None:
        """Makes no rule yet.

        Args:
            definitions: the grammar.
            leaf: gives what stands in rules for the terminal of a name.
            embed: gives the grammar of ``%json`` or ``@name``, and what comes after it.
        """
        self.definitions = definitions
        self.leaf = leaf
        self.embed = embed
        self.rules: dict[str, ir.Expr] = {}
        self.used: dict[str, ir.Expr] = {}
        self.keys: dict[ir.Expr, str] = {}  # of what may be an argument
        self.embedded: dict[object, tuple[str, EmbeddedGrammar]] = {}
        self.open: list[tuple[str, str, Arguments]] = []

    def lower(self, start: str) -> None:
        """Makes the start rule, and all that it needs.

        Raises:
            ConstraintError: a part cannot be enforced.
            ConstraintTooLarge: templates become too many rules.
        """
        self.open.append((start, start, {}))
        self.rules[start] = ir.EMPTY_LANGUAGE
        while self.open:
            full, name, arguments = self.open.pop()
            self.rules[full] = self._body(name, arguments)
        for name, node in self.embedded.values():  # last: their rules may have the names of ours
            grammar, then = self.embed(node)
            self.rules[name] = ir.sequence(import_rules(grammar, self.rules), then)

    def _body(self, name: str, arguments: Arguments) -> ir.Expr:
        """The alternatives of a rule, where parameters stand for these arguments."""
        tree = self.definitions.rules[name].tree
        if tree is None:
            self.definitions.refuse(
                f"the rule {name} is declared without alternatives", self.definitions.place(name)
            )
        exprs: dict[int, ir.Expr] = {}
        for node in subtrees(tree):
            exprs[id(node)] = self._expr(name, node, arguments, exprs)
        return exprs[id(tree)]

    def _expr(self, name: str, node: Node, arguments: Arguments, exprs: dict[int, ir.Expr]) -> ir.Expr:
        kind, parts = node.data, node.children

        def value(part: Any) -> ir.Expr:
            expr = exprs[id(part)] if isinstance(part, Tree) else self._symbol(part, arguments)
            if kind != "value" and self._is_template(expr):
                assert isinstance(expr, ir.Call)
                parameters = ", ".join(self.definitions.rules[expr.rule].parameters)
                self.definitions.fail(
                    f"{expr.rule} takes other arguments: {parameters}", self.definitions.place(name)
                )
            return expr

        if kind == "expansions":
            return ir.choice(*map(value, parts))
        if kind == "expansion":
            return ir.sequence(*map(value, parts))
        if kind == "maybe":
            return ir.loop(value(parts[0]), 0, 1)
        if kind == "expr":
            return ir.loop(value(parts[0]), *repetition(self.definitions, parts, name))
        if kind == "template_usage":
            passed = arguments.get(parts[0].name)
            used = passed.rule if isinstance(passed, ir.Call) else str(parts[0].name)
            return self._instance(used, [exprs[id(part)] for part in parts[1:]], parts[0], name)
        return value(parts[0])  # "value" and "alias"

    def _symbol(self, symbol: Any, arguments: Arguments) -> ir.Expr:
        """What stands for a name: a terminal, an argument, something embedded, or a call."""
        name = str(symbol.name)
        if name in arguments:
            return arguments[name]
        if isinstance(symbol, Terminal):
            if name in self.definitions.declared:
                self.definitions.refuse(
                    f"the terminal {name} is declared without a pattern", self.definitions.place(name)
                )
            if name not in self.used:
                self.used[name] = self.leaf(name)
                self.keys[self.used[name]] = name
            return self.used[name]
        if name in self.definitions.embedded:
            return self._foreign(name, self.definitions.embedded[name])
        if self.definitions.rules[name].parameters:
            template = ir.call(name)  # passed to another one
            self.keys[template] = name
            return template
        return self._instance(name, [], symbol, name)

    def _is_template(self, expr: ir.Expr) -> bool:
        rules = self.definitions.rules
        return isinstance(expr, ir.Call) and expr.rule in rules and bool(rules[expr.rule].parameters)

    def _instance(self, name: str, arguments: list[ir.Expr], symbol: NonTerminal, inside: str) -> ir.Expr:
        """The call of a rule, or of a template with these arguments."""
        definition = self.definitions.rules.get(name)
        if definition is None or len(definition.parameters) != len(arguments):
            at = self.definitions.place_of(symbol, inside)
            parameters = ", ".join(definition.parameters) if definition else ""
            self.definitions.fail(f"{name} takes other arguments: {parameters or 'none'}", at)
        full = name
        if arguments:
            full += "{" + ", ".join(self.keys.get(part) or str(id(part)) for part in arguments) + "}"
        if full not in self.rules:
            if len(self.rules) >= MAX_RULES:
                at = self.definitions.place_of(symbol, inside)
                raise ConstraintTooLarge(
                    "the Lark grammar is too large",
                    self.definitions.plain.source.problem(
                        f"templates become more than {MAX_RULES} rules", at
                    ),
                )
            self.rules[full] = ir.EMPTY_LANGUAGE
            self.open.append((full, name, dict(zip(definition.parameters, arguments, strict=True))))
        call = ir.call(full)
        self.keys[call] = full
        return call

    def _foreign(self, name: str, node: EmbeddedGrammar) -> ir.Expr:
        """The call of an embedded grammar; each is added once."""
        key = node if node.name is None else node.name
        if key not in self.embedded:
            self.rules[name] = ir.EMPTY_LANGUAGE
            self.embedded[key] = name, node
        call = ir.call(self.embedded[key][0])
        self.keys[call] = self.embedded[key][0]
        return call
