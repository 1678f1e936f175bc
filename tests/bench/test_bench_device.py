"""`constrained bench device` runs to its end on a CPU, and the computed page is what the program computes."""

from __future__ import annotations

import json

import pytest
import torch

from constrained import InvalidArgument
from constrained.bench.device import kernels, roofline
from constrained.bench.device import run as device
from constrained.bench.device.settings import DeviceBenchSettings
from constrained.bench.speed.shapes import SHAPES, ModelShape
from tests.support.paths import ROOT

SMALL = DeviceBenchSettings(
    device="cpu", shapes=("1m",), vocabulary="bundled", engines=("eager", "static"), nodes=(1, 8), context=30,
    tokens=16, small=True,
)  # fmt: skip


def test_it_runs_to_its_end_on_a_cpu(tmp_path):
    tables = device.run(SMALL, tmp_path, lambda what, done, total: None)
    found = json.loads((tmp_path / device.RESULTS).read_text(encoding="utf-8"))
    assert found["texts"] == {"eager": [4, 4], "static": [4, 4]}
    assert all(one["wrong"] == 0 for one in found["kernels"])
    assert set(found["attention_error"]) == {"float32", "float16", "bfloat16"}
    assert found["attention_error"]["float32"] < 1e-5 > 0
    timed = [(one["length"], one["nodes"], one["unmasked"] is not None) for one in found["attention"]]
    assert timed == [(30, 1, True), (30, 5, False), (300, 1, True), (300, 5, False)]
    assert all(one["error"] < 0.02 for one in found["attention"])
    assert [(one["engine"], one["nodes"]) for one in found["steps"]] == [
        ("eager", 1), ("eager", 8), ("static", 1), ("static", 8)
    ]  # fmt: skip
    assert [one["way"] for one in found["rates"]] == [
        "transformers, generate", "transformers, generate, static cache", "eager", "eager, drafts", "static",
        "static, drafts",
    ]  # fmt: skip
    assert all(one["tokens_per_second"] > 0 for one in found["rates"] if one["failure"] is None)
    assert tables[-1].title.startswith("more than 2 times")
    assert all(table.markdown() for table in tables)


def test_what_is_slower_than_twice_the_least_time_is_listed():
    fast, slow = (device.StepTiming("8b", "static", 1, seconds, 1.0) for seconds in (1.9, 2.1))
    assert device.falling_short([], [fast, slow]) == ["8b, static, 1 nodes: 2.1 times"]


def test_without_the_device_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InvalidArgument, match="no CUDA device"):
        device.run(DeviceBenchSettings("cuda"), tmp_path, lambda what, done, total: None)
    with pytest.raises(InvalidArgument, match="'jit' is not measured"):
        device.run(DeviceBenchSettings("cpu", engines=("jit",)), tmp_path, lambda what, done, total: None)


def test_a_step_reads_all_weights_and_the_text_once():
    """Counted on the model itself, of transformers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = ModelShape(64, 96, 3, 4, 2)
    config = LlamaConfig(
        vocab_size=100, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    matrices = sum(
        one.numel() for name, one in model.named_parameters() if one.ndim == 2 and "embed" not in name
    )
    cost = roofline.step_cost(sizes, 100, nodes=4, context=50)
    assert cost.weights == 2 * matrices
    one_token = 2 * 3 * 2 * 16 * 2  # keys and values, layers, heads, size, bytes
    assert cost.cache == one_token * (50 + 2 * 4)
    assert cost.operations == 2 * (4 * matrices + 2 * 3 * 64 * 4 * 54)


def test_the_page_has_what_is_computed():
    page = (ROOT / "docs" / "roofline.md").read_text(encoding="utf-8")
    for table in roofline.tables():
        assert "\n".join(table.markdown()).strip() in page
    assert "70b" in SHAPES


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
