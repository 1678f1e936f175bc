"""Where kernels run: see ``tests/conftest.py``."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
import torch


@pytest.fixture
def device() -> Iterator[str]:
    """Where the Triton kernels of this process run."""
    pytest.importorskip("triton", reason="triton is not installed: it has no build for this platform")
    if os.environ["TRITON_INTERPRET"] == "1":
        with np.errstate(divide="ignore", invalid="ignore"):  # log 0 and inf - inf, as on a device
            yield "cpu"
        return
    if not torch.cuda.is_available():
        pytest.skip("TRITON_INTERPRET=0, and there is no CUDA device")
    yield "cuda"
