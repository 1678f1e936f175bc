"""The draft length controller: a cost model of forward passes, the draft size of greatest throughput, and a balance.

A pass that verifies B draft tokens for each of n sequences yields n + (sum of their path probabilities) tokens on
average, and takes the time of drafting and of reading 1 + B tokens a sequence. The best B maximises tokens per second;
it is 0 where reading more tokens costs more than they bring. This decides about the size of one pass.

Whether to draft at all is decided by results: the probabilities may be wrong, and drafts that are not verified cost time
too. A balance, in units of one plain pass (a pass without draft tokens), is charged for the time that passes with drafts
take beyond a plain one, and credited for each accepted token and with `PLAIN_CREDIT` for each plain pass. While the balance
is not positive, nothing is drafted. So speculation that does not pay costs 3 % of the time at most in the long
run; once it pays, the first successful trial fills the balance. A hundredth in the place of `PLAIN_CREDIT` made pauses
longer than most texts are, after one bad trial.

Passes are timed as they happen. The first one of a width may compile kernels and capture graphs, which can take as long as a
thousand passes: where it takes far longer than predicted, it is not measured. Times affect latency and throughput only, never which
tokens are generated.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import compress, repeat, zip_longest
from statistics import median

PLAIN_CREDIT = 0.03  # plain passes; credited for each plain pass: pays for trials
INITIAL_BALANCE = 2.0  # plain passes
MAX_BALANCE = 6.0  # plain passes; bounds the loss before unprofitable speculation stops
MAX_STAKE = 3.0  # plain passes; bounds the loss of one pass
MIN_PLAIN_SAMPLES = 3  # plain passes measured before the first draft
REMEASURE_AFTER = 64  # passes with draft tokens between two measurements of a plain one
MAX_EXTRAPOLATION = 4  # times the widest measured pass; costs beyond it are unknown
SAMPLES_PER_WIDTH = 5
OUTLIER_FACTOR = 2.0  # times the usual time: a longer pass was interrupted by another process
PASSES_PER_SLOT = (
    0.08  # plain passes that knowing the beginning of a value ahead saves; measured: 0.03 to 0.1
)
INITIAL_NODES = 8  # of the first draft trees


class PassCosts:
    """Seconds of forward passes by width, the number of tokens read per sequence: lower medians of the last samples."""

    def __init__(self) -> None:
        """An empty table."""
        self._seconds: dict[int, deque[float]] = {}
        self._changed: set[int] = set()
        self._usual: dict[int, float] = {}
        self._known: list[tuple[int, float]] = []

    def record(self, width: int, seconds: float) -> None:
        """Records the seconds, per sequence, of a pass of this width."""
        width = _rounded(width)
        samples = self._seconds.setdefault(width, deque(maxlen=SAMPLES_PER_WIDTH))
        samples.append(seconds)
        self._changed.add(width)

    @property
    def _curve(self) -> list[tuple[int, float]]:
        """(width, seconds), ascending; computed on demand, as most passes are plain and need no prediction."""
        if self._changed:
            for width in self._changed:
                samples = self._seconds[width]
                self._usual[width] = sorted(samples)[(len(samples) - 1) // 2]
            self._changed.clear()
            curve, least = [], float("inf")
            # Seconds must not fall with the width: the times of wider passes correct an interrupted narrow one.
            for width in sorted(self._usual, reverse=True):
                least = min(least, self._usual[width])
                curve.append((width, least))
            self._known = curve[::-1]
        return self._known

    @property
    def widths(self) -> int:
        """Number of measured widths."""
        return len(self._seconds)

    @property
    def max_width(self) -> int:
        """The widest measured pass; 0 if there is none."""
        return max(self._seconds, default=0)

    def predict_seconds(self, width: int) -> float:
        """Seconds of a pass of this width: linear between and beyond measured widths.

        With one measured width, seconds are proportional to the width.
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
    """Decides when to draft, and how much, for batches of about one size. Safe to share between threads.

    Attributes:
        max_nodes: draft tokens of one sequence and pass, at most.
        adapts: whether measurements decide; otherwise every draft has `max_nodes`.
        costs: seconds per sequence by tokens per sequence.
        balance: time that speculation has saved, in plain passes, at most `MAX_BALANCE`.
    """

    def __init__(self, limit: int, *, adapts: bool = True) -> None:
        """A budget without measurements.

        Args:
            limit: draft tokens of one sequence and pass, at most.
            adapts: False for drafts of `limit` nodes in every pass.
        """
        self.max_nodes = limit
        self.adapts = adapts
        self.costs = PassCosts()
        self.balance = INITIAL_BALANCE
        self._promising_nodes = float(INITIAL_NODES)  # nodes that may be worth drafting
        self._requested_nodes = 1  # nodes of the last draft request
        self._drafting: deque[float] = deque(maxlen=SAMPLES_PER_WIDTH)  # seconds per node
        self._plain_passes = 0  # measured
        self._since_plain = 0  # passes with draft tokens since the last plain one
        self._last_had_draft = False  # the last pass had draft tokens
        self._seen: set[int] = set()  # widths of passes with draft tokens
        self._lock = threading.Lock()

    @property
    def plain_seconds(self) -> float:
        """Of a pass without drafts; 0 before one was measured, infinite where measurements do not decide."""
        if not self.adapts:
            return math.inf
        with self._lock:
            return self.costs.predict_seconds(1) if self.costs.widths else 0.0

    def draft_size(self) -> int:
        """Nodes to draft for each sequence before the next pass; 0: no draft."""
        if not self.adapts:
            return self.max_nodes
        with self._lock:
            if (
                self._plain_passes < MIN_PLAIN_SAMPLES
                or self._since_plain >= REMEASURE_AFTER
                or self.balance <= 0
            ):
                return 0
            if self._drafting:
                node_cost = median(self._drafting) / self.costs.predict_seconds(1)
                self._promising_nodes = max(1.0, min(self._promising_nodes, self._stake / node_cost))
            self._requested_nodes = min(self.max_nodes, int(self._promising_nodes))
            return self._requested_nodes

    def verify_sizes(
        self,
        path_probabilities: Sequence[Sequence[float]],
        drafting: float = 0.0,
        *,
        unread: int = 1,
        jumps: Sequence[Sequence[bool]] = (),
    ) -> list[int]:
        """How many nodes of each tree to verify.

        A pass is padded to its longest sequence, so all trees that are large enough get one number.

        Args:
            path_probabilities: of the nodes of each sequence's tree, without the root; descending.
            drafting: seconds that drafting took.
            unread: tokens that the pass reads before the trees, at most.
            jumps: of the same nodes, whether the next token is written without their logits: then they save no pass, but a later one
                need not read them.
        """
        sizes = [len(probabilities) for probabilities in path_probabilities]
        if not self.adapts:
            return sizes
        with self._lock:
            best = self._best(path_probabilities, jumps, drafting, unread)
        return [min(best, size) for size in sizes]

    def affords_probe(self, nodes: int, probed: int, slots: int) -> bool:
        """Whether to read a probe beside a tree: it costs no more than it may save.

        Args:
            nodes: of the tree, which are read anyway.
            probed: nodes of the probe.
            slots: that it asks about.
        """
        if not self.adapts:
            return True
        with self._lock:
            costs = self.costs
            if costs.widths < 2 or 1 + nodes + probed > MAX_EXTRAPOLATION * costs.max_width:
                return False
            added = costs.predict_seconds(1 + nodes + probed) - costs.predict_seconds(1 + nodes)
            return added <= PASSES_PER_SLOT * slots * costs.predict_seconds(1)

    def record_pass(
        self,
        sequences: int,
        nodes: int,
        seconds: float,
        drafting: float = 0.0,
        *,
        unread: int = 1,
        comparable: bool = True,
    ) -> None:
        """Records a forward pass.

        Args:
            sequences: in the batch.
            nodes: of the largest tree.
            seconds: of the pass.
            drafting: seconds of drafting, whether the drafts were verified or not.
            unread: tokens that it read before the trees, at most.
            comparable: with other passes: it read no prompt, and no texts that are no drafts.
        """
        if not self.adapts:
            return
        with self._lock:
            costs = self.costs
            clears, self._last_had_draft = self._last_had_draft and not nodes, nodes > 0
            if comparable and not (drafting or nodes or clears):
                costs.record(unread, seconds / sequences)
                self._plain_passes += 1
                self._since_plain = 0
                self._credit(PLAIN_CREDIT)
                return
            if not costs.widths:
                return
            width = unread + nodes
            usual, alone = costs.predict_seconds(width), costs.predict_seconds(unread)
            first = nodes > 0 and _rounded(width) not in self._seen
            self._seen.add(_rounded(width))
            prepares = first and seconds / sequences > OUTLIER_FACTOR * usual
            # The first plain pass after a tree also removes rejected nodes from the cache: charged for, but not measured.
            if comparable and not (clears or prepares):
                costs.record(width, seconds / sequences)
            plain_seconds, loss = costs.predict_seconds(1), 0.0
            if drafting:
                self._drafting.append(drafting / sequences / self._requested_nodes)
                loss = (
                    min(drafting / sequences, OUTLIER_FACTOR * self._requested_nodes * median(self._drafting))
                    / plain_seconds
                )
            if nodes:
                self._since_plain += 1
                took = (
                    min(seconds / sequences, OUTLIER_FACTOR * usual) if comparable and not prepares else usual
                )
                loss += (took - alone) / plain_seconds
            elif clears and comparable:
                took = min(seconds / sequences, OUTLIER_FACTOR * alone)
                loss += max(0.0, took - alone) / plain_seconds - PLAIN_CREDIT
            elif comparable:
                self._since_plain = 0
                loss -= PLAIN_CREDIT
            self._credit(-loss)

    def record_accepted(self, sequences: int, tokens: int) -> None:
        """Credits the accepted draft tokens of a pass over some sequences."""
        if self.adapts and tokens:
            with self._lock:
                self._credit(tokens / sequences)

    @property
    def _stake(self) -> float:
        """What the next pass may lose, in plain passes: one more than the balance, up to `MAX_STAKE`."""
        return min(MAX_STAKE, 1.0 + max(0.0, self.balance))

    def _credit(self, passes: float) -> None:
        self.balance = min(MAX_BALANCE, self.balance + passes)

    def _best(
        self,
        path_probabilities: Sequence[Sequence[float]],
        jumps: Sequence[Sequence[bool]],
        drafting: float,
        unread: int,
    ) -> int:
        sequences, costs = len(path_probabilities), self.costs
        if costs.widths < 2:
            return costs.widths  # the first draft token that is verified shows what one costs
        alone = before = costs.predict_seconds(unread)
        drafting /= sequences
        stake = alone + costs.predict_seconds(1) * self._stake
        furthest = MAX_EXTRAPOLATION * costs.max_width
        best, most, gained, later = 0, 1 / (drafting + alone), 1.0, 0.0
        levels = zip_longest(*path_probabilities, fillvalue=0.0)
        kinds = zip_longest(*jumps, fillvalue=False) if jumps else repeat((False,) * sequences)
        for count, (level, kind) in enumerate(zip(levels, kinds, strict=False), 1):
            cost = costs.predict_seconds(unread + count)
            if cost > stake or unread + count > furthest:
                break
            saved = sum(compress(level, kind)) / sequences
            gained += sum(level) / sequences - saved
            later += saved * (cost - before)
            before = cost
            if gained / (drafting + cost - later) > most:
                best, most = count, gained / (drafting + cost - later)
        self._promising_nodes = max(float(INITIAL_NODES), 1.5 * best + 1, 0.8 * self._promising_nodes)
        return best


def _rounded(width: int) -> int:
    """The entry of a width: neighbouring widths share one, so that the table stays small."""
    if width <= 4:
        return width
    step = 2 if width <= 8 else 4 if width <= 32 else 16
    return (width + step // 2) // step * step
