"""Texts with and without draft tokens are compared one by one, and a difference is seen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import constrained
from constrained.cli import main
from constrained.evaluate.equality import EqualityCounts
from constrained.testing import ScriptedModel
from tests.support.tokenizers_fixtures import small_bpe_vocabulary


def test_a_difference_is_counted() -> None:
    model = ScriptedModel(small_bpe_vocabulary(), '{"a": 1}')
    out = constrained.Generator(model, {"type": "object"})("x", max_tokens=40)
    counts = EqualityCounts()
    counts.add(out, out)
    counts.add(out, replace(out, tokens=out.tokens[:-1]))
    assert (counts.texts, counts.different, counts.whole, counts.json) == (2, 1, 2, 2)
    counts.add(out, replace(out, text=out.text[:-1]))
    assert counts.json == 2


@pytest.mark.slow
def test_the_command_compares_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "equality", "--texts", "64", "--quiet", "--out", str(tmp_path / "out")])
    assert ended.value.code in (None, 0)
    assert "different" in capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "equality.json").read_text())["by_temperature"]
    assert [one["different"] for one in found.values()] == [0, 0]
    assert all(one["accepted"] > one["texts"] for one in found.values())
    assert all(one["json"] == one["whole"] > 0 for one in found.values())
