"""The containers of the native core, compiled alone: the program is its own judge."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("c++")


@pytest.mark.ci  # compiling it takes seconds; all tests of the core go through these containers
@pytest.mark.skipif(COMPILER is None, reason="the containers are compiled alone by a C++ compiler")
def test_tables_hold_many_contents_with_hashes_that_begin_alike(tmp_path: Path) -> None:
    assert COMPILER is not None
    program = tmp_path / "containers"
    source = Path(__file__).with_name("containers.cpp")
    subprocess.run(
        [COMPILER, "-std=c++20", "-O1", f"-I{ROOT}", source, "-o", program], check=True, timeout=300
    )
    done = subprocess.run([program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
