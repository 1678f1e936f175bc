"""Input that means harm: a typed error or a correct automaton, never a crash, a hang or a step that fails later."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from constrained.bench.hostile.cases import CASES, FAMILIES
from tests.tools.hostile_runner import Runner

SLOW = frozenset((
    "12 dependentSchemas", "if, then and else, 12 of them", "prefixItems, 20,000 of them",
    "5,000 required properties", "5,000 optional properties and others",
    "2,000 optional properties, 5 to 9 of them", "an enum of 100,000 strings",
    "an enum of 100,000 numbers", "an enum of 20,000 objects", "a const of 1,000,000 characters",
    "a schema of 1 MB", "oneOf nested 12 levels, each twice", "10,000 alternatives",
    "10,000 alternatives with a tail", "Unicode properties", "every class and its complement",
    "ignore case over Unicode", "100 KB of letters", "1,000 stars", "40,000 stars",
    "look-ahead, and not", "5,000 rules backwards", "5,000 alternatives", "5,000 rules that rename",
    "5,000 optional parentheses", "a choice of 100,000", "a span of 50,000 characters",
    "a token of 100,000 bytes",
))  # fmt: skip
"""Cases that take a second or more: correct and bounded, and tested with the slow tests."""
LONG = frozenset((
    "5,000 rules in order", "anyOf of 2,000 objects", "200 different strings",
))  # fmt: skip
"""These take as long as all others that are not slow."""


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    made = Runner()
    yield made
    made.close()


def marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    if name in LONG:
        return (pytest.mark.ci,)
    return (pytest.mark.slow,) if name in SLOW else ()


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in CASES])
def test_hostile_input(runner: Runner, name: str) -> None:
    outcome = runner.run(name)
    assert outcome.verdict == CASES[name].outcome, outcome.detail


def test_all_that_is_named_exists() -> None:
    assert set(CASES).issuperset(FAMILIES)
    assert set(CASES) >= SLOW | LONG
