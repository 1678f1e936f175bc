"""Rules of a Lark grammar, templates filled in, as expressions over terminals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from grammars import ir
from grammars.errors import ConstraintTooLarge
from grammars.notation.lark import source as src
from grammars.notation.lark.terminals import Terminal, Terminals
from grammars.notation.reader import Reader
from grammars.transform.imports import fresh_name, import_rules
from grammars.visit import fold

_MOST_RULES = 20_000
"""Rules that templates may come to."""

Arguments = Mapping[str, ir.Expr]


class Rules:
    """The rules that the start needs.

    Attributes:
        made: the rules so far.
        used: the terminals in them.
    """

    def __init__(
        self,
        source: src.Source,
        reader: Reader,
        terminals: Terminals,
        leaf: Callable[[Terminal], ir.Expr],
        embed: Callable[[src.Json | src.Embedded], tuple[ir.Grammar, ir.Expr]],
    ) -> None:
        """Takes what the rules are made of.

        Args:
            source: the grammar as it is written.
            reader: for messages.
            terminals: those of the grammar.
            leaf: what stands for a terminal in the rules.
            embed: of ``%json`` or ``@name``: its grammar, and what comes after it.
        """
        self.source = source
        self.reader = reader
        self.terminals = terminals
        self.leaf = leaf
        self.embed = embed
        self.made: dict[str, ir.Expr] = {}
        self.used: dict[Terminal, ir.Expr] = {}
        self.keys: dict[ir.Expr, str] = {}  # of what may be an argument
        self.embedded: dict[object, tuple[ir.Call, src.Json | src.Embedded]] = {}
        self.open: list[tuple[str, src.Definition, Arguments]] = []

    def lower(self, start: str) -> None:
        """Makes the start rule, and all that it needs.

        Raises:
            ConstraintError: what is used is not defined, or cannot be enforced.
            ConstraintTooLarge: the templates have no end.
        """
        self.open.append((start, self.source.rules[start], {}))
        self.made[start] = ir.EMPTY_LANGUAGE
        while self.open:
            name, definition, arguments = self.open.pop()
            self.made[name] = fold(definition.body, src.parts_of, partial(self.expr, arguments), {})
        for call, node in self.embedded.values():  # last: their rules may be called like ours
            grammar, then = self.embed(node)
            self.made[call.rule] = ir.sequence(import_rules(grammar, self.made), then)

    def expr(self, arguments: Arguments, node: src.Node, known: dict[src.Node, ir.Expr]) -> ir.Expr:
        """What part of a rule says, where parameters stand for these arguments."""
        if isinstance(node, src.Sequence):
            return ir.sequence(*(known[part] for part in node.parts))
        if isinstance(node, src.Choice):
            return ir.choice(*(known[part] for part in node.parts))
        if isinstance(node, src.Loop):
            return ir.loop(known[node.part], node.low, node.high)
        if isinstance(node, src.Use):
            if node.name in arguments or node.name not in self.source.rules:
                self.reader.fail(f"there is no template {node.name}", node.at)
            return self.instance(node.name, [known[part] for part in node.arguments], node.at)
        if isinstance(node, src.Name) and not node.terminal:
            return arguments[node.name] if node.name in arguments else self.instance(node.name, [], node.at)
        if isinstance(node, (src.Json, src.Embedded)):
            return self.foreign(node)
        terminal = self.terminals.terminal(node)
        if terminal not in self.used:
            made = self.used[terminal] = self.leaf(terminal)
            self.keys[made] = terminal.name
        return self.used[terminal]

    def instance(self, name: str, arguments: list[ir.Expr], at: int) -> ir.Expr:
        """The call of a rule, or of a template with these arguments."""
        definition = self.source.rules.get(name)
        if definition is None:
            self.reader.fail(f"there is no rule {name}", at)
        if len(definition.parameters) != len(arguments):
            wanted = ", ".join(definition.parameters) or "none"
            self.reader.fail(f"{name} takes other arguments: {wanted}", at)
        full = name
        if arguments:
            full += "{" + ", ".join(self.keys.get(part) or str(id(part)) for part in arguments) + "}"
        if full not in self.made:
            if len(self.made) >= _MOST_RULES:
                raise ConstraintTooLarge(
                    "the Lark grammar is too large",
                    self.reader.problem(f"templates come to more than {_MOST_RULES} rules", at),
                )
            self.made[full] = ir.EMPTY_LANGUAGE
            bound = dict(zip(definition.parameters, arguments, strict=True))
            self.open.append((full, definition, bound))
        made = ir.call(full)
        self.keys[made] = full
        return made

    def foreign(self, node: src.Json | src.Embedded) -> ir.Expr:
        """A grammar from elsewhere among the rules; each is added once."""
        key = node if isinstance(node, src.Json) else node.name
        if key not in self.embedded:
            name = f"@{node.name}" if isinstance(node, src.Embedded) else fresh_name("%json", self.made)
            self.made[name] = ir.EMPTY_LANGUAGE
            self.embedded[key] = ir.Call(name), node
        return self.embedded[key][0]
