"""transformers models read trees of tokens: the logits are those of each branch read alone."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest

import constrained
from constrained import Automaton
from constrained.decoding.speculation import Speculation
from constrained.errors import InvalidArgument
from constrained.models import LanguageModel, load
from constrained.models.capabilities import Capabilities
from constrained.models.sequential_cache import ForwardMode
from tests.spec.speculating import tree_path
from tests.support.tiny_models import random_llama, seeded
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 10}, "tags": {"type": "array", "items": {"enum": ["x", "yy"]}}},
    "required": ["name", "tags"],
}  # fmt: skip


def gpt2() -> LanguageModel:
    """Learned positions, which a wrong position id shows in."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=len(small_bpe_tokenizer()), n_embd=32, n_layer=2, n_head=4, n_positions=256,
        initializer_range=0.4, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return load(seeded(lambda: GPT2LMHeadModel(config)), small_bpe_tokenizer())


MODELS = {
    "sdpa": lambda: load(random_llama(), small_bpe_tokenizer()),
    "eager": lambda: load(random_llama(attention="eager"), small_bpe_tokenizer()),
    "isolated": lambda: load(random_llama(), small_bpe_tokenizer(), isolate=True),
    "gpt2": gpt2,
}


def tree(rng: random.Random, chain: int, nodes: int) -> tuple[list[int], list[int]]:
    tokens = [rng.randrange(1, 300) for _ in range(chain + nodes)]
    parents = list(range(-1, chain - 1)) + [rng.randrange(chain - 1, chain + i) for i in range(nodes)]
    return tokens, parents


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rows", [1, 3])
def test_a_tree_gives_the_logits_of_its_branches(name: str, rows: int) -> None:
    model, rng = MODELS[name](), random.Random(rows)
    cache = model.cache(rows)
    texts: list[list[int]] = [[] for _ in range(rows)]
    for step in range(5):
        # The first pass reads prompts, of several lengths; a row may have no draft tokens.
        trees = [tree(rng, rng.randrange(1, 9 if step == 0 else 2), rng.choice([0, 1, 6, 12])) for _ in texts]
        skip = [len(tree_path(parents, len(parents) - 1)) and rng.randrange(1) for _, parents in trees]
        found = model.forward_trees([t for t, _ in trees], [p for _, p in trees], skip, cache)
        kept = []
        for text, (tokens, parents), logits in zip(texts, trees, found, strict=True):
            node = rng.randrange(len(tokens))
            for positions in {node, len(tokens) - 1}:
                branch = text + [tokens[i] for i in tree_path(parents, positions)]
                alone = model.forward([branch], model.cache(1))[0]
                np.testing.assert_allclose(logits[positions], alone, atol=2e-4)
            kept.append(tree_path(parents, node))
        order = list(range(rows)) if step < 3 else rng.sample(range(rows), max(1, rows - 1))
        cache.keep_paths(order, [kept[i] for i in order])
        texts = [texts[i] + [trees[i][0][j] for j in kept[i]] for i in order]
        rows = len(order)
        assert cache.lengths == [len(text) for text in texts]
    # After trees the plain way still works, whatever columns they left.
    ends = [[5] for _ in texts]
    for text, logits in zip(texts, model.forward(ends, cache), strict=True):
        alone = model.forward([[*text, 5]], model.cache(1))[0]
        np.testing.assert_allclose(logits, alone, atol=2e-4)


def test_one_row_can_become_several_that_went_different_ways() -> None:
    model = MODELS["sdpa"]()
    cache = model.cache(1)
    model.forward([[1, 2, 3]], cache)
    model.forward_trees([[4, 5, 6]], [[-1, 0, 0]], [0], cache)
    cache.keep_paths([0, 0, 0], [[0, 1], [0, 2], [0]])
    texts = [[1, 2, 3, 4, 5], [1, 2, 3, 4, 6], [1, 2, 3, 4]]
    for text, logits in zip(texts, model.forward([[7], [7], [7]], cache), strict=True):
        np.testing.assert_allclose(logits, model.forward([[*text, 7]], model.cache(1))[0], atol=2e-4)


