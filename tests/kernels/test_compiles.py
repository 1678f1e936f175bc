"""The kernels compile for GPUs, also where there is none; what that says of their speed is only: nothing is spilled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("compile_kernels.py")


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
def test_every_kernel_compiles_and_spills_nothing(capability, tmp_path):
    pytest.importorskip("triton", reason="triton is not installed: it has no build for this platform")
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(capability)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 6
    assert all("stack=0" in line for line in lines), done.stdout
