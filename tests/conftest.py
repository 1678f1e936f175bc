"""Settings that every test shares."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path

# The models of the tests are so small that threads would only wait for each other, on a busy machine for long.
# Set before anything imports torch.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Kernels run interpreted, on CPU tensors; with TRITON_INTERPRET=0 on a machine with a GPU, compiled on it. Triton reads
# it when it is imported, which transformers does.
os.environ.setdefault("TRITON_INTERPRET", "1")

# Tests leave no files in the user's cache.
os.environ["CONSTRAINED_CACHE"] = ""

import pytest
from hypothesis import settings

from tests.support.examples import examples
from tests.tools.first_cases import mark_cases

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Whoever starts the tests in the background may have told them to ignore Ctrl-C, and processes that tests start would
# inherit that. A handler of one's own is not inherited: they begin with the default.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says nothing about right or wrong, and a busy machine must not fail a test. A run must
# say the same thing each time, so the examples come from a fixed seed; `--hypothesis-profile=explore` draws new ones.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=examples(100))
settings.register_profile("explore", deadline=None, derandomize=False)
settings.load_profile("default")


def pytest_collection_finish() -> None:
    """What imports have left stays: collecting garbage takes half a second where it goes through all of torch."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # the native modules report what is not freed at the end


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--all-cases"):
        mark_cases(items, config.getoption("--turn"))


# ---------------------------------------------------------------- skips

SKIPS = Path(__file__).with_name("skips.toml")
"""Every reason for which a test may be skipped."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--listed-skips-only",
        action="store_true",
        help="fail if a test is skipped for a reason that tests/skips.toml does not list",
    )
    parser.addoption(
        "--turn", type=int, help="also the part of this number of the cases that are slow together"
    )
    parser.addoption("--all-cases", action="store_true", help="also those of tests/first_cases.json")


class Skips:
    """Counts skipped tests by reason, and fails the run if a reason is not listed."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        listed = tomllib.loads(SKIPS.read_text(encoding="utf-8"))["skip"]
        self.patterns = [re.compile(entry["reason"]) for entry in listed]
        self.reasons: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self._count(report.longrepr[2])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self._count(report.longrepr[2])

    def _count(self, reason: str) -> None:
        self.reasons[reason.removeprefix("Skipped: ")] += 1

    @property
    def unlisted(self) -> list[str]:
        """Reasons that no pattern of the list matches in full."""
        return [reason for reason in self.reasons if not any(p.fullmatch(reason) for p in self.patterns)]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.reasons:
            terminalreporter.section("skipped, by reason")
            for reason, count in sorted(self.reasons.items()):
                note = "  NOT LISTED in tests/skips.toml" if reason in self.unlisted else ""
                terminalreporter.line(f"{count:5}  {reason}{note}")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.strict and self.unlisted and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # under xdist, the reports of all workers come to the controller
        config.pluginmanager.register(Skips(config.getoption("--listed-skips-only")), "skips")
