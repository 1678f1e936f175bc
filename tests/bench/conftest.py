"""The tests of the benches carry the marker `bench`: `make test` leaves them out, `make test-all` does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.bench)


@pytest.fixture(autouse=True, scope="module")
def processes_find_the_tests() -> Iterator[None]:
    """Processes that a bench starts can import what stands beside the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        yield
