"""Input that means harm: a typed error or a correct automaton, never a crash, a hang or a step that fails later."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.support.hostile_cases import CASES, SLOW
from tests.tools.hostile_runner import Runner

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    made = Runner()
    yield made
    made.close()


def marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    if name == "5,000 rules in order":  # takes as long as 40 others
        return (pytest.mark.ci,)
    return (pytest.mark.slow,) if name in SLOW else ()


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in CASES])
def test_hostile_input(runner: Runner, name: str) -> None:
    outcome = runner.run(name)
    assert outcome.verdict == CASES[name].outcome, outcome.detail
