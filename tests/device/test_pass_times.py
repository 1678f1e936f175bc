"""The draft budget learns the time of passes, not of launches: a pass is recorded when the device has done it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from constrained import Speculation
from constrained.models.logits import DeviceLogits
from constrained.spec.budget import DraftBudget
from tests.device.loops import LOOPS
from tests.device.placed import placed
from tests.device.pretended import PretendedDevice
from tests.support.tiny_models import llama


def queued_at_records(device: PretendedDevice, monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """For each pass that the budget records while a loop runs: how many of its launches were not done."""
    model = placed(device, llama())
    last, queued = [0], []
    read, record = model._logits, DraftBudget.record_pass

    def reading(*args: Any) -> Any:
        made = read(*args)
        last[0] = device.issued
        return made

    def recording(*args: Any, **named: Any) -> None:
        queued.append(max(0, last[0] - device.done))
        record(*args, **named)

    monkeypatch.setattr(model, "_logits", reading)
    monkeypatch.setattr(DraftBudget, "record_pass", recording)
    LOOPS[name](model, Speculation(nodes=8))
    assert len(queued) >= model.passes - 3  # prompts of a batch are read without a budget
    return queued


@pytest.mark.parametrize(
    "name", ["generator", *(pytest.param(name, marks=pytest.mark.ci) for name in ("unweighted", "serving"))]
)
def test_passes_are_timed_when_they_are_done(device, monkeypatch, name):
    assert not any(queued_at_records(device, monkeypatch, name))


def test_a_time_taken_at_once_is_that_of_the_launches(device, monkeypatch):
    def at_once(self: DeviceLogits, call: Callable[[], None]) -> None:
        call()

    monkeypatch.setattr(DeviceLogits, "when_read", at_once)
    assert all(queued_at_records(device, monkeypatch, "generator"))
