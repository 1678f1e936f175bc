"""Compiled modules that are missing, or older than their sources, are named where something failed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PACKAGES = ("constrained", "constrained/grammars", "constrained/spec")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The packages with their sources and without their compiled modules."""
    shutil.copytree(
        ROOT / "constrained",
        tmp_path / "constrained",
        ignore=shutil.ignore_patterns("_core.*", "__pycache__", "weights", "*.gz"),
    )
    return tmp_path


def python(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python on the tree; without `site`, whose finder of an editable install would come before the path."""
    return subprocess.run(
        [sys.executable, "-S", "-P", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def run(tree: Path, *arguments: str) -> tuple[int, str]:
    """Runs the command line of the tree."""
    done = python(tree, "-m", "constrained", *arguments)
    return done.returncode, done.stderr


def test_modules_that_are_not_compiled(tree: Path) -> None:
    code, err = run(tree, "check", "{}")
    assert code == 70
    assert err.startswith("error: ")
    assert f"_core is not compiled in {tree}, a checkout of the sources\n  -> build them again" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["Extractor", "regex"])
def test_a_name_of_the_package_says_so_too(tree: Path, name: str) -> None:
    """Python that is started in a checkout takes its packages, also where compiled ones are installed."""
    done = python(tree, "-c", f"import constrained; constrained.{name}")
    assert done.returncode == 1
    assert f"ImportError: constrained/_core is not compiled in {tree}" in done.stderr
    assert "start Python in another folder" in done.stderr


@pytest.mark.ci
def test_modules_that_are_older_than_their_sources(tree: Path) -> None:
    """The one in the tree lacks everything; so does one that another release left there."""
    for package in PACKAGES:
        old = tree / package / "_core.py"  # stands for a compiled module
        old.write_text("")
        os.utime(old, (1, 1))
        shutil.rmtree(tree / package / "_core" / "__pycache__", ignore_errors=True)
    for package in PACKAGES:  # a module comes before a folder without __init__
        assert not (tree / package / "_core" / "__init__.py").exists()
    for command in (["check", "{}"], ["serve", "--port", "0"]):
        code, err = run(tree, *command)
        assert code == 70, err
        assert "was compiled before" in err
        assert "it failed with" in err
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("module", "folder"),
    [("constrained", "constrained"), ("constrained.grammars", "grammars"), ("constrained.spec", "spec")],
)
def test_the_stub_is_that_of_the_build(module: str, folder: str) -> None:
    built = import_module(f"{module}._core").__file__
    assert built is not None
    assert (ROOT / folder / "_core.pyi").read_text() == Path(built).with_name("_core.pyi").read_text()
