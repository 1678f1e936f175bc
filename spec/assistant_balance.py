"""Whether an assistant, which drafts tokens for a larger model, pays: what it costs beside the passes that it saves."""

from __future__ import annotations

import threading

from constrained.spec.sources import DRAFT_SOURCES

INITIAL_BALANCE = 8.0
"""Plain passes that it may lose before it has shown anything."""
MAX_BALANCE = 16.0
PAUSE_CREDIT = 0.02
"""Of a plain pass, for each pass without it: so often it is tried again."""
_ALONE = 1 << DRAFT_SOURCES.index("assistant")


class AssistantBalance:
    """Whether the assistant of a model pays: what it costs beside the passes that it saves. Safe to share between threads.

    Attributes:
        balance: what it has saved, in plain passes of the model, at most `MAX_BALANCE`; while it is not above 0, the assistant pauses.
    """

    def __init__(self) -> None:
        self.balance = INITIAL_BALANCE
        self._pass_cost = 0.0  # of a pass of the assistant, in plain passes of the model
        self._drawn_alike = 0.7  # share of tokens that both models draw
        self._lock = threading.Lock()

    def affords(self) -> bool:
        """Whether the assistant writes before the next pass."""
        with self._lock:
            if self.balance > 0:
                return True
            self.balance += PAUSE_CREDIT
            return False

    @property
    def least(self) -> float:
        """Probability that the tokens so far are accepted from which on one more token is worth a pass of the assistant."""
        with self._lock:
            return max(0.1, self._pass_cost)

    @property
    def drawn_alike(self) -> float:
        """Share of the tokens, drawn at a temperature, that both models have drawn alike: they share the noise."""
        with self._lock:
            return self._drawn_alike

    def spend(self, passes: float, own: int) -> None:
        """Charges for what was written before a pass.

        Args:
            passes: its time, in plain passes of the model.
            own: passes of the assistant in that time; 0: most of it went into a longer text.
        """
        with self._lock:
            self.balance -= passes
            if own:
                self._pass_cost += 0.2 * (passes / own - self._pass_cost)

    def compare(self, alike: int, parted: bool) -> None:
        """Records how many tokens were drawn alike, and whether another one came behind them."""
        with self._lock:
            for hit in [1.0] * alike + [0.0] * parted:
                self._drawn_alike += 0.05 * (hit - self._drawn_alike)

    def record_origin(self, origin: int) -> None:
        """Credits an accepted token that no other source has proposed: a pass was saved.

        Args:
            origin: the sources that proposed a token of the text, as bits; 0: none did.
        """
        if origin != _ALONE:
            return
        with self._lock:
            self.balance = min(MAX_BALANCE, self.balance + 1.0)
