"""Calls in a process with limits: processor time counts, and waiting counts less."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from constrained.sandbox import WALL, Sandbox, SandboxTimeout
from constrained.vocabulary import Vocabulary

SECONDS = 0.2
VOCABULARY = Vocabulary.from_bytes([*(bytes((byte,)) for byte in range(256)), b""], [256])


def warm(vocabulary: Vocabulary) -> None:
    """Nothing needs to be loaded."""


def sleep(vocabulary: Vocabulary, seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def work(vocabulary: Vocabulary) -> None:
    while True:
        pass


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(VOCABULARY, SECONDS, 256 << 20, warm)
    yield made
    made.close()


def test_a_call_that_only_waits_is_not_ended_at_its_limit_of_processor_time(sandbox: Sandbox) -> None:
    assert sandbox.run(sleep, 2 * SECONDS) == 2 * SECONDS


def test_a_call_that_waits_forever_is_ended(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxTimeout):
        sandbox.run(sleep, 100 * WALL * SECONDS)


def test_a_call_that_computes_is_ended_and_the_next_one_is_run(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxTimeout):
        sandbox.run(work)
    assert sandbox.run(sleep, 0.0) == 0.0
