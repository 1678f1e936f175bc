"""What the tests inside other engines share. They run in environments of their own: `make test-engines`."""

from __future__ import annotations

import importlib.util

import pytest

PACKAGES = {
    "test_vllm": ("vllm", "vLLM"),
    "test_sglang": ("sglang", "SGLang"),
    "test_llama_cpp": ("llama_cpp", "llama-cpp-python"),
    "test_mlx": ("mlx_lm", "mlx-lm"),
    "test_outlines": ("outlines", "Outlines"),
}
"""Package and name of the engine, by the beginning of the file's name."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = {
        start: name
        for start, (package, name) in PACKAGES.items()
        if importlib.util.find_spec(package) is None
    }
    for item in items:
        if "tests/engines" in item.path.as_posix():
            item.add_marker(pytest.mark.engines)
            item.add_marker(pytest.mark.filterwarnings("default"))  # warnings of the engines are their own
            for start, name in missing.items():
                if item.path.name.startswith(start):
                    item.add_marker(pytest.mark.skip(reason=f"{name} is not installed: make test-engines"))
