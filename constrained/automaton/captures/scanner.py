"""Where terminals match in a text, and which one the lexer takes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING

from constrained.automaton import compile_grammar
from constrained.automaton.protocol import DEAD, Automaton
from constrained.errors import ConstraintTooLarge, Problem, UnsatisfiableConstraint
from constrained.grammars import ir
from constrained.grammars.regex.analysis import nullable
from constrained.vocabulary import Vocabulary

if TYPE_CHECKING:
    from constrained.grammars.notation.lark.captures import CaptureGrammar

MAX_STEPS = 5_000_000
"""Greatest number of steps for the captures of one text, unless fewer are asked for: at most a minute."""


class Scanner:
    """The terminals of a grammar over one text.

    Raises:
        ConstraintTooLarge: more than `most` steps were counted (None: `MAX_STEPS`).
    """

    def __init__(self, grammar: CaptureGrammar, data: bytes, most: int | None = None) -> None:
        self._most = MAX_STEPS if most is None else most
        self.grammar = grammar
        self.data = data
        self.steps = 0
        self._token_of = {id(token.regex): index for index, token in enumerate(grammar.tokens)}
        self._matchers: dict[int, _Matcher] = {}
        self._tried: dict[tuple[int, int], list[int]] = {}

    def count(self, steps: int) -> None:
        """Counts steps of the search."""
        self.steps += steps
        if self.steps > self._most:
            raise ConstraintTooLarge(
                "the captures of the text take too long to find",
                Problem("text", f"{len(self.data)} bytes; more than {self._most} steps"),
                action="capture fewer, smaller parts, or write rules that read a text in one way",
            )

    def token(self, expr: ir.Expr) -> int | None:
        """The token of the lexer that an expression is; None for what is read byte by byte, and for other expressions."""
        return self._token_of.get(id(expr.regex)) if isinstance(expr, ir.Terminal) else None

    def is_free(self, expr: ir.Expr) -> bool:
        """Whether an expression is a terminal that no lexer cuts."""
        return isinstance(expr, ir.Terminal) and id(expr.regex) not in self._token_of

    def may_be_empty(self, terminal: ir.Terminal) -> bool:
        """Whether a terminal matches the empty string."""
        if not self.is_free(terminal):
            return False
        regex = terminal.regex
        return self._matcher(regex).may_be_empty if regex in self.grammar.embedded else nullable(regex)

    def first_bytes(self, terminal: ir.Terminal) -> frozenset[int]:
        """The bytes that texts of a terminal begin with."""
        return self._matcher(terminal.regex).first

    def winner(self, candidates: Sequence[int], position: int, limit: int) -> tuple[int, int] | None:
        """The token that the lexer takes, and where it ends; see `constrained.grammars.lexer`."""
        tokens = self.grammar.tokens
        ends: dict[int, list[int]] = {}
        for token in candidates:
            found = self.ends(tokens[token].regex, position)
            until = bisect_right(found, limit)
            # The rank of most tokens is that of all their texts, so the longest one counts.
            whole = tokens[token].shortest or any(host < 0 for host in tokens[token].inherits_rank_from)
            ends[token] = found[0 if whole else max(until - 1, 0) : until]
        early = [(found[0], token) for token, found in ends.items() if found and tokens[token].shortest]
        if early:
            end, token = min(early)
            return token, end
        best: tuple[int, int, int] | None = None
        for token, found in ends.items():
            for end in found:
                rank = self._rank(token, position, end, candidates)
                best = max(best or (rank, end, -token), (rank, end, -token))
        return None if best is None else (-best[2], best[1])

    def _rank(self, token: int, position: int, end: int, candidates: Sequence[int]) -> int:
        """The rank of a token for a text, among these candidates."""
        tokens = self.grammar.tokens
        rank = tokens[token].rank
        for host in tokens[token].inherits_rank_from:
            other = host if host >= 0 else ~host
            if other in candidates:
                if host >= 0:
                    return tokens[other].rank
                if end in self.ends(tokens[other].regex, position):
                    rank = max(rank, tokens[other].rank)
        return rank

    def ends(self, regex: ir.Regex, position: int) -> list[int]:
        """Where matches that begin at a position end, ascending."""
        key = id(regex), position
        if key not in self._tried:
            matcher = self._matcher(regex)
            self._tried[key] = ends = list(matcher.ends(self.data, position))
            self.count(matcher.read + len(ends))
        return self._tried[key]

    def _matcher(self, regex: ir.Regex) -> _Matcher:
        if id(regex) not in self._matchers:
            self._matchers[id(regex)] = _Matcher(self.grammar.embedded.get(regex) or ir.Grammar.of(regex))
        return self._matchers[id(regex)]


class _Matcher:
    """Where the texts of a language end that begin at a position."""

    def __init__(self, grammar: ir.Grammar) -> None:
        try:
            self.automaton: Automaton | None = compile_grammar(grammar, _bytes())
        except UnsatisfiableConstraint:
            self.automaton = None
        self.read = 0

    @property
    def may_be_empty(self) -> bool:
        return self.automaton is not None and self.automaton.accepts(self.automaton.start)

    @cached_property
    def first(self) -> frozenset[int]:
        automaton = self.automaton
        if automaton is None:
            return frozenset()
        return frozenset(byte for byte in range(256) if automaton.next(automaton.start, byte) != DEAD)

    def ends(self, data: bytes, position: int) -> Iterator[int]:
        self.read = 1
        if self.automaton is None:
            return
        state, step, accepts = self.automaton.start, self.automaton.next, self.automaton.accepts
        if accepts(state):
            yield position
        for at in range(position, len(data)):
            state = step(state, data[at])
            if state == DEAD:
                return
            self.read += 1
            if accepts(state):
                yield at + 1


@cache
def _bytes() -> Vocabulary:
    """The vocabulary of all bytes."""
    return Vocabulary.from_bytes([*(bytes((byte,)) for byte in range(256)), b""], [256])