@pytest.mark.parametrize("name", MODELS)
def test_texts_of_a_transformers_model_are_the_same(name: str) -> None:
    model = MODELS[name]()
    plain = constrained.Generator(model, SCHEMA)
    speculative = constrained.Generator(model, SCHEMA, speculation=Speculation(nodes=24, adapts=False))
    prompts = ["A name and tags:", "Short", "Another prompt, which is longer than the others."]
    settings = {"max_tokens": 40, "seed": 3, "temperature": 0.8}
    wanted, found = plain.batch(prompts, **settings), speculative.batch(prompts, **settings)
    assert [one.tokens for one in found] == [one.tokens for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.log_weight == pytest.approx(other.log_weight, abs=1e-3)
        assert one.logprob == pytest.approx(other.logprob, abs=1e-3)
        assert one.stats.forwards < other.stats.forwards
        assert one.stats.accepted > 0
        assert one.stats.sources["forced"][1] > 0


def test_a_model_without_trees_gives_the_reason() -> None:
    model = MODELS["sdpa"]()
    model.__dict__["capabilities"] = Capabilities(ForwardMode.STEPS, no_trees="it is too old")
    made = constrained.Generator(model, SCHEMA, speculation="auto")
    for generator in (made, pickle.loads(pickle.dumps(made))):
        out = generator("x", max_tokens=30)
        assert out.stats.no_speculation == "it is too old"
        assert out.stats.drafted == 0
    assert constrained.Generator(model, SCHEMA)("x", max_tokens=30).stats.no_speculation is None
    with pytest.raises(InvalidArgument, match="it is too old"):
        constrained.Generator(model, SCHEMA, speculation=Speculation())


def test_draft_tokens_never_exceed_the_context() -> None:
    """A model of 256 learned positions fails at the 257th."""
    model = gpt2()
    draft = Speculation(nodes=64, adapts=False)
    made = constrained.Generator(model, constrained.regex("a{200,}"), speculation=draft)
    out = made([7] * 30)
    assert len(out.tokens) + 30 <= 256


def test_streams_have_the_same_chunks() -> None:
    model = MODELS["sdpa"]()
    settings = {"max_tokens": 40, "seed": 1, "temperature": 1.0}
    plain = list(constrained.Generator(model, SCHEMA).stream("x", **settings))
    found = list(constrained.Generator(model, SCHEMA, speculation="auto").stream("x", **settings))
    assert [chunk.delta for chunk in found] == [chunk.delta for chunk in plain]
    assert [chunk.tokens for chunk in found] == [chunk.tokens for chunk in plain]
    assert found[-1].output is not None


class WithoutTable(Automaton):
    """An automaton that is written in Python, as a user may write one."""

    def __init__(self, automaton: Automaton) -> None:
        self.vocabulary, self.constraint = automaton.vocabulary, automaton.constraint
        self._automaton = automaton

    @property
    def start(self) -> int:
        return self._automaton.start

    def next(self, state: int, token: int) -> int:
        return self._automaton.next(state, token)

    def accepts(self, state: int) -> bool:
        return self._automaton.accepts(state)

    def shortest_completion(self, state: int) -> int:
        return self._automaton.shortest_completion(state)

    def forced(self, state: int) -> bytes:
        return self._automaton.forced(state)


def test_an_automaton_without_a_native_table_decodes_without_drafts() -> None:
    model = MODELS["sdpa"]()
    compiled = constrained.compile(SCHEMA, model.vocabulary)
    automaton = WithoutTable(compiled)
    out = constrained.Generator(model, automaton, speculation="auto")("x", max_tokens=30)
    assert out.stats.no_speculation == "the automaton has no automaton_table: it is not a native one"
    assert out.stats.drafted == 0
    assert out.tokens == constrained.Generator(model, compiled)("x", max_tokens=30).tokens
    with pytest.raises(InvalidArgument, match="no automaton_table"):
        constrained.Generator(model, automaton, speculation=Speculation())
