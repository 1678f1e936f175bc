"""The sampler `exact`: the most likely text of a closed set, exact draws from its law, one pass."""

from __future__ import annotations

import math
import random
from collections import Counter
from copy import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import constrained
from constrained import Exact, Generator, UnsupportedConstraint, choice
from constrained.automaton.closed_texts import closed_language
from constrained.decoding.prompt_reader import score_tree
from constrained.sampling.token_tree import TokenTree
from constrained.spec.scores import log_sum_exp
from constrained.testing.models import FunctionModel
from tests.support.examples import examples
from tests.support.tiny_models import llama

LABELS = st.lists(st.text("abcé 12", min_size=1, max_size=7), min_size=2, max_size=12, unique=True)


def enumerated(model: Any, prompt: str, automaton: Any) -> dict[str, float]:
    """log P of each text in its canonical spelling, with an end where something else may follow; a pass for each token."""
    vocabulary = automaton.vocabulary
    found = {}
    for text in closed_language(automaton) or ():
        ids, total = model.encode(prompt), 0.0
        for token in [*text.tokens, None]:
            if token is None and text.only_end:
                break
            logits = model.forward([ids], model.cache(1))[0].astype(np.float64)
            ends = logits[list(vocabulary.eos_ids)] if token is None else logits[[token]]
            total += log_sum_exp(ends) - log_sum_exp(logits)
            ids = [*ids, token]
        found[text.text.decode()] = total
    return found


@given(LABELS, st.integers(0, 100))
@settings(max_examples=examples(30), deadline=None)
def test_greedy_is_the_most_likely_text(labels: list[str], number: int) -> None:
    model, prompt = llama(), f"number {number}:"
    generator = Generator(model, choice(labels))
    assert isinstance(generator.sampler, Exact)
    out = generator(prompt)
    law = enumerated(model, prompt, generator.automaton)
    assert set(law) == set(labels)
    assert law[out.text] >= max(law.values()) - 1e-4
    assert out.logprob == pytest.approx(law[out.text], abs=1e-4)
    assert (out.stats.forwards, out.distribution, out.canonical) == (1, "most-likely", True)


def test_draws_follow_the_law_of_the_texts_and_estimate_its_mass() -> None:
    model, labels = llama(), ["a", "b", "ab", "red", "green"]
    generator = Generator(model, choice(labels), sampler="exact")
    law = enumerated(model, "x", generator.automaton)
    total = log_sum_exp(np.array(list(law.values())))
    samples = generator.sample("x", 3000, seed=0, temperature=1.0)
    counts = Counter(out.text for out in samples.outputs)
    for text, logprob in law.items():
        share = math.exp(logprob - total)
        assert counts[text] / 3000 == pytest.approx(share, abs=4 * math.sqrt(share / 3000) + 1e-3)
    assert samples.log_evidence == pytest.approx(total, abs=1e-4)
    assert samples.passes == 1


@pytest.mark.parametrize("most", [1, 3, 7])
def test_a_tree_in_parts_has_the_scores_of_the_whole(most: int) -> None:
    rng = random.Random(most)
    sequences = [[rng.randrange(40) for _ in range(rng.randrange(5))] for _ in range(20)]
    tree = TokenTree.of(sequences)
    assert [[tree.tokens[node] for node in path] for path in tree.paths] == sequences
    ends = [np.array([1, 2])] * 20
    prompt = llama().encode("a prompt")
    whole, parts = (score_tree(llama(), prompt, tree, ends, most=n) for n in (512, most))
    assert (whole.passes, parts.passes > 3) == (1, True)
    np.testing.assert_allclose(parts.totals, whole.totals, atol=1e-4)


def test_a_model_that_reads_no_trees_takes_a_pass_for_each_token() -> None:
    class Plain(type(llama())):  # type: ignore[misc]
        no_trees = "it reads one continuation at a time"

    tree = TokenTree.of([[3, 4], [3, 5, 6], [7]])
    prompt = llama().encode("a prompt")
    expected = score_tree(llama(), prompt, tree)
    plain = copy(llama())
    object.__setattr__(plain, "__class__", Plain)
    found = score_tree(plain, prompt, tree)
    assert found.passes == 1 + len(tree.tokens)
    np.testing.assert_allclose(found.totals, expected.totals, atol=1e-4)


class Likes(FunctionModel):
    """Gives each token a fixed logit."""

    def __init__(self, **logits: float) -> None:
        self.vocabulary = constrained.Vocabulary.from_bytes([b"x", b"s", b"y", b""], [3])
        self._row = np.array([logits.get(name, 0.0) for name in ("x", "s", "y", "end")])

    def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
        return [3]

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        return self._row


def test_a_text_beyond_the_limit_is_named_where_it_would_have_been_taken() -> None:
    generator = Generator(Likes(s=5.0, y=5.0), choice(["x", "syyy"]))
    assert generator("p").text == "syyy"
    short = generator("p", max_tokens=2)
    assert (short.text, short.finish) == ("x", "limit")
    assert short.cut is not None
    assert generator("p", max_tokens=4).cut is None


def test_truncations_are_of_texts() -> None:
    generator = Generator(Likes(x=1.0), choice(["x", "s", "y"]))
    texts = {generator("p", seed=seed, temperature=1.0, top_k=1).text for seed in range(20)}
    assert texts == {"x"}
    assert generator("p", temperature=1.0, top_k=2).distribution == "conditional-truncated"


def test_a_prior_is_taken_off() -> None:
    likes = Likes(x=4.0, s=3.0)
    prior = tuple({"s": 0.0, "x": 4.0, "y": 4.0}[text] for text in ("s", "x", "y"))
    assert Generator(likes, choice(["x", "s", "y"]))("p").text == "x"
    out = Generator(likes, choice(["x", "s", "y"]), sampler=Exact(prior=prior))("p")
    assert (out.text, out.distribution) == ("s", "decided")


def test_a_constraint_with_many_texts_is_refused_and_written_by_default() -> None:
    with pytest.raises(UnsupportedConstraint, match="closed set"):
        Generator(llama(), constrained.regex("[a-z]+"), sampler="exact")("p")
    for wanted in ({"type": "string"}, constrained.regex("[a-z]{3}"), choice(["only one"])):
        assert not isinstance(Generator(llama(), wanted).sampler, Exact)
