"""Static analyses of regular expressions: nullability, character classes, length bounds. Iterative, for any depth."""

from __future__ import annotations

from constrained.grammars import ir
from constrained.grammars.regex.charset import CodePointRanges


def children(node: ir.Regex) -> tuple[ir.Regex, ...]:
    """The direct parts of an expression."""
    if isinstance(node, (ir.Concat, ir.Union, ir.Intersection)):
        return node.parts
    return (node.part,) if isinstance(node, (ir.Repeat, ir.Complement)) else ()


def nullable(regex: ir.Regex) -> bool:
    """Whether the empty string is in the language."""
    known: dict[int, bool] = {}
    stack: list[tuple[ir.Regex, bool]] = [(regex, False)]
    while stack:
        node, ready = stack.pop()
        if isinstance(node, ir.Literal):
            known[id(node)] = not node.data
        elif isinstance(node, (ir.Chars, ir.EmptySet)):
            known[id(node)] = False
        elif isinstance(node, ir.DecimalMultiple):
            known[id(node)] = node.low == 0 and node.residue * 10**node.places % node.modulus == 0
        elif isinstance(node, ir.Substring):
            known[id(node)] = node.least == 0
        elif isinstance(node, ir.Repeat) and node.low == 0:
            known[id(node)] = True
        elif not ready:
            if id(node) not in known:
                stack.append((node, True))
                parts = children(node)
                stack.extend((part, False) for part in parts)
        elif isinstance(node, ir.Union):
            known[id(node)] = any(known[id(part)] for part in node.parts)
        elif isinstance(node, (ir.Concat, ir.Intersection)):
            known[id(node)] = all(known[id(part)] for part in node.parts)
        elif isinstance(node, ir.Complement):
            known[id(node)] = not known[id(node.part)]
        elif isinstance(node, ir.Repeat):
            known[id(node)] = known[id(node.part)]
    return known[id(regex)]


def single_character(regex: ir.Regex) -> CodePointRanges | None:
    """The character class, if every string of the language is one character; None if this cannot be shown."""
    if isinstance(regex, ir.Chars):
        return regex.ranges
    if isinstance(regex, ir.Literal):
        text = regex.data.decode()
        return ((ord(text), ord(text)),) if len(text) == 1 else None
    if isinstance(regex, ir.Union):
        ranges: list[tuple[int, int]] = []
        for part in regex.parts:
            single = single_character(part)
            if single is None:
                return None
            ranges.extend(single)
        return ir.merge_ranges(ranges)
    return None


def widths(regex: ir.Regex) -> tuple[int, int | None]:
    """Bounds of the lengths in characters: none is shorter than the first or longer than the second (None: no bound).

    Bounds, not exact lengths: intersections and complements are only estimated. Literals hold whole characters.
    """
    known: dict[ir.Regex, tuple[int, int | None]] = {}
    stack = [regex]
    while stack:
        node = stack[-1]
        if node in known:
            stack.pop()
            continue
        kind = type(node)
        if kind is ir.Literal:
            size = len(node.data.decode(errors="replace"))  # type: ignore[attr-defined]
            known[node] = size, size
        elif kind is ir.Chars:
            known[node] = 1, 1
        elif kind in (ir.EmptySet, ir.Complement, ir.DecimalMultiple):
            known[node] = 0, None
        elif kind is ir.Substring:
            known[node] = node.least, None if node.spaces else len(node.symbols)  # type: ignore[attr-defined]
        else:
            parts = children(node)
            missing = [part for part in parts if part not in known]
            if missing:
                stack += missing
                continue
            known[node] = _widths_over(node, [known[part] for part in parts])
        stack.pop()
    return known[regex]


def _widths_over(node: ir.Regex, parts: list[tuple[int, int | None]]) -> tuple[int, int | None]:
    if isinstance(node, ir.Repeat):
        low, high = parts[0]
        return low * node.low, None if high is None or node.high is None else high * node.high
    lows = [low for low, _ in parts]
    bounded = [high for _, high in parts if high is not None]
    every = len(bounded) == len(parts)
    if isinstance(node, ir.Concat):
        return sum(lows), sum(bounded) if every else None
    if isinstance(node, ir.Union):
        return min(lows), max(bounded) if every else None
    return max(lows), min(bounded, default=None)
