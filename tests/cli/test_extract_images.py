"""`constrained extract --image`: what the model reads, and what is refused, before it is loaded where that is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import constrained
from constrained.cli import main
from tests.support.tiny_vision import TEMPLATE, picture, tiny_vision

SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["receipt", "invoice"]}, "total": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["kind", "total"],
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("llava")
    vision = tiny_vision("llava")
    vision.model.save_pretrained(folder)
    vision.processor.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return str(folder)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("a.png", "b.png")):
        picture(seed).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / "type.json").write_text(json.dumps(SCHEMA))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["extract", *arguments])
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


def test_images_are_read_before_the_text(files: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    loaded: Any = constrained.load(model, device="cpu")
    wanted = []
    texts: list[list[str]] = [["--image", "a.png"], ["Shop: A", "--image", "a.png", "--image", "b.png"]]
    for content, given in zip(([picture(0)], [picture(0), picture(1), "Shop: A"]), texts, strict=True):
        wanted.append(constrained.extract(loaded, content, SCHEMA))
        code, out, err = run(
            capsys, *given, "-s", "type.json", "--model", model, "--device", "cpu", "--quiet"
        )
        assert (code, json.loads(out), err) == (0, wanted[-1], "")
    code, out, _ = run(
        capsys, *texts[1], "-s", "type.json", "--model", model, "--device", "cpu", "--quiet", "--stream"
    )
    assert (code, json.loads(out)) == (0, wanted[1])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--image", "c.png"], "error: c.png cannot be read: no such file or directory"),
        (["--image", "."], "error: . cannot be read: is a directory"),
        (["--image", "notes.txt"], "error: an image in notes.txt cannot be read: cannot identify image file\n  -> name files of images"),
        (["--image", "a.png", "--image", "notes.txt", "Shop: A"], "error: an image in notes.txt cannot be read"),
        (["docs.jsonl", "--image", "a.png", "--out", "results.jsonl"], "error: --image is for one text\n  -> leave it out with --out"),
        (["Shop: A", "Shop: B", "--image", "a.png"], "error: 2 texts were given"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_an_error_before_a_model_is_loaded(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    code, out, err = run(capsys, *arguments, "-s", "type.json", "--model", "./nowhere")
    assert (code, out) == (2, "")
    assert err.startswith(error)


def test_an_image_with_too_many_pixels(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture(0).convert("1").resize((9000, 8000)).save(files / "large.png")
    code, _, err = run(capsys, "--image", "large.png", "-s", "type.json", "--model", "./nowhere")
    assert code == 2
    assert "an image in large.png has 9000 x 8000 pixels" in err
    assert "-> name files of images, PNG, JPEG, ..., of at most 64,000,000 pixels" in err


def test_models_and_options_that_take_no_images_say_so(
    files: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "--image", "a.png", "-s", "type.json")
    assert (code, out) == (2, "")
    assert err.startswith(
        "error: --image: the model bundled reads no images\n  -> name a vision-language model"
    )
    for option in (["--require-grounding"], ["--split"], ["--prompt", "{type} {text}"]):
        code, out, err = run(
            capsys, "--image", "a.png", "-s", "type.json", "--model", model, "--device", "cpu", *option
        )
        assert (code, out) == (2, "")
        assert "reads texts only" in err
