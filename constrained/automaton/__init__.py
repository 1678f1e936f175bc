"""From a constraint and a vocabulary to the token automaton that decoding follows.

The automaton itself is native (`constrained/_core`); this page compiles to it and says what a compile can refuse.
Must not know: torch, models, samplers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from constrained import _core
from constrained.automaton.predicate import PredicateAutomaton
from constrained.errors import ConstraintTooLarge, Problem, UnsatisfiableConstraint, UnsupportedConstraint
from grammars import ir
from grammars.lexer import LexerGrammar, reject_lexer_grammar
from grammars.transform.lazy_rules import LazyRules, rules_built_so_far
from grammars.visit import children, fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from constrained.constraint import Constraint
    from constrained.vocabulary import Vocabulary
    from constrained.vocabulary.shards import Shard
    from grammars.ir import Grammar

DEAD = 0
"""The state of a text that no completion can save."""

_FUEL = 20_000
"""Derivatives that deciding the emptiness of one terminal may take (well under a second)."""

_LEXED_FUEL = 20_000
"""States that the search for one completion behind a lexer may visit."""

_REGEXES_KEPT = 10_000
"""Regular expressions remembered by a shard before it starts afresh."""

_MEMORY_LIMIT = 64 << 20
"""Bytes of an automaton before it drops what can be computed again."""


class _AutomatonMixin:
    """What Python adds to a native automaton."""

    grammar: Grammar
    vocabulary: Vocabulary
    constraint: Constraint | None

    expensive_membership = False
    """A row is one question, and not one for each token; see `PredicateAutomaton`."""

    @property
    def report(self) -> Any:
        """Every keyword of the constraint: enforced, or an annotation, with its JSON Pointer."""
        return self.constraint.report if self.constraint is not None else ()

    def new_mask(self, count: int | None = None) -> np.ndarray[Any, np.dtype[np.int32]]:
        """A zeroed row (or `count` rows) of the right size, int32."""
        words = self.vocabulary.core.words
        return np.zeros(words if count is None else (count, words), dtype=np.int32)

    def __repr__(self) -> str:
        size: dict[str, int] = self.memory  # type: ignore[attr-defined]
        return f"{type(self).__name__}({size['states']} states so far, {size['bytes'] // 1024} KiB)"


class TokenAutomaton(_AutomatonMixin, _core.Automaton):
    """What may be said next, token by token, under one grammar and one vocabulary.

    States are ints; `DEAD` is 0. To fork a text, copy its state; to roll back, keep the states before it.
    Lazily built, memoised, shared by any number of threads and requests. Methods (all native, see their docstrings):
    `next`, `walk`, `fill_mask`, `fill_masks`, `fill_mask_within`, `mask_id`, `mask_ids`, `accepts`, `forced`,
    `shortest_completion`. Rows are int32 arrays of ``ceil(vocabulary.size / 32)`` words: token t is bit
    ``t % 32`` of word ``t // 32``; EOS bits are set iff the text is complete.

    Attributes:
        start: the state before any token.
        grammar: what was compiled.
        vocabulary: over which tokens.
        constraint: what the user asked for, when compiled from a `Constraint`.

    Raises:
        UnsatisfiableConstraint: no text over this vocabulary satisfies the grammar.
        UnsupportedConstraint: the grammar is left-recursive.
        ConstraintTooLarge: an intersection or complement takes too long to decide.
    """

    def __init__(
        self,
        grammar: Grammar,
        vocabulary: Vocabulary,
        *,
        constraint: Constraint | None = None,
        memory_limit: int = _MEMORY_LIMIT,
    ) -> None:
        reject_lexer_grammar(grammar, "here: it needs a LexerAutomaton")
        self.grammar = grammar
        self.vocabulary = vocabulary
        self.constraint = constraint
        shard = vocabulary.shard_pool.next_shard()
        known = shard.regexes
        try:
            rules = rules_built_so_far(grammar)
            later = grammar.rules if isinstance(grammar.rules, LazyRules) else None
            if later is not None:
                rules |= later.eager_exprs
            super().__init__(shard.core, rules, grammar.start, known, _FUEL, memory_limit, later)
        except _core.TooLarge as error:
            raise ConstraintTooLarge(
                f"the constraint is too large to compile: {error}",
                _hard_rules(grammar, shard),
                action="simplify its patterns",
            ) from None
        if len(known) > _REGEXES_KEPT:
            shard.regexes = {}  # another table: other threads may be reading this one
        _check_left_recursion(grammar, self.left_recursive_rule)
        if self.start == DEAD:
            raise UnsatisfiableConstraint(
                "no text satisfies the constraint",
                Problem(f"rule {grammar.start}", "describes the empty language"),
            )


class LexerAutomaton(_AutomatonMixin, _core.LexerAutomaton):
    """A `TokenAutomaton` of a grammar behind a lexer; everything that one does, this one does.

    A token is allowed if a completion was found for the text with it, and that one is kept: `shortest_completion`
    counts the tokens of it. It is the shortest one or near it.

    Raises:
        UnsatisfiableConstraint: no text over this vocabulary satisfies the grammar; names the tokens that run together.
        UnsupportedConstraint: the grammar is left-recursive.
        ConstraintTooLarge: an intersection or complement takes too long to decide, or no text was found in time.
    """

    def __init__(
        self, grammar: LexerGrammar, vocabulary: Vocabulary, *, constraint: Constraint | None = None
    ) -> None:
        self.grammar = grammar
        self.vocabulary = vocabulary
        self.constraint = constraint
        shard = vocabulary.shard_pool.next_shard()
        known = shard.regexes
        try:
            super().__init__(
                shard.core,
                dict(grammar.rules),
                grammar.start,
                known,
                [token.regex for token in grammar.tokens],
                [token.rank for token in grammar.tokens],
                [list(token.inherits_rank_from) for token in grammar.tokens],
                grammar.basic_lexer,
                _LEXED_FUEL,
            )
        except _core.TooLarge as error:
            raise ConstraintTooLarge(
                f"the constraint is too large to compile: {error}", action="simplify its patterns"
            ) from None
        _check_left_recursion(grammar, self.left_recursive_rule)
        if self.start == DEAD and self.search_exhausted:
            raise ConstraintTooLarge(
                "no text that satisfies the constraint was found",
                Problem("lexer", f"none among the texts that {_LEXED_FUEL} steps lead to"),
                action="let the tokens that follow each other differ more, or ignore white space between them",
            )
        if self.start == DEAD:
            names = [
                (grammar.tokens[one].name, grammar.tokens[other].name)
                for one, other in self.conflicting_tokens
            ]
            raise UnsatisfiableConstraint(
                "no text satisfies the constraint: the lexer cuts every one otherwise",
                [Problem(f"{one} {other}", f"{other} never begins right after {one}") for one, other in names]
                or [Problem("lexer", "other tokens win over the ones that the rules need")],
                action="ignore white space between tokens, or give the tokens priorities",
            )


def _hard_rules(grammar: Grammar, shard: Shard) -> tuple[Problem, ...]:
    """The first rule with a terminal that is too large to compile: looked for once it is known that there is one."""
    rules: dict[ir.Expr, str] = {}
    for rule, body in grammar.rules.items():
        parts: dict[ir.Expr, None] = {}
        fold(body, children, lambda expr, known: None, parts)
        for expr in parts:
            rules.setdefault(expr, rule)
    for expr, rule in rules.items():
        if isinstance(expr, ir.Terminal):
            try:
                _core.Automaton(shard.core, {"start": expr}, "start", shard.regexes, _FUEL, _MEMORY_LIMIT)
            except _core.TooLarge:
                return (Problem(rule, "a pattern, or what is said together about one value here"),)
    return ()


def _check_left_recursion(grammar: Grammar, rule: int) -> None:
    if rule >= 0:
        raise UnsupportedConstraint(
            "the grammar is left-recursive",
            Problem(f"rule {tuple(grammar.rules)[rule]}", "may begin with itself"),
            action="write the recursion on the right, or as a repetition",
        )


def fill_masks(automata: Sequence[TokenAutomaton], states: Sequence[int], masks: Any) -> None:
    """The masks of a step in one call, for sequences with automata of their own.

    What is known is copied. What is not is computed, at the same time for automata of different shards of the
    vocabulary (see `Vocabulary.core`). Other Python threads run meanwhile.

    Args:
        automata: one for each state, all over one vocabulary.
        states: their states.
        masks: written to, int32 ``[states, ceil(vocabulary.size / 32)]``, contiguous, in host memory.
    """
    if not all(isinstance(automaton, _core.BaseAutomaton) for automaton in automata):
        for automaton, state, row in zip(automata, states, masks, strict=True):
            automaton.fill_mask(state, row)
    else:
        _core.Vocabulary.fill_masks(automata, states, masks)


def mask_ids(automata: Sequence[TokenAutomaton], states: Sequence[int]) -> list[int]:
    """The ids of the masks of a step in one call, as for `fill_masks`; see `Vocabulary.masks`."""
    if not all(isinstance(automaton, _core.BaseAutomaton) for automaton in automata):
        return [automaton.mask_id(state) for automaton, state in zip(automata, states, strict=True)]
    return _core.Vocabulary.mask_ids(automata, states)


def compile(constraint: Any, vocabulary: Vocabulary, *, memory_limit: int = _MEMORY_LIMIT) -> TokenAutomaton:
    """The automaton of a constraint over a vocabulary.

    Args:
        constraint: a `Constraint`, a Python type, or a JSON Schema as a dict or bool.
        vocabulary: the tokens of the model that will follow it; for a constraint with special tokens in its texts,
            the automaton's is `Vocabulary.marked`.
        memory_limit: bytes above which the automaton drops what it can compute again. States are not dropped: a
            state is valid as long as its automaton. The automaton of a grammar behind a lexer drops nothing.

    Returns:
        A `TokenAutomaton`, or one that does all that it does: for a grammar behind a lexer, or with predicates
        (`PredicateAutomaton`).

    Raises:
        ConstraintError: the constraint is malformed, cannot be enforced, or has no solution.
        ConstraintTooLarge: a budget ran out while compiling.
        PredicateError: a predicate does not say whether the empty text is a beginning.
    """
    from constrained.constraint import PredicateConstraint, as_constraint

    wanted = as_constraint(constraint)
    if isinstance(wanted, PredicateConstraint):
        outline = compile(wanted.inner, vocabulary, memory_limit=memory_limit)
        return cast("TokenAutomaton", PredicateAutomaton(outline, wanted))
    grammar = wanted.grammar
    if wanted.special_tokens:
        vocabulary = vocabulary.with_special_tokens(wanted.special_tokens)
    if isinstance(grammar, LexerGrammar):
        # The two native classes have the same methods, which no common base names.
        return cast("TokenAutomaton", LexerAutomaton(grammar, vocabulary, constraint=wanted))
    return TokenAutomaton(grammar, vocabulary, constraint=wanted, memory_limit=memory_limit)
