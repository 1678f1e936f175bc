"""`bench jsonschemabench --backend vllm` with two backends and four schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from constrained.evaluate.jsonschemabench import SchemaBenchSettings, run, write

SCHEMAS: dict[str, Any] = {
    "person": {
        "type": "object",
        "properties": {"a": {"type": "integer", "maximum": 99, "minimum": 0}},
        "required": ["a"],
    },
    "colour": {"enum": ["red", "green"]},
    "word": {"type": "string", "pattern": "^[a-z]{1,8}$"},
    "backreference": {"type": "string", "pattern": "^(a)\\1$"},
}


def test_both_backends_give_a_row_for_each_schema(tmp_path: Path) -> None:
    data = tmp_path / "schemas.jsonl"
    data.write_text("".join(json.dumps({"id": name, "schema": one}) + "\n" for name, one in SCHEMAS.items()))
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
    tables = write(results, tmp_path / "out")
    assert any("masks" in label for label, _ in tables[0].lines)
