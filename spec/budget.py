"""How many nodes pay: a table of what a pass costs, and the rule of the greatest goodput.

A pass over n texts with B drafted nodes gives n + (sum of the nodes' pi) tokens on average and takes the time of drafting
and of reading n + B tokens. The best B is that of the most tokens per second; it is 0 where reading more tokens costs
more than they bring, and then drafting itself is left out, too, for a while. Times are measured as passes happen; they
decide how fast a text comes and not which one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

_KEEP = 0.8  # of an old measurement, when a new one comes
_LONGEST_REST = 64
_RENEWED = 100


class Budget:
    """What passes cost, measured; and when to draft.

    Attributes:
        limit: nodes of a text at most.
        adapts: whether the rule decides; otherwise it is always `limit`.
    """

    def __init__(self, limit: int, *, adapts: bool = True) -> None:
        """Knows nothing yet.

        Args:
            limit: greatest number of nodes of a text.
            adapts: False to draft as much at all times.
        """
        self.limit = limit
        self.adapts = adapts
        self._costs: dict[int, float] = {}  # width of a pass -> seconds
        self._drafting: dict[int, float] = {}  # number of texts -> seconds of their drafts
        self._rest = 0  # passes without drafts still to come
        self._rests = 0  # rests in a row
        self._drafts = 0  # times that somebody asked whether to draft

    def drafts(self, texts: int) -> bool:
        """Whether to draft for the next pass of so many texts."""
        if not self.limit:
            return False
        if not self.adapts:
            return True
        if self._rest:
            self._rest -= 1
            return False
        self._drafts += 1
        if self._drafts % _RENEWED == 0:
            return False  # what a pass without guesses takes is measured again
        return _rounded(texts) in self._costs or not self._costs

    def nodes(self, pis: Sequence[Sequence[float]]) -> list[int]:
        """How many nodes of each tree to read.

        Args:
            pis: by text, of each node in the order of the tree, falling, the root left out.
        """
        texts = len(pis)
        whole = [len(pi) for pi in pis]
        if not self.adapts or _rounded(texts) not in self._costs or len(self._costs) < 2:
            return whole
        ranked = sorted((pi for tree in pis for pi in tree), reverse=True)
        drafting = self._drafting.get(texts, 0.0)
        best, most, least = 0, texts / self.cost(texts), 0.0
        gained = float(texts)
        for count, pi in enumerate(ranked, 1):
            gained += pi
            speed = gained / (drafting + self.cost(texts + count))
            if speed > most:
                best, most, least = count, speed, pi
        if not best:
            self._rests += 1
            self._rest = min(_LONGEST_REST, 2**self._rests)
            return [0] * texts
        self._rests = 0
        return [sum(pi >= least for pi in tree) for tree in pis]

    def cost(self, width: int) -> float:
        """Seconds of a pass of so many tokens, between and beyond measured widths as on a straight line."""
        known = sorted(self._costs)
        at = bisect_left(known, width)
        if at < len(known) and known[at] == width:
            return self._costs[width]
        if len(known) == 1:
            return self._costs[known[0]]
        low, high = (
            (known[at - 1], known[at]) if 0 < at < len(known)
            else (known[0], known[1]) if at == 0
            else (known[-2], known[-1])
        )  # fmt: skip
        slope = max(0.0, (self._costs[high] - self._costs[low]) / (high - low))
        return max(1e-9, self._costs[low] + slope * (width - low))

    def measured(self, width: int, seconds: float) -> None:
        """A pass of so many tokens took so long."""
        width = _rounded(width)
        old = self._costs.get(width)
        if old is None:
            self._costs[width] = seconds
        else:
            # A pass that something else interrupted says little about the next one.
            self._costs[width] = _KEEP * old + (1 - _KEEP) * min(seconds, 2 * old)

    def drafted(self, texts: int, seconds: float) -> None:
        """The drafts of so many texts took so long."""
        old = self._drafting.get(texts)
        self._drafting[texts] = seconds if old is None else _KEEP * old + (1 - _KEEP) * min(seconds, 2 * old)


def _rounded(width: int) -> int:
    """Widths that are close share an entry: the table stays small."""
    return width if width <= 8 else (width + 3) // 4 * 4 if width <= 32 else (width + 15) // 16 * 16
