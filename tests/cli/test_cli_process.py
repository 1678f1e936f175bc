"""The command line as a process among others: signals, pipes, locales, and how soon it is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

DRIVER = str(ROOT / "tests" / "tools" / "cli_driver.py")
SAID = '{"name": "Łukasz"}'
EXTRACT = ("extract", "x", "--schema", '{"type": "object", "properties": {"name": {"type": "string"}}}')

posix = pytest.mark.skipif(os.name != "posix", reason="signals and descriptors as POSIX has them")


def start(*arguments: str, pause: float = 0.0, **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, DRIVER, SAID, str(pause), *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **options)


@pytest.mark.ci
@posix
def test_ctrl_c_in_the_middle_is_one_line_and_leaves_no_partial_json() -> None:
    process = start(*EXTRACT, pause=0.05, stdout=subprocess.PIPE)
    assert process.stderr is not None
    for _ in range(3):
        assert process.stderr.readline() == b"thinking\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert err.replace(b"thinking\n", b"") == b"interrupted\n"


@pytest.mark.ci
@posix
def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start(*EXTRACT, stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")


@posix
def test_tables_and_panels_for_a_reader_that_went_away_end_quietly_too() -> None:
    """A console of rich ends the process with the exit code 1 by itself."""
    reading, writing = os.pipe()
    os.close(reading)
    code = (
        "from constrained.cli.exit_status import report_errors, result_console\n"
        "with report_errors(traceback=False): result_console().rule('demo')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.ci
@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_result_that_cannot_be_written_is_an_error() -> None:
    with open("/dev/full", "wb") as full:
        process = start(*EXTRACT, stdout=full)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (2, b"error: the result cannot be written: No space left on device\n")


@pytest.mark.ci
def test_json_is_utf8_whatever_the_locale() -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    process = start(
        "extract", "von Łukasz", *EXTRACT[2:], "--stream", stdout=subprocess.PIPE, env=environment
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out.decode("utf-8")) == (0, SAID + "\n"), err


@pytest.mark.ci
@pytest.mark.parametrize("arguments", [("--help",), ("extract", "--help"), ("--version",)])
def test_help_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys\n"
        "from constrained.cli import main\n"
        f"try: main({arguments!r})\n"
        "finally: print([name for name in ('torch', 'transformers', 'numpy', 'jsonschema', 'rich')"
        " if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "constrained.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("constrained ")
