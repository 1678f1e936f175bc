"""Drafts that are made ready when the first one is asked for: a text for which nothing is guessed costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spec.drafts import DrafterProtocol, DraftTreeProtocol
from spec.sources import DRAFT_SOURCES

_NONE = (0,) * len(DRAFT_SOURCES)


class LazyDrafter:
    """The drafts of one text, as `spec.drafts.DrafterProtocol`; while they rest, what the text says is only noted down.

    Attributes:
        active: the last pass was drafted for.
    """

    def __init__(self, make: Callable[[], DrafterProtocol]) -> None:
        """Makes nothing yet.

        Args:
            make: a drafter where the text begins.
        """
        self._make = make
        self._drafter: DrafterProtocol | None = None
        self._said: list[int] = []
        self.active = False

    def draft(self, nodes: int, depth: int = 1 << 30) -> DraftTreeProtocol:
        """The best tree at the end of the text; what it said while the drafts rested is learned now."""
        drafter = self._drafter
        if drafter is None:
            drafter = self._drafter = self._make()
        for token in self._said:
            drafter.commit(token)
        self._said.clear()
        self.active = True
        return drafter.draft(nodes, depth)

    def pause(self) -> None:
        """Nothing is guessed for the next pass."""
        self.active = False

    def commit(self, token: int) -> None:
        """The text went on with a token."""
        if self.active and self._drafter is not None:
            self._drafter.commit(token)
        else:
            self._said.append(token)

    def mark_verified(self, nodes: int) -> None:
        """So many nodes of the tree were read by the model."""
        if self._drafter is not None:
            self._drafter.mark_verified(nodes)

    def observe_top_tokens(self, top_tokens: list[int]) -> None:
        """What the model finds likely after the last token, best first."""
        if self.active and self._drafter is not None:
            self._drafter.observe_top_tokens(top_tokens)

    def prime(self, tokens: Sequence[int]) -> None:
        """See `DrafterProtocol.prime`."""
        if self._drafter is None:
            self._drafter = self._make()
        self._drafter.prime(tokens)

    def copy(self) -> LazyDrafter:
        """Drafts for a text that begins as this one does."""
        twin = LazyDrafter(self._make)
        twin._drafter = None if self._drafter is None else self._drafter.copy()
        twin._said = list(self._said)
        twin.active = self.active
        return twin

    @property
    def drafted_total(self) -> int:
        """Nodes that were read so far."""
        return 0 if self._drafter is None else self._drafter.drafted_total

    @property
    def accepted_total(self) -> int:
        """Of these, how many became tokens of the text."""
        return 0 if self._drafter is None else self._drafter.accepted_total

    @property
    def drafted_by_source(self) -> Sequence[int]:
        """Nodes that were read, by source."""
        return _NONE if self._drafter is None else self._drafter.drafted_by_source

    @property
    def accepted_by_source(self) -> Sequence[int]:
        """Of these, how many became tokens of the text."""
        return _NONE if self._drafter is None else self._drafter.accepted_by_source
