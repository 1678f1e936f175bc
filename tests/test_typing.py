"""What a user's type checker sees: the packages ship their types."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.test_layers import folder

SCRIPT = """\
import constrained, grammars.ir, spec.budget
out = constrained.Generator(constrained.load(), constrained.json_schema({}))("Ana", max_tokens=9)
reveal_type((out.text, out.stats, constrained.ConstrainedError("x").summary, grammars.ir.Grammar, spec.budget))
constrained.load(device=1)
"""


def test_mypy_sees_types_in_a_users_script(tmp_path: Path) -> None:
    """Found as an installed package is: by the interpreter's own path, where mypy heeds ``py.typed`` alone."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    for name in ("constrained", "grammars", "spec"):
        (packages / name).symlink_to(folder(name), target_is_directory=True)
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    purelib = run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    (Path(purelib) / "checkout.pth").write_text(f"{packages}\n", encoding="utf-8")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = run(
        sys.executable,
        "-m",
        "mypy",
        f"--python-executable={python}",
        f"--cache-dir={tmp_path / 'cache'}",
        "--config-file=",
        str(script),
        cwd=tmp_path,
        fails=True,
    )
    revealed, *errors = [line for line in done.stdout.splitlines() if line.startswith("script.py:")]
    assert "str, constrained.decoding.output.Stats, str, def (" in revealed, done.stdout
    assert len(errors) == 1, done.stdout
    assert errors[0].startswith('script.py:4: error: Argument "device" to "load"')


def run(*command: str, fails: bool = False, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")
    }
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    assert fails == (done.returncode != 0), done.stdout + done.stderr
    return done
