"""The examples run, offline, and what the README says they print is what they print."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

import constrained

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


@pytest.fixture(autouse=True, scope="module")
def one_model_for_all() -> Iterator[None]:
    """Every example loads the bundled model; here it is loaded once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constrained, "load", functools.cache(constrained.load))
        yield


@functools.cache
def printed(path: Path) -> str:
    """What an example writes to standard output."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(str(path), run_name="__main__")
    return out.getvalue()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.relative_to(ROOT / "examples").as_posix())
def test_an_example_runs(path: Path) -> None:
    if "rdkit" in path.read_text(encoding="utf-8"):
        pytest.importorskip("rdkit", reason="comes with: pip install 'constrained-generation[chemistry]'")
    assert printed(path).strip()


def block(language: str, text: str) -> str:
    """The first code block of a language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_quick_start_is_the_example_and_its_real_output(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    example = ROOT / "examples" / "quickstart.py"
    assert block("python", text).strip() in example.read_text(encoding="utf-8")
    assert block("text", text) == printed(example)


def test_the_refusal_in_the_documentation_is_the_real_one() -> None:
    shown = re.search(
        r"^```\n(UnsupportedConstraint.*?)\n```$",
        (ROOT / "docs/index.md").read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    assert shown is not None
    with pytest.raises(constrained.UnsupportedConstraint) as refused:
        constrained.extract(
            constrained.load(),
            "some text",
            {"properties": {"word": {"type": "string", "pattern": r"^(.)\1$"}}},
        )
    assert shown.group(1) == f"{type(refused.value).__name__}: {refused.value}"
