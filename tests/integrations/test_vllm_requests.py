"""What a request to vLLM says about its constraint, and the switch, without vLLM."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import constrained
from constrained import Vocabulary
from constrained.errors import ConstrainedError
from constrained.integrations.engines.request_constraint import request_constraint
from constrained.integrations.engines.settings import VllmSettings
from constrained.integrations.vllm.request_fields import check_extra_args, request_fields

BYTES = Vocabulary.from_bytes([bytes([i]) for i in range(256)] + [b"<e>"], [256])


class Params:
    """As `StructuredOutputsParams`."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def test_flags_of_the_server_hold_for_all_requests() -> None:
    config = Params(disable_any_whitespace=True, disable_additional_properties=False, backend="auto")
    given = request_fields(
        Params(json='{"properties": {"a": {}}}', regex=None, disable_additional_properties=True), config
    )
    assert given == {
        "json": '{"properties": {"a": {}}}',
        "disable_any_whitespace": True,
        "disable_additional_properties": True,
    }
    automaton = constrained.compile(request_constraint(given), BYTES)
    for text, length in (("{}", 2), ("{ }", 1), ('{"x": 1}', 2)):
        assert len(automaton.walk(automaton.start, list(text.encode()))) == length


def test_exact_samplers_and_predicates_are_refused_by_name() -> None:
    check_extra_args(None)
    check_extra_args({"sampler": "local", "other": 1})
    with pytest.raises(
        ConstrainedError, match=r"the sampler 'cars' does not run inside vLLM[\s\S]*constrained serve"
    ):
        check_extra_args({"sampler": "cars"})
    with pytest.raises(ConstrainedError, match="Python code"):
        check_extra_args({"predicate": "lambda text: True"})


def test_nothing_happens_without_the_switch_and_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from constrained.integrations.vllm import register; register(); register();"
        "print([name for name in ('vllm', 'torch', 'numpy') if name in sys.modules])"
    )
    # An engine that another test made in this process leaves the switch on.
    environment = {name: value for name, value in os.environ.items() if name != VllmSettings.VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")
