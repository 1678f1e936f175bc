"""The skeleton of a value: tokens that stood in the same slot.

A slot is where a JSON text stands: the names on the way to it and what was said since its last turn
(`spec.json_path`), so that a value of another length does not misalign what comes after it. The state of the automaton
is a slot too: the same for every element of an array and, under one constraint, for every text.
"""

from __future__ import annotations

from collections.abc import Hashable

from tests.reference.spec.byte_classes import byte_class, length_class
from tests.reference.spec.context import DraftContext
from tests.reference.spec.sources.base import DraftSource, DraftToken
from tests.reference.spec.sources.counts import ContextCounts, TokenCounts, witten_bell_blend


class SlotNGrams(DraftSource):
    """Guesses by slot, under one constraint and over all of them.

    Attributes:
        counts: of this constraint.
        all_constraints: of all constraints; only slots by name can mean anything there.
    """

    def __init__(self, counts: ContextCounts, world: ContextCounts) -> None:
        self.counts = counts
        self.all_constraints = world

    def propose(self, place: DraftContext) -> list[DraftToken]:
        """What stood in the closest slots that are known."""
        found: list[tuple[int, TokenCounts]] = []
        for order, table, key in self._keys(place):
            entry = table.entries.get(key)
            if entry is not None:
                found.append((order, entry))
        return witten_bell_blend(found, 0) if found else []

    def learn(self, place: DraftContext, token: int) -> None:
        """Counts the token in all slots of the place."""
        for _, table, key in self._keys(place):
            table.learn(key, token)

    def _keys(self, place: DraftContext) -> list[tuple[int, ContextCounts, Hashable]]:
        """Slots from the closest to the widest."""
        last = place.recent_tokens[-1:]
        keys: list[tuple[int, ContextCounts, Hashable]] = []
        path = place.json_path
        if path is not None:
            keys.append((0, self.counts, path))
        keys.append((1, self.counts, (place.state, *last)))
        if path is not None:
            keys.append((2, self.all_constraints, (path.names[-1:], path.name, path.kind, path.partial)))
            keys.append((3, self.all_constraints, (path.name, path.kind, path.partial)))
            keys.append(
                (
                    4,
                    self.all_constraints,
                    (len(path.names) > 1, path.kind, path.partial, path.quoted, path.escaped),
                )
            )
            last_byte = byte_class(place.recent_bytes[-1]) if place.recent_bytes else 5
            shape = (
                path.kind,
                path.quoted,
                path.escaped,
                path.name == b"[]",
                length_class(len(path.partial)),
            )
            keys.append((5, self.all_constraints, (*shape, last_byte)))
        return keys
