"""What the tests inside other engines share. They run in environments of their own: `make test-engines`."""

from __future__ import annotations

import importlib.util

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = importlib.util.find_spec("vllm") is None
    for item in items:
        if "tests/engines" in item.path.as_posix():
            item.add_marker(pytest.mark.engines)
            item.add_marker(pytest.mark.filterwarnings("default"))  # warnings of the engines are their own
            if missing:
                item.add_marker(pytest.mark.skip(reason="vLLM is not installed: make test-engines"))
