"""Hypothesis strategies: random regexes and grammars over a small alphabet, and an oracle that lists languages.

The alphabet mixes characters of one to four bytes, two of which share their first byte, so that ends inside a
character and branching inside one are common.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator

from hypothesis import strategies as st

from constrained.grammars import ir
from constrained.grammars.transform.interleave import interleave

CHARACTERS = "abéè€😀"
ALPHABET = bytes(sorted(set(CHARACTERS.encode())))

# ---------------------------------------------------------------- regexes

_counts = st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 3))).map(
    lambda bounds: (bounds[0], None if bounds[1] is None else bounds[0] + bounds[1])
)
_points = st.sampled_from([ord(character) for character in CHARACTERS])
_ranges = st.lists(st.tuples(_points, _points).map(sorted).map(tuple), min_size=1, max_size=2)
texts = st.text(CHARACTERS, max_size=6)
"""Strings over the alphabet."""
byte_strings = st.one_of(texts.map(str.encode), st.lists(st.sampled_from(ALPHABET), max_size=6).map(bytes))
"""Byte strings over the alphabet's bytes, not always UTF-8."""

_text_leaves = st.one_of(
    st.text(CHARACTERS, min_size=1, max_size=2).map(ir.literal),
    _ranges.map(ir.chars),
    st.just(ir.ANY_CHAR),
)
_leaves = st.one_of(
    _text_leaves,
    _text_leaves,
    st.sampled_from([ir.EMPTY_STRING, ir.TEXT, ir.literal(b"\xc3"), ir.literal(b"\xa9b")]),
)


def _several(inner: st.SearchStrategy[ir.Regex]) -> st.SearchStrategy[list[ir.Regex]]:
    return st.lists(inner, min_size=2, max_size=3)


def _plain(inner: st.SearchStrategy[ir.Regex]) -> st.SearchStrategy[ir.Regex]:
    return st.one_of(
        _several(inner).map(lambda parts: ir.concat(*parts)),
        _several(inner).map(lambda parts: ir.union(*parts)),
        st.builds(lambda part, bounds: ir.repeat(part, *bounds), inner, _counts),
    )


def _boolean(inner: st.SearchStrategy[ir.Regex]) -> st.SearchStrategy[ir.Regex]:
    return st.one_of(
        _plain(inner),
        _several(inner).map(lambda parts: ir.intersection(*parts)),
        st.builds(ir.difference, inner, inner),
        inner.map(ir.complement),
    )


plain_regexes = st.recursive(_text_leaves, _plain, max_leaves=6)
"""Regexes of what every regex library has: literals, classes, concatenation, union, counted repetition."""
regexes = st.recursive(_leaves, _boolean, max_leaves=6)
"""Regexes of every operator, over bytes."""


# ---------------------------------------------------------------- grammars

_NAMES = ("start", "second", "third")
_solid = st.sampled_from(CHARACTERS).map(ir.terminal)


@st.composite
def bags(draw: st.DrawFn, inner: st.SearchStrategy[ir.Expr]) -> ir.Expr:
    """Bags of a few slots, some with two kinds of entries, and of entries without a slot."""
    entry = st.builds(
        ir.InterleaveEntry,
        _solid,
        st.one_of(st.just(ir.EPSILON), inner),
        st.sampled_from([0, 0, 1, 1, 2, None]),
        st.integers(0, 3),
    )
    low, high = draw(_counts)
    return interleave(
        draw(st.lists(entry, min_size=1, max_size=4)),
        required=draw(st.sets(st.integers(0, 2), max_size=2)),
        obligations=draw(st.sampled_from([0, 0, 0, 1, 3])),
        low=draw(st.sampled_from([0, low])),
        high=draw(st.sampled_from([None, high])),
        separator=draw(st.sampled_from([ir.EPSILON, ir.terminal("b"), ir.terminal("é")])),
        ordered=draw(st.booleans()),
    )


