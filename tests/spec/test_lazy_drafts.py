"""Paused speculation: tokens of the pause are learned before the next draft, and nothing is built before the first."""

from __future__ import annotations

import random

import pytest

import constrained
from constrained import CARS
from constrained.decoding.speculation import Speculation
from constrained.spec import _core
from constrained.spec.budget import DraftBudget
from constrained.spec.drafts import DraftCounts, DrafterFactory, LazyDrafter, draft_counts
from constrained.spec.memory import DraftMemory
from tests.spec.speculating import facts, words
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "likes": {"type": "array", "items": {"enum": ["tea", "walks"]}},
    },
    "required": ["name", "likes"],
}
TEXT = '{"name": "Ann Ann Lee", "likes": ["tea", "walks", "tea"]}'


@pytest.mark.parametrize("seed", range(6))
def test_after_a_pause_drafts_equal_those_without_a_pause(seed: int) -> None:
    vocabulary = small_bpe_vocabulary()
    automaton = constrained.compile(SCHEMA, vocabulary)
    tokens = vocabulary.encode(TEXT)
    prompt = vocabulary.encode("Ann Lee likes tea.")
    always = DrafterFactory(automaton, DraftMemory(), "k").new_drafter(prompt)
    waiting = LazyDrafter(lambda: DrafterFactory(automaton, DraftMemory(), "k").new_drafter(prompt))
    rng = random.Random(seed)
    for token in tokens:
        if rng.random() < 0.4:
            mine, theirs = waiting.draft(16, 64), always.draft(16, 64)
            assert list(mine.token) == list(theirs.token)
            assert list(mine.parent) == list(theirs.parent)
            assert list(mine.path_probability) == pytest.approx(list(theirs.path_probability))
            waiting.mark_verified(len(mine) - 1)
            always.mark_verified(len(theirs) - 1)
        else:
            waiting.pause()
        waiting.commit(token)
        always.commit(token)
    waiting.draft(1)  # learns what came during the last pause
    assert waiting.counts() == draft_counts(always)
    assert list(waiting.copy().draft(16, 64).token) == list(always.copy().draft(16, 64).token)


def test_a_completion_without_draft_tokens_builds_no_drafter() -> None:
    def make() -> _core.Drafter:
        raise AssertionError("no draft was requested")

    waiting = LazyDrafter(make)
    waiting.pause()
    for token in (1, 2, 3):
        waiting.commit(token)
    assert waiting.counts() == DraftCounts(0, 0, {})


@pytest.mark.parametrize("sampler", ["local", CARS(parallel=2)])
@pytest.mark.parametrize("seed", range(8))
def test_completions_do_not_depend_on_pauses_of_speculation(sampler, seed: int, monkeypatch) -> None:
    rng = random.Random(seed)
    constraint = {"enum": ["red", "green", "blue", "greenish"]} if sampler != "local" else SCHEMA
    script = b'"green"' if sampler != "local" else TEXT.encode()

    def run(draft):
        made = constrained.Generator(words(script), constraint, sampler=sampler, speculation=draft)
        return made("Ann likes tea.", max_tokens=60, seed=seed, temperature=1.0)

    plain = run(None)
    monkeypatch.setattr(DraftBudget, "draft_size", lambda budget: rng.choice((0, 4, 64)))
    monkeypatch.setattr(
        DraftBudget,
        "verify_sizes",
        lambda budget, pis, drafting, **named: [rng.randint(0, len(pi)) for pi in pis],
    )
    drafted = run("auto")
    assert facts(drafted) == facts(plain)
    assert 0 <= drafted.stats.accepted <= drafted.stats.drafted


def test_what_passes_cost_is_known_to_all_generators_of_a_model() -> None:
    """The first completion starts with three plain passes; a later generator, under another schema, drafts from its first pass."""
    model = words(TEXT.encode(), margin=50.0)
    first = constrained.Generator(model, SCHEMA, speculation="auto")("Ann", max_tokens=80)
    assert first.stats.draft_seconds > 0
    second = constrained.Generator(model, {"enum": [TEXT]}, speculation="auto")
    assert second._drafting is not None
    assert second._drafting.budget(model, 1).costs.widths >= 1
    other = constrained.Generator(model, SCHEMA, speculation=Speculation(nodes=8))
    assert other._drafting is not None
    assert other._drafting.budget(model, 1).costs.widths == 0


@pytest.mark.parametrize(("texts", "shared"), [(1, 1), (3, 3), (5, 6), (7, 8), (9, 12), (16, 16), (17, 24)])
def test_batches_of_nearly_one_size_share_a_budget(texts: int, shared: int) -> None:
    model = words(TEXT.encode())
    drafting = constrained.Generator(model, SCHEMA, speculation="auto")._drafting
    assert drafting is not None
    assert drafting.budget(model, texts) is drafting.budget(model, shared)
    assert drafting.budget(model, texts) is not drafting.budget(model, 4 * texts)
