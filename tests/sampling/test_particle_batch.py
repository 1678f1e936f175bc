"""Texts that share a cache: every sampler's numbers are those of the text read alone, and a prefix is read once."""

from __future__ import annotations

import math
from functools import partialmethod

import numpy as np
import pytest
import torch

import constrained
from constrained import Speculation, api
from constrained.decoding import known_logits, step
from constrained.decoding.particle_batch import CachedParticleBatch
from constrained.errors import InvalidArgument
from constrained.sampling import AWRS, CARS, MCMC, SAMPLERS, SMC, Local, TokenSampler
from tests.sampling.enumerated import LANGUAGE
from tests.support.enumerable_model import EnumerableModel
from tests.support.finite import FiniteAutomaton
from tests.support.tiny_models import llama, random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

WORDS = constrained.regex(r"[a-z ]{2,12}[.!]")
SETTINGS = {"max_tokens": 14, "temperature": 0.7}
CONFIGURED = {
    "local": Local(),
    "awrs": AWRS(cached=False),
    "asap": "asap",
    "cars": CARS(attempts=3000),
    "mcmc": MCMC(steps=3, cut="uniform"),
    "smc": SMC(threshold=1.0),
}
ISOLATED = {}


def model(isolate: bool):
    if not isolate:
        return llama()
    if not ISOLATED:
        ISOLATED[True] = constrained.load(random_llama(), small_bpe_tokenizer(), isolate=True)
    return ISOLATED[True]


def read_alone(loaded, prompt, tokens):
    """Log-probability of each token of a text, reading every prefix from its start; and that of an end."""
    ids, found = loaded.encode(prompt), []
    for token in [*tokens, loaded.vocabulary.eos_ids[0]]:
        logits = loaded.forward([ids], loaded.cache(1))[0].astype(np.float64) / SETTINGS["temperature"]
        found.append(logits[token] - logits.max() - math.log(np.exp(logits - logits.max()).sum()))
        ids = [*ids, token]
    return found


@pytest.mark.parametrize(
    ("name", "isolate"),
    [
        *((name, False) for name in sorted(CONFIGURED)),
        *((name, True) for name in ("local", "smc")),
        *(pytest.param(name, True, marks=pytest.mark.ci) for name in ("asap", "awrs", "cars", "mcmc")),
    ],
)
def test_probabilities_are_those_of_the_text_alone(name, isolate):
    constraint = constrained.regex(r"[a-z ]{1,4}") if name == "cars" else WORDS
    gen = constrained.Generator(model(isolate), constraint, sampler=CONFIGURED[name])
    drawn = gen.sample("the name of", 4, seed=3, **SETTINGS)
    assert drawn.passes <= drawn.forwards
    for out in drawn:
        alone = read_alone(gen.model, "the name of", out.tokens)
        assert out.logprob == pytest.approx(sum(alone), abs=2e-4)
        assert out.text == gen.model.vocabulary.decode(out.tokens).decode()


@pytest.mark.parametrize("isolate", [False, True], ids=["joined", "separate"])
@pytest.mark.parametrize("name", ["local", "awrs"])
def test_texts_of_a_set_are_what_each_would_be_alone(name, isolate):
    gen = constrained.Generator(model(isolate), WORDS, sampler=CONFIGURED[name])
    drawn = gen.sample("the", 6, seed=3, **SETTINGS)
    (task,) = gen._tasks(["the"], None, 3, gen.sampler, **SETTINGS)
    for i, out in enumerate(drawn):
        answer = task.new_sequence(attempt=i)
        for _ in step.decode_sequences(gen.model, [answer], gen.sampler):
            pass
        assert out.tokens == tuple(answer.tokens)
        assert out.log_weight == pytest.approx(answer.log_weight, abs=1e-3)
    assert drawn[0].tokens == gen("the", seed=3, **SETTINGS).tokens


def test_equal_prefixes_are_read_once():
    class Counting(EnumerableModel):
        rows_read = 0

        def forward(self, tokens, cache):
            self.rows_read += len(tokens)
            return super().forward(tokens, cache)

    tiny = Counting(seed=1, letters=(b"a", b"b"), depth=3)
    gen = constrained.Generator(tiny, constrained.regex("[ab]{3}"), sampler="smc")
    drawn = gen.sample("", 400, seed=0)
    assert drawn.forwards == tiny.rows_read == 1 + 2 + 4 + 8  # the last for the probability of the end
    assert drawn.passes == 4


