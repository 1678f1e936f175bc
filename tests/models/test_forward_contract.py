"""What this library asks of transformers: the arguments of a forward pass, and the places where `generate` hands over.

Run with `-m contract` against other releases than the pinned one, see `make test-transformers`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers
from transformers import DynamicCache

import constrained
from constrained.errors import InvalidArgument
from constrained.models import LanguageModel
from constrained.models.capabilities import CACHE_NAMES, cache_argument
from constrained.models.hugging_face import HuggingFaceModel
from constrained.models.sequential_cache import ForwardMode
from tests.support.tiny_models import random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

pytestmark = pytest.mark.contract

ALWAYS = {"input_ids", "use_cache", "logits_to_keep"}
"""Passed to every model, with its cache."""
PLACED = {"attention_mask", "position_ids"}
"""Passed to models that say where a token is and what it sees; states are read in order."""

ATTENTION = [
    "CohereForCausalLM", "FalconForCausalLM", "GPT2LMHeadModel", "GPTNeoXForCausalLM", "Gemma2ForCausalLM",
    "Gemma3ForCausalLM", "GptOssForCausalLM", "GraniteForCausalLM", "Lfm2ForCausalLM", "LlamaForCausalLM",
    "MistralForCausalLM", "Olmo2ForCausalLM", "Phi3ForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM", "SmolLM3ForCausalLM",
]  # fmt: skip
STATES = ["FalconMambaForCausalLM", "Mamba2ForCausalLM", "MambaForCausalLM"]

LINES = constrained.regex(r'\{"name": "[a-z]{3,9}", "tags": \["[a-z]{2,5}", "[a-z]{2,5}"\]\}')
DRAFTS = constrained.Speculation(nodes=12, adapts=False)
PROMPT = 'the record: {"name": "'


@pytest.fixture(autouse=True)
def deprecations() -> Iterator[None]:
    """transformers logs some deprecations, once a process; those it raises as warnings are errors in all tests."""
    from transformers.utils import logging as own

    logged: list[str] = []

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(record.getMessage())

    notes, logger = Notes(level=logging.WARNING), logging.getLogger("transformers")
    own.warning_once.cache_clear()
    logger.addHandler(notes)
    yield
    logger.removeHandler(notes)
    assert not [text for text in logged if "deprecat" in text or "removed" in text]


@pytest.fixture
def model() -> LanguageModel:
    return constrained.load(random_llama(), small_bpe_tokenizer())


def passes(model: LanguageModel) -> list[dict[str, Any]]:
    """The arguments of the forward passes from now on."""
    noted: list[dict[str, Any]] = []

    def note(module: Any, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        assert not args, "arguments are passed by name"
        noted.append(given)

    assert isinstance(model, HuggingFaceModel)
    model.model.register_forward_pre_hook(note, with_kwargs=True)
    return noted


@pytest.mark.parametrize("name", ATTENTION + STATES)
def test_forward_takes_what_is_passed(name: str) -> None:
    kind = getattr(transformers, name)
    taken = set(inspect.signature(kind.forward).parameters)
    needed = ALWAYS if name in STATES else ALWAYS | PLACED
    assert not needed - taken, f"{name} of transformers {transformers.__version__}"
    assert cache_argument(kind) is not None, f"{name} takes a cache under none of {CACHE_NAMES}"


def test_no_other_argument_is_passed(model: LanguageModel) -> None:
    noted = passes(model)
    constrained.Generator(model, LINES, speculation=DRAFTS).batch([PROMPT, "x"], seed=0)
    constrained.Generator(model, LINES, sampler="smc").sample(PROMPT, n=3, seed=0)
    assert set().union(*noted) == ALWAYS | PLACED | {cache_argument(random_llama())}


def test_the_cache_is_used(model: LanguageModel) -> None:
    constrained.Generator(model, LINES)(PROMPT)  # the model has been probed
    noted = passes(model)
    out = constrained.Generator(model, LINES)(PROMPT)
    prompt = len(small_bpe_tokenizer().encode(PROMPT))
    assert sum(one["input_ids"].shape[1] for one in noted) <= prompt + len(out.tokens)


def test_trees_are_read_and_drafts_change_no_text(model: LanguageModel) -> None:
    plain = constrained.Generator(model, LINES)(PROMPT, seed=3)
    drafted = constrained.Generator(model, LINES, speculation=DRAFTS)(PROMPT, seed=3)
    assert isinstance(model, HuggingFaceModel)
    assert model.capabilities.mode is ForwardMode.TREES
    assert drafted.text == plain.text
    assert drafted.stats.forwards < plain.stats.forwards


def test_generate_hands_over_to_decode(model: LanguageModel) -> None:
    assert isinstance(model, HuggingFaceModel)
    plain = constrained.Generator(model, LINES)(PROMPT, max_tokens=60, temperature=0)
    batch = small_bpe_tokenizer()(PROMPT, return_tensors="pt")
    asked: dict[str, Any] = {
        "custom_generate": constrained.decode, "constraint": LINES, "vocabulary": model.vocabulary, "max_new_tokens": 60,
    }  # fmt: skip
    written = model.model.generate(**batch, **asked, return_dict_in_generate=True)
    assert written.outputs[0].text == plain.text

    cache = DynamicCache(config=model.model.config)
    name = str(cache_argument(model.model))
    with torch.inference_mode():
        model.model(**batch, **{name: cache}, use_cache=True)
    with pytest.raises(InvalidArgument, match="contains tokens already"):
        model.model.generate(**batch, **asked, **{name: cache})


def test_a_processor_masks_the_logits_of_generate(model: LanguageModel) -> None:
    assert isinstance(model, HuggingFaceModel)
    plain = constrained.Generator(model, LINES)(PROMPT, max_tokens=60, temperature=0)
    batch = small_bpe_tokenizer()(PROMPT, return_tensors="pt")
    processor = constrained.ConstraintLogitsProcessor(LINES, small_bpe_tokenizer(), max_tokens=60)
    found = model.model.generate(
        **batch,
        logits_processor=[processor],
        max_new_tokens=60,
        pad_token_id=0,
        eos_token_id=model.vocabulary.eos_ids[0],
    )
    text = small_bpe_tokenizer().decode(found[0, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    assert text == plain.text
