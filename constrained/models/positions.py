"""Where the tokens of a pass stand, for the position embeddings of a model: at their columns, unless images before them say otherwise.

Some models (M-RoPE of Qwen-VL) count the positions of an image in time, height and width, all from where the image begins, and go on with
the text behind the greatest of them. So a row has a shift, from columns to positions, which changes behind each image; and each
id of an image knows how far its positions are apart from those that a token of a text would have in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Positions:
    """Positions that are columns: of a model that takes no images, or counts theirs as those of a text."""

    def shift(self, ids: Sequence[int]) -> int:
        """What is added, from behind these ids on, to the columns of a row to have the positions of its texts."""
        return 0

    def of(
        self,
        ids: NDArray[np.int64],
        columns: NDArray[np.int64],
        shifts: Sequence[int],
    ) -> NDArray[np.int64] | None:
        """The positions of the tokens of a pass.

        Args:
            ids: int64 [rows, tokens]; those of images follow each other as in their row.
            columns: of the tokens, int64 [rows, tokens].
            shifts: of the rows, as of their first tokens here.

        Returns:
            int64 [dimensions, rows, tokens]; None: they are the columns.
        """
        return None


COLUMNS = Positions()
"""Those of models for texts."""


class ImagePositions(Positions):
    """Positions by ids, of which those of images are behind the vocabulary."""

    def __init__(self, first: int, places: int) -> None:
        """Knows no image.

        Args:
            first: the first id of an image.
            places: number of ids that are kept; later ones take the places of the first.
        """
        self._first, self._places = first, places
        self._known: NDArray[np.int64] | None = None  # [dimensions + 1, places]; the last row: shifts

    def keep(self, begin: int, apart: NDArray[np.int64]) -> None:
        """Keeps the positions of ids that follow each other.

        Args:
            begin: the first id.
            apart: int64 [dimensions, ids]: how far they are from those of a text in the same place.
        """
        dimensions, count = apart.shape
        if self._known is None:
            self._known = np.zeros((dimensions + 1, self._places), dtype=np.int64)
        here = np.arange(count)
        places = (begin - self._first + here) % self._places
        self._known[:-1, places], self._known[-1, places] = apart, 0
        self._known[-1, places[-1]] = (here + apart).max() + 1 - count

    def shift(self, ids: Sequence[int]) -> int:
        """See `Positions.shift`."""
        if self._known is None:
            return 0
        known, first, places = self._known[-1], self._first, self._places
        return sum(int(known[(token - first) % places]) for token in ids if token >= first)

    def of(
        self, ids: NDArray[np.int64], columns: NDArray[np.int64], shifts: Sequence[int]
    ) -> NDArray[np.int64] | None:
        """See `Positions.of`."""
        if self._known is None:
            return None
        of_image = ids >= self._first
        if not any(shifts) and not of_image.any():
            return None
        known = np.where(
            of_image, self._known[:, np.where(of_image, (ids - self._first) % self._places, 0)], 0
        )
        before = known[-1].cumsum(axis=-1) - known[-1]
        found: NDArray[np.int64] = columns + np.array(shifts)[:, None] + before + known[:-1]
        return found
