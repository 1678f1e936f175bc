"""A prior from texts of one's own: counts of what several have in common, calibrated with and without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from constrained.bench.prior.calibration import _able_to_learn
from constrained.bench.prior.fit import fit
from constrained.bench.prior.settings import PriorSettings
from constrained.errors import InvalidArgument
from constrained.models.tiny import WEIGHTS
from constrained.spec.memory import DraftMemory
from constrained.spec.prior import DraftPrior, shipped_prior

FEATURES = 23
"""Of one set of weights of the mixer, see spec/_core/mixer.hpp."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve texts that have names in common."""
    made = tmp_path_factory.mktemp("texts")
    for i in range(12):
        text = {"name": f"item {i}", "size": {"width": i, "height": 2 * i}, "tags": ["new", "red"][: i % 3]}
        (made / f"{i}.json").write_text(json.dumps(text), encoding="utf-8")
    return made


def fitted(folder: Path, extractions: int) -> DraftPrior:
    return fit(
        PriorSettings(folder, share=1, extractions=extractions, vocabulary=str(WEIGHTS), replays=4, nodes=16)
    )


def test_extractions_calibrate_what_reads_logits_and_leave_the_counts_alone(folder: Path) -> None:
    replayed, extracted = (fitted(folder, extractions) for extractions in (0, 4))
    assert replayed.slots == extracted.slots
    assert replayed.ngrams == extracted.ngrams
    assert {kind for kind, *_ in replayed.kinds} < {kind for kind, *_ in extracted.kinds}
    assert replayed.weights != extracted.weights
    assert all(0 <= hits <= trials <= 256 for _, hits, trials in extracted.kinds)
    assert "4 extractions by the bundled model" in extracted.about["calibrated"]


def test_the_shipped_prior_says_what_calibrated_it() -> None:
    assert "100 extractions by the bundled model" in shipped_prior().about["calibrated"]


def test_texts_without_anything_in_common_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"a": 1}', encoding="utf-8")
    with pytest.raises(InvalidArgument, match="nothing in"):
        fitted(tmp_path, 0)


def test_an_eighth_of_the_sums_of_squares_is_kept() -> None:
    learned = [number + 8 for number in DraftMemory().core.dump_calibration()[1]]
    changed = [
        at
        for at, (before, after) in enumerate(zip(learned, _able_to_learn(learned), strict=True))
        if before != after
    ]
    sums = [at for at in range(len(learned)) if at // FEATURES % 2]  # of each set, behind its weights
    assert changed == sums
    assert all(_able_to_learn(learned)[at] == 2 for at in sums[:100])
