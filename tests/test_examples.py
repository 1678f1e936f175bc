"""The examples run, offline, and what the README says they print is what they print."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import constrained
import constrained.cli

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(
    path
    for path in (ROOT / "examples").rglob("*.py")
    if "custom_generate"
    not in path.parts  # transformers runs it: tests/integrations/test_transformers_places.py
)


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


EXTRACTED = {
    "quickstart.py": "Person(name='Ana Novák', born=datetime.date(1987, 3, 14), languages=['Czech', 'Spanish'])\n",
    "extract/json_schema.py": (
        '{"flight_number": "KL1509", "date": "2026-07-02", "passengers": ["Ana Silva", "Tomáš Novák"]}\n'
    ),
    "extract/pydantic_model.py": (
        "Booking(guest='Tomáš Silva', hotel='Blue Harbour', breakfast=True, room=Room(kind='double', nights=3))\n"
    ),
    "extract/several_texts.py": (
        "Order 4711 comes to 19.90 in total.  ->  {'order_id': '4711', 'total': 19.9}\n"
        "The order id is 815. Its total is 240.00.  ->  {'order_id': '815', 'total': 240.0}\n"
        "Total: 7.5, order id: 99012  ->  {'order_id': '99012', 'total': 7.5}\n"
    ),
}
"""What the texts of the examples say: the bundled model has to read it so, value by value."""


@pytest.mark.parametrize("name", EXTRACTED)
def test_an_example_prints_what_its_text_says(name: str) -> None:
    assert printed(ROOT / "examples" / name) == EXTRACTED[name]


def test_the_stream_ends_with_what_its_text_says() -> None:
    *partial, last = printed(ROOT / "examples/generate/streaming.py").splitlines()
    assert partial
    assert last == "{'name': 'Ana', 'languages': ['Czech', 'Spanish']}"


def test_texts_are_classified_as_they_say() -> None:
    lines = printed(ROOT / "examples/generate/classify.py").splitlines()
    found = [re.fullmatch(r"(\S+) probability (\d\.\d\d)", line) for line in lines]
    assert [match and match[1] for match in found] == ["Priority.URGENT", "Priority.LOW"]
    assert all(match is not None and float(match[2]) > 0.5 for match in found)


def test_every_command_of_the_readme_prints_what_its_text_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    commands = block("sh", (ROOT / "README.md").read_text(encoding="utf-8")).replace("\\\n", " ")
    (extract,) = [line for line in commands.splitlines() if line.startswith("constrained extract")]
    with pytest.raises(SystemExit) as ended:
        constrained.cli.main(shlex.split(extract)[1:])
    assert not ended.value.code
    said = json.loads(capsys.readouterr().out)
    assert said == {"name": "Ana Novák", "born": "1987-03-14", "languages": ["Czech", "Spanish"]}


def test_the_demo_of_the_bundled_model_prints_what_its_texts_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("constrained.cli.demo.find_spec", lambda name: None)  # no package of a real one
    with pytest.raises(SystemExit) as ended:
        constrained.cli.main(["demo", "--quiet"])
    assert not ended.value.code
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {
            "name": "Marie Lefèvre",
            "born": "1987-03-14",
            "city": "Lyon",
            "languages": ["French", "German", "Catalan"],
        },
        {
            "tracking_number": "RX7741",
            "weight": 12.5,
            "status": "in transit",
            "fragile": True,
            "recipient": {"name": "Jonas Berg", "city": "Göteborg"},
        },
        {
            "flight_number": "KL1509",
            "origin": "Amsterdam",
            "destination": "Kraków",
            "departs_on": "2026-07-02",
            "passengers": ["Ana Silva", "Tomáš Novák"],
        },
    ]


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
