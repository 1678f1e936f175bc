"""From rules and terminals to a grammar, behind a lexer or without one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from constrained.grammars import ir
from constrained.grammars.errors import Problem, UnsatisfiableConstraint
from constrained.grammars.lexer import LexerGrammar, LexerToken
from constrained.grammars.notation.lark.overlaps import ComparedTerminal
from constrained.grammars.notation.lark.settings import Lexer, TerminalPreference
from constrained.grammars.notation.lark.terminals import LarkTerminal, LarkTerminals
from constrained.grammars.regex.languages import matches
from constrained.grammars.transform.inline_regular import inline_regular_rules
from constrained.grammars.transform.interleave import reject_distinct_entries
from constrained.grammars.transform.left_recursion import remove_left_recursion
from constrained.grammars.transform.nullable import EpsilonRemover, remove_nullable_loops
from constrained.grammars.transform.productive import prune_unproductive
from constrained.grammars.visit import drop_unreachable

_START = "text"  # taken names get a stroke


class Cutter:
    """Rules and terminals become a grammar, behind a lexer or without one.

    Attributes:
        between: what may stand after every terminal: any number of ignored ones.
    """

    def __init__(
        self, terminals: LarkTerminals, ignored: Sequence[str], lexer: Lexer, *, cuts: bool = True
    ) -> None:
        """Has no rules yet.

        Args:
            terminals: of the grammar.
            ignored: names of the ignored ones.
            lexer: which terminals compete where.
            cuts: whether the lexer cuts the rules; otherwise they are read byte by byte, in every way, as parts of rules that it cuts.
        """
        self.terminals = terminals
        self.ignored = [str(name) for name in ignored]
        self.lexer = lexer
        self.cuts = cuts
        self.used: dict[str, LarkTerminal] = {}
        self._uncut: dict[ir.Regex, ir.Regex] = {}
        ignored_terminals = [self._terminal(terminals.terminal(name)) for name in self.ignored]
        self.between = ir.loop(ir.choice(*ignored_terminals))

    def anew(self, *, cuts: bool) -> Cutter:
        """One with the same terminals, for other rules."""
        return Cutter(self.terminals, self.ignored, self.lexer, cuts=cuts)

    def _terminal(self, terminal: LarkTerminal) -> ir.Expr:
        regex = terminal.regex
        return ir.Terminal(regex if self.cuts else self._uncut.setdefault(regex, ir.Concat((regex,))))

    def leaf(self, name: str) -> ir.Expr:
        """What stands in a rule for a terminal."""
        if self.lexer != "dynamic" and name in self.ignored:
            return ir.EMPTY_LANGUAGE  # the lexer drops it wherever it comes
        terminal = self.used[name] = self.terminals.terminal(name)
        once = ir.sequence(self._terminal(terminal), self.between)
        return ir.loop(once, 0, 1) if terminal.optional else once

    def regular_terminals(self) -> list[ComparedTerminal]:
        """The terminals in use that are regular expressions."""
        compared = []
        for name in dict.fromkeys((*self.used, *self.ignored)):
            terminal = self.terminals.terminal(name)
            if terminal.literal is None:
                compared.append(ComparedTerminal(terminal.name, terminal.regex, terminal.priority))
        return compared

    def finish(self, rules: Mapping[str, ir.Expr], start: str, prefer: TerminalPreference) -> ir.Grammar:
        """The grammar of these rules."""
        return self._finished(self.productive(rules, start), prefer)

    def finish_apart(
        self, rules: Mapping[str, ir.Expr], start: str, prefer: TerminalPreference
    ) -> tuple[ir.Grammar | None, bool]:
        """The grammar of the texts of one rule, read apart from the text around it, but the empty one; whether that is a text.

        None if there are no others. The ignored text after a single terminal does not belong to its text.
        """
        known = EpsilonRemover(rules)
        body = known.remove_epsilon(rules[start])
        known.define_pending()
        name = known.fresh_name(start)
        alternatives = body.parts if isinstance(body, ir.Choice) else (body,)
        known.rules[name] = ir.choice(*map(self._without_between, alternatives))
        whole = prune_unproductive(ir.Grammar(known.rules, name))
        if whole is not None:
            body = whole.rules[name]
            if isinstance(body, ir.Terminal):
                whole = ir.Grammar.of(body.regex)
            else:  # without terminals there is nothing to cut: %json or @name
                whole = self._finished(whole, prefer) if self.used else _rewritten(whole)
        return whole, known.rule_nullable(start)

    def _without_between(self, expr: ir.Expr) -> ir.Expr:
        if isinstance(expr, ir.Sequence) and expr.parts[-1] is self.between:
            return ir.sequence(*expr.parts[:-1])
        return expr

    def _finished(self, whole: ir.Grammar, prefer: TerminalPreference) -> ir.Grammar:
        if self.lexer == "dynamic":
            return _rewritten(whole)
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
        return _lexer_tokens(dict.fromkeys(map(self.terminals.terminal, competing)), prefer)


def _rewritten(grammar: ir.Grammar) -> ir.Grammar:
    """The grammar without a lexer, as the core takes it."""
    regular = inline_regular_rules(drop_unreachable(grammar))
    return remove_left_recursion(remove_nullable_loops(drop_unreachable(regular)))


def _lexer_tokens(terminals: Iterable[LarkTerminal], prefer: TerminalPreference) -> tuple[LexerToken, ...]:
    """Terminals as tokens of a lexer, the preferred first."""
    ordered = sorted(terminals, key=lambda one: (one.literal is None, *one.order))
    if prefer == "longest":
        return tuple(LexerToken(one.name, one.regex, one.priority, shortest=one.shortest) for one in ordered)
    # Lark joins all candidates into one regular expression, in this order, and takes the alternative that matches first.
    # A string that a regular expression of its priority matches as a whole stands where that one stands.
    tried = sorted(ordered, key=lambda one: (-one.priority, *one.order))
    rank = {one: -place for place, one in enumerate(tried)}
    number = {one: index for index, one in enumerate(ordered)}
    tokens = []
    for one in ordered:
        hosts = [
            number[other] if set(one.flags) <= set(other.flags) else ~number[other]
            for other in tried
            if one.literal is not None
            and other.literal is None
            and other.priority == one.priority
            and matches(other.regex, one.literal)
        ]
        tokens.append(LexerToken(one.name, one.regex, rank[one], tuple(hosts), shortest=one.shortest))
    return tuple(tokens)
