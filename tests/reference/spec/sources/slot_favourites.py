"""What the model ranked high in a slot of this sequence, whether or not that token was drawn."""

from __future__ import annotations

from tests.reference.spec.context import DraftContext
from tests.reference.spec.json_path import JsonPath
from tests.reference.spec.sources.base import DraftSource, DraftToken

_LIMIT = 1 << 12


class SlotFavourites(DraftSource):
    """Favourites by slot.

    Attributes:
        favourites: by slot: tokens, best first, and whether they were read behind an opening alone.
    """

    def __init__(self) -> None:
        self.favourites: dict[JsonPath | None, tuple[list[int], bool]] = {}

    def observe(self, slot: JsonPath | None, tokens: list[int], probed: bool) -> None:
        """The model's favourites in a slot."""
        if len(self.favourites) >= _LIMIT:
            self.favourites.clear()
        self.favourites[slot] = (tokens, probed)

    def propose(self, place: DraftContext) -> list[DraftToken]:
        """The favourites of the slot."""
        tokens, probed = self.favourites.get(place.json_path, ([], False))
        in_array = place.json_path is not None and place.json_path.name == b"[]"
        return [
            (token, 0.7 / (rank + 1) ** 3, rank * 4 + probed * 2 + in_array)
            for rank, token in enumerate(tokens)
        ]