def _expressions(rule: int, left_recursion: bool) -> st.SearchStrategy[ir.Expr]:
    anywhere = st.sampled_from(_NAMES).map(ir.call)
    guarded = st.builds(ir.sequence, _solid, anywhere)  # reads something first: never left recursion
    leaves = [_solid, regexes.map(ir.terminal), guarded, guarded, st.just(ir.EPSILON)]
    if left_recursion:
        leaves.append(anywhere)
    elif rule + 1 < len(_NAMES):
        leaves.append(st.sampled_from(_NAMES[rule + 1 :]).map(ir.call))

    def wider(inner: st.SearchStrategy[ir.Expr]) -> st.SearchStrategy[ir.Expr]:
        several = st.lists(inner, min_size=2, max_size=3)
        return st.one_of(
            bags(inner),
            several.map(lambda parts: ir.sequence(*parts)),
            several.map(lambda parts: ir.choice(*parts)),
            st.builds(lambda part, bounds: ir.loop(part, *bounds), inner, _counts),
        )

    return st.recursive(st.one_of(leaves), wider, max_leaves=4)


def grammars(*, left_recursion: bool = False) -> st.SearchStrategy[ir.Grammar]:
    """Grammars of three rules: recursive, often ambiguous, with empty parts, some without any text."""
    bodies = [_expressions(rule, left_recursion) for rule in range(len(_NAMES))]
    return st.tuples(*bodies).map(lambda rules: ir.Grammar(dict(zip(_NAMES, rules, strict=True)), _NAMES[0]))


# ---------------------------------------------------------------- the oracle: languages as sets


class Languages:
    """Languages cut to a finite universe: every string of at most `length` bytes out of `alphabet`.

    Set semantics by the book, with nothing in common with derivatives or items: exact inside the universe,
    because no operator needs strings longer than its result, nor bytes that its result lacks.
    """

    def __init__(self, alphabet: bytes, length: int) -> None:
        self.universe = frozenset(
            bytes(string) for size in range(length + 1) for string in itertools.product(alphabet, repeat=size)
        )
        self.length = length

    def regex(self, regex: ir.Regex) -> frozenset[bytes]:
        """The strings of a regex."""
        if isinstance(regex, ir.Literal):
            return frozenset({regex.data}) & self.universe
        if isinstance(regex, ir.Chars):
            return frozenset(string for string in self.universe if _is_one_of(string, regex.ranges))
        if isinstance(regex, ir.Concat):
            return self._sequence([self.regex(part) for part in regex.parts])
        if isinstance(regex, ir.Union):
            return frozenset().union(*(self.regex(part) for part in regex.parts))
        if isinstance(regex, ir.Intersection):
            return self.universe.intersection(*(self.regex(part) for part in regex.parts))
        if isinstance(regex, ir.Complement):
            return self.universe - self.regex(regex.part)
        if isinstance(regex, ir.Repeat):
            return self._repeat(self.regex(regex.part), regex.low, regex.high)
        return frozenset()

    def grammar(self, grammar: ir.Grammar) -> frozenset[bytes]:
        """The strings of a grammar: the least fixed point of its rules."""
        known: dict[str, frozenset[bytes]] = dict.fromkeys(grammar.rules, frozenset())
        while True:
            new = {name: self._expr(body, known) for name, body in grammar.rules.items()}
            if new == known:
                return known[grammar.start]
            known = new

    def _expr(self, expr: ir.Expr, known: dict[str, frozenset[bytes]]) -> frozenset[bytes]:
        if isinstance(expr, ir.Terminal):
            return self.regex(expr.regex)
        if isinstance(expr, ir.Call):
            return known[expr.rule]
        if isinstance(expr, ir.Sequence):
            return self._sequence([self._expr(part, known) for part in expr.parts])
        if isinstance(expr, ir.Choice):
            return frozenset().union(*(self._expr(part, known) for part in expr.parts))
        if isinstance(expr, ir.Interleave):
            return self._bag(expr, known)
        assert isinstance(expr, ir.Loop)
        return self._repeat(self._expr(expr.part, known), expr.low, expr.high)

    def _bag(self, bag: ir.Interleave, known: dict[str, frozenset[bytes]]) -> frozenset[bytes]:
        """By definition: every list of entries, each judged as a whole. An entry takes at least one byte."""
        texts = [self._sequence([self._expr(e.head, known), self._expr(e.body, known)]) for e in bag.entries]
        separator = self._expr(bag.separator, known)
        whole: frozenset[bytes] = frozenset()
        lists: list[tuple[tuple[ir.InterleaveEntry, ...], frozenset[bytes]]] = [((), frozenset({b""}))]
        while lists:
            chosen, written = lists.pop()
            whole |= written if keeps_the_rules(bag, chosen) else frozenset()
            for entry, text in zip(bag.entries, texts, strict=True):
                parts = [written, separator, text] if chosen else [text]
                if more := self._sequence(parts):
                    lists.append(((*chosen, entry), more))
        return whole

    def _sequence(self, parts: list[frozenset[bytes]]) -> frozenset[bytes]:
        whole = frozenset({b""})
        for part in parts:
            whole = frozenset(a + b for a in whole for b in part if len(a) + len(b) <= self.length)
        return whole

    def _repeat(self, part: frozenset[bytes], low: int, high: int | None) -> frozenset[bytes]:
        copies = self._sequence([part] * low)
        whole = copies
        for _ in range(self.length if high is None else high - low):
            copies = self._sequence([copies, part])
            whole |= copies
        return whole


