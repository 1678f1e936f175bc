"""Families of transformers models: how each is read, its logits, and completions with speculation."""

from __future__ import annotations

import functools
import random
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import constrained
from constrained.decoding.speculation import Speculation
from constrained.errors import InvalidArgument, ModelError
from constrained.models.hugging_face import HuggingFaceModel
from constrained.models.sequential_cache import ForwardMode
from tests.spec.speculating import tree_path
from tests.support import families
from tests.support.families import FAMILIES, load
from tests.support.tiny_models import seeded

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "tags": {"type": "array", "items": {"enum": ["a", "bb"]}}},
    "required": ["name", "tags"],
    "additionalProperties": False,
}  # fmt: skip
QUICK = {
    "Llama, eager", "Mistral", "Gemma 3", "Gemma 3n", "gpt-oss", "GPT-2", "Llama 4, not scaled", "Bloom", "Mamba 2",
    "LFM2", "Falcon-H1", "Mamba", "Zamba 2", "GPT",
}  # fmt: skip
"""One of each kind; the others are tested with all that is slow."""
FEW = {"Llama, eager", "Gemma 3", "GPT-2", "Llama 4, not scaled", "Bloom", "Mamba 2", "Mamba", "GPT"}
"""One of each way to read, with and without windows and states; CI tests the others of `QUICK`."""


def marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    if name in FEW:
        return ()
    return (pytest.mark.ci if name in QUICK else pytest.mark.slow,)


def named(*ways: str) -> list[Any]:
    """The families that are read in one of some ways."""
    return [pytest.param(name, marks=marks(name)) for name, family in FAMILIES.items() if family.way in ways]


ALL, DRAFTS, STEPS = named(*families.WAYS), named("trees", "chains", "whole"), named("steps")


def reference(name: str, ids: list[int]) -> np.ndarray:
    """Logits after a text, float32 [V]: read in one piece without a cache by transformers alone.

    Where a model's own cached steps differ from that: its first tokens at once, and then one by one.
    """
    model = load(name)
    if not FAMILIES[name].exact:
        cache, first = model.cache(1), min(3, len(ids))
        logits = model.forward([ids[:first]], cache)[0]
        for one in ids[first:]:
            logits = model.forward([[one]], cache)[0]
        return logits
    with torch.inference_mode():
        return model.model(input_ids=torch.tensor([ids])).logits[0, -1].numpy()


def close(name: str, logits: np.ndarray, ids: list[int]) -> None:
    np.testing.assert_allclose(logits, reference(name, ids), atol=5e-4)


def some(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(1, 250) for _ in range(count)]


@pytest.mark.parametrize("name", ALL)
def test_ragged_texts_have_the_logits_of_each_alone(name: str) -> None:
    """Also beyond the windows; rows leave, are doubled and change places, and some are given several tokens."""
    model, rng = load(name), random.Random(1)
    texts = [some(rng, length) for length in ((3, 3, 3) if not FAMILIES[name].exact else (1, 19, 6))]
    cache, new = model.cache(3), [list(text) for text in texts]
    for step in range(7):
        logits = model.forward(new, cache)
        assert cache.lengths == [len(text) for text in texts]
        for row, text in zip(logits, texts, strict=True):
            close(name, row, text)
        if step in (1, 4):
            rows = [2, 0, 0] if step == 1 else [1, 2]
            cache.keep(rows)
            texts = [list(texts[row]) for row in rows]
        if step == 3:
            twin = cache.fork([0, 0])
            for row in model.forward([[7], [7]], twin):
                close(name, row, [*texts[0], 7])
        new = [some(rng, 9 if step == 2 else rng.choice([1, 1, 3])) for _ in texts]
        texts = [text + more for text, more in zip(texts, new, strict=True)]


def draft_tree(rng: random.Random, own: int, nodes: int, *, chain: bool) -> tuple[list[int], list[int]]:
    """Tokens and parents: a row's own tokens, and behind their last one a tree or a chain."""
    parents = list(range(-1, own - 1))
    parents += [own - 1 + i if chain else rng.randrange(own - 1, own + i) for i in range(nodes)]
    return some(rng, own + nodes), parents


