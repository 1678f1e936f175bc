"""The text that `constrained eval` prints: fields, worst documents, and the comparison with an earlier run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from constrained.cli.intervals import NO_VALUE, format_share_interval, paired_share_interval, sign_test
from constrained.extraction.files.results import ResultRow
from constrained.extraction.values.scoring import ExtractionScores, FieldCounts, FieldScore

Scores = Mapping[str, Sequence[FieldScore]]
"""By the id of the document."""

_ALL, _WHOLE = "all fields", "whole values"
_SHOWN = 70


def failures(rows: Iterable[ResultRow]) -> str:
    """How many rows have no value, and why."""
    kinds = Counter(row.error_type or "error" for row in rows if row.value is None)
    named = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"; {kinds.total()} without a value: {named}" if kinds else ""


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings in one line."""
    shown = (f"{name} {_shown(value)}" for name, value in settings.items() if name != "constraint_key")
    return ", ".join(shown)


def field_table(scores: Scores) -> list[str]:
    """A line for each field, one for all, and one for values that are right in all of their fields."""
    sums = ExtractionScores()
    for one in scores.values():
        sums.add(one)
    lines = [_field_line(_name(pointer), counts) for pointer, counts in sums.fields.items()]
    lines.append(_field_line(_ALL, sums.total))
    lines.append((_WHOLE, str(sums.documents), format_share_interval(sums.whole, sums.documents), "", "", ""))
    return _table(("field", "asked", "right (share, 95 % interval)", "wrong", "missing", "invented"), lines)


def _field_line(name: str, counts: FieldCounts) -> tuple[str, ...]:
    right = format_share_interval(counts.right, counts.asked)
    return name, str(counts.asked), right, str(counts.wrong), str(counts.missing), str(counts.invented)


def worst_documents(scores: Scores, rows: Mapping[str, ResultRow], count: int) -> list[str]:
    """The documents with the most faults: what was expected, and what was found."""
    faulty = sorted((id for id in scores if _faults(scores[id])), key=lambda id: -_faults(scores[id]))[:count]
    lines = ["", "documents with the most faults"] if faulty else []
    for id in faulty:
        asked = [one for one in scores[id] if one.verdict != "invented"]
        right = sum(one.verdict == "right" for one in asked)
        lines.append(f"{id if id.isprintable() else ascii(id)}: {right} of {len(asked)} right")
        if (error := rows[id].error) is not None:
            lines.append(f"  {rows[id].error_type}: {error.splitlines()[0]}")
            continue
        for one in scores[id]:
            sides = {"expected": one.expected, "found": one.found}
            shown = ", ".join(f"{side} {_shown(value)}" for side, value in sides.items() if value is not None)
            if one.verdict != "right":
                lines.append(f"  {_name(one.pointer)}  {one.verdict}: {shown}")
    return lines


def comparison(
    scores: Scores,
    earlier: Scores,
    against: str,
    settings: Mapping[str, Any] | None,
    settings_before: Mapping[str, Any] | None,
) -> list[str]:
    """Both runs beside each other, document by document.

    A document is won in a field where it has fewer faults there (wrong, missing or invented values) than before. The
    difference is that of the shares of right values, in percentage points, with an interval over documents.
    """
    lines = [f"against {against}: {len(earlier)} documents that both have"]
    if settings is not None and settings_before is not None:
        for name in sorted({*settings, *settings_before} - {"constraint_key"}):
            now, then = (
                _shown(one[name]) if name in one else NO_VALUE for one in (settings, settings_before)
            )
            lines += [f"  {name}: {now}, before {then}"] if now != then else []
    pointers = dict.fromkeys(one.pointer for run in (scores, earlier) for id in earlier for one in run[id])
    table = []
    for name, chosen in [*((_name(pointer), {pointer}) for pointer in pointers), (_ALL, set(pointers))]:
        pairs = [[[s for s in run[id] if s.pointer in chosen] for run in (scores, earlier)] for id in earlier]
        asked = [sum(one.verdict != "invented" for one in now) for now, _ in pairs]
        table.append(
            _pair_line(
                name,
                [_faults(then) - _faults(now) for now, then in pairs if now or then],
                [_right(now) - _right(then) for now, then in pairs],
                asked,
            )
        )
    whole = [(not _faults(scores[id])) - (not _faults(earlier[id])) for id in earlier]
    table.append(_pair_line(_WHOLE, whole, whole, [1] * len(whole)))
    return [*lines, "", *_table(("field", "won", "lost", "tie", "sign test", "difference of right"), table)]


def _pair_line(
    name: str, gains: Sequence[int], differences: Sequence[int], asked: Sequence[int]
) -> tuple[str, ...]:
    won, lost = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    share = NO_VALUE
    if total := sum(asked):
        share = f"{100 * sum(differences) / total:+.1f}"
        if any(differences):  # where no document differs, a sample of them says nothing about others
            low, high = paired_share_interval(differences, asked)
            share += f" ({100 * low:+.1f} to {100 * high:+.1f})"
    return name, str(won), str(lost), str(len(gains) - won - lost), f"p = {sign_test(won, lost):.2g}", share


def _faults(scores: Sequence[FieldScore]) -> int:
    return len(scores) - _right(scores)


def _right(scores: Sequence[FieldScore]) -> int:
    return sum(one.verdict == "right" for one in scores)


def _name(pointer: str) -> str:
    return pointer or "(value)"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    text = text if text.isprintable() else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    from rich.cells import cell_len

    rows = [head, *lines]
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(head))]

    def padded(row: Sequence[str]) -> str:
        spaces = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        return "  ".join(
            [row[0] + spaces[0], *(space + cell for space, cell in zip(spaces[1:], row[1:], strict=True))]
        )

    return [padded(row).rstrip() for row in rows]
