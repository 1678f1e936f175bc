"""Inputs that once broke a law of the core or took too long, run again by the fuzzer where it is built; and real schemas as inputs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.tools.fuzz_corpus import LONGEST, written

ROOT = Path(__file__).parents[2]
LONG = {"lexer-proof"}
"""These take seconds."""
INPUTS = [
    pytest.param(path, id=path.name, marks=[pytest.mark.ci] if path.name in LONG else [])
    for path in sorted((Path(__file__).parent / "inputs").iterdir())
]
FUZZER = max(ROOT.glob("build/*/tests/native/fuzz"), key=lambda path: path.stat().st_mtime, default=None)
needs_fuzzer = pytest.mark.skipif(
    FUZZER is None, reason="the native fuzzer is not built: make fuzz-native, or a developer's installation"
)

SCHEMAS = (
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]},
    {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{2,9}$"}, "uniqueItems": True},
    {"anyOf": [{"type": "object", "minProperties": 2}, {"type": "number", "multipleOf": 3}]},
)


def run(files: list[Path], folder: Path) -> None:
    assert FUZZER is not None
    done = subprocess.run([FUZZER, *files], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.ci
@needs_fuzzer
@pytest.mark.parametrize("path", INPUTS)
def test_what_a_fuzzer_found_keeps_the_laws(path: Path, tmp_path: Path) -> None:
    run([path], tmp_path)


def test_a_schema_is_an_input() -> None:
    found = [written(schema, 1) for schema in SCHEMAS]
    assert all(data and data.startswith(b"IR1\n") and len(data) <= LONGEST for data in found)
    assert len(set(found)) == len(found)


def test_what_the_format_does_not_hold_is_left_out() -> None:
    assert written({"type": "array", "items": {"type": "object"}, "uniqueItems": True}, 1) is None
    assert written({"enum": [f"value {i}" for i in range(2000)]}, 1) is None


@needs_fuzzer
def test_schemas_keep_the_laws(tmp_path: Path) -> None:
    files = []
    for number, schema in enumerate(SCHEMAS):
        files.append(tmp_path / str(number))
        files[-1].write_bytes(written(schema, number) or b"")
    run(files, tmp_path)
