"""`bench jsonschemabench` inside vLLM, with two backends and four schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from constrained.bench.jsonschemabench.report import write
from constrained.bench.jsonschemabench.run import run
from constrained.bench.jsonschemabench.settings import SchemaBenchSettings
from tests.engines.vllm_worker import ENVIRONMENT

SCHEMAS: dict[str, Any] = {
    "person": {
        "type": "object",
        "properties": {"a": {"type": "integer", "maximum": 99, "minimum": 0}},
        "required": ["a"],
    },
    "colour": {"enum": ["red", "green"]},
    "word": {"type": "string", "pattern": "^[a-z]{1,8}$"},
    "long": {"type": "array", "items": {"type": "integer"}, "minItems": 25},
    "backreference": {"type": "string", "pattern": "^(a)\\1$"},
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "schemas.jsonl"
    file.write_text("".join(json.dumps({"id": name, "schema": one}) + "\n" for name, one in SCHEMAS.items()))
    return file


def test_both_backends_give_a_row_for_each_schema(data: Path, tmp_path: Path) -> None:
    engines = ("constrained", "xgrammar")
    settings = SchemaBenchSettings(
        data=str(data),
        sample=0,
        engines=engines,
        backend="vllm",
        max_tokens=60,
        compile_limit=300,
        time_limit=300,
    )
    results = run(settings, tmp_path / "out")
    assert not results.unavailable
    rows = {(row.engine, row.id): row for row in results.rows}
    assert set(rows) == {(engine, name) for engine in engines for name in SCHEMAS}
    for name in ("person", "colour", "word"):
        ours = rows["constrained", name]
        assert (ours.status, ours.valid) == ("ok", True), ours
        assert min(ours.compile_seconds or 0, ours.first_seconds or 0) > 0
        assert min(ours.mask_seconds or 0, ours.again_seconds or 0) > 0
    assert rows["constrained", "backreference"].status == "refused"
    assert "#/pattern" in rows["constrained", "backreference"].message
    assert rows["xgrammar", "colour"].status == "ok"
    assert rows["xgrammar", "colour"].again_seconds
    assert rows["constrained", "long"].status == "ok"
    assert [rows["constrained", name].cut for name in ("long", "colour")] == [True, False]
    tables = write(results, tmp_path / "out")
    assert any("masks" in label for label, _ in tables[0].lines)


def test_rows_over_http(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        if name != "CONSTRAINED_VLLM":
            monkeypatch.setenv(name, value)
    settings = SchemaBenchSettings(
        data=str(data),
        sample=0,
        engines=("constrained",),
        backend="vllm-server",
        max_tokens=60,
        time_limit=300,
        processes=4,
    )
    results = run(settings, tmp_path / "out")
    assert not results.unavailable
    rows = {row.id: row for row in results.rows}
    assert set(rows) == set(SCHEMAS)
    for name in ("person", "colour", "word"):
        assert (rows[name].status, rows[name].valid, rows[name].declared) == ("ok", True, True), rows[name]
    assert (rows["backreference"].status, rows["backreference"].declared) == ("refused", False)
    assert "#/pattern" in rows["backreference"].message
    lines = dict(write(results, tmp_path / "out")[0].lines)
    assert lines["refusals that name a place of the schema"][0].startswith("1 (100.0 %")
    assert not any("compile" in label for label in lines)
