"""Rules of a Lark grammar, with templates filled in, as expressions over terminals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lark import Tree
from lark.grammar import NonTerminal, Terminal

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge
from constrained.grammars.notation.lark.additions import EmbeddedGrammar, ParametricCall
from constrained.grammars.notation.lark.definitions import LarkDefinitions, Node, subtrees
from constrained.grammars.notation.lark.patterns import repetition
from constrained.grammars.notation.source import TokenReference
from constrained.grammars.transform.imports import import_rules, placed_rules

MAX_RULES = 20_000
"""Greatest number of rules that templates and parametric rules may become."""

Arguments = Mapping[str, ir.Expr]


class LarkRules:
    """The rules that the start needs.

    Attributes:
        made: the rules so far.
        used: the terminals and tokens in them, by name.
    """

    def __init__(
        self,
        definitions: LarkDefinitions,
        leaf: Callable[[str], ir.Expr],
        embed: Callable[[EmbeddedGrammar], tuple[ir.Grammar, ir.Expr]],
        token: Callable[[TokenReference], ir.Expr],
        limited: Callable[[str, int], ir.Expr],
        prefix: str = "",
    ) -> None:
        """Makes no rule yet.

        Args:
            definitions: the grammar.
            leaf: gives what stands in rules for the terminal of a name.
            embed: gives the grammar of ``%json`` or ``@name``, and what comes after it.
            token: gives what stands in rules for ``<name>`` or ``<[number]>``.
            limited: gives what stands in rules for a rule with a limit of tokens, by its name and its number.
            prefix: of the names of all rules that are made.
        """
        self.definitions = definitions
        self.leaf = leaf
        self.embed = embed
        self.token = token
        self.limited = limited
        self.prefix = prefix
        self.rules: dict[str, ir.Expr] = {}
        self.used: dict[str, ir.Expr] = {}
        self.keys: dict[ir.Expr, str] = {}  # of what may be an argument
        self.embedded: dict[object, tuple[str, EmbeddedGrammar]] = {}
        self.open: list[tuple[str, str, Arguments, int]] = []
        self.patterns = {str(one.name): one.pattern for one in definitions.terminals}
        self.stops = {
            lazy.rule: self.patterns[lazy.ending]
            for lazy in definitions.plain.lazy.values()
            if lazy.is_stop and lazy.ending is not None
        }
        self.rule_of: dict[str, str] = {}  # the rule as it is written, by the name with arguments or a number
        self.number = 0  # of the parametric rule whose body is being made

    def lower(self, start: str) -> None:
        """Makes the start rule, and all that it needs.

        Raises:
            ConstraintError: a part cannot be enforced.
            ConstraintTooLarge: templates become too many rules.
        """
        expr = self._call(start, start, {}, 0, self.definitions.place(start))
        self.rules.setdefault(start, expr)  # where tokens are counted it is no rule of its own
        self._complete()

    def lower_limited(self, rule: str, number: int) -> str:
        """Makes a rule with a limit of tokens, of which those inside are not counted; returns its name. Raises as `lower`."""
        full = f"{rule}::{number:#x}" if rule in self.definitions.plain.parametric else rule
        call = self._rule(full, rule, {}, number, self.definitions.place(rule))
        self._complete()
        return call.rule

    def _complete(self) -> None:
        while self.open:
            full, name, arguments, self.number = self.open.pop()
            self.rules[full] = self._body(name, arguments)
        for name, node in self.embedded.values():  # last: their rules may have the names of ours
            grammar, then = self.embed(node)
            own = placed_rules(grammar, self.prefix) if self.prefix else grammar
            self.rules[name] = ir.sequence(import_rules(own, self.rules), then)

    def _body(self, name: str, arguments: Arguments) -> ir.Expr:
        """The alternatives of a rule, where parameters stand for these arguments."""
        tree = self.definitions.rules[name].tree
        if tree is None:
            self.definitions.refuse(
                f"the rule {name} is declared without alternatives", self.definitions.place(name)
            )
        exprs: dict[int, ir.Expr] = {}
        nodes = subtrees(tree)
        dropped = self._dropped(nodes)
        for node in nodes:
            if id(node) in dropped:
                exprs[id(node)] = ir.EMPTY_LANGUAGE
                continue
            exprs[id(node)] = self._expr(name, node, arguments, exprs)
        return exprs[id(tree)]

    def _dropped(self, nodes: list[Node]) -> set[int]:
        """The alternatives whose condition does not hold, with all in them: what they call is not made."""
        conditions = {name: call for name, call in self.definitions.plain.calls.items() if call.rule is None}
        dropped: set[int] = set()
        for node in reversed(nodes) if conditions else ():
            named = [conditions.get(name) for part in node.children if (name := _name_alone(part))]
            if id(node) in dropped or any(call is not None and not call.makes(self.number) for call in named):
                dropped.update(id(part) for part in (node, *node.children) if isinstance(part, Tree))
        return dropped

    def _expr(self, name: str, node: Node, arguments: Arguments, exprs: dict[int, ir.Expr]) -> ir.Expr:
        kind, parts = node.data, node.children

        def value(part: Any) -> ir.Expr:
            expr = exprs[id(part)] if isinstance(part, Tree) else self._symbol(part, arguments, name)
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
            return ir.sequence(*map(value, self._without_stops(parts)))
        if kind == "maybe":
            return ir.loop(value(parts[0]), 0, 1)
        if kind == "expr":
            return ir.loop(value(parts[0]), *repetition(self.definitions, parts, name))
        if kind == "template_usage":
            passed = arguments.get(parts[0].name)
            used = passed.rule if isinstance(passed, ir.Call) else str(parts[0].name)
            return self._instance(used, [exprs[id(part)] for part in parts[1:]], parts[0], name)
        return value(parts[0])  # "value" and "alias"

    def _symbol(self, symbol: Any, arguments: Arguments, inside: str) -> ir.Expr:
        """What stands for a name: a terminal, an argument, something embedded, or a call."""
        name = str(symbol.name)
        if name in arguments:
            return arguments[name]
        if name in self.definitions.plain.calls:
            return self._parametric(self.definitions.plain.calls[name], inside)
        if isinstance(symbol, Terminal):
            if name in self.definitions.plain.operators:
                sign = self.definitions.plain.operators[name]
                self.definitions.fail(
                    f"{sign} joins terminals, not rules",
                    self.definitions.place_of(symbol, inside),
                    "give what it joins a name in capitals",
                )
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
        if name in self.definitions.plain.tokens:
            return self._token(name, self.definitions.plain.tokens[name])
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
        if name in self.definitions.plain.parametric:
            at = self.definitions.place_of(symbol, inside)
            self.definitions.fail(f"{name} takes a number: {name}::0", at)
        full = name
        if arguments:
            full += "{" + ", ".join(self.keys.get(part) or str(id(part)) for part in arguments) + "}"
        at = self.definitions.place_of(symbol, inside)
        return self._call(full, name, dict(zip(definition.parameters, arguments, strict=True)), 0, at)

    def _call(self, full: str, name: str, arguments: Arguments, number: int, at: int) -> ir.Expr:
        """What stands for a rule, which has this name with these arguments, or with this number."""
        limited = name in self.definitions.plain.limits
        call = self.limited(name, number) if limited else self._rule(full, name, arguments, number, at)
        self.keys[call] = full
        return call

    def _rule(self, full: str, name: str, arguments: Arguments, number: int, at: int) -> ir.Call:
        """The call of a rule, which is made if it is new."""
        whole = self.prefix + full
        if whole not in self.rules:
            if len(self.rules) >= MAX_RULES:
                raise ConstraintTooLarge(
                    "the Lark grammar is too large",
                    self.definitions.plain.source.problem(
                        f"{'parameters' if '::' in full else 'templates'} become more than {MAX_RULES} rules",
                        at,
                    ),
                )
            self.rules[whole] = ir.EMPTY_LANGUAGE
            self.rule_of[whole] = name
            self.open.append((whole, name, arguments, number))
        return ir.Call(whole)

    def _parametric(self, added: ParametricCall, inside: str) -> ir.Expr:
        """What stands for the call of a parametric rule, or for a condition."""
        definitions = self.definitions
        if not added.constant and inside not in definitions.plain.parametric:
            definitions.fail(f"the rule {inside} has no number; one that has begins {inside}::_", added.at)
        result = added.makes(self.number)
        if added.rule is None:
            return ir.EPSILON if result else ir.EMPTY_LANGUAGE
        if added.rule not in definitions.plain.parametric:
            definitions.fail(f"{added.rule} takes no number, or is undefined", added.at)
        return self._call(f"{added.rule}::{result:#x}", added.rule, {}, result, added.at)

    def _without_stops(self, parts: list[Any]) -> list[Any]:
        """The parts of an alternative without endings that the rule before them has read already, as its ``stop``."""
        if not self.stops:
            return parts
        names = [_name_alone(part) for part in parts]
        ends = [None, *(self.stops.get(name) if name else None for name in names)]
        return [
            part
            for part, name, end in zip(parts, names, ends, strict=False)
            if end is None or name is None or self.patterns.get(name) != end
        ]

    def _token(self, name: str, reference: TokenReference) -> ir.Expr:
        """What stands for a token."""
        if name not in self.used:
            self.used[name] = self.token(reference)
            self.keys[self.used[name]] = name
        return self.used[name]

    def _foreign(self, name: str, node: EmbeddedGrammar) -> ir.Expr:
        """The call of an embedded grammar; each is added once."""
        key = node if node.name is None else node.name
        if key not in self.embedded:
            self.rules[self.prefix + name] = ir.EMPTY_LANGUAGE
            self.embedded[key] = self.prefix + name, node
        call = ir.call(self.embedded[key][0])
        self.keys[call] = self.embedded[key][0]
        return call


def _name_alone(part: Any) -> str | None:
    """The name that a part of an alternative consists of."""
    if not isinstance(part, Tree) or part.data != "value" or isinstance(part.children[0], Tree):
        return None
    return str(part.children[0].name)
