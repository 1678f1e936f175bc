"""The names that the plug-ins use of vLLM and SGLang, in the recorded wheels of the oldest and the newest release."""

from __future__ import annotations

import json
from typing import Any

import pytest

from constrained.integrations.sglang import names as sglang
from constrained.integrations.vllm import patch as vllm
from tests.tools.engine_names import PATH

RECORDED: dict[str, dict[str, Any]] = json.loads(PATH.read_text())


def test_the_oldest_and_the_newest_release_are_recorded() -> None:
    assert list(RECORDED) == ["sglang 0.5.23", "vllm 0.31.0", "vllm 0.32.0", "vllm 0.33.0"]
    for release, places in RECORDED.items():
        assert list(places) == list(sglang.PLACES if release.startswith("sglang") else vllm.PLACES), (
            "record it again: python -m tests.tools.engine_names *.whl"
        )


@pytest.mark.parametrize("release", RECORDED)
def test_functions_have_the_parameters_that_plug_ins_use(release: str) -> None:
    places = RECORDED[release]
    expected = sglang._PARAMETERS if release.startswith("sglang") else vllm._PARAMETERS
    found = {place: tuple(places[place]["parameters"])[: len(names)] for place, names in expected.items()}
    assert found == expected


@pytest.mark.parametrize("release", [name for name in RECORDED if name.startswith("vllm")])
def test_the_classes_of_vllm_consist_of_what_is_known(release: str) -> None:
    places = RECORDED[release]
    assert {place: set(places[place]["abstract"]) for place in vllm._ABSTRACT} == vllm._ABSTRACT
    assert set(places[vllm._STRUCTURED]["fields"]) == vllm._FIELDS
    assert [places[f"{vllm._MANAGER}.{name}"] is not None for name in vllm._BOUNDS].count(True) == 1
    assert all(places[name] is not None for name in (*vllm._NAMES, vllm._MANAGER))
    assert places[vllm._USED] == places[vllm._MANAGER], "the engine core has the manager that is derived from"


def test_the_classes_of_sglang_have_the_attributes_that_are_read() -> None:
    places = RECORDED["sglang 0.5.23"]
    assert all(places[name] is not None for name in sglang._NAMES)
    for place, names in sglang._ATTRIBUTES.items():
        assert {*names} <= {*places[place]["fields"], *places[place]["parameters"]}
