"""The reading of a text that is taken, and the parts that captured rules read in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from constrained.automaton.captures.chart import Chart, Place
from constrained.grammars import ir, visit

if TYPE_CHECKING:
    from constrained.grammars.notation.lark.captures import CapturedRule


def cycles(chart: Chart) -> dict[ir.Expr, int]:
    """By expression that may consist of itself alone, as in ``a: a | "x"``: the number of the cycle that it is in."""
    empty: set[ir.Expr] = set()
    users: dict[ir.Expr, list[ir.Expr]] = {}
    for expr in chart.exprs:
        for part in chart.parts(expr):
            users.setdefault(part, []).append(expr)
    work = [expr for expr in chart.exprs if _is_empty(chart, expr, empty)]
    while work:
        expr = work.pop()
        if expr not in empty:
            empty.add(expr)
            work += (user for user in users.get(expr, ()) if _is_empty(chart, user, empty))
    edges = {expr: _alone_in(chart, expr, empty) for expr in chart.exprs}
    return {
        expr: number
        for number, component in enumerate(visit.strongly_connected_components(edges))
        for expr in component
        if len(component) > 1 or expr in edges[expr]
    }


def _is_empty(chart: Chart, expr: ir.Expr, empty: set[ir.Expr]) -> bool:
    """Whether an expression may be empty, as far as its parts are known to be."""
    if isinstance(expr, ir.Terminal):
        return chart.scanner.may_be_empty(expr)
    parts = chart.parts(expr)
    if isinstance(expr, ir.Choice):
        return any(part in empty for part in parts)
    return (isinstance(expr, ir.Loop) and expr.low == 0) or all(part in empty for part in parts)


def _alone_in(chart: Chart, expr: ir.Expr, empty: set[ir.Expr]) -> list[ir.Expr]:
    """The parts that an expression may consist of alone."""
    parts = chart.parts(expr)
    if not isinstance(expr, ir.Sequence):
        return list(parts)
    full = [part for part in parts if part not in empty]
    return list(parts) if not full else full if len(full) == 1 else []


Part: TypeAlias = "tuple[ir.Expr, Place, Place]"
"""An expression, and the places between which it reads."""


class ChartReading:
    """One of the readings in a chart."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.grammar = chart.grammar
        self.cycles = cycles(chart)

    def captured(self, start: Place, goal: Place) -> Iterator[tuple[str, int, int]]:
        """Names and bounds in bytes of the captures up to a place, parts of a part before it."""
        stack: list[tuple[Part, int | None]] = [((self.chart.root, start, goal), None)]
        read = 0  # where the last token ended that is not ignored
        while stack:
            (expr, begin, end), opened = stack.pop()
            if isinstance(expr, ir.Call) and expr.rule == self.grammar.between:
                continue
            if opened is not None:
                assert isinstance(expr, ir.Call)
                rule = self.grammar.captured[expr.rule]
                yield from self._capture(rule, begin.position, max(read, begin.position))
                continue
            if isinstance(expr, ir.Terminal):
                read = end.position if end.position > begin.position else read
            elif isinstance(expr, ir.Call) and expr.rule in self.grammar.captured:
                stack.append(((expr, begin, end), read))
            self.chart.scanner.count(1)
            stack += ((part, None) for part in reversed(self._chosen(expr, begin, end)))

    def _capture(self, rule: CapturedRule, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        inside = end
        if rule.ending is not None:
            body, ending = rule.ending
            ends = self.chart.scanner.ends
            inside = next(at for at in ends(body, start) if end in ends(ending, at))
        if rule.stop_name is not None:
            yield rule.stop_name, inside, end
        if rule.name is not None:
            yield rule.name, start, inside

    def _chosen(self, expr: ir.Expr, begin: Place, end: Place) -> list[Part]:
        """The parts of an expression between two places, in the reading that is taken."""
        order = begin.ends[expr][end]

        def reads(part: ir.Expr, first: Place, last: Place) -> bool:
            found = first.ends[part].get(last) if part in first.ends else None
            if found is None or first is not begin or last is not end:
                return found is not None
            # Of expressions that may consist of nothing but each other, the part was found before the whole.
            cycle = self.cycles.get(part)
            return cycle is None or cycle != self.cycles.get(expr) or found < order

        if isinstance(expr, ir.Call):
            return [(self.grammar.rules[expr.rule], begin, end)]
        if isinstance(expr, ir.Choice):
            return [(next(part for part in expr.parts if reads(part, begin, end)), begin, end)]
        if isinstance(expr, ir.Sequence):
            return self._in_sequence(expr.parts, begin, end, reads)
        if isinstance(expr, ir.Loop):
            return self._in_loop(expr, begin, end, reads)
        return []

    def _in_sequence(
        self, parts: Sequence[ir.Expr], begin: Place, end: Place, reads: Callable[..., bool]
    ) -> list[Part]:
        """The parts between two places; each ends at the last place from where the others reach the end."""
        before, behind = (
            [{begin}],
            [{end}],
        )  # places in front of the first parts, and in front of the last ones
        while len(before) + len(behind) < len(parts) + 2:
            left, right = parts[len(before) - 1], parts[-len(behind)]
            onward = sum(len(place.ends.get(left, ())) for place in before[-1])
            back = sum(len(place.begins.get(right, ())) for place in behind[-1])
            self.chart.scanner.count(min(onward, back) + 1)
            if onward <= back:
                before.append(
                    {last for one in before[-1] for last in one.ends.get(left, ()) if reads(left, one, last)}
                )
            else:
                behind.append(
                    {
                        one
                        for last in behind[-1]
                        for one in last.begins.get(right, ())
                        if reads(right, one, last)
                    }
                )
        layers = [*before[:-1], before[-1] & behind[-1], *behind[-2::-1]]
        for at in range(len(before) - 2, -1, -1):
            part, following = parts[at], layers[at + 1]
            layers[at] = {one for one in layers[at] if any(reads(part, one, last) for last in following)}
        taken: list[Part] = []
        place = begin
        for part, layer in zip(parts, layers[1:], strict=True):
            place, previous = _last(one for one in layer if reads(part, place, one)), place
            taken.append((part, previous, place))
        return taken

    def _in_loop(self, loop: ir.Loop, begin: Place, end: Place, reads: Callable[..., bool]) -> list[Part]:
        """The copies between two places, each as long as it can be. Empty ones are read only where a count needs them."""
        part = loop.part
        most = loop.low if loop.high is None else loop.high
        origins: dict[tuple[Place, int], list[tuple[Place, int]]] = {(begin, 0): []}
        work = [(begin, 0)]
        while work:
            place, count = here = work.pop()
            if loop.high is not None and count == loop.high:
                continue
            for last in place.ends.get(part, ()):
                self.chart.scanner.count(1)
                after = last, min(count + 1, most)
                if last.position > end.position or after == here or not reads(part, place, last):
                    continue
                if after not in origins:
                    origins[after] = []
                    work.append(after)
                origins[after].append(here)
        goals = [(end, count) for count in range(loop.low, most + 1) if (end, count) in origins]
        if begin is end and loop.low == 0:
            return []
        following: dict[tuple[Place, int], list[tuple[Place, int]]] = {goal: [] for goal in goals}
        while goals:
            goal = goals.pop()
            for one in origins[goal]:
                if one not in following:
                    following[one] = []
                    goals.append(one)
                following[one].append(goal)
        taken: list[Part] = []
        here = begin, 0
        while not (here[0] is end and here[1] >= loop.low):
            place = _last(one for one, _ in following[here])
            after = max((one for one in following[here] if one[0] is place), key=lambda one: one[1])
            taken.append((part, here[0], place))
            here = after
        return taken


def _last(places: Iterable[Place]) -> Place:
    return max(places, key=lambda one: (one.position, -one.number))
