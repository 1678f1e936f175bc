"""A pretended device for a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.device.pretended import PretendedDevice, pretended_device


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendedDevice]:
    """A pretended device with stand-ins for kernels, for one test."""
    with pretended_device(monkeypatch) as entered:
        yield entered
