"""How many cases of each test `make test` and `make test-all` run, from how long they take.

    CONSTRAINED_ALL_EXAMPLES=1 pytest --all-cases -m "not slow and not real" --junitxml=times.xml
    python -m tests.tools.first_cases times.xml    write tests/first_cases.json

`make test` is for while one works, and has two minutes; `make test-all`, which CI runs, has ten. A test whose cases take long together has
in each of them as many of its first cases as fit into its share. The others have the marks `ci` and `slow`; those of `slow` take turns in
`make test-all` (`--turn`), so that each of them runs once in `TURNS` commits.
"""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST_CASES = ROOT / "tests" / "first_cases.json"
QUICK, ALL = 0.15, 1.0
"""Seconds of a test in `make test` and in `make test-all`, with all its random examples, on the machine that took the times."""

WHOLE = ("tests/test_api.py::", "tests/test_examples.py::test_every_command_of_the_readme")
"""What both run, however long it takes: what a user does first."""


TURNS = 12
"""In how many parts `make test-all` runs the cases that it has no time for, one part each time."""


def mark_cases(items: Sequence[pytest.Item], turn: int | None = None) -> None:
    """Marks the cases that there is no time for in `make test`, or not in `make test-all` either.

    Args:
        items: the collected cases.
        turn: the part of the latter that `make test-all` has, modulo `TURNS`; None for no part.
    """
    shares = json.loads(FIRST_CASES.read_text())
    seen: Counter[str] = Counter()
    for item in items:
        name = test_name(item.nodeid)
        if name in shares and item.get_closest_marker("slow") is None:
            seen[name] += 1
            quick, every = shares[name]
            # Counted from the name, too: so tests of a few more cases do not all have them in the same part.
            part = (seen[name] + zlib.crc32(name.encode())) % TURNS
            runs = seen[name] <= every or (turn is not None and part == turn % TURNS)
            if seen[name] > quick:
                item.add_marker(pytest.mark.ci if runs else pytest.mark.slow)


def test_name(node: str) -> str:
    """The test of a case."""
    return node.partition("[")[0]


def read_times(report: Path) -> dict[str, list[float]]:
    """The seconds of the cases of each test, in their order, from a report in JUnit's form."""
    times: dict[str, list[float]] = defaultdict(list)
    for case in ET.parse(report).iter("testcase"):
        times[_name(case.attrib["classname"], case.attrib["name"])].append(float(case.attrib["time"]))
    return times


def _name(module: str, case: str) -> str:
    """The name of a test as pytest spells it; a class stands behind its module there."""
    path, parts = ROOT, module.split(".")
    while parts and not path.is_file():
        path = path / parts.pop(0)
        path = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path
    return "::".join([path.relative_to(ROOT).as_posix(), *parts, test_name(case)])


def first_cases(times: dict[str, list[float]]) -> dict[str, tuple[int, int]]:
    """How many cases `make test` and `make test-all` have of each test that takes long; `make test-all` has one at least."""
    return {
        name: (_fitting(seconds, QUICK), max(1, _fitting(seconds, ALL)))
        for name, seconds in sorted(times.items())
        if sum(seconds) > QUICK and not name.startswith(WHOLE)
    }


def _fitting(seconds: Sequence[float], share: float) -> int:
    return sum(sum(seconds[: count + 1]) <= share for count in range(len(seconds)))


if __name__ == "__main__":
    lines = (
        f"{json.dumps(name)}: {list(shares)}"
        for name, shares in first_cases(read_times(Path(sys.argv[1]))).items()
    )
    FIRST_CASES.write_text("{\n" + ",\n".join(lines) + "\n}\n")
