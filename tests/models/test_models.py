"""Models behind one interface: batches of ragged texts have the logits of each text alone; misuse is named."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch

from constrained.errors import ModelError, ModelMismatch, PromptError, VocabularyError
from constrained.models import LanguageModel, load
from constrained.testing import ScriptedModel
from tests.support.enumerable_model import EnumerableModel
from tests.support.finite import byte_vocabulary
from tests.support.tiny_models import llama, random_llama, seeded
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

TOLERANCE = 2e-4
"""Logits are of the order of 10: this is float32 rounding through two layers."""


def reference(model, ids):
    """Logits after a text, read in one piece without a cache."""
    with torch.inference_mode():
        return model.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].float().numpy()


def ids_of(rng, length, size=1400):
    return [rng.randrange(1, size) for _ in range(length)]


def walk(model, seed=0, steps=12):
    """A random life of a ragged batch, every logits row compared with the text read in one piece."""
    rng = random.Random(seed)
    texts = [ids_of(rng, length) for length in (1, 7, 3, 20, 2)]
    cache = model.cache(len(texts))
    new = [list(text) for text in texts]
    worst = 0.0
    for _ in range(steps):
        logits = model.forward(new, cache)
        assert logits.dtype == np.float32
        assert logits.shape == (len(texts), model.vocabulary.size)
        assert cache.lengths == [len(text) for text in texts]
        worst = max(
            worst, *(np.abs(row - reference(model, t)).max() for row, t in zip(logits, texts, strict=True))
        )
        if rng.random() < 0.4:  # leave, swap, or double rows
            rows = [rng.randrange(len(texts)) for _ in range(rng.randint(1, 4))]
            cache.keep(rows)
            texts = [list(texts[row]) for row in rows]
        # Usually one token a row; sometimes several, and not the same number in each.
        new = [ids_of(rng, rng.choice([1, 1, 2, 5]) if rng.random() < 0.5 else 1) for _ in texts]
        texts = [text + more for text, more in zip(texts, new, strict=True)]
    return worst


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("seed", range(2))
def test_a_ragged_batch_has_the_logits_of_each_text_alone(attention, seed):
    model = load(random_llama(attention=attention), small_bpe_tokenizer())
    assert not model.isolate
    assert walk(model, seed) < TOLERANCE


@pytest.mark.parametrize("family", ["gpt2", "qwen3", "mistral-window", "gemma3", "falcon-alibi"])
def test_other_families_are_read_exactly_too(family):
    import transformers as t

    size = len(small_bpe_tokenizer())
    tokens = {"vocab_size": size, "bos_token_id": None, "eos_token_id": None, "initializer_range": 0.3}
    small = tokens | {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "pad_token_id": 0}
    wide = small | {"intermediate_size": 64, "num_key_value_heads": 2, "max_position_embeddings": 128}
    make = {
        "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(**tokens, n_embd=32, n_layer=2, n_head=4)),
        "qwen3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**wide, head_dim=8)),
        "mistral-window": lambda: t.MistralForCausalLM(t.MistralConfig(**wide, sliding_window=4)),
        "gemma3": lambda: t.Gemma3ForCausalLM(
            t.Gemma3TextConfig(
                **wide, head_dim=8, sliding_window=4, layer_types=["sliding_attention", "full_attention"]
            )
        ),
        "falcon-alibi": lambda: t.FalconForCausalLM(t.FalconConfig(**small, alibi=True)),
    }[family]
    model = load(seeded(make), small_bpe_tokenizer())
    assert model.isolate is (family == "falcon-alibi")
    assert walk(model) < TOLERANCE


def test_isolated_texts_have_bit_identical_logits():
    model = load(random_llama(), small_bpe_tokenizer(), isolate=True)
    rng = random.Random(1)
    texts = [ids_of(rng, n) for n in (5, 1, 30)]
    together, alone = model.cache(3), [model.cache(1) for _ in texts]
    for _ in range(5):
        rows = model.forward(texts, together)
        for text, cache, row in zip(texts, alone, rows, strict=True):
            assert np.array_equal(model.forward([text], cache)[0], row)
        texts = [ids_of(rng, 1) for _ in texts]


def test_copies_of_a_row_go_their_own_ways():
    for isolate in (False, True):
        model = load(random_llama(), small_bpe_tokenizer(), isolate=isolate)
        cache = model.cache(1)
        model.forward([[5, 6, 7]], cache)
        cache.keep([0, 0])
        rows = model.forward([[8], [9]], cache)
        assert np.abs(rows[0] - reference(model, [5, 6, 7, 8])).max() < TOLERANCE
        assert np.abs(rows[1] - reference(model, [5, 6, 7, 9])).max() < TOLERANCE


def test_low_precision_weights_give_float32_logits():
    model = load(random_llama().to(torch.bfloat16), small_bpe_tokenizer())
    cache = model.cache(2)
    model.forward([[1, 2, 3], [4]], cache)
    assert model.forward([[5], [6]], cache).dtype == np.float32


# ---------------------------------------------------------------- what a model knows of itself


def test_a_padded_vocabulary_is_as_wide_as_the_logits_and_masks_the_padding():
    tokenizer = small_bpe_tokenizer()
    model = load(random_llama(size=len(tokenizer) + 61), tokenizer)
    assert model.vocabulary.size == len(tokenizer) + 61
    assert not any(model.vocabulary.tokens[len(tokenizer) :])
    assert model.forward([[1]], model.cache(1)).shape == (1, len(tokenizer) + 61)


def test_only_ends_of_sequence_are_taken_from_the_generation_config():
    hf = random_llama()
    hf.generation_config.eos_token_id = [17, 0]
    hf.generation_config.temperature = 0.1
    hf.generation_config.top_k = 1
    assert load(hf, small_bpe_tokenizer()).vocabulary.eos_ids == (0, 17)


def test_the_model_is_put_into_evaluation_mode():
    hf = random_llama(attention_dropout=0.9).train()
    model = load(hf, small_bpe_tokenizer())
    assert np.array_equal(*(model.forward([[1, 2, 3]], model.cache(1)) for _ in range(2)))


def test_an_encoder_decoder_is_refused_by_name():
    import transformers as t

    model = t.T5ForConditionalGeneration(
        t.T5Config(vocab_size=10, d_model=8, d_ff=8, num_layers=1, num_heads=1, d_kv=8)
    )
    with pytest.raises(ModelError, match="T5ForConditionalGeneration is an encoder-decoder"):
        load(model, small_bpe_tokenizer())


def test_models_without_a_head_and_other_things_are_refused():
    with pytest.raises(ModelError, match="LlamaModel has no language modelling head"):
        load(random_llama().model, small_bpe_tokenizer())
    with pytest.raises(ModelError, match="list is not a transformers model"):
        load([1], small_bpe_tokenizer())
    with pytest.raises(ModelError, match="Tokenizer cannot encode prompts"):
        load(random_llama(), small_bpe_tokenizer().backend_tokenizer)
    with pytest.raises(ModelError, match="without a tokenizer"):
        load(random_llama())


def test_a_tokenizer_of_another_model_is_refused():
    with pytest.raises(ModelMismatch, match="the model only 100"):
        load(random_llama(size=100), small_bpe_tokenizer())
    blank = copy.deepcopy(small_bpe_tokenizer())
    blank.eos_token = None
    with pytest.raises(VocabularyError, match="end-of-sequence"):
        load(random_llama(), blank)


def test_a_name_that_does_not_exist_is_one_error_with_a_way_out(tmp_path):
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        load(str(tmp_path / "nowhere"))
    assert len(str(caught.value).splitlines()) == 2


def test_a_model_loads_from_a_folder(tmp_path):
    random_llama().save_pretrained(tmp_path)
    small_bpe_tokenizer().save_pretrained(tmp_path)
    model = load(tmp_path, device="cpu")
    assert model.vocabulary == llama().vocabulary
    assert np.array_equal(
        model.forward([[1, 2]], model.cache(1)), llama().forward([[1, 2]], llama().cache(1))
    )
    assert load(str(tmp_path), dtype="bfloat16", device="cpu").model.dtype == torch.bfloat16


def test_a_language_model_is_passed_through_but_takes_no_settings():
    assert load(llama()) is llama()
    with pytest.raises(ModelError, match="device cannot be set"):
        load(llama(), device="cpu")


# ---------------------------------------------------------------- prompts

TEMPLATE = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[answer]{% endif %}"


def templated() -> LanguageModel:
    tokenizer = copy.deepcopy(small_bpe_tokenizer())
    tokenizer.chat_template = TEMPLATE
    return load(random_llama(), tokenizer)


def test_a_str_goes_through_the_chat_template_by_default():
    model = templated()

    def read(ids):
        return model.vocabulary.decode(ids).decode()

    assert read(model.encode("hello")) == "[user]hello[answer]"
    assert read(model.encode("hello", chat=False)) == "hello"
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert read(model.encode(chat)) == "[system]s[user]u[answer]"
    assert model.encode([3, 1, 2]) == [3, 1, 2]
    assert model.encode(np.array([3, 1, 2])) == [3, 1, 2]
    assert read(llama().encode("hello")) == "hello"  # no template


@pytest.mark.parametrize(
    "prompt", ["", [], (), None, 7, b"text", {"role": "user"}, ["a", "b"], [1.5], [-1], [10**6]]
)
def test_prompts_that_cannot_be_read_are_refused_in_one_way_by_all_models(prompt):
    for model in (llama(), ScriptedModel(byte_vocabulary(), "x")):
        with pytest.raises(PromptError):
            model.encode(prompt)


# ---------------------------------------------------------------- models without weights


def greedy(model, prompt, steps=20):
    cache, new, tokens = model.cache(1), model.encode(prompt), []
    while len(tokens) < steps:
        token = int(model.forward([new], cache)[0].argmax())
        if token in model.vocabulary.eos_ids:
            return model.vocabulary.decode(tokens).decode()
        tokens.append(token)
        new = [token]
    raise AssertionError("no end")


def test_a_scripted_model_writes_its_script_and_stops():
    vocabulary = byte_vocabulary("hel", "lo", " wor")
    assert greedy(ScriptedModel(vocabulary, "hello world"), "p") == "hello world"
    assert greedy(ScriptedModel(vocabulary, ""), "p") == ""
    by_key = ScriptedModel(vocabulary, {"city": "Łódź", "": "none"})
    assert greedy(by_key, "which city?") == "Łódź"
    assert greedy(by_key, [{"role": "user", "content": "else"}]) == "none"
    assert greedy(ScriptedModel(vocabulary, str.upper), "echo") == "ECHO"


def test_a_scripted_model_follows_its_script_however_the_text_is_cut():
    vocabulary = byte_vocabulary("hel", "lo")
    model = ScriptedModel(vocabulary, "hello")
    cache = model.cache(1)
    logits = model.forward([model.encode("p")], cache)
    for piece in (b"h", b"e", b"l"):
        logits = model.forward([[vocabulary.ids_by_bytes[piece]]], cache)
    assert logits[0].argmax() == vocabulary.ids_by_bytes[b"lo"]
    logits = model.forward([[vocabulary.ids_by_bytes[b"x"]]], cache)  # off the script
    assert logits[0].argmax() in vocabulary.eos_ids


def test_the_enumerable_model_has_rows_that_sum_to_one():
    model = EnumerableModel(seed=5)
    cache = model.cache(1)
    for token in ([3], [0], [1], [2], [0]):
        row = np.exp(model.forward([token], cache)[0])
        assert row.sum() == pytest.approx(1.0, abs=1e-12)
    assert row.tolist() == [0, 0, 0, 1]  # after four tokens it stops
