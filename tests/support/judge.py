"""An independent recognizer of a grammar: decides which byte strings and which prefixes are allowed.

An Earley recognizer over bytes whose terminals are derivatives. A terminal may end wherever its derivative is nullable
(no longest match), so ambiguity, left recursion and empty rules need no special treatment. It is slow and simple; tests
compare the automaton with it. Must not know: the native core, vocabularies.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from constrained.grammars.ir import Call, Choice, Expr, Grammar, Loop, Sequence, Terminal
from constrained.grammars.lexer import reject_lexer_grammar
from constrained.grammars.transform.interleave import reject_distinct_entries
from tests.support.derivatives import Residuals, common_refinement, lowest
from tests.support.interleaves import expand_interleaves

T = TypeVar("T")
Item = tuple[Expr, int, "EarleySet | None"]
"""An expression, how many of its parts are read, and the column where it started."""
Scan = tuple[int, Terminal, "EarleySet"]
"""The derivative of a terminal, the terminal, and the column where it started."""


class ReferenceRecognizer:
    """An independent recogniser of a grammar's language.

    Source: Earley 1970, "An efficient context-free parsing algorithm"; empty rules as in Aycock and Horspool
    2002, section 4. Columns have no position: a column is identified by the items that were just advanced, so
    equal contexts share one state object, which caches its steps.

    Raises:
        KeyError: a rule that is called does not exist.
        UnsupportedConstraint: the grammar has a lexer, or says that values must differ.
        ConstraintTooLarge: an interleave has too many slots: a rule is needed for every set of them; or a regex has too many
            derivatives, also while a text is read.
    """

    def __init__(self, grammar: Grammar) -> None:
        reject_lexer_grammar(grammar, "here: this judge reads character by character")
        reject_distinct_entries(grammar, "here: this judge keeps no values")
        grammar = expand_interleaves(grammar)
        self.residuals = Residuals()
        self._rules = grammar.rules
        self._root = Sequence((Call(grammar.start),))
        self._exprs = self._reachable()
        self._parents: dict[Expr, list[Expr]] = {expr: [] for expr in self._exprs}
        for expr in self._exprs:
            for part in self._parts(expr):
                self._parents[part].append(expr)
        nullable, alive = self.residuals.nullable, self.residuals.is_nonempty
        self._nullable = self._fixpoint(False, lambda expr, known: self._holds(expr, known, nullable))
        self._productive = self._fixpoint(False, lambda expr, known: self._holds(expr, known, alive))
        self._sizes: dict[Expr, float] | None = None
        self._columns: dict[frozenset[Item], EarleySet] = {}
        self._states: dict[tuple[frozenset[Scan], bool], RecognizerState] = {}
        self._start = self._settle((), [(self._root, 0, None)] if self._productive[self._root] else [])

    # ------------------------------------------------------------ questions

    def start(self) -> RecognizerState | None:
        """The state before any byte; None if the language is empty."""
        return self._start

    def after(self, data: bytes) -> RecognizerState | None:
        """The state after `data`; None if `data` is not a prefix of the language."""
        state = self._start
        for byte in data:
            if state is None:
                return None
            state = state.step(byte)
        return state

    def accepts(self, data: bytes) -> bool:
        """Whether `data` is in the language."""
        state = self.after(data)
        return state is not None and state.complete

    def viable(self, data: bytes) -> bool:
        """Whether `data` is a prefix of the language."""
        return self.after(data) is not None

    def sample(self, rng: random.Random, max_bytes: int = 100) -> bytes:
        """A string of the language: random bytes, closed by a shortest completion after `max_bytes` at the latest.

        Raises:
            ValueError: the language is empty.
        """
        state = self._start
        if state is None:
            raise ValueError("the grammar allows no text")
        out = bytearray()
        while len(out) < max_bytes:
            options = state.options()
            if not options or (state.complete and rng.random() < 0.3):
                return bytes(out)
            ascii_options = [byte for byte in options if byte < 0x80]
            byte = rng.choice(ascii_options if ascii_options and rng.random() < 0.8 else options)
            out.append(byte)
            state = state[byte]
        return bytes(out) + self.shortest(state)

    def shortest(self, state: RecognizerState, max_bytes: int = 100_000) -> bytes:
        """A shortest completion of `state`.

        Raises:
            ValueError: it is longer than `max_bytes`.
        """
        if state.shortest_length > max_bytes:
            raise ValueError(
                f"the shortest completion takes {state.shortest_length} bytes, more than {max_bytes}"
            )
        out = bytearray()
        while not state.complete:
            state, byte = next(
                (state[b], b)
                for b in state.branches()
                if state[b].shortest_length == state.shortest_length - 1
            )
            out.append(byte)
        return bytes(out)

    def forced(self, state: RecognizerState, max_bytes: int = 100_000) -> bytes:
        """The longest byte string that every completion of `state` starts with (cut at `max_bytes`)."""
        out = bytearray()
        while not state.complete and len(out) < max_bytes:
            options = state.options()
            if len(options) != 1:
                break
            out.append(options[0])
            state = state[options[0]]
        return bytes(out)

    # ------------------------------------------------------------ what is known of each expression

    def _parts(self, expr: Expr) -> tuple[Expr, ...]:
        if isinstance(expr, (Sequence, Choice)):
            return expr.parts
        if isinstance(expr, Loop):
            return (expr.part,)
        if isinstance(expr, Call):
            return (self._rules[expr.rule],)
        if isinstance(expr, Terminal):
            return ()
        raise TypeError(f"not an expression: {expr!r}")

    def _reachable(self) -> dict[Expr, None]:
        found: dict[Expr, None] = {self._root: None}
        queue: list[Expr] = [self._root]
        for expr in queue:
            for part in self._parts(expr):
                if part not in found:
                    found[part] = None
                    queue.append(part)
        return found

    def _fixpoint(self, bottom: T, value: Callable[[Expr, dict[Expr, T]], T]) -> dict[Expr, T]:
        """The least solution of ``known[e] == value(e, known)``, from `bottom` up."""
        known = dict.fromkeys(self._exprs, bottom)
        queue = dict.fromkeys(reversed(self._exprs))
        while queue:
            expr = next(iter(queue))
            del queue[expr]
            new = value(expr, known)
            if new != known[expr]:
                known[expr] = new
                queue.update(dict.fromkeys(self._parents[expr]))
        return known

    def _holds(self, expr: Expr, known: dict[Expr, bool], leaf: Callable[[int], bool]) -> bool:
        """Whether some way to read `expr` takes only terminals that `leaf` is true of."""
        if isinstance(expr, Terminal):
            return leaf(self.residuals.from_regex(expr.regex))
        if isinstance(expr, Choice):
            return any(known[part] for part in expr.parts)
        return (isinstance(expr, Loop) and expr.low == 0) or all(known[part] for part in self._parts(expr))

    def _size(self, expr: Expr, known: dict[Expr, float]) -> float:
        """Bytes of the shortest string of `expr` (Knuth 1977, "A generalization of Dijkstra's algorithm")."""
        if isinstance(expr, Terminal):
            return self.residuals.shortest_length(self.residuals.from_regex(expr.regex))
        if isinstance(expr, Choice):
            return min((known[part] for part in expr.parts), default=math.inf)
        if isinstance(expr, Loop):
            return expr.low * known[expr.part] if expr.low else 0
        return sum(known[part] for part in self._parts(expr))

    # ------------------------------------------------------------ items

    def _awaited(self, expr: Expr, done: int) -> Iterable[Expr]:
        """What may come next inside `expr` once `done` of it is read."""
        if isinstance(expr, Sequence):
            return expr.parts[done : done + 1]
        if isinstance(expr, Loop):
            return (expr.part,) if expr.high is None or done < expr.high else ()
        return self._parts(expr) if done == 0 else ()

    def _finished(self, expr: Expr, done: int) -> bool:
        if isinstance(expr, Sequence):
            return done == len(expr.parts)
        if isinstance(expr, Loop):
            return done >= expr.low or self._nullable[expr.part]
        return done == 1

    def _advance(self, expr: Expr, done: int) -> int:
        """The item after one more part. A loop without an upper bound stops counting when it has enough."""
        return min(done + 1, expr.low) if isinstance(expr, Loop) and expr.high is None else done + 1

    def _skips(self, expr: Expr, done: int) -> Iterator[int]:
        """`done`, and the positions after nullable parts that follow it (empty iterations of a loop are skipped)."""
        yield done
        if isinstance(expr, Sequence):
            while done < len(expr.parts) and self._nullable[expr.parts[done]]:
                done += 1
                yield done

    # ------------------------------------------------------------ states

    def _settle(self, scans: Iterable[Scan], advanced: Iterable[Item]) -> RecognizerState | None:
        """The state with these unfinished terminals, after these items have just been advanced."""
        complete = False
        seeds: set[Item] = set()
        seen: set[tuple[Expr, EarleySet | None]] = set()
        work = list(advanced)
        while work:
            expr, done, origin = work.pop()
            for at in self._skips(expr, done):
                if self._finished(expr, at) and (expr, origin) not in seen:
                    seen.add((expr, origin))
                    if origin is None:
                        complete = True
                    else:
                        work.extend(self._completed(expr, origin))
                if any(self._productive[part] for part in self._awaited(expr, at)):
                    seeds.add((expr, at, origin))
        predicted = self._column(frozenset(seeds)).scans if seeds else ()
        key = (frozenset(itertools.chain(scans, predicted)), complete)
        if not key[0] and not complete:
            return None
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = RecognizerState(self, *key)
        return state

    def _completed(self, expr: Expr, origin: EarleySet) -> list[Item]:
        return [(outer, self._advance(outer, done), start) for outer, done, start in origin.waiting[expr]]

    def _column(self, seeds: frozenset[Item]) -> EarleySet:
        column = self._columns.get(seeds)
        if column is None:
            column = self._columns[seeds] = EarleySet()
            self._predict(column, seeds)
        return column

    def _predict(self, column: EarleySet, seeds: frozenset[Item]) -> None:
        waiting = column.waiting
        work: list[Item] = list(seeds)
        while work:
            item = work.pop()
            for part in self._awaited(item[0], item[1]):
                if not self._productive[part]:
                    continue
                if part not in waiting:
                    waiting[part] = []
                    work.extend((part, done, column) for done in self._skips(part, 0))
                waiting[part].append(item)
        for expr in waiting:
            if isinstance(expr, Terminal):
                residual = self.residuals.from_regex(expr.regex)
                if residual != self.residuals.epsilon:
                    column.scans.append((residual, expr, column))

    def _step(self, scans: Iterable[Scan], byte: int) -> RecognizerState | None:
        residuals = self.residuals
        kept: list[Scan] = []
        advanced: list[Item] = []
        for before, expr, origin in scans:
            residual = residuals.derive(before, byte)
            if not residuals.is_nonempty(residual):
                continue
            if residuals.nullable(residual):
                advanced += self._completed(expr, origin)
            if residual != residuals.epsilon:
                kept.append((residual, expr, origin))
        return self._settle(kept, advanced) if kept or advanced else None

    # ------------------------------------------------------------ shortest completions

    def _least(self, state: RecognizerState) -> float:
        """Dijkstra's algorithm from the unfinished terminals outwards, through the items that wait for them."""
        if state.complete:
            return 0
        if self._sizes is None:
            self._sizes = self._fixpoint(math.inf, self._size)
        order = itertools.count()
        queue: list[tuple[float, int, Expr, EarleySet | None]] = []
        for residual, scanned, column in state.scans:
            heapq.heappush(queue, (self.residuals.shortest_length(residual), next(order), scanned, column))
        seen: set[tuple[Expr, EarleySet | None]] = set()
        while queue:
            cost, _, expr, origin = heapq.heappop(queue)
            if origin is None:
                return cost
            if (expr, origin) in seen:
                continue
            seen.add((expr, origin))
            for outer, done, start in self._completed(expr, origin):
                more = self._remaining(outer, done, self._sizes)
                heapq.heappush(queue, (cost + more, next(order), outer, start))
        raise AssertionError("a state that nothing completes")

    def _remaining(self, expr: Expr, done: int, sizes: dict[Expr, float]) -> float:
        if isinstance(expr, Sequence):
            return sum(sizes[part] for part in expr.parts[done:])
        return max(expr.low - done, 0) * sizes[expr.part] if isinstance(expr, Loop) and done < expr.low else 0