def test_an_output_tells_what_it_cost_with_all_attempts():
    gen = constrained.Generator(EnumerableModel(seed=1), constrained.regex("ab|ba|c{3}"), sampler="cars")
    outs = [gen("", seed=seed) for seed in range(20)]
    assert max(out.stats.attempts for out in outs) > 1
    for out in outs:
        assert out.stats.forwards >= 1
        assert out.stats.checks >= out.stats.attempts


# ---------------------------------------------------------------- everywhere in the interface


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_names_and_objects_work_in_every_call(name):
    tiny = EnumerableModel(seed=1)
    constraint = constrained.regex("ab?|c{1,3}")
    sampler = SAMPLERS[name]()
    texts = {
        constrained.Generator(tiny, constraint, sampler=chosen)([3], seed=4, temperature=1.0).text
        for chosen in (name, sampler)
    }
    texts.add(api.generate(tiny, [3], constraint, sampler=name, seed=4, temperature=1.0))
    texts.add(
        constrained.Generator(tiny, constraint, sampler=name).batch([[3]], seed=4, temperature=1.0)[0].text
    )
    *_, last = constrained.Generator(tiny, constraint, sampler=name).stream([3], seed=4, temperature=1.0)
    texts.add(last.output.text)
    assert len(texts) == 1
    drawn = constrained.Generator(tiny, constraint, sampler=name).sample([3], 5, seed=4, temperature=1.0)
    assert all(out.text in {"a", "ab", "c", "cc", "ccc"} for out in drawn)
    assert sum(drawn.posterior.values()) == pytest.approx(1.0)
    assert isinstance(sampler, TokenSampler) == (name in {"local", "awrs"})
    assert constrained.extract(tiny, "x", constraint, sampler=name, seed=1, temperature=1.0)


def test_a_set_has_at_least_one_text_and_is_no_greedy_one():
    gen = constrained.Generator(EnumerableModel(), constrained.regex("a"))
    for wrong in (0, -1, 1.5):
        with pytest.raises(InvalidArgument, match="n is"):
            gen.sample("", wrong, temperature=1.0)
    with pytest.raises(InvalidArgument, match="greedy"):
        gen.sample("", 3)


@pytest.mark.parametrize("isolate", [False, True], ids=["joined", "separate"])
def test_a_fork_goes_its_own_way(isolate):
    loaded = model(isolate)
    ids = loaded.encode("the name of a")
    cache = loaded.cache(2)
    loaded.forward([ids[:3], ids[1:]], cache)
    lengths = cache.lengths
    twin = cache.fork([1, 1, 0])
    after = loaded.forward([[ids[0]], [ids[2]], [ids[3]]], twin)
    assert cache.lengths == lengths
    assert twin.lengths == [lengths[1] + 1, lengths[1] + 1, lengths[0] + 1]
    texts = [[*ids[1:], ids[0]], [*ids[1:], ids[2]], ids[:4]]
    alone = np.concatenate([loaded.forward([text], loaded.cache(1)) for text in texts])
    assert np.abs(after - alone).max() < 1e-3
    # And the first one still knows what it knew.
    again = loaded.forward([[ids[3]], [ids[0]]], cache)
    assert np.abs(again[0] - alone[2]).max() < 1e-3
    assert np.abs(again[1] - alone[0]).max() < 1e-3


def test_a_prompt_is_held_once_however_many_texts_follow_it():
    loaded = llama()
    ids = (loaded.encode("the name of a") * 30)[:90]
    root = loaded.cache(1)
    first = loaded.forward([ids], root)[0]
    cache = root.branch(6)
    tokens = [[ids[i], ids[i + 1]] for i in range(6)]
    loaded.forward(tokens, cache)
    cache.keep([5, 1, 1, 3])  # texts that end, and one that parts
    tokens = [tokens[5], tokens[1], tokens[1], tokens[3]]
    after = loaded.forward([[ids[i]] for i in (7, 8, 9, 10)], cache)
    alone = [
        loaded.forward([[*ids, *text, ids[i]]], loaded.cache(1))[0]
        for text, i in zip(tokens, (7, 8, 9, 10), strict=True)
    ]
    assert np.abs(after - np.stack(alone)).max() < 1e-3
    assert cache.lengths == [93] * 4
    assert cache._slab.base is root._slab
    assert {store.shape[2] for store in cache._slab.stores} == {cache._slab.columns - 90}
    # A cache of this one goes its own way, and so does the prompt.
    twin = cache.fork([0, 2])
    loaded.forward([[ids[0]], [ids[1]]], twin)
    assert (cache.lengths, twin.lengths, root.lengths) == ([93] * 4, [94] * 2, [90])
    assert twin._slab.base is root._slab
    again = loaded.forward([ids[:1]], root)[0]
    assert np.abs(again - loaded.forward([[*ids, ids[0]]], loaded.cache(1))[0]).max() < 1e-3
    assert first.shape == again.shape


