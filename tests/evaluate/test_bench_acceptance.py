"""`constrained bench acceptance` and `bench kernels`: figures that can be checked, and a refusal without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from constrained import InvalidArgument
from constrained.cli import main
from constrained.evaluate import acceptance, kernels

SMALL = acceptance.AcceptanceSettings(tokens=4, pairs=3, max_drafts=3, draws=20)


def test_no_rule_exceeds_the_optimum_and_more_draft_tokens_are_better():
    rows = acceptance.measure(SMALL)
    found = {(row.kind, row.rule, row.k): row for row in rows}
    kinds = {row.kind for row in rows}
    assert len(kinds) == 4
    for kind in kinds:
        for rule in (acceptance.SHARED, "recursive", "spectr", "specinfer"):
            means = [found[kind, rule, k].acceptance for k in (1, 2, 3)]
            assert means == sorted(means)
            for k, mean in enumerate(means, 1):
                assert mean <= found[kind, acceptance.OPTIMUM, k].acceptance + 1e-9
        assert found[kind, acceptance.OPTIMUM, 1].acceptance == pytest.approx(
            found[kind, "spectr", 1].acceptance
        )


def test_what_is_drawn_is_near_what_is_enumerated(monkeypatch):
    monkeypatch.setattr(
        acceptance, "TARGETS", {"flat target": 1.0}
    )  # no draft token is so rare that few draws miss it
    settings = acceptance.AcceptanceSettings(tokens=3, pairs=3, max_drafts=2, draws=100)
    exact = acceptance.measure(settings)
    monkeypatch.setattr(acceptance, "_ENUMERATED", 0)
    drawn = acceptance.measure(settings)
    assert any(row.error for row in drawn)
    assert not any(row.error for row in exact)
    for one, other in zip(exact, drawn, strict=True):
        assert abs(one.acceptance - other.acceptance) <= 5 * other.error + 1e-9, (one, other)


def test_the_command_writes_rows_page_and_tables(tmp_path: Path, capsys):
    out = tmp_path / "results"
    arguments = (
        "bench",
        "acceptance",
        "--tokens",
        "3",
        "--pairs",
        "2",
        "--max-drafts",
        "2",
        "--out",
        str(out),
        "-q",
    )
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code
    printed = capsys.readouterr().out
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 4 * 2 * 7
    page = (out / "acceptance.md").read_text()
    assert "## Mean acceptance: peaked target, bad draft" in page
    for text in (page, printed):
        assert all(f"{row['acceptance']:.3f}" in text for row in rows)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "already holds results" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change", [{"tokens": 1}, {"max_drafts": 0}, {"draws": 1}, {"seed": -1}, {"pairs": 0}]
)
def test_settings_are_looked_at(change):
    with pytest.raises(InvalidArgument, match=f"{next(iter(change))} is"):
        acceptance.AcceptanceSettings(**change)


def test_without_a_gpu_the_kernels_are_not_timed(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as ended:
        main(("bench", "kernels", "--out", str(tmp_path / "results")))
    assert ended.value.code == 2
    assert "there is no CUDA device" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_the_measurement_of_the_kernels_checks_what_they_say():
    """On the CPU, where the twins answer, with a clock that says a call takes a millisecond."""

    def clock(calls):
        for call in calls:
            call()
        return 1e-3, 2e-3

    settings = kernels.KernelBenchSettings(
        (1, 5), tokens=100, layers=1, heads=2, size=4, length=6, memory=4000
    )
    rows = kernels.measure(settings, "cpu", clock, lambda what, done, total: None)
    assert {row.kernel for row in rows} == {
        "row_stats", "row_stats, masked", "merge_splits", "apply_masks", "compact_kv"
    }  # fmt: skip
    for row in rows:
        assert row.wrong == 0
        assert row.error is None or 0 < row.error < 1e-5
        assert row.copy == 2 * 8000 / 1e-3
        assert row.share == row.bytes_moved / 1e-3 / row.copy
    assert [row.bytes_moved for row in rows if row.kernel == "row_stats"] == [200, 1000]
    table = kernels.section(rows, "a device")
    assert table.lines[0][0] == "row_stats, 1 rows"
    assert all(len(cells) == len(table.columns) for _, cells in table.lines)


def test_a_wrong_answer_is_counted(monkeypatch):
    monkeypatch.setattr(kernels.LayerCaches, "compact", lambda self, source, start: None)
    settings = kernels.KernelBenchSettings((4,), tokens=64, layers=1, heads=1, size=4, length=6, memory=4000)
    assert kernels._compaction(settings, 4, "cpu", lambda calls: (1.0, 1.0), 1.0).wrong > 0
