"""Trees behind a prompt, read one after the other: what they share is read once, and the scores are those of reading all of it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from constrained.decoding.prompt_reader import PromptReader, score_tree
from constrained.decoding.stats import Stats
from constrained.sampling.token_tree import TokenTree
from tests.support.tiny_models import llama


def test_scores_are_those_of_a_pass_over_prompt_and_all_that_is_shared() -> None:
    rng, model = random.Random(5), llama()
    prompt = model.encode("a prompt")
    cache = model.cache(1)
    model.forward([prompt], cache)
    reader, lead = PromptReader(model, cache, Stats()), [7]
    for number in range(12):
        # A lead that goes on behind the last one, or parts from it.
        lead = [*lead[: rng.randrange(1, len(lead) + 1)], *(rng.randrange(40) for _ in range(3))]
        rows = reader.rows(TokenTree.of([lead]), len(lead) - 1)
        last = rows[len(lead) - 1]()
        options = [[*lead, *(rng.randrange(40) for _ in range(rng.randrange(1, 4)))] for _ in range(4)]
        tree = TokenTree.of(options)
        ends = [np.array([1, 2])] * 4
        found, whole = reader.scores(tree, ends), score_tree(model, prompt, tree, ends)
        before = sum(whole.path(0)[: len(lead)])
        np.testing.assert_allclose(found.totals, whole.totals - before, atol=1e-3, err_msg=str(number))
        np.testing.assert_allclose(last, model.forward([[*prompt, *lead]], model.cache(1))[0], atol=1e-3)
    assert cache.lengths == [len(prompt)]


@pytest.mark.parametrize("most", [1, 4])
def test_others_get_their_turn_between_the_parts_of_a_tree(most: int) -> None:
    rng, model, turns = random.Random(most), llama(), list[int]()
    prompt, lead = model.encode("a prompt"), [7, 8, 9]
    tree = TokenTree.of([[*lead, *(rng.randrange(40) for _ in range(3))] for _ in range(6)])
    stats = Stats()

    def other() -> None:
        turns.append(stats.forwards)

    reader = PromptReader(model, model.cache(1), stats, prompt, most=most, between=other)
    last = reader.rows(TokenTree.of([lead]))[len(lead) - 1]()
    np.testing.assert_allclose(last, model.forward([[*prompt, *lead]], model.cache(1))[0], atol=1e-3)
    found = reader.scores(tree, [None] * 6, whole=True)
    assert turns == list(range(1, stats.forwards))
    assert len(turns) >= len(tree.tokens) // most - 1
    whole = score_tree(model, prompt, tree, [None] * 6)
    np.testing.assert_allclose(found.totals, whole.totals, atol=1e-3)
    reader.rows(TokenTree.of([lead]), len(lead) - 1)
    behind = reader.scores(tree, [None] * 6).totals + sum(whole.path(0)[: len(lead)])
    np.testing.assert_allclose(behind, whole.totals, atol=1e-3)


def test_what_trees_share_is_read_once() -> None:
    model = llama()
    prompt = model.encode("a prompt")
    cache = model.cache(1)
    model.forward([prompt], cache)
    stats = Stats()
    reader = PromptReader(model, cache, stats)
    assert len(reader.rows(TokenTree.of([[3, 4, 5]]), 2)) == 3
    assert len(reader.rows(TokenTree.of([[3, 4, 5, 6], [3, 4, 5, 7, 8]]))) == 4
    assert len(reader.rows(TokenTree.of([[3, 4, 5, 6, 9]]))) == 3
    assert len(reader.rows(TokenTree.of([[3, 4, 8]]))) == 1
    assert stats.forwards == 4
