"""A short slice of the fuzzer, the same in every run; `make fuzz` runs it for as long as you like."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.check import check
from tests.fuzz.targets import TARGETS
from tests.support.examples import examples


@pytest.mark.parametrize("name", TARGETS)
def test_a_slice_of_the_fuzzer(name: str) -> None:
    strategy, make = TARGETS[name]

    @settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
    @given(strategy, st.integers(0, 100))
    def one(value: object, draw: int) -> None:
        check(lambda: make(value), draw)

    one()
