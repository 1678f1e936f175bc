"""Where the masks of two engines differ, position by position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.bitmask import unpack_bits
from constrained.bench.masks.workload import SchemaCase, VocabularyData

EQUAL = "equal"
FEWER = "fewer"
MORE = "more"
OTHER = "other"

_SHOWN = 8
"""Tokens of a difference that are written down."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One position at which two engines allow different tokens.

    Attributes:
        id: of the schema.
        engine: the one compared.
        reference: the one it is compared with.
        text: text before the position.
        verdict: ``fewer``, ``more`` or ``other``: what `engine` allows, against `reference`.
        missing: how many tokens only `reference` allows.
        extra: how many only `engine` allows.
        missing_tokens: some of them.
        extra_tokens: some of them.
    """

    id: str
    engine: str
    reference: str
    text: str
    verdict: str
    missing: int
    extra: int
    missing_tokens: list[str]
    extra_tokens: list[str]


def mask_file(folder: Path, engine: str, number: int) -> Path:
    """Where a worker keeps the masks of a case."""
    return folder / f"{''.join(c if c.isalnum() else '_' for c in engine)}-{number}.npz"


def compare(
    folder: Path, cases: Sequence[SchemaCase], tokens: VocabularyData, engine: str, reference: str
) -> Iterator[tuple[str, Difference | None]]:
    """The verdict on every position that both engines reached; the end of a sequence is left out.

    Engines write the end differently (some keep it out of the mask), and whether it is allowed is part of what
    accepting an instance means.
    """
    text_bits = np.zeros(-(-tokens.size // 32) * 32, dtype=bool)
    text_bits[: tokens.size] = [bool(token) for token in tokens.tokens]
    for number, case in enumerate(cases):
        theirs, ours = (_read(mask_file(folder, name, number)) for name in (reference, engine))
        for place in sorted(theirs.keys() & ours.keys()):
            left, right = (unpack_bits(side[place]) & text_bits for side in (theirs, ours))
            missing, extra = np.flatnonzero(left & ~right), np.flatnonzero(right & ~left)
            verdict = {(0, 0): EQUAL, (1, 0): FEWER, (0, 1): MORE, (1, 1): OTHER}[
                (int(len(missing) > 0), int(len(extra) > 0))
            ]
            if verdict == EQUAL:
                yield verdict, None
                continue
            instance, position = place
            prefix = b"".join(tokens.tokens[t] for t in case.instances[instance].tokens[:position])
            yield (
                verdict,
                Difference(
                    case.id,
                    engine,
                    reference,
                    prefix.decode("utf-8", "backslashreplace"),
                    verdict,
                    len(missing),
                    len(extra),
                    _shown(missing, tokens),
                    _shown(extra, tokens),
                ),
            )


def format_verdicts(verdicts: Counter[str]) -> str:
    """Counts of verdicts in one line."""
    total = sum(verdicts.values())
    if not total:
        return "no position in common"
    shares = (f"{verdict} {verdicts[verdict]}" for verdict in (EQUAL, FEWER, MORE, OTHER))
    return f"{100 * verdicts[EQUAL] / total:.2f} % equal of {total} masks ({', '.join(shares)})"


def _read(path: Path) -> dict[tuple[int, int], NDArray[np.int32]]:
    if not path.exists():
        return {}
    with np.load(path) as kept:
        masks = kept["masks"]
        return {(int(i), int(p)): masks[k] for k, (i, p) in enumerate(kept["places"])}


def _shown(ids: NDArray[np.intp], tokens: VocabularyData) -> list[str]:
    return [tokens.tokens[i].decode("utf-8", "backslashreplace") for i in ids[:_SHOWN].tolist()]
