"""The skeleton of a value: tokens that stood in the same slot.

A slot is where a JSON text stands: the names on the way to it and what was said since its last turn
(`spec.json_path`), so that a value of another length does not misalign what comes after it. The state of the automaton
is a slot too: the same for every element of an array and, under one constraint, for every text.
"""

from __future__ import annotations

from collections.abc import Hashable

from spec.place import Place
from spec.sources.base import Guess, Source
from spec.sources.counts import Counts, Entry, blend


class Skeleton(Source):
    """Guesses by slot, under one constraint and over all of them.

    Attributes:
        counts: of this constraint.
        world: of all constraints; only slots by name can mean anything there.
    """

    def __init__(self, counts: Counts, world: Counts) -> None:
        self.counts = counts
        self.world = world

    def propose(self, place: Place) -> list[Guess]:
        """What stood in the closest slots that are known."""
        found: list[tuple[int, Entry]] = []
        for order, table, key in self._keys(place):
            entry = table.entries.get(key)
            if entry is not None:
                found.append((order, entry))
        return blend(found, 0) if found else []

    def learn(self, place: Place, token: int) -> None:
        """Counts the token in all slots of the place."""
        for _, table, key in self._keys(place):
            table.learn(key, token)

    def _keys(self, place: Place) -> list[tuple[int, Counts, Hashable]]:
        """Slots from the closest to the widest."""
        last = place.tail[-1:]
        keys: list[tuple[int, Counts, Hashable]] = []
        path = place.path
        if path is not None:
            keys.append((0, self.counts, path))
        keys.append((1, self.counts, (place.state, *last)))
        if path is not None:
            keys.append((2, self.world, (path.names[-1:], path.name, path.kind, path.said)))
            keys.append((3, self.world, (path.name, path.kind, path.said)))
            keys.append((4, self.world, (len(path.names) > 1, path.kind, path.said)))
        return keys
