"""Jobs of several callers in one runner: what waits for requests, what pauses, and what ends."""

from __future__ import annotations

from typing import Any

import pytest

from constrained.decoding import Generator
from constrained.decoding.request_batch import request_runner
from constrained.decoding.request_runner import BatchedRequest
from constrained.decoding.shared_runner import SharedRunner
from constrained.models import load


@pytest.fixture(scope="module")
def generator() -> Generator[Any]:
    return Generator(load(), {"enum": ["red", "green", "blue"]})


def test_a_job_that_yields_nothing_goes_on_in_the_next_step(generator: Generator[Any]) -> None:
    done: list[str] = []

    def reading(name: str) -> Any:
        for part in range(3):
            done.append(f"{name}{part}")
            yield []
        member = BatchedRequest(generator, generator._request("Which colour?"))
        yield [member]
        return member.outcome

    def failing() -> Any:
        yield []
        raise ValueError("no")

    shared = SharedRunner(request_runner(generator, 4, closes=False))
    futures = [shared.begin(reading("a")), shared.begin(reading("b"))]
    failed = shared.begin(failing())
    shared.step()
    assert (done, failed.done(), len(shared)) == (["a0", "b0"], False, 3)
    assert shared.step() == [failed]
    assert isinstance(failed.exception(), ValueError)
    while len(shared):
        shared.step()
    assert done == ["a0", "b0", "a1", "b1", "a2", "b2"]
    expected = generator("Which colour?").value
    assert [future.result().value for future in futures] == [expected, expected]
