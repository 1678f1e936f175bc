"""`Score`: a number between two bounds as a type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from constrained.errors import InvalidArgument

_MOST = 1000

if TYPE_CHECKING:
    Score = int
else:

    class Score:
        """``Score[1, 5]``: one of the whole numbers from 1 to 5, as a `Literal`, so that each has a probability."""

        def __class_getitem__(cls, bounds: Any) -> Any:
            """The type of the numbers between two bounds.

            Raises:
                InvalidArgument: these are not two whole numbers, the lower one first.
            """
            if (
                not isinstance(bounds, tuple)
                or len(bounds) != 2
                or not all(isinstance(one, int) and not isinstance(one, bool) for one in bounds)
                or not bounds[0] < bounds[1] <= bounds[0] + _MOST
            ):
                raise InvalidArgument(
                    f"Score[{bounds!r}]", action="write Score[1, 5]: two whole numbers, the lower one first"
                )
            return Literal[tuple(range(bounds[0], bounds[1] + 1))]
