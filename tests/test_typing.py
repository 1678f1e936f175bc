"""What a user's type checker sees: the packages ship their types."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_layers import folder

SCRIPT = """\
import constrained, constrained.grammars.ir, constrained.spec.budget
out = constrained.Generator(constrained.load(), constrained.json_schema({}))("Ana", max_tokens=9)
reveal_type((out.text, out.stats, constrained.ConstrainedError("x").summary, constrained.grammars.ir.Grammar, constrained.spec.budget))
constrained.load(device=1)
"""


VALUES = {
    'constrained.extract(model, "a", P)': "P",
    'constrained.extract(model, "a", P, max_tokens=9, seed=1, sampler="awrs")': "P",
    'constrained.extract(model, "a", list[P])': "list[P]",
    'constrained.extract(model, "a", {"type": "string"})': "Any",
    'constrained.extract(model, "a", constrained.regex("a"))': "Any",
    'constrained.generate(model, "a", P)': "P",
    'constrained.generate(model, "a", P, max_tokens=9, seed=1)': "P",
    'constrained.Generator(model, P)("a").value': "P",
    'constrained.Generator(model, P).batch(["a"])[0].value': "P",
    'constrained.Generator(model, {})("a").value': "Any",
    'constrained.Extractor(model, P)("a").value': "P",
}
"""Expressions over a dataclass P, and their types as both type checkers print them."""
REVEALING = (
    "import dataclasses, constrained\n"
    "@dataclasses.dataclass\nclass P:\n    x: int\n"
    "model = constrained.load()\n" + "".join(f"reveal_type({expression})\n" for expression in VALUES)
)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that finds the packages as installed ones, where type checkers heed ``py.typed`` alone."""
    tmp_path = tmp_path_factory.mktemp("installed")
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "constrained").symlink_to(folder("constrained"), target_is_directory=True)
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    found = str(environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    purelib = run(found, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    (Path(purelib) / "checkout.pth").write_text(f"{packages}\n", encoding="utf-8")
    return found


@pytest.mark.ci  # mypy reads all packages
def test_mypy_sees_types_in_a_users_script(python: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "values.py").write_text(REVEALING, encoding="utf-8")
    done = run(
        sys.executable,
        "-m",
        "mypy",
        f"--python-executable={python}",
        f"--cache-dir={tmp_path / 'cache'}",
        "--config-file=",
        "script.py",
        "values.py",
        cwd=tmp_path,
        fails=True,
    )
    revealed, *errors = [line for line in done.stdout.splitlines() if line.startswith("script.py:")]
    assert "str, constrained.decoding.stats.Stats, str, def (" in revealed, done.stdout
    assert len(errors) == 1, done.stdout
    assert errors[0].startswith('script.py:4: error: Argument "device" to "load"')
    types = re.findall(r'^values\.py:\d+: note: Revealed type is "(.*)"', done.stdout, re.MULTILINE)
    assert [name.replace("values.", "") for name in types] == list(VALUES.values()), done.stdout


def test_pyright_sees_the_same_values(python: str, tmp_path: Path) -> None:
    """With `basedpyright`, which needs no network: `pyright` from PyPI downloads itself at its first start."""
    pytest.importorskip("basedpyright")
    (tmp_path / "values.py").write_text(REVEALING, encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}', encoding="utf-8")
    done = run(
        sys.executable,
        "-m",
        "basedpyright",
        f"--pythonpath={python}",
        "--outputjson",
        "values.py",
        cwd=tmp_path,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    types = [re.fullmatch(r'Type of ".*" is "(.*)"', one["message"]) for one in found]
    assert [match.group(1) for match in types if match] == list(VALUES.values()), done.stdout
    assert not [one for one in found if one["severity"] == "error"]


def run(*command: str, fails: bool = False, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")
    }
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    assert fails == (done.returncode != 0), done.stdout + done.stderr
    return done