@pytest.mark.parametrize("name", DRAFTS)
def test_draft_tokens_have_the_logits_of_their_branches_and_can_be_rejected(name: str) -> None:
    model, rng = load(name), random.Random(2)
    chain = model.no_trees is not None
    texts: list[list[int]] = [[], [], []]
    cache = model.cache(3)
    for step in range(9):
        own = [rng.randrange(1, 22) if step == 0 else 1 for _ in texts]
        trees = [draft_tree(rng, count, rng.choice([0, 2, 9]), chain=chain) for count in own]
        skip = [count - 1 for count in own]
        found = model.forward_trees([t for t, _ in trees], [p for _, p in trees], skip, cache)
        kept = []
        for text, count, (tokens, parents), logits in zip(texts, own, trees, found, strict=True):
            assert len(logits) == len(tokens) - count + 1
            node = rng.randrange(count - 1, len(tokens))
            for place in {node, len(tokens) - 1}:
                close(name, logits[place - count + 1], text + [tokens[i] for i in tree_path(parents, place)])
            kept.append(tree_path(parents, node))
        order = [1, 0, 1] if step == 4 else list(range(len(texts)))[: 2 if step == 6 else None]
        cache.keep_paths(order, [kept[i] for i in order])
        texts = [texts[i] + [trees[i][0][j] for j in kept[i]] for i in order]
        assert cache.lengths == [len(text) for text in texts]
    for row, text in zip(model.forward([[5] for _ in texts], cache), texts, strict=True):
        close(name, row, [*text, 5])


@pytest.mark.parametrize("name", ["Phi 3", "Gemma 2"])
def test_a_single_row_beyond_its_window_is_read_right_after_trees(name: str) -> None:
    """Columns of refused tokens are written again: what stands at a place is the token of that position."""
    model, rng = load(name), random.Random(1)
    cache, text = model.cache(1), some(rng, 40)
    model.forward([text], cache)
    for trees in (1, 3, 5, 7, 2):
        for _ in range(trees):
            tokens = some(rng, 13)
            model.forward_trees([tokens], [[-1, 0, 1, *[2] * 10]], [0], cache)
            cache.keep_paths([0], [[0, 1, 2]])
            text += tokens[:3]
        text.append(5)
        close(name, model.forward([[5]], cache)[0], text)


@pytest.mark.parametrize(
    ("name", "seeds"),
    [pytest.param(name, 1, marks=marks(name)) for name in sorted(QUICK) if FAMILIES[name].way != "steps"]
    + [pytest.param(*one.values, 3, marks=pytest.mark.slow) for one in DRAFTS],
)
def test_completions_with_speculation_are_those_without(name: str, seeds: int) -> None:
    model = load(name)
    plain = constrained.Generator(model, SCHEMA)
    speculative = constrained.Generator(model, SCHEMA, speculation=Speculation(nodes=12, adapts=False))
    prompts = [some(random.Random(seed), length) for seed, length in enumerate((2, 25, 9))]
    accepted = 0
    for seed in range(seeds):
        settings = {"max_tokens": 25, "seed": seed, "temperature": 0.9}
        wanted, found = plain.batch(prompts, **settings), speculative.batch(prompts, **settings)
        assert [one.tokens for one in found] == [one.tokens for one in wanted]
        assert found[0].tokens == speculative(prompts[0], **settings).tokens
        for one, other in zip(found, wanted, strict=True):
            assert one.stats.no_speculation is None
            assert one.logprob == pytest.approx(other.logprob, abs=2e-3)
            accepted += one.stats.accepted
            assert one.stats.forwards + one.stats.accepted >= other.stats.forwards
    assert accepted > 0


@pytest.mark.parametrize("name", ["Gemma 3", "Mamba 2", "Bloom", "GPT"])
@pytest.mark.parametrize("sampler", ["smc", "asap"])
def test_samplers_of_many_completions_agree_with_speculation(name: str, sampler: str) -> None:
    constraint = constrained.regex("[ab]{3,9}(true|name)")
    settings = {"seed": 5, "max_tokens": 12}
    model, prompt = load(name), some(random.Random(4), 11)
    plain = constrained.Generator(model, constraint, sampler=sampler).sample(prompt, 4, **settings)
    drafting = constrained.Generator(
        model, constraint, sampler=sampler, speculation=Speculation(nodes=8, adapts=False)
    )
    found = drafting.sample(prompt, 4, **settings)
    assert [one.tokens for one in found] == [one.tokens for one in plain]
    assert [one.logprob for one in found] == pytest.approx([one.logprob for one in plain], abs=1e-3)


