"""Drafts that are made ready when the first one is asked for: a text for which nothing is guessed costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spec.drafts import Drafting, Tree
from spec.sources import SOURCES

_NONE = (0,) * len(SOURCES)


class Waiting:
    """The drafts of one text, as `spec.drafts.Drafting`; while they rest, what the text says is only noted down.

    Attributes:
        awake: the last pass was drafted for.
    """

    def __init__(self, make: Callable[[], Drafting]) -> None:
        """Makes nothing yet.

        Args:
            make: a drafter where the text begins.
        """
        self._make = make
        self._drafter: Drafting | None = None
        self._said: list[int] = []
        self.awake = False

    def draft(self, nodes: int, depth: int = 1 << 30) -> Tree:
        """The best tree at the end of the text; what it said while the drafts rested is learned now."""
        drafter = self._drafter
        if drafter is None:
            drafter = self._drafter = self._make()
        for token in self._said:
            drafter.commit(token)
        self._said.clear()
        self.awake = True
        return drafter.draft(nodes, depth)

    def rest(self) -> None:
        """Nothing is guessed for the next pass."""
        self.awake = False

    def commit(self, token: int) -> None:
        """The text went on with a token."""
        if self.awake and self._drafter is not None:
            self._drafter.commit(token)
        else:
            self._said.append(token)

    def read(self, nodes: int) -> None:
        """So many nodes of the tree were read by the model."""
        if self._drafter is not None:
            self._drafter.read(nodes)

    def see(self, favourites: list[int]) -> None:
        """What the model finds likely after the last token, best first."""
        if self.awake and self._drafter is not None:
            self._drafter.see(favourites)

    def rehearse(self, tokens: Sequence[int]) -> None:
        """See `Drafting.rehearse`."""
        if self._drafter is None:
            self._drafter = self._make()
        self._drafter.rehearse(tokens)

    def copy(self) -> Waiting:
        """Drafts for a text that begins as this one does."""
        twin = Waiting(self._make)
        twin._drafter = None if self._drafter is None else self._drafter.copy()
        twin._said = list(self._said)
        twin.awake = self.awake
        return twin

    @property
    def nodes(self) -> int:
        """Nodes that were read so far."""
        return 0 if self._drafter is None else self._drafter.nodes

    @property
    def hits(self) -> int:
        """Of these, how many became tokens of the text."""
        return 0 if self._drafter is None else self._drafter.hits

    @property
    def drafted(self) -> Sequence[int]:
        """Nodes that were read, by source."""
        return _NONE if self._drafter is None else self._drafter.drafted

    @property
    def accepted(self) -> Sequence[int]:
        """Of these, how many became tokens of the text."""
        return _NONE if self._drafter is None else self._drafter.accepted
