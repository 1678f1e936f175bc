"""A model whose layers are on two devices: every loop, with drafts, gives the texts of the CPU."""

from __future__ import annotations

import pytest

from tests.device.loops import DRAFTS, LOOPS, assert_same_texts
from tests.device.placed import placed
from tests.support.tiny_models import llama

MAIN = ("unweighted", "serving")


@pytest.mark.parametrize(
    "name", [name if name in MAIN else pytest.param(name, marks=pytest.mark.ci) for name in LOOPS]
)
def test_a_model_on_two_devices(device, name):
    model = placed(device, llama(), devices=2)
    assert {str(one.device) for one in model.model.parameters()} == {"cuda:0", "cuda:1"}
    assert_same_texts(LOOPS[name](model, DRAFTS), LOOPS[name](llama(), DRAFTS))
