"""Who takes part in the next step of a batch: clients share the time of the thread that owns the model.

While one client is about, all of its sequences take part, as far as the batch has room. While several are, clients are served
in turn, by the time that they have had lately (a leaky bucket for each: what a client has had leaks away at the rate of its fair
share, down to nothing):

* A client takes part unless it has had more time than another one that wants some, so a client with much to do waits for one
  with little. One that uses less than its share has had nothing, as one that comes or comes back: neither of them waits for the
  other, and an absence saves up nothing. One that uses all there is has had a little more, and lets both of them begin at once.
* Each client has one sequence in a step. Further ones take part only as far as they cost little: where a step of the model
  takes nearly as long for many sequences as for one, as on a GPU. What a step costs is learned from the steps.

Nobody waits for more than one step of others, and that is short.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

_CREDIT = 0.25
"""Seconds that a client has had at most beyond the next one: what a client that arrives may use up before it takes turns."""

_WINDOW = 0.1
"""Seconds that a client may have had more than another one and still take part. Less than the credit."""

_LINGER = 2.0
"""Seconds for which a client without requests counts as one that is about."""

_TURN = 32
"""Tokens after which a sequence leaves its seat to another one of its client."""

_FORGET = 0.99
"""How much an earlier step counts beside the next one, for what steps cost."""


class Seated(Protocol):
    """A sequence, as far as it matters here.

    Attributes:
        length: tokens of its completion so far.
    """

    @property
    def length(self) -> int:
        """See above."""


MemberT = TypeVar("MemberT", bound=Seated)


@dataclass(slots=True)
class _Share:
    seen: float  # when it was here
    had: float = 0.0  # seconds lately
    waits: bool = False


class StepCosts:
    """What a step takes, as ``fixed + each * sequences``: least squares over the last steps, older ones less."""

    def __init__(self) -> None:
        self._sums = [0.0] * 5  # of 1, x, y, x x, x y
        self._extra = 0.0

    def record(self, sequences: int, seconds: float) -> None:
        """Adds a step."""
        new = (1.0, sequences, seconds, sequences * sequences, sequences * seconds)
        self._sums = [_FORGET * old + one for old, one in zip(self._sums, new, strict=True)]
        count, x, y, xx, xy = self._sums
        spread = count * xx - x * x
        if spread < 0.05 * count * count:  # nearly all steps had as many sequences: what is known stays
            return
        each = (count * xy - x * y) / spread
        fixed = (y - each * x) / count
        self._extra = max(0.0, fixed / each) if each > 0 else float("inf")

    @property
    def extra(self) -> float:
        """How many further sequences a step can have until they take as long as what it takes without any; 0 if unknown."""
        return self._extra


class Seats(Generic[MemberT]):
    """Chooses who takes part in steps. For the scheduler's thread.

    Attributes:
        costs: of steps.

    Args:
        rows: greatest number of sequences in a step.
        clock: seconds, for tests.
    """

    def __init__(self, rows: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.costs = StepCosts()
        self._rows = rows
        self._clock = clock
        self._shares: dict[str, _Share] = {}
        self._leaked = clock()  # until when

    def enter(self, clients: Collection[str]) -> None:
        """Says which clients have sequences or wait for a seat; the others are forgotten after a while."""
        now = self._clock()
        for name in clients:
            self._shares.setdefault(name, _Share(now)).seen = now
        for name, client in list(self._shares.items()):
            if now - client.seen > _LINGER:
                del self._shares[name]
        self._leak(now)

    def _leak(self, now: float) -> None:
        # Half of the time at least is left to who may come: a client that is alone has had some of it when another one arrives.
        share = (now - self._leaked) / max(2, len(self._shares))
        self._leaked = now
        below = drop = 0.0
        for client in sorted(self._shares.values(), key=lambda one: one.had):
            drop += max(0.0, client.had - drop - below - _CREDIT)
            client.had = below = client.had - drop
        for client in self._shares.values():
            client.had = max(0.0, client.had - share)

    @property
    def shared(self) -> bool:
        """Whether several clients are about."""
        return len(self._shares) > 1

    def had(self, client: str) -> float:
        """Seconds that a client has had lately: who has had least is next."""
        return self._shares[client].had

    def most(self, client: str, wanting: Collection[str]) -> int:
        """How many sequences of a client may take part in the next step, if it has as many.

        Args:
            client: one of those that want seats.
            wanting: the clients that want seats.
        """
        if not self.shared:
            return self._rows
        ready = self._ready(wanting)
        if client not in ready:
            return 0
        share, rest = divmod(self._surplus(ready), len(ready))
        return 1 + share + (ready.index(client) < rest)

    def choose(self, groups: Mapping[str, Sequence[MemberT]]) -> list[MemberT]:
        """The sequences that take part in the next step.

        Args:
            groups: the sequences of each client, in the order in which they came.
        """
        if not self.shared:
            return [member for group in groups.values() for member in group][: self._rows]
        ready = self._ready(list(groups))[: self._rows]
        queues = {name: sorted(groups[name], key=lambda member: member.length // _TURN) for name in ready}
        chosen = [queues[name].pop(0) for name in ready]
        left = self._surplus(ready)
        while left > 0 and any(queues.values()):
            for name in ready:
                if left > 0 and queues[name]:
                    chosen.append(queues[name].pop(0))
                    left -= 1
        return chosen

    def charge(self, client: str, seconds: float) -> None:
        """Adds to the time that a client has had lately."""
        if client in self._shares:
            self._shares[client].had += seconds

    def _ready(self, wanting: Collection[str]) -> list[str]:
        """The clients that take part in the next step, those that have had least first."""
        order = sorted(wanting, key=lambda name: self._shares[name].had)
        if not order:
            return []
        least = self._shares[order[0]].had
        for name in order:
            client = self._shares[name]
            # One that waits comes back a little later, so that it does not leave with its next step.
            client.waits = client.had - least > (_WINDOW / 2 if client.waits else _WINDOW)
        return [name for name in order if not self._shares[name].waits]

    def _surplus(self, ready: Sequence[str]) -> int:
        """Seats beside one for each client."""
        return max(0, min(self._rows - len(ready), int(min(self.costs.extra, self._rows))))
