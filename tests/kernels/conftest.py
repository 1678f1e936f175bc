"""Where kernels run: see ``tests/conftest.py``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where the Triton kernels of this process run."""
    pytest.importorskip("triton", reason="triton is not installed: it has no build for this platform")
    if os.environ["TRITON_INTERPRET"] == "1":
        monkeypatch.setattr("triton.runtime.interpreter.InterpreterBuilder.create_dot", _dot)
        with np.errstate(divide="ignore", invalid="ignore"):  # log 0 and inf - inf, as on a device
            yield "cpu"
        return
    if not torch.cuda.is_available():
        pytest.skip("TRITON_INTERPRET=0, and there is no CUDA device")
    yield "cuda"


def _dot(builder: Any, a: Any, b: Any, total: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
    """The interpreter's product of matrices, also of bfloat16: it keeps these as integers, and multiplies the integers."""
    from triton.runtime.interpreter import TensorHandle

    found = np.matmul(_numbers(a), _numbers(b), dtype=total.data.dtype) + total.data
    return TensorHandle(found, total.dtype.scalar)


def _numbers(handle: Any) -> Any:
    if str(handle.dtype.scalar) == "bf16":
        return (handle.data.astype(np.uint32) << 16).view(np.float32)
    return handle.data
