"""Membership of one string in a regular language, without an automaton, in time polynomial in its length.

The front ends use it for names and values in a constraint. Every node maps the positions where a match may start to those
where it may end; complement and intersection are computed position by position.
"""

from __future__ import annotations

from constrained.grammars import ir
from constrained.grammars.regex.occurrences import Occurrences
from constrained.grammars.work import spend


def matches(regex: ir.Regex, text: str | bytes) -> bool:
    """Whether the whole string is in the language.

    Raises:
        RecursionError: the expression is nested some hundreds of levels deep.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return len(data) in _RegexMatcher(data).ends(regex, 0)


class _RegexMatcher:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.known: dict[tuple[int, int], frozenset[int]] = {}

    def ends(self, node: ir.Regex, start: int) -> frozenset[int]:
        """Every position where a string of `node` that starts at `start` may end."""
        key = (id(node), start)
        positions = self.known.get(key)
        if positions is None:
            positions = self.known[key] = frozenset(self.compute(node, start))
            spend(1 + len(positions) // 16)
        return positions

    def compute(self, node: ir.Regex, start: int) -> set[int] | frozenset[int]:
        data = self.data
        if isinstance(node, ir.Literal):
            return {start + len(node.data)} if data.startswith(node.data, start) else set()
        if isinstance(node, ir.Chars):
            return self.character(node, start)
        if isinstance(node, ir.Concat):
            places: set[int] | frozenset[int] = {start}
            for part in node.parts:
                spend(len(places) // 2)
                places = {end for place in places for end in self.ends(part, place)}
            return places
        if isinstance(node, ir.Union):
            return {end for part in node.parts for end in self.ends(part, start)}
        if isinstance(node, ir.Intersection):
            return frozenset.intersection(*(self.ends(part, start) for part in node.parts))
        if isinstance(node, ir.Complement):
            return set(range(start, len(data) + 1)) - self.ends(node.part, start)
        if isinstance(node, ir.Repeat):
            return self.repeat(node, start)
        if isinstance(node, ir.DecimalMultiple):
            return self.multiple(node, start)
        if isinstance(node, ir.Substring):
            return self.substring(node, start)
        return set()

    def substring(self, node: ir.Substring, start: int) -> set[int]:
        occurrences = Occurrences(node)
        places = occurrences.starts()
        lengths = sorted({len(data) for data in occurrences.by_spelling})
        found, at, count = set(), start, 0
        while places:
            if count >= node.least and occurrences.may_end(places):
                found.add(at)
            ends = (
                at + length for length in lengths if self.data[at : at + length] in occurrences.by_spelling
            )
            end = next(ends, None)
            if end is None:
                break
            symbol = occurrences.by_spelling[self.data[at:end]]
            places, at, count = occurrences.after(places, symbol, first=count == 0), end, count + 1
        return found

    def character(self, node: ir.Chars, start: int) -> set[int]:
        for size in range(1, min(4, len(self.data) - start) + 1):
            try:
                code = ord(self.data[start : start + size].decode())
            except UnicodeDecodeError:
                continue
            low, high = 0, len(node.ranges)
            while low < high:
                middle = (low + high) // 2
                if node.ranges[middle][1] < code:
                    low = middle + 1
                else:
                    high = middle
            return {start + size} if low < len(node.ranges) and node.ranges[low][0] <= code else set()
        return set()

    def multiple(self, node: ir.DecimalMultiple, start: int) -> set[int]:
        positions = set()
        before, point = 0, start if node.form == "fraction" else None
        value = node.residue  # of all digits up to here
        other = False  # whether a digit behind the places was not zero
        places, zeros = node.places, 0  # places that are still to come, zeros behind them
        for at in range(start, len(self.data) + 1):
            if point is None:
                enough = node.low <= before
            else:
                enough = at > point or (node.form == "fraction" and node.low == 0)
            whole = value * 10**places
            if node.beyond:
                enough = point is not None and places == 0 and other
            if enough and whole % node.modulus == 0 and all(whole % other for other in node.excluded):
                positions.add(at)
            byte = self.data[at : at + 1]
            if byte == b"." and node.form == "number" and point is None and node.low <= before:
                point = at + 1
            elif not (byte and byte in b"0123456789"):
                break
            elif point is None:
                before += 1
                if node.high is not None and before > node.high:
                    break
                value = value * 10 + int(byte)
            elif places:
                value, places = value * 10 + int(byte), places - 1
            else:
                zeros += 1
                other = other or byte != b"0"
                if (byte != b"0" and not node.beyond) or (node.zeros is not None and zeros > node.zeros):
                    break
        return positions

    def repeat(self, node: ir.Repeat, start: int) -> set[int]:
        positions: set[int] = {start} if node.low == 0 else set()
        places: frozenset[int] = frozenset((start,))
        seen: dict[frozenset[int], int] = {places: 0}
        count = 0
        while places and (node.high is None or count < node.high):
            spend(1 + len(places) // 2)
            places = frozenset(end for place in places for end in self.ends(node.part, place))
            count += 1
            if count >= node.low:
                positions |= places
            if places in seen:  # the sets repeat: skip whole periods
                period = count - seen[places]
                if count >= node.low + period:
                    break
                if node.low > count:
                    count += (node.low - count) // period * period
                    if count >= node.low:
                        positions |= places
                seen.clear()
            seen[places] = count
        return positions
