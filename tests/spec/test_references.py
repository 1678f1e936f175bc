"""Published acceptance rules draw exactly the target distribution; none exceeds the optimum; the acceptance of shared noise is exact."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from constrained.spec.references import VERIFICATION_RULES, optimal_acceptance, prompt_lookup, shared
from constrained.spec.references.drafting import GreedyDrafts, WithoutReplacement, WithReplacement
from constrained.spec.references.rules import spectr_rho
from hypothesis import given
from hypothesis import strategies as st

from constrained.spec.noise import GumbelNoise


def distribution(draw: np.random.Generator, size: int, *, holes: bool = False) -> np.ndarray:
    weights = draw.exponential(size=size) ** draw.choice([0.3, 1.0, 4.0])
    if holes:
        weights[draw.random(size) < 0.3] = 0.0
    return weights / weights.sum() if weights.any() else np.full(size, 1 / size)


PAIRS = [
    pair
    for seed in range(12)
    for draw in [np.random.default_rng(seed)]
    for pair in [
        (
            distribution(draw, 2 + seed % 4, holes=seed % 2 == 1),
            distribution(draw, 2 + seed % 4, holes=seed % 3 == 1),
        )
    ]
] + [
    (np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.5, 0.5])),  # nothing in common
    (np.array([0.2, 0.3, 0.5]), np.array([0.2, 0.3, 0.5])),  # the same
    (np.array([0.2, 0.3, 0.5]), np.array([0.0, 1.0, 0.0])),  # a certain draft token
    (np.array([0.0, 1.0, 0.0]), np.array([0.2, 0.3, 0.5])),  # a target that is
]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("rule", VERIFICATION_RULES, ids=lambda rule: rule.name)
def test_a_rule_emits_the_target(rule, k):
    for p, q in PAIRS:
        emitted, accepted = rule.enumerate_acceptance(p, q, k)
        assert np.abs(emitted - p).max() < 1e-12
        assert -1e-12 < accepted < 1 + 1e-12
        if rule.name != "greedy":  # its draft tokens are not drawn, and have another optimum
            assert accepted <= optimal_acceptance(p, q, k) + 1e-9


@pytest.mark.parametrize(
    "way", [WithReplacement(), WithoutReplacement(), GreedyDrafts()], ids=lambda way: type(way).__name__
)
def test_draft_tokens_are_drawn_as_they_are_enumerated(way):
    q = np.array([0.5, 0.0, 0.3, 0.2])
    every = {drafts: chance for chance, drafts in way.enumerate_drafts(q, 2)}
    assert sum(every.values()) == pytest.approx(1, abs=1e-12)
    generator, counts = np.random.default_rng(0), dict.fromkeys(every, 0)
    for _ in range(4000):
        counts[way.sample_drafts(q, 2, generator)] += 1
    for drafts, chance in every.items():
        assert counts[drafts] / 4000 == pytest.approx(chance, abs=5 * np.sqrt(0.25 / 4000))


@pytest.mark.parametrize("way", [WithoutReplacement(), GreedyDrafts()], ids=lambda way: type(way).__name__)
def test_more_draft_tokens_than_the_vocabulary_has_are_all_of_it(way):
    q = np.array([0.5, 0.0, 0.5])
    assert {frozenset(drafts) for _, drafts in way.enumerate_drafts(q, 5)} == {frozenset({0, 2})}
    assert set(way.sample_drafts(q, 5, np.random.default_rng(0))) == {0, 2}


def test_one_draft_token_is_speculative_sampling():
    """Every rule accepts a single draft token with probability sum of min(p, q), the optimum, plus what it emits by chance."""
    for p, q in PAIRS:
        least = np.minimum(p, q).sum()
        assert optimal_acceptance(p, q, 1) == pytest.approx(least, abs=1e-12)
        for rule in VERIFICATION_RULES:
            assert rule.enumerate_acceptance(p, q, 1)[1] == pytest.approx(least, abs=1e-9), rule.name


def test_spectr_solves_its_equation():
    for p, q in PAIRS:
        for k in (2, 3, 8):
            rho = spectr_rho(p, q, k)
            beta = np.minimum(q, p / rho).sum()
            assert 1 <= rho <= k
            if 1 < rho < k and beta:
                assert 1 - (1 - beta) ** k == pytest.approx(rho * beta, abs=1e-9)


def test_an_estimate_is_near_the_exact_value():
    draw = np.random.default_rng(1)
    p, q = distribution(draw, 6), distribution(draw, 6)
    for rule in VERIFICATION_RULES:
        mean, error = rule.estimate_acceptance(p, q, 3, 400, draw)
        assert abs(mean - rule.enumerate_acceptance(p, q, 3)[1]) <= 5 * error + 1e-12


def test_a_draw_follows_the_distribution():
    draw = np.random.default_rng(2)
    p, q = np.array([0.7, 0.3, 0.0]), np.array([0.2, 0.2, 0.6])
    for rule in VERIFICATION_RULES:
        drawn = [rule.sample(p, q, 2, draw)[0] for _ in range(500)]
        counted = np.bincount(drawn, minlength=3) / 500
        assert np.abs(counted - p).max() < 5 * np.sqrt(0.25 / 500)


# ---------------------------------------------------------------- the optimum


def brute_optimum(p: np.ndarray, q: np.ndarray, k: int) -> float:
    """The transport itself, as a linear program over (draft tokens, token)."""
    from scipy.optimize import linprog

    draft_tokens = list(WithoutReplacement().enumerate_drafts(q, k))
    size = len(p)
    gain, rows = [], []
    for number, (_, drafts) in enumerate(draft_tokens):
        for token in range(size):
            gain.append(-float(token in drafts))
            rows.append((number, len(draft_tokens) + token))
    matrix = np.zeros((len(draft_tokens) + size, len(rows)))
    for column, (one, other) in enumerate(rows):
        matrix[one, column] = matrix[other, column] = 1
    sums = [*(chance for chance, _ in draft_tokens), *p]
    return -linprog(gain, A_eq=matrix, b_eq=sums, method="highs").fun


@pytest.mark.parametrize("seed", range(8))
def test_the_optimum_is_that_of_the_linear_program(seed):
    draw = np.random.default_rng(seed)
    p, q = distribution(draw, 4, holes=True), distribution(draw, 4)
    for k in (1, 2, 3):
        assert optimal_acceptance(p, q, k) == pytest.approx(brute_optimum(p, q, k), abs=1e-7)


def test_the_optimum_keeps_the_digits_of_rare_draft_tokens():
    p = np.array([0.3, 0.22815, 0.47185])
    for rare in (1e-3, 1e-10, 1e-14, 1e-17, 1e-300):
        q = np.array([1 - rare, rare, 0.0])  # two draft tokens without replacement are the first two tokens
        assert optimal_acceptance(p, q, 2) == pytest.approx(0.52815, abs=1e-12)


def test_large_vocabularies_have_no_computed_optimum():
    with pytest.raises(ValueError, match="too many sets"):
        optimal_acceptance(np.full(20, 0.05), np.full(20, 0.05), 2)


# ---------------------------------------------------------------- the shared noise


def by_subsets(p: np.ndarray, q: np.ndarray, k: int) -> float:
    """`shared.acceptance` in closed form: who is ahead, set by set, with inclusion and exclusion."""
    total = 0.0
    for v in np.flatnonzero((p > 0) & (q > 0)).tolist():
        others = [u for u in range(len(p)) if u != v]
        a = np.maximum(p[v] * q / q[v] - p, 0.0)
        for ahead in chain.from_iterable(combinations(others, size) for size in range(k)):
            behind = sum(a[u] for u in others if u not in ahead)
            for some in chain.from_iterable(combinations(ahead, size) for size in range(len(ahead) + 1)):
                total += p[v] * (-1) ** len(some) / (1 + behind + sum(a[u] for u in some))
    return total


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_acceptance_by_shared_noise_is_the_closed_form(k):
    for p, q in PAIRS:
        exact = shared.coupled_acceptance(p, q, k)
        assert exact == pytest.approx(by_subsets(p, q, k), abs=1e-8)
        assert exact <= optimal_acceptance(p, q, k) + 1e-8


def test_shared_noise_draws_the_target_and_accepts_as_computed():
    draw = np.random.default_rng(4)
    p, q = distribution(draw, 6), distribution(draw, 6)
    count, hits, seen = 3000, 0, np.zeros(6)
    for position in range(count):
        token, drafts = shared.sample_coupled(p, q, 2, GumbelNoise(1), position)
        seen[token] += 1
        hits += token in drafts
    assert ((seen - count * p) ** 2 / (count * p)).sum() < 20.5  # chi-squared, 5 degrees of freedom, at 0.1 %
    chance = shared.coupled_acceptance(p, q, 2)
    assert hits / count == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / count))


def test_draft_tokens_that_ignore_the_noise_are_accepted_with_the_targets_probability():
    p, q = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.3, 0.3, 0.1, 0.3])
    assert [shared.top_k_acceptance(p, q, k) for k in (1, 2, 3, 9)] == pytest.approx([0.1, 0.3, 0.7, 1.0])


def test_the_best_drafter_is_always_accepted():
    p = np.array([0.4, 0.3, 0.2, 0.1])
    assert shared.coupled_acceptance(p, p, 1) == pytest.approx(1, abs=1e-9)


# ---------------------------------------------------------------- prompt lookup


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 4), st.integers(0, 5))
def test_prompt_lookup_continues_the_longest_match(tokens, longest, most):
    draft_tokens = prompt_lookup(tokens, max_ngram=longest, num_draft_tokens=most)
    text = "".join(map(str, tokens))
    for size in range(longest, 0, -1):
        if size < len(text):
            found = text.find(text[-size:])
            if found < len(text) - size:
                assert draft_tokens == tokens[found + size : found + size + most]
                return
    assert draft_tokens == []


def test_prompt_lookup_looks_at_its_arguments():
    with pytest.raises(ValueError, match="longest is 0"):
        prompt_lookup([1, 1], max_ngram=0)
