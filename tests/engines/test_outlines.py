"""Constraints inside Outlines, over its models of transformers, llama.cpp and MLX."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

import pytest

import constrained
from constrained import Generator, choice, regex
from constrained.errors import InvalidArgument
from constrained.models.tiny import WEIGHTS
from tests.support.gguf_files import write_llama

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 30}, "born": {"type": "integer"}},
    "required": ["name", "born"],
    "additionalProperties": False,
}
TEXT = "Ana Novak was born in 1987 in Brno."


@cache
def ours() -> Any:
    return constrained.load()


@pytest.fixture(scope="module", params=["transformers", "llama_cpp", "mlx_lm"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The bundled model in Outlines, and the name of its limit."""
    import outlines

    if importlib.util.find_spec(request.param) is None:
        pytest.skip("comes with: make test-engines")
    if request.param == "transformers":
        return outlines.from_transformers(ours().model, ours().tokenizer), "max_new_tokens"
    if request.param == "llama_cpp":
        from llama_cpp import Llama

        path = write_llama(tmp_path_factory.mktemp("gguf") / "tiny.gguf", ours().model, ours().tokenizer)
        return outlines.from_llamacpp(
            Llama(str(path), n_threads=1, n_threads_batch=1, verbose=False)
        ), "max_tokens"
    import mlx_lm

    return outlines.from_mlxlm(*mlx_lm.load(str(WEIGHTS))), "max_tokens"


@pytest.mark.parametrize("constraint", [PERSON, regex("[A-Z][a-z]+ [0-9]{2,6}"), choice(["yes", "no"])])
def test_texts_satisfy_the_constraint_within_the_limit(model: Any, constraint: Any) -> None:
    import outlines

    from constrained.integrations.outlines import logits_processor

    engine, limit = model
    generator = outlines.Generator(engine, processor=logits_processor(engine, constraint, max_tokens=30))
    compiled = Generator(ours(), constraint)
    for _ in range(2):  # a generator serves one call after another
        text = generator(TEXT, **{limit: 31})
        compiled.constraint.parse(text)
        assert accepts(compiled, text), text


def accepts(generator: Any, text: str) -> bool:
    automaton = generator.automaton
    states = automaton.walk(automaton.start, automaton.vocabulary.encode(text))
    return bool(states) and automaton.accepts(states[-1])


def test_greedy_text_of_transformers_is_that_of_the_generator() -> None:
    import outlines

    from constrained.integrations.outlines import logits_processor

    engine = outlines.from_transformers(ours().model, ours().tokenizer)
    generator = outlines.Generator(engine, processor=logits_processor(engine, PERSON, max_tokens=40))
    expected = Generator(ours(), PERSON)(TEXT, max_tokens=40).text
    assert generator(TEXT, max_new_tokens=41, do_sample=False) == expected


def test_a_model_without_logits_is_refused() -> None:
    from constrained.integrations.outlines import logits_processor

    with pytest.raises(InvalidArgument, match="a object takes no logits processor"):
        logits_processor(object(), PERSON)