@pytest.mark.parametrize("name", STEPS)
def test_the_reason_for_no_speculation_is_given(name: str) -> None:
    model = load(name)
    out = constrained.Generator(model, SCHEMA, speculation="auto")([5, 6], max_tokens=30, seed=1)
    assert out.stats.no_speculation is not None
    assert "reads no trees" in out.stats.no_speculation
    assert out.tokens == constrained.Generator(model, SCHEMA)([5, 6], max_tokens=30, seed=1).tokens
    with pytest.raises(InvalidArgument, match="speculation is not possible"):
        constrained.Generator(model, SCHEMA, speculation=Speculation())


# ---------------------------------------------------------------- what a model is read like


def test_the_page_has_the_table_of_the_families() -> None:
    page = families.PAGE.read_text("utf-8")
    assert families.written(page) == families.table(), "run python tests/support/families.py"


def of_ids(model: Any) -> HuggingFaceModel:
    return HuggingFaceModel(model, families.vocabulary())


def test_a_model_that_overlooks_masks_is_found_out() -> None:
    """A model nobody has tested says that it takes masks and positions; it does not look at the masks."""
    hf = FAMILIES["Llama"].make()
    forward = hf.forward
    hf.forward = functools.wraps(forward)(lambda attention_mask=None, **inputs: forward(**inputs))
    model = of_ids(hf)
    with pytest.warns(
        UserWarning, match="LlamaForCausalLM is read without trees, one text at a time: .* off by"
    ):
        assert model.no_trees is not None
    assert (model.capabilities.mode, model.isolate, model.no_chains) == (ForwardMode.CHAINS, True, None)
    texts = [[5, 6, 7], [8]]
    for row, text in zip(model.forward(texts, model.cache(2)), texts, strict=True):
        assert np.abs(row - model.forward([text], model.cache(1))[0]).max() < 1e-5


def test_a_model_that_takes_a_single_mask_only_is_found_out() -> None:
    hf = FAMILIES["Gemma 3"].make()
    forward = hf.forward

    def old(attention_mask: Any = None, **inputs: Any) -> Any:
        if attention_mask is not None:
            raise TypeError(f"'{type(attention_mask).__name__}' object has no attribute 'ndim'")
        return forward(**inputs)

    hf.forward = functools.wraps(forward)(old)
    with pytest.warns(UserWarning, match="Gemma3ForCausalLM is read without trees.*TypeError: 'dict' object"):
        assert of_ids(hf).capabilities.mode is ForwardMode.CHAINS


def test_a_model_that_sees_the_future_is_refused() -> None:
    from transformers import BertConfig, BertLMHeadModel

    config = BertConfig(
        vocab_size=families.vocabulary().size, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, initializer_range=0.3,
    )  # fmt: skip
    with (
        pytest.warns(UserWarning, match="without trees"),
        pytest.raises(ModelError, match="cannot be read as a causal"),
    ):
        constrained.Generator(of_ids(seeded(lambda: BertLMHeadModel(config))), SCHEMA, speculation="auto")
    config.is_decoder = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert of_ids(seeded(lambda: BertLMHeadModel(config))).capabilities.mode is not ForwardMode.WHOLE


