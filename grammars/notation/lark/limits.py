"""Rules with a limit of tokens, ``name[max_tokens=10]``: each of their texts is read apart from the text around it.

In the rules around it a letter stands for the text (`constrained.grammars.counted`). No terminal reaches over its ends, and the lexer cuts it
by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from constrained.grammars import ir
from constrained.grammars.counted import CountedText
from constrained.grammars.errors import ConstraintTooLarge
from constrained.grammars.notation.lark.cutter import Cutter
from constrained.grammars.notation.lark.definitions import LarkDefinitions
from constrained.grammars.notation.lark.rules import LarkRules
from constrained.grammars.notation.lark.settings import TerminalPreference

LimitedRule = Callable[[str, int], ir.Expr]
"""Gives what stands for a rule with a limit of tokens, by its name and its number."""


class LimitedTexts:
    """The texts of such rules, and the letters that stand for them.

    Attributes:
        texts: those that `letter` was called for and that are not empty alone.
    """

    def __init__(
        self,
        definitions: LarkDefinitions,
        cutter: Cutter,
        lowering: Callable[[Cutter, LimitedRule], LarkRules],
        prefer: TerminalPreference,
        letters: Sequence[bytes],
    ) -> None:
        """Reads no rule yet.

        Args:
            definitions: the grammar.
            cutter: of the rules around.
            lowering: gives rules of a cutter, of which none is made yet.
            prefer: which terminal wins.
            letters: bytes of no text.
        """
        self.texts: list[CountedText] = []
        self._definitions = definitions
        self._cutter = cutter
        self._lowering = lowering
        self._prefer = prefer
        self._letters = letters
        self._known: dict[tuple[str, int], ir.Expr] = {}

    def letter(self, rule: str, number: int) -> ir.Expr:
        """The letter of the texts of a rule, or nothing where the text may be empty, and ignored text after it.

        Raises:
            ConstraintTooLarge: there are too many such rules.
            UnsupportedConstraint: such a rule calls another one.
        """
        key = (rule, number)
        if key not in self._known:
            self._known[key] = ir.sequence(self._counted(rule, number), self._cutter.between)
        return self._known[key]

    def _counted(self, rule: str, number: int) -> ir.Expr:
        cutter = self._cutter.anew(cuts=True)
        lowering = self._lowering(cutter, nested(self._definitions))
        name = lowering.lower_limited(rule, number)
        grammar, may_be_empty = cutter.finish_apart(lowering.rules, name, self._prefer)
        if grammar is None:
            return ir.EPSILON if may_be_empty else ir.EMPTY_LANGUAGE
        limit = self._definitions.plain.limits[rule]
        problem = self._definitions.plain.source.problem(
            f"at most {len(self._letters)} rules with max_tokens can be told apart", limit.at
        )
        if len(self.texts) == len(self._letters):
            raise ConstraintTooLarge("the Lark grammar is too large", problem)
        letter = self._letters[len(self.texts)]
        self.texts.append(CountedText(letter, grammar, limit.most, place=problem.place))
        return ir.loop(ir.Terminal(ir.literal(letter)), 0 if may_be_empty else 1, 1)


class UncountedTexts:
    """The texts of such rules with any number of tokens, read byte by byte in every way.

    Attributes:
        rules: of these texts.
        rule_of: see `LarkRules.rule_of`.
    """

    def __init__(
        self,
        definitions: LarkDefinitions,
        cutter: Cutter,
        lowering: Callable[[Cutter, LimitedRule, str], LarkRules],
    ) -> None:
        """Reads no rule yet; arguments as for `LimitedTexts`, but that `lowering` takes a prefix of names too.

        Ignored text stands in the rules as `cutter.between` says.
        """
        self.rules: dict[str, ir.Expr] = {}
        self.rule_of: dict[str, str] = {}
        self._definitions = definitions
        self._cutter = cutter
        self._lowering = lowering
        self._known: dict[tuple[str, int], ir.Expr] = {}

    def call(self, rule: str, number: int) -> ir.Expr:
        """The call of a rule. Raises as `LimitedTexts.letter`."""
        key = (rule, number)
        if key not in self._known:
            lowering = self._lowering(
                self._cutter, nested(self._definitions), f"{rule} {number:#x} max_tokens "
            )
            self._known[key] = ir.sequence(
                ir.call(lowering.lower_limited(rule, number)), self._cutter.between
            )
            self.rules |= lowering.rules
            self.rule_of |= lowering.rule_of
        return self._known[key]


def nested(definitions: LarkDefinitions) -> LimitedRule:
    """Refuses a rule with a limit inside of one."""

    def refuse(rule: str, number: int) -> NoReturn:
        definitions.refuse(
            f"the rule {rule} stands in one with max_tokens, and a token would count in both",
            definitions.plain.limits[rule].at,
            "limit one of them, or bound the characters of the inner one, as in /(.|\\n){0,200}/",
        )

    return refuse
