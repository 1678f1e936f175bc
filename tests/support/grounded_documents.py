"""Documents of invented kinds whose values stand at known places."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

_SYLLABLES = ["ka", "no", "ri", "zé", "ö", "ma", "lu", "Ti", "sch", "日本", "фа", "be", "el", "gro", "und"]
_LABELS = ["Ref", "Party", "Amount", "Due", "Note", "Depth (m)", "Lot", "Serial", "Keeper", "Берег", "備考"]
_FILLER = [
    "as agreed",
    "see overleaf",
    "subject to inspection",
    "no objections",
    "measured twice",
    "— end of part —",
]


def make_document(rng: random.Random) -> tuple[str, Any, dict[str, tuple[int, int]]]:
    """A document, a JSON value that it states, and the place of each scalar of the value."""
    text = ""
    value: dict[str, Any] = {}
    places: dict[str, tuple[int, int]] = {}

    def add(pointer: str, scalar: Any, written: str) -> Any:
        nonlocal text
        text += f"{rng.choice(_LABELS)}{rng.choice([': ', ' — ', chr(9), ' = '])}"
        places[pointer] = (len(text), len(text) + len(written))
        text += written + rng.choice([". ", "\n", "\r\n", f"; {rng.choice(_FILLER)}\n"])
        return scalar

    for i in range(rng.randrange(2, 7)):
        value[f"f{i}"] = add(f"/f{i}", *_scalar(rng))
    value["rows"] = [
        {name: add(f"/rows/{i}/{name}", *_scalar(rng)) for name in "ab"} for i in range(rng.randrange(3))
    ]
    return text, value, places


def _scalar(rng: random.Random) -> tuple[Any, str]:
    kind = rng.randrange(5)
    if kind == 0:
        number = rng.randrange(1, 3000)
        return number, str(number)
    if kind == 1:
        cents = rng.randrange(100, 10**7)
        written = f"{cents // 100:,}.{cents % 100:02}"
        if rng.random() < 0.5:
            written = written.translate(str.maketrans(",.", ".,"))
        return cents / 100, written
    if kind == 2:
        day = dt.date(1990, 1, 1) + dt.timedelta(days=rng.randrange(15000))
        forms = (
            day.isoformat(),
            f"{day.day} {day:%B} {day.year}",
            f"{day:%d.%m.%Y}",
            f"{day:%B} {day.day}, {day.year}",
        )
        return day.isoformat(), rng.choice(forms)
    words = [
        "".join(rng.choice(_SYLLABLES) for _ in range(rng.randrange(2, 4)))
        for _ in range(rng.randrange(1, 4))
    ]
    written = rng.choice([" ", " ", "  ", ' "', "\\", "\n"]).join(words)
    return written, written