def test_attention_that_takes_no_mask_reads_chains() -> None:
    """Flash attention is not at hand on a CPU: another name for an attention that ignores masks stands in for it."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register("maskless", sdpa_attention_forward)
    AttentionMaskInterface.register("maskless", sdpa_mask)
    model = of_ids(replace(FAMILIES["Gemma 3"], attention="maskless").make())
    assert (
        model.no_trees
        == "Gemma3ForCausalLM reads no trees: its attention, maskless, takes no mask of any shape"
    )
    assert (model.no_chains, model.isolate) == (None, True)
    plain = constrained.Generator(load("Gemma 3"), SCHEMA)([3, 4], seed=1, max_tokens=25)
    assert (
        constrained.Generator(model, SCHEMA, speculation=Speculation(nodes=6))(
            [3, 4], seed=1, max_tokens=25
        ).tokens
        == plain.tokens
    )


@pytest.mark.parametrize("name", ["Mistral", "Gemma 3", "Llama 4, not scaled"])
@pytest.mark.parametrize("rows", [1, 3])
def test_layers_with_windows_overlook_what_is_beyond(name: str, rows: int) -> None:
    """Each text is many times as long as the window, and rolled back at each place of it."""
    model, rng = load(name), random.Random(3)
    cache = model.cache(rows)
    texts = [some(rng, 40 + 7 * row) for row in range(rows)]
    model.forward(texts, cache)
    for step in range(50):
        trees = [draft_tree(rng, 1, rng.randrange(12), chain=False) for _ in texts]
        found = model.forward_trees([t for t, _ in trees], [p for _, p in trees], [0] * len(texts), cache)
        kept = [tree_path(parents, rng.randrange(len(parents))) for _, parents in trees]
        if step % 5 == 0:
            for text, one, logits, (tokens, _) in zip(texts, kept, found, trees, strict=True):
                close(name, logits[one[-1]], text + [tokens[i] for i in one])
        cache.keep_paths(list(range(len(texts))), kept)
        texts = [text + [tree[0][j] for j in one] for text, tree, one in zip(texts, trees, kept, strict=True)]
    assert min(map(len, texts)) > 100
    twin = cache.fork([0, 0])
    for row in model.forward([[3, 4], [3, 4]], twin):
        close(name, row, [*texts[0], 3, 4])
    young = model.cache(1)
    model.forward([[9, 8, 7]], young)
    young.join(cache)
    for row, text in zip(model.forward([[5]] * (rows + 1), young), [[9, 8, 7], *texts], strict=True):
        close(name, row, [*text, 5])


@pytest.mark.parametrize("name", ["GPT-2", "Gemma 3", "Mamba 2", "GPT"])
def test_branches_of_a_text_go_their_own_ways(name: str) -> None:
    """As particles do: they are doubled, leave, and further ones join; where trees are read the text is stored once."""
    model, rng = load(name), random.Random(4)
    root, start = model.cache(1), some(rng, 3 if not FAMILIES[name].exact else 30)
    model.forward([start], root)
    cache, texts = root.branch(3), [list(start) for _ in range(3)]
    for step in range(6):
        if model.no_trees is None and step % 2:
            trees = [draft_tree(rng, 1, 5, chain=False) for _ in texts]
            model.forward_trees([t for t, _ in trees], [p for _, p in trees], [0] * len(texts), cache)
            kept = [tree_path(parents, rng.randrange(6)) for _, parents in trees]
            order = [*range(len(texts)), 0]
            cache.keep_paths(order, [kept[i] for i in order])
            texts = [texts[i] + [trees[i][0][j] for j in kept[i]] for i in order]
        else:
            new = [some(rng, 1) for _ in texts]
            for row, text, more in zip(model.forward(new, cache), texts, new, strict=True):
                text += more
                close(name, row, text)
        if step == 2:
            cache.keep([1, 1, 2])
            texts = [list(texts[i]) for i in (1, 1, 2)]
            cache.join(root.branch(2))
            texts += [list(start), list(start)]
        if step == 3:
            cache = cache.fork([0, 3, 1])
            texts = [list(texts[i]) for i in (0, 3, 1)]
    if model.no_trees is None:
        assert {store.shape[2] for store in cache._slab.stores} == {cache._slab.columns - len(start)}
    for row in model.forward([[5]], root):
        close(name, row, [*start, 5])


def test_a_state_is_read_again_only_so_far() -> None:
    """Rejected draft tokens restore a state; accepted ones are read again, in a pass of their own when they are many."""
    model = load("Mamba 2")
    widths: list[int] = []
    run = model._run
    cache = model.cache(1)
    model._run = lambda **inputs: (widths.append(inputs["input_ids"].shape[1]), run(**inputs))[1]  # type: ignore[method-assign]
    try:
        model.forward([[5] * 30], cache)
        for _ in range(40):
            model.forward_trees([[5, 6, 7]], [[-1, 0, 1]], [0], cache)
            cache.keep_paths([0], [[0]])
    finally:
        del model._run  # type: ignore[method-assign]
    assert max(widths[1:]) <= 16 + 3
    assert sum(width <= 3 for width in widths) >= 2
    assert len(widths) <= 1 + 40 + 3
    close("Mamba 2", model.forward([[8]], cache)[0], [5] * 70 + [8])
