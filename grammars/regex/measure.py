"""What can be read off a regular expression without running it. Iterative: expressions may be deep."""

from __future__ import annotations

from grammars import ir
from grammars.regex.classes import Ranges


def children(node: ir.Regex) -> tuple[ir.Regex, ...]:
    """What an expression is made of."""
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
        elif isinstance(node, (ir.Chars, ir.Nothing)):
            known[id(node)] = False
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


def single_character(regex: ir.Regex) -> Ranges | None:
    """The class of characters when every text of the language is one character (None when not seen to be so)."""
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
    known: dict[int, tuple[int, int | None]] = {}
    stack: list[tuple[ir.Regex, bool]] = [(regex, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in known:
            continue
        if isinstance(node, ir.Literal):
            size = len(node.data.decode(errors="replace"))
            known[id(node)] = size, size
        elif isinstance(node, ir.Chars):
            known[id(node)] = 1, 1
        elif isinstance(node, (ir.Nothing, ir.Complement)):
            known[id(node)] = 0, None
        elif not ready:
            stack.append((node, True))
            parts = children(node)
            stack.extend((part, False) for part in parts)
        elif isinstance(node, ir.Repeat):
            low, high = known[id(node.part)]
            known[id(node)] = low * node.low, None if high is None or node.high is None else high * node.high
        else:
            assert isinstance(node, (ir.Concat, ir.Union, ir.Intersection))
            lows = [known[id(part)][0] for part in node.parts]
            highs = [known[id(part)][1] for part in node.parts]
            bounded = [high for high in highs if high is not None]
            if isinstance(node, ir.Concat):
                known[id(node)] = sum(lows), sum(bounded) if len(bounded) == len(highs) else None
            elif isinstance(node, ir.Union):
                known[id(node)] = min(lows), max(bounded) if len(bounded) == len(highs) else None
            else:
                known[id(node)] = max(lows), min(bounded, default=None)
    return known[id(regex)]
