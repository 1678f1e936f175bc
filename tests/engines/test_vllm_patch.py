"""The plug-in against the names of the installed vLLM: all there, or nothing is replaced."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from constrained.errors import InvalidArgument
from tests.engines.vllm_worker import DRAFTS, ENVIRONMENT

CHECKS = """
import os
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.engine import core
from vllm.v1.structured_output import StructuredOutputManager, backend_types
from constrained.integrations.engines.compatibility import IncompatibleEngine
from constrained.integrations.vllm import patch, register
from constrained.integrations.engines.settings import VllmSettings

validate, manager = SamplingParams._validate_structured_outputs, core.StructuredOutputManager

def refused(place):
    try:
        patch.install(VllmSettings())
    except IncompatibleEngine as error:
        assert place in str(error) and "nothing was changed" in str(error), error
        assert getattr(core, "StructuredOutputManager", manager) in (manager, object)
    else:
        raise SystemExit(f"not refused: {place}")

def moved(owner, name, value, place):
    old = getattr(owner, name)
    if value is None:
        delattr(owner, name)
    else:
        setattr(owner, name, value)
    refused(place)
    setattr(owner, name, old)

moved(SamplingParams, "_validate_structured_outputs", None, "_validate_structured_outputs")
moved(SamplingParams, "_validate_structured_outputs", lambda self, request: None, "has other parameters")
moved(core, "StructuredOutputManager", None, "vllm.v1.engine.core:StructuredOutputManager")
moved(core, "StructuredOutputManager", object, "is another class")
moved(StructuredOutputManager, "grammar_bitmask", None, "grammar_bitmask")
abstract = backend_types.StructuredOutputGrammar.__abstractmethods__
moved(backend_types.StructuredOutputGrammar, "__abstractmethods__", abstract | {"jump"}, "has other fields")
fields = StructuredOutputsParams.__dataclass_fields__
moved(StructuredOutputsParams, "__dataclass_fields__", {**fields, "xml": None}, "has other fields")
assert SamplingParams._validate_structured_outputs is validate

register()  # not switched on
assert (SamplingParams._validate_structured_outputs, core.StructuredOutputManager) == (validate, manager)
os.environ["CONSTRAINED_VLLM"] = "1"
register()
replaced = SamplingParams._validate_structured_outputs, core.StructuredOutputManager
assert validate is not replaced[0] and manager is not replaced[1] and issubclass(replaced[1], manager)
register()
assert (SamplingParams._validate_structured_outputs, core.StructuredOutputManager) == replaced
print("all as expected")
"""


def test_a_moved_name_is_an_error_and_nothing_is_replaced() -> None:
    done = subprocess.run([sys.executable, "-c", CHECKS], capture_output=True, text=True, check=False)
    assert "all as expected" in done.stdout, done.stdout + done.stderr[-3000:]


def test_an_engine_without_the_plug_in_is_an_error_before_a_model_is_loaded() -> None:
    """VLLM_PLUGINS leaves it out: a constraint must not be another backend's."""
    code = "from constrained.extraction.cluster.vllm_engine import VllmModel; VllmModel('no such model')"
    environment = {**os.environ, **ENVIRONMENT, "VLLM_PLUGINS": "another"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert "ModelError: vLLM has not loaded the plug-in of this library" in done.stderr, done.stderr[-3000:]
    assert "leave VLLM_PLUGINS unset or add constrained to it" in done.stderr


def test_the_grammar_fulfils_the_contract_of_the_abstract_classes() -> None:
    """By the classes of vLLM: masks, roll back, the end, without an engine."""
    torch = pytest.importorskip("torch")
    from vllm.v1.structured_output.backend_types import StructuredOutputOptions as Options

    import constrained
    from constrained.integrations.engines.settings import VllmSettings
    from constrained.integrations.vllm.backend import VllmGrammarBackend

    model = constrained.load()
    flags = {"disable_any_whitespace": False, "disable_additional_properties": False}
    config = SimpleNamespace(structured_outputs_config=SimpleNamespace(backend="auto", **flags))
    size = model.vocabulary.size
    backend = VllmGrammarBackend(config, model.tokenizer, size, VllmSettings())
    specifications = {
        Options.JSON: '{"type": "integer", "minimum": 10, "maximum": 12}',
        Options.JSON_OBJECT: "",
        Options.REGEX: "1[0-2]",
        Options.CHOICE: '["10", "12"]',
        Options.GRAMMAR: 'root ::= "1" [02]',
        Options.STRUCTURAL_TAG: '{"type": "structural_tag", "format": {"type": "const_string", "value": "10"}}',
    }
    for kind, specification in specifications.items():
        grammar = backend.compile_grammar(kind, specification, stop_token_ids={0, 7})
        text = model.vocabulary.encode("{}" if kind is Options.JSON_OBJECT else "10")
        masks = backend.allocate_token_bitmask(3)
        assert (masks.dtype, tuple(masks.shape)) == (torch.int32, (3, -(-size // 32)))
        for token in text:
            grammar.fill_bitmask(masks, 1)
            assert masks[1, token // 32] >> token % 32 & 1
            assert not masks[1, 0] & (1 | 1 << 7)
            assert grammar.accept_tokens("r", [token])
        grammar.fill_bitmask(masks, 2)
        assert masks[2, 0] & (1 | 1 << 7) == 1 | 1 << 7
        assert bool((masks[0] == -1).all())
        assert not grammar.is_terminated()
        assert grammar.validate_tokens([7, 7]) == [7]
        assert grammar.accept_tokens("r", [7])
        assert grammar.is_terminated()
        grammar.rollback(1 + len(text))
        assert grammar.validate_tokens([*text, 0]) == [*text, 0]
        grammar.reset()
        assert not grammar.accept_tokens("r", [0])
    backend.destroy()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rejection_sample_method": "synthetic"}, "does not keep the distribution"),
        ({"rejection_sample_method": "fly"}, "does not keep the distribution"),
        ({"backend": "xgrammar"}, "constrained is switched on"),
        ({"async_scheduling": True}, "--no-async-scheduling"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_configuration_that_contradicts_the_plug_in_is_refused(
    changed: dict[str, Any], message: str
) -> None:
    from constrained.integrations.vllm.manager import VllmManager

    given = {"rejection_sample_method": "standard", "backend": "auto", "async_scheduling": False, **changed}
    config = SimpleNamespace(
        structured_outputs_config=SimpleNamespace(backend=given["backend"]),
        speculative_config=SimpleNamespace(
            model=DRAFTS["model"],
            num_speculative_tokens=8,
            rejection_sample_method=given["rejection_sample_method"],
        ),
        scheduler_config=SimpleNamespace(async_scheduling=given["async_scheduling"]),
    )
    with pytest.raises(InvalidArgument, match=message):
        VllmManager(config)