def keeps_the_rules(bag: ir.Interleave, chosen: tuple[ir.InterleaveEntry, ...]) -> bool:
    """Whether a bag may be made of these entries, in this order."""
    slots = [entry.slot for entry in chosen if entry.slot is not None]
    places = [math.inf if entry.slot is None else entry.slot for entry in chosen]
    discharged = functools.reduce(operator.or_, (entry.discharges for entry in chosen), 0)
    return (
        len(slots) == len(set(slots))
        and set(slots).issuperset(bag.required)
        and discharged & bag.obligations == bag.obligations
        and bag.low <= len(chosen) <= (math.inf if bag.high is None else bag.high)
        and (not bag.ordered or places == sorted(places))
    )


def _is_one_of(string: bytes, ranges: tuple[tuple[int, int], ...]) -> bool:
    try:
        text = string.decode()
    except UnicodeDecodeError:
        return False
    return len(text) == 1 and any(low <= ord(text) <= high for low, high in ranges)


# ---------------------------------------------------------------- to read a failure by


def show(node: ir.Grammar | ir.Regex | ir.Expr | ir.InterleaveEntry) -> str:
    """Python that builds this (small) grammar, regex or expression."""
    if isinstance(node, ir.Grammar):
        rules = ", ".join(f"{name!r}: {show(body)}" for name, body in node.rules.items())
        return f"ir.Grammar({{{rules}}}, {node.start!r})"
    kind = f"ir.{type(node).__name__}"
    if isinstance(node, ir.Literal):
        return f"{kind}({node.data!r})"
    if isinstance(node, ir.Chars):
        return f"{kind}({node.ranges!r})"
    if isinstance(node, ir.Terminal):
        return f"{kind}({show(node.regex)})"
    if isinstance(node, ir.Call):
        return f"{kind}({node.rule!r})"
    if isinstance(node, ir.Complement):
        return f"{kind}({show(node.part)})"
    if isinstance(node, (ir.Repeat, ir.Loop)):
        return f"{kind}({show(node.part)}, {node.low}, {node.high})"
    if isinstance(node, ir.InterleaveEntry):
        return f"ir.InterleaveEntry({show(node.head)}, {show(node.body)}, {node.slot}, {node.discharges})"
    if isinstance(node, ir.Interleave):
        entries = "".join(show(entry) + ", " for entry in node.entries)
        limits = f"{node.required}, {node.obligations}, {node.low}, {node.high}, {show(node.separator)}, {node.ordered}"
        return f"{kind}(({entries}), {limits})"
    parts = getattr(node, "parts", ())
    return (
        f"{kind}(({''.join(show(part) + ', ' for part in parts)}))" if hasattr(node, "parts") else f"{kind}()"
    )
