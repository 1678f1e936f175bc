"""Large bodies come in at a limited rate while several clients are about, all of them together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from constrained.server import bodies
from constrained.server.pace import PACE, Pace
from tests.server.serving import scripted, served


class Clients:
    """Whether there are several, and a clock that a test sets."""

    def __init__(self) -> None:
        self.several, self.now = True, 50.0

    def pace(self) -> Pace:
        return Pace(lambda: self.several, lambda: self.now)


def test_parts_of_all_bodies_come_at_one_rate() -> None:
    """Each waits for its own turn after those before it; time that has passed is not saved up."""
    clients = Clients()
    pace = clients.pace()
    assert [pace.wait(PACE // 10) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    clients.now += 0.2
    assert pace.wait(PACE // 10) == pytest.approx(0.2)
    clients.now += 60
    assert pace.wait(PACE // 10) == pytest.approx(0.1)


def test_a_client_that_is_alone_does_not_wait() -> None:
    clients = Clients()
    pace = clients.pace()
    pace.wait(PACE * 60)
    clients.several = False
    assert pace.wait(PACE) == 0
    clients.several = True
    assert pace.wait(PACE // 2) == pytest.approx(0.5)


def test_small_bodies_and_the_first_part_of_others_wait_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large one each further part is counted; its request is answered as ever."""
    counted: list[int] = []

    async def after(self: Pace, size: int) -> None:
        counted.append(size)
        await asyncio.sleep(0)

    monkeypatch.setattr(Pace, "after", after)
    with served(scripted("hello")) as server:
        assert server.chat("x" * 1000).status_code == 200
        assert server.chat(metadata={"a": "x" * (bodies.ELSEWHERE - 2000)}).status_code == 200
        assert not counted
        assert server.chat(metadata={"a": "x" * (4 << 20)}).status_code == 200
        assert sum(counted) > 3 << 20


def test_clients_with_open_requests_are_about(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[bool] = []
    wait = Pace.wait

    def noted(self: Pace, size: int) -> float:
        shared.append(self._shared())
        return wait(self, size)

    monkeypatch.setattr(Pace, "wait", noted)
    large: dict[str, Any] = {"metadata": {"a": "x" * (1 << 20)}}
    with served(scripted("hello")) as server:
        assert server.chat(**large).status_code == 200
        assert set(shared) == {False}
        server.service.admission.enter("another client")
        assert server.chat(**large).status_code == 200
        assert shared[-1]
        server.service.admission.leave("another client")
