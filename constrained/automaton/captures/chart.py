"""All readings of a text in one chart.

Source: Earley 1970, "An efficient context-free parsing algorithm"; empty expressions as in Aycock and Horspool 2002. Its scanner
is the lexer: where tokens are expected, only the one that the lexer takes is read. Between tokens, `%json`, `@name` and special
tokens are read byte by byte; a token in front of them is cut as if the text ended there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING, TypeAlias

from constrained.automaton.captures.scanner import Scanner
from constrained.grammars import ir

if TYPE_CHECKING:
    from constrained.grammars.notation.lark.captures import CaptureGrammar

Item: TypeAlias = "tuple[ir.Expr, int, Place]"
"""An expression, how much of it was read, and where it began."""


class Place:
    """A place in the text, after the tokens on one way to it.

    Attributes:
        position: bytes before it.
        number: in order of creation.
        waiting: by expression, the items that it may advance here.
        empty: expressions that have read nothing here.
        ends: by expression that begins here, the places where it may end, with the order in which that was found.
        begins: by expression that ends here, the places where it may begin.
    """

    __slots__ = ("begins", "empty", "ends", "number", "position", "seen", "waiting")

    def __init__(self, position: int, number: int) -> None:
        self.position = position
        self.number = number
        self.waiting: dict[ir.Expr, list[Item]] = {}
        self.empty: set[ir.Expr] = set()
        self.ends: dict[ir.Expr, dict[Place, int]] = defaultdict(dict)
        self.begins: dict[ir.Expr, list[Place]] = defaultdict(list)
        self.seen: set[Item] = set()


class Chart:
    """All readings of one text.

    Attributes:
        grammar: the grammar.
        scanner: its terminals over the text.
        root: the call of the start rule.
        start: the place in front of the text.
    """

    def __init__(self, grammar: CaptureGrammar, data: bytes, most_steps: int | None = None) -> None:
        self.grammar = grammar
        self.scanner = Scanner(grammar, data, most_steps)
        self.data = data
        self.root = ir.call(grammar.start)
        self._found = 0
        self._places = 0
        self._arrivals: dict[int, Place] = {}
        self._open: list[int] = []
        self.start = self._arrival(0)

    def read(self) -> Place | None:
        """Reads the whole text; the place behind it, or None if the grammar does not derive it."""
        self._expect(self.start, self.root, (ir.Loop(self.root, 1, 1), 0, self.start))
        goal: Place | None = None
        while self._open:
            goal = self._read_on(self._arrivals[heappop(self._open)]) or goal
        return goal

    def parts(self, expr: ir.Expr) -> Sequence[ir.Expr]:
        """The expressions that an expression is made of."""
        if isinstance(expr, ir.Call):
            return (self.grammar.rules[expr.rule],)
        if isinstance(expr, (ir.Sequence, ir.Choice)):
            return expr.parts
        return (expr.part,) if isinstance(expr, ir.Loop) else ()

    @cached_property
    def exprs(self) -> list[ir.Expr]:
        """All expressions that the start needs."""
        known: dict[ir.Expr, None] = {}
        work: list[ir.Expr] = [self.root]
        while work:
            expr = work.pop()
            if expr not in known:
                known[expr] = None
                work += self.parts(expr)
        return list(known)

    def _read_on(self, place: Place) -> Place | None:
        """Reads the tokens from a place on, and what is read byte by byte between them; the place of the whole text."""
        cuts = [place]
        while cuts[-1].position < len(self.data):
            after = self._cut(cuts[-1], len(self.data))
            if after is None:
                break
            cuts.append(after)
        self._read_bytes(place)
        at = 0
        for border in self._borders(place.position, cuts):
            while at + 1 < len(cuts) and cuts[at + 1].position <= border:
                at += 1
            # A token ends before what is read byte by byte, so it is cut as if the text ended there.
            here: Place | None = cuts[at]
            while here is not None and here.position < border:
                here = self._cut(here, border)
            if here is not None:
                self._read_bytes(here)
        last = cuts[-1]
        return last if last.position == len(self.data) and last in self.start.ends[self.root] else None

    def _borders(self, position: int, cuts: list[Place]) -> Iterator[int]:
        """Positions behind a place where something may begin that is read byte by byte."""
        if not self.grammar.tokens or len(self.data) == position or not self._first_bytes:
            return
        end = len(self.data) if self._cuttable(cuts[-1]) else cuts[-1].position
        for border in range(position + 1, min(end + 1, len(self.data))):
            self.scanner.count(1)
            if self.data[border] in self._first_bytes:
                yield border

    def _cuttable(self, place: Place) -> bool:
        return any(self.scanner.token(expr) is not None for expr in place.waiting)

    @cached_property
    def _first_bytes(self) -> frozenset[int]:
        """The bytes that something begins with that is read byte by byte."""
        free = (expr for expr in self.exprs if isinstance(expr, ir.Terminal) and self.scanner.is_free(expr))
        return frozenset(byte for expr in free for byte in self.scanner.first_bytes(expr))

    def _read_bytes(self, place: Place) -> None:
        """Reads what no lexer cuts, in every way."""
        for expr in [*place.waiting]:
            if isinstance(expr, ir.Terminal) and self.scanner.is_free(expr):
                for end in self.scanner.ends(expr.regex, place.position):
                    if end > place.position:
                        self._advance(self._arrival(end), expr, place)

    def _cut(self, place: Place, limit: int) -> Place | None:
        """The place after the token that the lexer finds here in the text up to a limit."""
        expected = [
            (expr, token) for expr in place.waiting if (token := self.scanner.token(expr)) is not None
        ]
        if not expected:
            return None
        candidates = (
            range(len(self.grammar.tokens))
            if self.grammar.basic_lexer
            else sorted({token for _, token in expected})
        )
        won = self.scanner.winner(candidates, place.position, limit)
        if won is None:
            return None
        token, end = won
        after = self._new_place(end)
        for expr, number in expected:
            if number == token:
                self._advance(after, expr, place)
        return after if after.seen else None

    def _arrival(self, position: int) -> Place:
        """The place where something ends that was read byte by byte."""
        if position not in self._arrivals:
            self._arrivals[position] = self._new_place(position)
            heappush(self._open, position)
        return self._arrivals[position]

    def _new_place(self, position: int) -> Place:
        self._places += 1
        return Place(position, self._places)

    def _advance(self, place: Place, expr: ir.Expr, origin: Place) -> None:
        """Notes that an expression reaches from one place to another, and all that follows from it."""
        work: list[tuple[ir.Expr, Place]] = [(expr, origin)]
        while work:
            done, begun = work.pop()
            if place in begun.ends[done]:
                continue
            self._found += 1
            begun.ends[done][place] = self._found
            place.begins[done].append(begun)
            if begun is place:
                place.empty.add(done)
            for node, state, since in [*begun.waiting.get(done, ())]:
                self._add(place, (node, _next_state(node, state), since), work)

    def _expect(self, place: Place, expr: ir.Expr, item: Item) -> None:
        """Notes that an item needs an expression here."""
        work: list[tuple[ir.Expr, Place]] = []
        self._wait(place, expr, item, work)
        for done, begun in work:
            self._advance(place, done, begun)

    def _add(self, place: Place, item: Item, work: list[tuple[ir.Expr, Place]]) -> None:
        node, state, since = item
        if item in place.seen:
            return
        place.seen.add(item)
        self.scanner.count(1)
        if _complete(node, state):
            work.append((node, since))
        for part in self._wanted(node, state):
            self._wait(place, part, item, work)

    def _wait(self, place: Place, expr: ir.Expr, item: Item, work: list[tuple[ir.Expr, Place]]) -> None:
        stack = [(expr, item)]
        while stack:
            part, waiter = stack.pop()
            new = part not in place.waiting
            place.waiting.setdefault(part, []).append(waiter)
            if part in place.empty:
                node, state, since = waiter
                self._add(place, (node, _next_state(node, state), since), work)
            if not new:
                continue
            if isinstance(part, ir.Terminal):
                if self.scanner.may_be_empty(part):
                    work.append((part, place))
                continue
            first: Item = (part, 0, place)
            place.seen.add(first)
            self.scanner.count(1)
            if _complete(part, 0):
                work.append((part, place))
            stack += ((inner, first) for inner in self._wanted(part, 0))

    def _wanted(self, node: ir.Expr, state: int) -> Sequence[ir.Expr]:
        """What an item needs next: any of these."""
        if isinstance(node, ir.Sequence):
            return node.parts[state : state + 1]
        if isinstance(node, ir.Choice):
            return node.parts if state == 0 else ()
        if isinstance(node, ir.Loop):
            return (node.part,) if node.high is None or state < node.high else ()
        if isinstance(node, ir.Call):
            return (self.grammar.rules[node.rule],) if state == 0 else ()
        return ()


def _complete(node: ir.Expr, state: int) -> bool:
    if isinstance(node, ir.Sequence):
        return state == len(node.parts)
    if isinstance(node, ir.Loop):
        return state >= node.low
    return state == 1


def _next_state(node: ir.Expr, state: int) -> int:
    if isinstance(node, ir.Loop) and node.high is None:
        return min(state + 1, node.low)
    return state + 1
