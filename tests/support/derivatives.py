"""Regular languages by Brzozowski derivatives, in a simple implementation, for `ReferenceRecognizer`.

A derivative of a regex by a byte string is interned as an int. Shares no code with the native core, so that each can be
tested against the other. Must not know: rules, tokens, the core.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, TypeVar

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge
from constrained.grammars.regex.remainders import NumberRest, Occurrences, Place

T = TypeVar("T")

LITERAL, CHARS, CONCAT, UNION, INTERSECTION, COMPLEMENT, REPEAT, MULTIPLE, SUBSTRING = range(9)
MOST_RESIDUALS = 500_000
"""Derivatives, and parts of them, that are kept: some 0.5 GB."""
_ALL_BYTES = (1 << 256) - 1
_LEADS = ((0xC2, 0xDF, 1, 0x80), (0xE0, 0xEF, 2, 0x800), (0xF0, 0xF4, 3, 0x10000))
"""First and last leading byte, continuation bytes that follow, least code point written so (RFC 3629)."""
MOST_PARTS = 10_000_000
"""Parts of all their unions and intersections: a fuzzer met a regex whose derivatives took 10 GB and more than six minutes."""


class Residuals:
    """Regexes and their derivatives, interned: equal ids mean equal languages, not the other way round.

    Source: Brzozowski 1964, "Derivatives of Regular Expressions", section 3 (similarity keeps the derivatives
    finitely many); Owens, Reppy and Turon 2009, "Regular-expression derivatives re-examined", section 4
    (byte classes). Counts stay counts, and nothing recurses over a regex.

    Attributes:
        empty_language: the id of the empty language.
        epsilon: the id of the language of the empty string.
        all_strings: the id of the language of all byte strings.
    """

    def __init__(self) -> None:
        self._nodes: list[tuple[Any, ...]] = []
        self._parts_kept = 0  # of unions and intersections
        self._ids: dict[tuple[Any, ...], int] = {}
        self._nullable: list[bool] = []
        self._derived: list[dict[int, int]] = [{} for _ in range(256)]
        self._classes: dict[int, tuple[int, ...]] = {}
        self._bound: dict[int, float] = {}
        self._alive: dict[int, bool] = {}
        self._least: dict[int, float] = {}
        self._read: dict[int, tuple[ir.Regex, int]] = {}
        self.empty_language = self._intern((UNION, frozenset()), False)
        self.epsilon = self._intern((LITERAL, b""), True)
        self.all_strings = self._intern((COMPLEMENT, self.empty_language), True)

    # ------------------------------------------------------------ questions

    def nullable(self, residual: int) -> bool:
        """Whether the language contains the empty string."""
        return self._nullable[residual]

    def derive(self, residual: int, byte: int) -> int:
        """The derivative by `byte`."""
        memo = self._derived[byte]
        found = memo.get(residual)
        if found is not None:
            return found
        return fold_postorder(residual, memo, self._heads, lambda node: self._derivative(node, byte, memo))

    def is_nonempty(self, residual: int) -> bool:
        """Whether the language contains a string."""
        known = self._alive.get(residual)
        return fold_postorder(residual, self._alive, self._inner, self._is_alive) if known is None else known

    def shortest_length(self, residual: int) -> float:
        """Number of bytes of the shortest string; infinite for the empty language."""
        return fold_postorder(residual, self._least, self._inner, self._shortest)

    def byte_classes(self, residual: int) -> tuple[int, ...]:
        """A partition of all bytes, as bit masks; bytes of one class have equal derivatives."""
        return fold_postorder(residual, self._classes, self._heads, self._partition)

    # ------------------------------------------------------------ building

    def from_regex(self, regex: ir.Regex) -> int:
        """The id of a regex."""
        stack = [regex]
        while stack:
            node = stack[-1]
            if id(node) in self._read:
                stack.pop()
                continue
            parts: tuple[ir.Regex, ...] = getattr(node, "parts", None) or ()
            if isinstance(node, (ir.Repeat, ir.Complement)):
                parts = (node.part,)
            missing = [part for part in parts if id(part) not in self._read]
            if missing:
                stack.extend(missing)
            else:
                children = [self._read[id(part)][1] for part in parts]
                self._read[id(node)] = (node, self._build(node, children))  # keeps the node, hence its id
        return self._read[id(regex)][1]

    def _build(self, node: ir.Regex, children: list[int]) -> int:
        if isinstance(node, ir.Literal):
            return self._literal(node.data)
        if isinstance(node, ir.Chars):
            return self._chars(0, node.ranges)
        if isinstance(node, ir.Concat):
            whole = self.epsilon
            for child in reversed(children):
                whole = self._concat(child, whole)
            return whole
        if isinstance(node, ir.Union):
            return self._union(children)
        if isinstance(node, ir.Intersection):
            return self._intersection(children)
        if isinstance(node, ir.Complement):
            return self._complement(children[0])
        if isinstance(node, ir.Repeat):
            return self._repeat(children[0], node.low, node.high)
        if isinstance(node, ir.DecimalMultiple):
            return self._digits(NumberRest.of(node))
        if isinstance(node, ir.Substring):
            occurrences = Occurrences(node)
            return self._substring(occurrences, 0, b"", occurrences.starts())
        if isinstance(node, ir.EmptySet):
            return self.empty_language
        raise TypeError(f"not a regex: {node!r}")

    def _intern(self, node: tuple[Any, ...], nullable: bool) -> int:
        found = self._ids.get(node)
        if found is None:
            self._parts_kept += len(node[-1]) if isinstance(node[-1], frozenset) else 1
            if len(self._nodes) >= MOST_RESIDUALS or self._parts_kept > MOST_PARTS:
                raise ConstraintTooLarge(
                    f"a regex has more than {MOST_RESIDUALS:,} derivatives here",
                    action="judge a smaller count in its place: this judge is simple, and not fast",
                )
            found = self._ids[node] = len(self._nodes)
            self._nodes.append(node)
            self._nullable.append(nullable)
        return found

    def _literal(self, data: bytes) -> int:
        return self._intern((LITERAL, data), not data)

    def _chars(self, following: int, ranges: tuple[tuple[int, int], ...]) -> int:
        """`following` 0: a whole character; else that number of continuation bytes, whose payload is in `ranges`."""
        return self._intern((CHARS, following, ranges), False) if ranges else self.empty_language

    def _concat(self, left: int, right: int) -> int:
        if self.empty_language in (left, right):
            return self.empty_language
        if left == self.epsilon:
            return right
        if right == self.epsilon:
            return left
        firsts = []
        while self._nodes[left][0] == CONCAT:  # right-nested, so that equal sequences are equal nodes
            firsts.append(self._nodes[left][1])
            left = self._nodes[left][2]
        for first in (left, *reversed(firsts)):
            right = self._intern((CONCAT, first, right), self._nullable[first] and self._nullable[right])
        return right

    def _union(self, parts: Iterable[int]) -> int:
        flat = self._flat(UNION, parts)
        if self.all_strings in flat:
            return self.all_strings
        if len(flat) == 1:
            return next(iter(flat))
        return self._intern((UNION, flat), any(self._nullable[part] for part in flat))

    def _intersection(self, parts: Iterable[int]) -> int:
        flat = self._flat(INTERSECTION, parts) - {self.all_strings}
        if self.empty_language in flat:
            return self.empty_language
        if not flat:
            return self.all_strings
        if len(flat) == 1:
            return next(iter(flat))
        return self._intern((INTERSECTION, flat), all(self._nullable[part] for part in flat))

    def _flat(self, kind: int, parts: Iterable[int]) -> frozenset[int]:
        flat: set[int] = set()
        for part in parts:
            flat.update(self._nodes[part][1] if self._nodes[part][0] == kind else (part,))
        return frozenset(flat)

    def _complement(self, part: int) -> int:
        kind, inner = self._nodes[part][:2]
        return (
            int(inner) if kind == COMPLEMENT else self._intern((COMPLEMENT, part), not self._nullable[part])
        )

    def _repeat(self, part: int, low: int, high: int | None) -> int:
        if self._nullable[part]:
            low = 0  # an empty copy counts
        if high == 0 or part == self.epsilon or (part == self.empty_language and low == 0):
            return self.epsilon
        if part == self.empty_language:
            return self.empty_language
        if low == high == 1:
            return part
        return self._intern((REPEAT, part, low, high), low == 0)

    def _digits(self, rest: NumberRest | None) -> int:
        return self.empty_language if rest is None else self._intern((MULTIPLE, rest), rest.may_end)

    def _substring(self, document: Occurrences, count: int, spelled: bytes, places: frozenset[Place]) -> int:
        if not places:
            return self.empty_language
        count = min(count, max(document.node.least, 1))  # more symbols make no difference
        nullable = not spelled and count >= document.node.least and document.may_end(places)
        return self._intern((SUBSTRING, document, count, spelled, places), nullable)

    # ------------------------------------------------------------ derivatives

    def _heads(self, node: int) -> tuple[int, ...]:
        """The children that a derivative of `node` looks into."""
        kind, *rest = self._nodes[node]
        if kind == CONCAT:
            return (rest[0], rest[1]) if self._nullable[rest[0]] else (rest[0],)
        if kind in (UNION, INTERSECTION):
            return tuple(rest[0])
        return (rest[0],) if kind in (COMPLEMENT, REPEAT) else ()

    def _derivative(self, node: int, byte: int, derived: dict[int, int]) -> int:
        kind, *rest = self._nodes[node]
        if kind == LITERAL:
            return self._literal(rest[0][1:]) if rest[0][:1] == bytes((byte,)) else self.empty_language
        if kind == CHARS:
            return self._continue(rest[0], rest[1], byte)
        if kind == CONCAT:
            first, after = rest
            through = self._concat(derived[first], after)
            return self._union((through, derived[after])) if self._nullable[first] else through
        if kind == UNION:
            return self._union([derived[part] for part in rest[0]])
        if kind == INTERSECTION:
            return self._intersection([derived[part] for part in rest[0]])
        if kind == COMPLEMENT:
            return self._complement(derived[rest[0]])
        if kind == MULTIPLE:
            return self._digits(rest[0].after(chr(byte)))
        if kind == SUBSTRING:
            document, count, spelled, places = rest
            spelled += bytes((byte,))
            symbol = document.by_spelling.get(spelled)
            if symbol is not None:
                places = document.after(places, symbol, first=count == 0)
                return self._substring(document, count + 1, b"", places)
            if any(data.startswith(spelled) for data in document.by_spelling):
                return self._substring(document, count, spelled, places)
            return self.empty_language
        part, low, high = rest
        more = self._repeat(part, max(low - 1, 0), None if high is None else high - 1)
        return self._concat(derived[part], more)

    def _continue(self, following: int, ranges: tuple[tuple[int, int], ...], byte: int) -> int:
        least = 0
        if following:
            if not 0x80 <= byte <= 0xBF:
                return self.empty_language
            following, payload = following - 1, byte & 0x3F
        elif byte < 0x80:
            payload = byte
        else:
            lead = next((lead for lead in _LEADS if lead[0] <= byte <= lead[1]), None)
            if lead is None:
                return self.empty_language
            following, least = lead[2:]
            payload = byte & (0x3F >> following)
        width = 6 * following
        low, high = payload << width, ((payload + 1) << width) - 1
        kept = tuple(
            (max(lo, low, least) - low, min(hi, high) - low)
            for lo, hi in ranges
            if max(lo, low, least) <= min(hi, high)
        )
        if not following:
            return self.epsilon if kept else self.empty_language
        return self._chars(following, kept)

    # ------------------------------------------------------------ emptiness

    def _inner(self, node: int) -> tuple[int, ...]:
        """The children that decide whether `node` is empty: none for the Boolean operators, which need a search."""
        kind, *rest = self._nodes[node]
        if kind == CONCAT:
            return (rest[0], rest[1])
        if kind == UNION:
            return tuple(rest[0])
        return (rest[0],) if kind == REPEAT else ()

    def _is_alive(self, node: int) -> bool:
        kind, *rest = self._nodes[node]
        if kind == CONCAT:
            return self._alive[rest[0]] and self._alive[rest[1]]
        if kind == UNION:
            return any(self._alive[part] for part in rest[0])
        if kind == REPEAT:
            return rest[1] == 0 or self._alive[rest[0]]
        if kind in (LITERAL, CHARS):
            return True
        path, seen = self._search(node, exact=False)
        for visited in seen if path is None else path:
            self._alive[visited] = path is not None
        return path is not None

    def _shortest(self, node: int) -> float:
        kind, *rest = self._nodes[node]
        if kind == CONCAT:
            return self._least[rest[0]] + self._least[rest[1]]
        if kind == UNION:
            return min((self._least[part] for part in rest[0]), default=math.inf)
        if kind == REPEAT:
            return rest[1] * self._least[rest[0]] if rest[1] else 0
        if kind in (LITERAL, CHARS):
            return self._lower_bound(node)
        path, seen = self._search(node, exact=True)
        if path is None:
            for visited in seen:
                self._least[visited] = math.inf
            return math.inf
        end = 0 if self._nullable[path[-1]] else self._least[path[-1]]
        for steps, visited in enumerate(reversed(path)):
            self._least[visited] = steps + end
        return self._least[node]

    def _search(self, start: int, exact: bool) -> tuple[list[int] | None, Iterable[int]]:
        """Searches the derivatives of `start` for a nullable one, the likeliest first.

        Returns:
            The derivatives on the path (a shortest path if `exact`) to one that is nullable or known to lead to
            one, or None; and all that were visited.
        """
        known: dict[int, bool] | dict[int, float] = self._least if exact else self._alive
        came: dict[int, tuple[int, int | None]] = {start: (0, None)}
        queue: list[tuple[float, int, int]] = [(0, 0, start)]
        while queue:
            _, steps, node = heapq.heappop(queue)
            if steps > came[node][0]:
                continue
            if self._nullable[node] or known.get(node, math.inf if exact else False) not in (math.inf, False):
                path = []
                at: int | None = node
                while at is not None:
                    path.append(at)
                    at = came[at][1]
                return path[::-1], came
            for mask in self.byte_classes(node):
                target = self.derive(node, lowest(mask))
                if target in came and came[target][0] <= steps + 1:
                    continue
                bound = fold_postorder(target, self._bound, self._parts, self._lower_bound)
                if exact:
                    bound = max(bound, self._least.get(target, 0))
                elif self._alive.get(target) is False:
                    bound = math.inf
                if bound < math.inf:
                    came[target] = (steps + 1, node)
                    heapq.heappush(queue, (bound + (steps + 1 if exact else 0), steps + 1, target))
        return None, came

    def _parts(self, node: int) -> tuple[int, ...]:
        kind, *rest = self._nodes[node]
        return tuple(rest[0]) if kind == INTERSECTION else self._inner(node)

    def _lower_bound(self, node: int) -> float:
        """A lower bound of the lengths of `node`: exact except for Boolean operators, where it guides the search."""
        kind, *rest = self._nodes[node]
        if kind == LITERAL:
            return len(rest[0])
        if kind == CHARS:
            following, ranges = rest
            return following or len(chr(ranges[0][0]).encode())
        if kind in (COMPLEMENT, MULTIPLE, SUBSTRING):
            return 0 if self._nullable[node] else 1
        if kind == REPEAT:
            return rest[1] * self._bound[rest[0]] if rest[1] else 0
        if kind == CONCAT:
            return self._bound[rest[0]] + self._bound[rest[1]]
        bounds = [self._bound[part] for part in rest[0]]
        return min(bounds, default=math.inf) if kind == UNION else max(bounds)

    def _partition(self, node: int) -> tuple[int, ...]:
        kind, *rest = self._nodes[node]
        if kind == LITERAL:
            mask = 1 << rest[0][0] if rest[0] else 0
            return tuple(part for part in (mask, _ALL_BYTES & ~mask) if part)
        if kind in (CHARS, MULTIPLE, SUBSTRING):
            groups: dict[int, int] = {}
            for byte in range(256):
                target = self.derive(node, byte)
                groups[target] = groups.get(target, 0) | 1 << byte
            return tuple(groups.values())
        return common_refinement(self._classes[head] for head in self._heads(node))


def common_refinement(partitions: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The coarsest partition of all bytes that is finer than each of these."""
    whole: tuple[int, ...] = (_ALL_BYTES,)
    for partition in partitions:
        whole = tuple({a & b for a in whole for b in partition} - {0})
    return whole


def lowest(mask: int) -> int:
    """The lowest byte of a set of bytes, given as a bit mask."""
    return (mask & -mask).bit_length() - 1


def fold_postorder(
    root: int, memo: MutableMapping[int, T], needs: Callable[[int], Iterable[int]], value: Callable[[int], T]
) -> T:
    """`value(root)` after the values of everything it needs are in `memo`: recursion without a call stack."""
    stack = [root]
    while stack:
        node = stack[-1]
        if node in memo:
            stack.pop()
            continue
        missing = [need for need in needs(node) if need not in memo]
        if missing:
            stack.extend(missing)
        else:
            memo[node] = value(node)
            stack.pop()
    return memo[root]
