"""`constrained demo` with the real model, and what the README shows of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from constrained.cli import demo, main
from constrained.models.hugging_face import HuggingFaceModel

pytestmark = pytest.mark.real

README = Path(__file__).parents[2] / "README.md"
COST = re.compile(r"\d+ tokens in|transformers' generate")
"""Lines that another machine has otherwise."""


def test_the_demo_prints_what_the_readme_shows(
    model: HuggingFaceModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("TRANSFORMERS_VERBOSITY", "TOKENIZERS_PARALLELISM", "HF_HUB_DISABLE_PROGRESS_BARS"):
        monkeypatch.setenv(name, "error" if "VERB" in name else "1")  # the command would set them for good
    monkeypatch.setattr(demo, "TEXTS", [one for one in demo.TEXTS if one.title in ("an event", "a choice")])
    with pytest.raises(SystemExit) as ended:
        main(["demo"])
    assert not ended.value.code
    printed = {line.strip("│ ").rstrip() for line in capsys.readouterr().out.splitlines()}
    (shown,) = re.findall(r"^```console\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    expected = [line.strip() for line in shown.splitlines() if not COST.match(line)]
    assert len(expected) > 15
    assert [line for line in expected if line not in printed] == []
    assert sum(bool(COST.match(line)) for line in printed) >= 5
    assert "noise" in "".join(line for line in printed if line.startswith("(all)"))
