"""A model on a device, and one whose layers are on two: how they are read, and that the texts are those of the CPU."""

from __future__ import annotations

import copy

import pytest
import torch

from constrained.models.fixed_steps import FixedSteps
from constrained.models.hugging_face import HuggingFaceModel
from tests.device.loops import DRAFTS, LOOPS, assert_same_texts
from tests.device.placed import placed, split_layers
from tests.support.tiny_models import llama

MAIN = ("unweighted", "serving")


@pytest.mark.ci
@pytest.mark.parametrize(
    "name", [name if name in MAIN else pytest.param(name, marks=pytest.mark.ci) for name in LOOPS]
)
def test_a_model_on_two_devices(device, name):
    model = placed(device, llama(), devices=2)
    assert {str(one.device) for one in model.model.parameters()} == {"cuda:0", "cuda:1"}
    assert_same_texts(LOOPS[name](model, DRAFTS), LOOPS[name](llama(), DRAFTS))


def chosen(device, *, devices=1):
    """A model that was loaded without a word about its engine."""
    model = llama()
    weights = device.move(copy.deepcopy(model.model))
    if devices == 2:
        split_layers(device, weights)
    return HuggingFaceModel(weights, model.tokenizer)


def test_fixed_passes_are_chosen_on_a_cuda_device_and_nowhere_else(device):
    model = chosen(device)
    assert isinstance(model._steps, FixedSteps)
    assert model.no_engine is None
    assert_same_texts(LOOPS["generator"](model, DRAFTS), LOOPS["generator"](llama(), DRAFTS), 5e-3)
    assert "several devices" in (chosen(device, devices=2).no_engine or "")
    assert llama()._steps is None


def test_passes_that_cannot_be_captured_are_launched_one_by_one(device, monkeypatch):
    def refused(*args):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(FixedSteps, "_captured", refused)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    model = chosen(device)
    with pytest.warns(UserWarning, match="stream is capturing"):
        found = LOOPS["generator"](model, DRAFTS)
    assert_same_texts(found, LOOPS["generator"](llama(), DRAFTS), 5e-3)
    assert "could not be captured: RuntimeError: operation not permitted" in (model.no_engine or "")