def test_a_models_fingerprint_is_that_of_its_weights():
    tokenizer = small_bpe_tokenizer()
    one, same = (constrained.load(random_llama(), tokenizer) for _ in range(2))
    other = random_llama()
    with torch.no_grad():
        other.lm_head.weight[0, 0] += 1.0
    assert one.fingerprint == same.fingerprint
    assert one.fingerprint != constrained.load(other, tokenizer).fingerprint
    assert (
        EnumerableModel().fingerprint != EnumerableModel().fingerprint
    )  # nothing is known of it: never shared


# ---------------------------------------------------------------- logits that are known


class Recorded(EnumerableModel):
    """Records the completion after which each row of logits was computed."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.contexts = []

    def logits(self, prompt, completion):
        self.contexts.append(tuple(completion))
        return super().logits(prompt, completion)


REUSE = CachedParticleBatch.reuse_logits
REUSING = {
    "cars": lambda: CARS(),
    "cars, one at a time": lambda: CARS(parallel=1),
    "rejection": lambda: constrained.sampling.Rejection(),
    "asap": lambda: constrained.sampling.ASAp(parallel=3),
    "mcmc": lambda: MCMC(steps=5),
    "mcmc, uniform": lambda: MCMC(steps=5, cut="uniform"),
}


@pytest.mark.parametrize("name", REUSING)
def test_each_prefix_is_read_once_and_the_texts_are_the_same(name, monkeypatch):
    """Against the batch that reads each prefix again in every attempt, and a batch whose memory is soon full."""
    found = {}
    for reads, size in (("again", 0), ("until it is full", 1000), ("once", known_logits.MAX_BYTES)):
        with monkeypatch.context() as patch:
            patch.setattr(CachedParticleBatch, "reuse_logits", partialmethod(REUSE, size))
            recorded = Recorded(seed=1)
            automaton = FiniteAutomaton(LANGUAGE, recorded.vocabulary)
            gen = constrained.Generator(recorded, automaton, sampler=REUSING[name]())
            drawn = gen.sample("", 30, seed=2, max_tokens=recorded.depth)
        texts = [(out.tokens, out.logprob, out.log_weight) for out in drawn]
        found[reads] = texts, drawn.log_evidence, drawn.forwards, recorded.contexts
    texts, evidence, rows, contexts = found["once"]
    for other in ("again", "until it is full"):
        assert found[other][:2] == (texts, evidence)
        assert set(found[other][3]) == set(contexts)
        assert len(found[other][3]) == found[other][2]
    assert rows == len(contexts) == len(set(contexts))
    assert rows < found["until it is full"][2] < found["again"][2]


@pytest.mark.parametrize("isolate", [False, True], ids=["joined", "separate"])
@pytest.mark.parametrize("name", ["asap", "mcmc"])
@pytest.mark.parametrize("speculation", [None, Speculation(nodes=8, adapts=False)], ids=["plain", "drafts"])
def test_known_prefixes_do_not_change_what_a_transformer_writes(name, isolate, speculation, monkeypatch):
    """Rows that begin anew read all of their tokens at once, and beside the draft trees of others."""
    words = constrained.regex(r"([a-c]{2,3}|the name|a name)")

    def sample():
        gen = constrained.Generator(model(isolate), words, sampler=CONFIGURED[name], speculation=speculation)
        return gen.sample("the name of", 8, seed=5, **SETTINGS)

    once = sample()
    monkeypatch.setattr(CachedParticleBatch, "reuse_logits", lambda batch: None)
    again = sample()
    assert [out.tokens for out in once] == [out.tokens for out in again]
    assert [out.logprob for out in once] == pytest.approx([out.logprob for out in again], abs=2e-4)
    assert once.forwards < again.forwards


def test_known_logits_stay_within_their_memory():
    known = known_logits.KnownLogits(max_bytes=2000)
    for i in range(100):
        row = np.full(100, i, np.float32)
        assert known.has_room([i], 100) == (len(known) < 3)
        known.add([i], row)
        row[:] = -1
    assert len(known) == 3
    assert known.bytes <= 2000
    assert known.get([2]).tolist() == [2.0] * 100
    assert known.get([3]) is None
    known.add([0], np.zeros(1, np.float32))
    assert known.get([0]).shape == (100,)
