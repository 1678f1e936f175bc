"""How many nodes pay: a table of what passes cost, the rule of the greatest goodput, and an account of what guessing brings.

A pass that reads B nodes behind each of n texts gives n + (sum of the nodes' pi) tokens on average, and takes the time of
drafting and of reading 1 + B tokens a text. The best B is that of the most tokens per second; it is 0 where reading more
tokens costs more than they bring. That decides about a pass.

Whether to draft at all is decided by what came of it, for pi may be wrong, and drafts that are not read cost time, too.
The account counts in plain passes: what passes with guesses took beyond a plain one is taken from it, every token that
came without a pass of its own is paid in, and each plain pass pays in a hundredth. While it is empty nothing is guessed.
So in the long run guessing costs a hundredth of the time at most; and where it begins to pay, the first trial that
succeeds fills the account.

Times are measured as passes happen; they decide how fast a text comes and not which one.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import zip_longest
from statistics import median

_SHARE = 0.01  # of a plain pass, paid in for each: what trials may cost
_LENT = 0.5  # plain passes that are in the account at first
_MOST = 2.0  # and at most: so much is lost before guessing ends that has paid before
_BEFORE = 3  # plain passes are measured before anything is tried
_RENEWED = 64  # passes with guesses after which a plain one is measured again
_WIDER = 32  # one of so many passes with guesses tries more than seems best
_STEP = 4  # times the widest pass that was measured: costs beyond are not guessed at
_KEPT = 5  # measurements of a width
_CLIPPED = 2.0  # times what is usual: a pass that takes longer was interrupted by something else
_FIRST = 4  # nodes of the first drafts


class PassCosts:
    """What passes take, by the tokens they read of each text: medians of the last measurements (of two, the shorter)."""

    def __init__(self) -> None:
        """Knows nothing yet."""
        self._seconds: dict[int, deque[float]] = {}
        self._changed: set[int] = set()
        self._usual: dict[int, float] = {}
        self._known: list[tuple[int, float]] = []

    def record(self, width: int, seconds: float) -> None:
        """A pass that read so many tokens of each text took so long."""
        width = _rounded(width)
        kept = self._seconds.setdefault(width, deque(maxlen=_KEPT))
        kept.append(seconds)
        self._changed.add(width)

    @property
    def _curve(self) -> list[tuple[int, float]]:
        """What is known, by width, made anew only when somebody asks: most passes are plain, and nobody does."""
        if self._changed:
            for width in self._changed:
                kept = self._seconds[width]
                self._usual[width] = sorted(kept)[(len(kept) - 1) // 2]
            self._changed.clear()
            curve, least = [], float("inf")
            # Reading more is never faster: a pass that something else interrupted is corrected by wider ones.
            for width in sorted(self._usual, reverse=True):
                least = min(least, self._usual[width])
                curve.append((width, least))
            self._known = curve[::-1]
        return self._known

    def sample_count(self, width: int) -> int:
        """How many measurements of this width are kept."""
        return len(self._seconds.get(_rounded(width), ()))

    @property
    def max_width(self) -> int:
        """That was measured; 0 if nothing was."""
        return max(self._seconds, default=0)

    def predict_seconds(self, width: int) -> float:
        """Of a pass, between and beyond measured widths as on a straight line.

        Where a single width was measured, every token is taken to cost as much.
        """
        curve = self._curve
        at = bisect_left(curve, (width, 0.0))
        if at < len(curve) and curve[at][0] == width:
            return curve[at][1]
        if len(curve) == 1:
            return curve[0][1] * width / curve[0][0]
        (left, low), (right, high) = (
            (curve[at - 1], curve[at])
            if 0 < at < len(curve)
            else (curve[0], curve[1])
            if at == 0
            else curve[-2:]
        )
        return max(1e-9, low + (high - low) / (right - left) * (width - left))


class DraftBudget:
    """What passes of a number of texts cost, measured; and when to draft. Safe to share between threads.

    Attributes:
        max_nodes: nodes of a text at most.
        adapts: whether the rule decides; otherwise it is always `limit`.
        costs: by tokens of a text, in seconds for each text of the pass.
        balance: what guessing has brought, in plain passes, between what it may owe and a few.
    """

    def __init__(self, limit: int, *, adapts: bool = True) -> None:
        """Knows nothing yet.

        Args:
            limit: greatest number of nodes of a text.
            adapts: False to draft as much at all times.
        """
        self.max_nodes = limit
        self.adapts = adapts
        self.costs = PassCosts()
        self.balance = _LENT
        self._reach = float(_FIRST)  # nodes worth drafting
        self._asked = 1  # nodes that were drafted last
        self._drafting: deque[float] = deque(maxlen=_KEPT)  # seconds a node
        self._since = 0  # passes with guesses since the last plain one
        self._read = 0  # passes with guesses
        self._left = False  # the last pass read a tree
        self._lock = threading.Lock()

    def draft_size(self) -> int:
        """How many nodes to draft for each text before the next pass; 0: none."""
        if not self.adapts:
            return self.max_nodes
        with self._lock:
            if self.costs.sample_count(1) < _BEFORE or self._since >= _RENEWED or self.balance <= 0:
                return 0
            if self._drafting:
                dear = median(self._drafting) / self.costs.predict_seconds(1)
                self._reach = max(1.0, min(self._reach, self._stake / dear))
            self._asked = min(self.max_nodes, int(self._reach))
            return self._asked

    def verify_sizes(self, pis: Sequence[Sequence[float]], drafting: float = 0.0) -> list[int]:
        """How many nodes of each tree to read.

        Rows of a pass are padded to the longest: they get the same number, where their trees have as many.

        Args:
            pis: by text, of each node in the order of the tree, falling, the root left out.
            drafting: seconds that drafting took.
        """
        sizes = [len(pi) for pi in pis]
        if not self.adapts:
            return sizes
        with self._lock:
            best = self._best(pis, drafting)
        return [min(best, size) for size in sizes]

    def record_pass(
        self, sequences: int, nodes: int, seconds: float, drafting: float = 0.0, *, plain: bool = True
    ) -> None:
        """A pass is over.

        Args:
            sequences: that it read.
            nodes: of the largest tree.
            seconds: it took.
            drafting: seconds of the drafts, read or not.
            plain: it read one token of each text before the trees; otherwise (a prompt) its time says nothing.
        """
        if not self.adapts:
            return
        with self._lock:
            costs = self.costs
            clears, self._left = self._left and not nodes, nodes > 0
            if plain and not (drafting or nodes or clears):
                costs.record(1, seconds / sequences)
                self._since = 0
                self._pay(_SHARE)
                return
            if not costs.max_width:
                return
            usual = costs.predict_seconds(1 + nodes)
            # The first plain pass after a tree also clears away what is left of it: it is charged for, and not measured.
            if plain and not clears:
                costs.record(1 + nodes, seconds / sequences)
            unit, loss = costs.predict_seconds(1), 0.0
            if drafting:
                self._drafting.append(drafting / sequences / self._asked)
                loss = min(drafting / sequences, _CLIPPED * self._asked * median(self._drafting)) / unit
            if nodes:
                self._since += 1
                self._read += 1
                loss += (min(seconds / sequences, _CLIPPED * usual) if plain else usual) / unit - 1
            elif clears and plain:
                loss += max(0.0, min(seconds / sequences / unit, _CLIPPED) - 1) - _SHARE
            elif plain:
                self._since = 0
                loss -= _SHARE
            self._pay(-loss)

    def record_accepted(self, sequences: int, tokens: int) -> None:
        """So many tokens of a pass over so many texts had been guessed."""
        if self.adapts and tokens:
            with self._lock:
                self._pay(tokens / sequences)

    @property
    def _stake(self) -> float:
        """What the next pass may lose, in plain passes: one more than there is."""
        return 1.0 + max(0.0, self.balance)

    def _pay(self, passes: float) -> None:
        self.balance = min(_MOST, self.balance + passes)

    def _best(self, pis: Sequence[Sequence[float]], drafting: float) -> int:
        texts, costs = len(pis), self.costs
        if costs.max_width <= 1:
            return costs.max_width  # what a node costs is found out by one of them
        unit = costs.predict_seconds(1)
        drafting /= texts
        stake = unit * (1 + self._stake)
        furthest = _STEP * costs.max_width
        best, most, gained, largest = 0, 1 / (drafting + unit), 1.0, 0
        for count, level in enumerate(zip_longest(*pis, fillvalue=0.0), 1):
            cost = costs.predict_seconds(1 + count)
            if cost > stake or 1 + count > furthest:
                break
            largest = count
            gained += sum(level) / texts
            if gained / (drafting + cost) > most:
                best, most = count, gained / (drafting + cost)
        if best and self.balance >= _MOST and self._read % _WIDER == _WIDER - 1:
            best = min(largest, 2 * best)
        self._reach = max(float(_FIRST), 1.5 * best + 1, 0.8 * self._reach)
        return best


def _rounded(width: int) -> int:
    """Widths that are close share an entry: the table stays small."""
    if width <= 4:
        return width
    step = 2 if width <= 8 else 4 if width <= 32 else 16
    return (width + step // 2) // step * step
