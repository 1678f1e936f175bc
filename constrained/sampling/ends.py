"""Whether the end of a completion counts where nothing else can follow: the option ``ends`` of the samplers."""

from __future__ import annotations

from typing import Any, Literal

from constrained.errors import InvalidArgument

Ends = Literal["model", "certain"]
"""``"model"``: the end of sequence has the probability that the model gives it, everywhere. ``"certain"``: where only
the end can follow, and at the token limit, it has probability 1, and the model is not asked."""


def check_ends(ends: Any, *, optional: bool = False) -> None:
    """Checks the option.

    Raises:
        InvalidArgument: it has another value; None is one unless it is optional.
    """
    if not (isinstance(ends, str) and ends in ("model", "certain")) and not (optional and ends is None):
        raise InvalidArgument(f"ends is {ends!r}", action='pass "model" or "certain"')


def check_proposal_ends(sampler: str, certain: bool, proposal_certain: bool) -> None:
    """Checks that a proposal does not have another option than the sampler that uses it.

    Raises:
        InvalidArgument: ends are certain in the proposal alone.
    """
    if proposal_certain and not certain:
        raise InvalidArgument(
            f"ends are certain in the proposal of {sampler}, and not in {sampler} itself",
            action=f'pass ends="certain" to {sampler}, or not to its proposal',
        )
