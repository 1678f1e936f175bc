"""A prior from recorded texts: counts over every other schema, calibrated on texts that were not counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from constrained.bench.harness.settings import Progress, data_file, no_progress
from constrained.bench.masks.workload import sample
from constrained.bench.prior.calibration import calibrate
from constrained.bench.prior.counts import NGRAMS, common_counts
from constrained.bench.prior.settings import PriorSettings
from constrained.bench.replay.slots import ORDERS
from constrained.errors import InvalidArgument
from constrained.spec.prior import DraftPrior, row_key

_LONGEST = 8000
"""Characters of a text."""
_TEXTS = 2
"""Of each schema."""
_WORDS = 16
"""That are kept for each place."""


def fit(settings: PriorSettings, progress: Progress = no_progress) -> DraftPrior:
    """A prior.

    Raises:
        InvalidArgument: the data cannot be read, or nothing in it is common to several schemas.
    """
    data = data_file(settings.data)
    rows = [
        row
        for row in (_folder(data) if data.is_dir() else sample(data, 0, 0))
        if row_key(row["id"]) % settings.share == 0 and not row["id"].startswith(settings.without or "\0")
    ]
    progress("counting", 0, 3)
    half = _counted(settings, rows[::2])
    progress("counting", 1, 3)
    kinds, weights = calibrate(settings, half, rows[1::2], progress)
    found = _counted(settings, rows)
    if not found.slots:
        raise InvalidArgument(
            f"nothing in {str(data)!r} occurs under {settings.schemas} schemas",
            action="pass more texts, or a lower --schemas",
        )
    about = {
        "texts": f"{data.name}: every row whose key is a multiple of {settings.share}",
        "without": list(settings.without),
        "calibrated": f"{settings.replays} other texts, {settings.extractions} extractions by the bundled model",
        "kept": f"what occurs under at least {settings.schemas} schemas: counts, no texts",
    }
    learned = frozenset(row_key(row["id"]) for row in rows)
    return DraftPrior(about, learned, found.slots, found.ngrams, kinds, weights)


def _counted(settings: PriorSettings, rows: Sequence[dict[str, Any]]) -> DraftPrior:
    by_schema = [_texts(row) for row in rows]
    found = common_counts([texts for texts in by_schema if texts], settings.schemas, _WORDS)
    slots = {order: found[order] for order in ORDERS if order in found}
    return DraftPrior(slots=slots, ngrams=found.get(NGRAMS, {}))


def _texts(row: dict[str, Any]) -> list[str]:
    values = [test["data"] for test in row["tests"] if test["valid"] and "data" in test]
    texts = [json.dumps(value, ensure_ascii=False) for value in values]
    good = [
        text for text in texts if len(text) <= _LONGEST and not any("\ud800" <= c < "\ue000" for c in text)
    ]
    return good[:_TEXTS]


def _folder(folder: Path) -> list[dict[str, Any]]:
    """The JSON files of a folder as rows."""
    rows = []
    for file in sorted(folder.rglob("*.json")):
        try:
            value = json.loads(file.read_bytes())
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"{str(file)!r} is no JSON text: {error}") from None
        name = file.relative_to(folder).as_posix()
        rows.append({"id": name, "schema": {}, "tests": [{"valid": True, "data": value}]})
    return rows