class EarleySet:
    """A position where items started: the items that wait for each rule there, and the terminals to read."""

    __slots__ = ("scans", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Expr, list[Item]] = {}
        self.scans: list[Scan] = []


class RecognizerState:
    """The state of the recognizer after a prefix that has a completion.

    Attributes:
        complete: whether the prefix is in the language.
        scans: the terminals being read.
    """

    def __init__(self, judge: ReferenceRecognizer, scans: frozenset[Scan], complete: bool) -> None:
        self._judge = judge
        self.scans = scans
        self.complete = complete
        self._next: dict[int, RecognizerState | None] = {}

    def step(self, byte: int) -> RecognizerState | None:
        """The state after one more byte; None if the prefix then has no completion."""
        try:
            return self._next[byte]
        except KeyError:
            state = self._next[byte] = self._judge._step(self.scans, byte)
            return state

    def __getitem__(self, byte: int) -> RecognizerState:
        state = self.step(byte)
        if state is None:
            raise KeyError(byte)
        return state

    def allowed(self, data: bytes) -> bool:
        """Whether some string of the language continues with `data`."""
        state: RecognizerState | None = self
        for byte in data:
            state = state.step(byte) if state is not None else None
        return state is not None

    def options(self) -> list[int]:
        """The bytes that may come next, in order."""
        return sorted(byte for group in self._groups for byte in range(256) if group >> byte & 1)

    def branches(self) -> list[int]:
        """The lowest of the next bytes that lead to each state, in order."""
        return sorted(lowest(group) for group in self._groups)

    @functools.cached_property
    def _groups(self) -> list[int]:
        classes = {self._judge.residuals.byte_classes(residual) for residual, _, _ in self.scans}
        return [group for group in common_refinement(classes) if self.step(lowest(group)) is not None]

    @functools.cached_property
    def shortest_length(self) -> float:
        """Number of bytes of a shortest completion."""
        return self._judge._least(self)
