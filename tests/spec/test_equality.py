"""Completions are equal with and without speculation: token for token, weights included, for any draft tokens.

The models here give bit-identical logits for a token wherever it is read, so everything is compared for equality; what
float rounding does to transformers models is looked at in test_trees_of_tokens.py.
"""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import constrained
from constrained import AWRS, CARS, MCMC, SMC, ASAp, Local, Rejection
from constrained.decoding.speculation import Speculation
from constrained.errors import BudgetExhausted
from constrained.spec.memory import DraftMemory
from constrained.spec.sources import DRAFT_SOURCES
from tests.spec.speculating import (
    ADVERSARIES,
    Clerk,
    Whim,
    facts,
    foreseeing,
    fresh,
    generator,
    letters,
    prior_memory,
    words,
)
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

SCHEMAS = [
    ({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
      "required": ["name", "age"], "additionalProperties": False}, b'{"name": "ann", "age": 41}'),
    ({"enum": ["red", "green", "blue", "greenish"]}, b'"green"'),
    ({"type": "array", "items": {"type": "boolean"}, "maxItems": 6}, b"[true, false, true, true]"),
]  # fmt: skip
PATTERNS = ["[abc]{1,6}", "a(b|c)*a?", "(ab|ba|c){0,3}"]
SAMPLERS = {
    "local": Local(),
    "local-unweighed": Local(weights=False),
    "awrs": AWRS(),
    "awrs-2": AWRS(checks=2, patience=3, cached=False),
    "cars": CARS(parallel=3),
    "cars-1": CARS(parallel=1),
    "asap": ASAp(parallel=2),
    "rejection": Rejection(),
    "mcmc": MCMC(steps=3, cut="uniform"),
    "smc": SMC(particles=5),
}
SIZES = (1, 2, 3, 5, 8, 16, 40, 64, 128)


def cases(count: int, seed: int) -> list[tuple[str, str, int, int, int]]:
    """(sampler, adversary or sources, tree size, constraint, seed): each of the first two with each other in turn."""
    rng = random.Random(seed)
    guessers = [*ADVERSARIES, "foreseeing", *DRAFT_SOURCES, "all", "all"]
    pairs = list(itertools.product(SAMPLERS, guessers))
    rng.shuffle(pairs)
    return [
        (*pairs[i % len(pairs)], rng.choice(SIZES), rng.randrange(3), rng.randrange(1 << 30))
        for i in range(count)
    ]


def check(sampler: str, guesser: str, nodes: int, number: int, seed: int) -> int:
    """Compares two runs; the number of accepted draft tokens."""
    token_by_token = sampler.startswith(("local", "awrs"))

    def model():
        # A vocabulary of its own for each run: AWRS looks at which rows happen to be known.
        return words(SCHEMAS[number][1]) if token_by_token else letters(seed % 50)

    constraint = SCHEMAS[number][0] if token_by_token else constrained.regex(PATTERNS[number])
    chosen = SAMPLERS[sampler]
    options = {"seed": seed, "max_tokens": 30 if token_by_token else 6}
    if token_by_token:
        options["temperature"] = random.Random(seed).choice([0.0, 0.7, 1.0])

    def run(draft, adversary=None):
        used = model()
        if draft is not None:
            draft = replace(draft, memory=prior_memory(used.vocabulary))
        made = generator(used, constraint, chosen, draft, adversary)
        prompt = made.model.encode("Ann is 41, green.")
        try:
            if seed % 3 == 0 or token_by_token:
                return [made(prompt, **options)]
            return [*made.sample(prompt, 4, **options)]
        except BudgetExhausted as error:
            return str(error)

    plain = run(None)
    draft = Speculation(
        nodes=nodes, adapts=False, sources=(guesser,) if guesser in DRAFT_SOURCES else DRAFT_SOURCES
    )
    if guesser == "foreseeing":
        tokens = () if isinstance(plain, str) else plain[0].tokens
        with_drafts = run(draft, foreseeing(tokens))
    elif guesser in ADVERSARIES:
        with_drafts = run(draft, ADVERSARIES[guesser](seed, 5))
    else:
        with_drafts = run(draft)
    if isinstance(plain, str) or isinstance(with_drafts, str):
        assert plain == with_drafts
        return 0
    assert [facts(one) for one in with_drafts] == [facts(one) for one in plain]
    return sum(one.stats.accepted for one in with_drafts)


@pytest.mark.parametrize("count", [40, pytest.param(120, marks=pytest.mark.ci)])
def test_texts_are_the_same_with_and_without_speculation(count: int) -> None:
    accepted = sum(check(*case) for case in cases(count, 0))
    assert accepted > count // 3  # drafts were followed, not only made


@pytest.mark.ci
def test_threads_can_share_a_generator_with_speculation() -> None:
    constraint, script = SCHEMAS[0]
    plain = generator(words(script), constraint, Local(), None)
    made = generator(words(script), constraint, Local(), Speculation(nodes=24, adapts=False))
    settings = {"max_tokens": 30, "temperature": 0.7}
    wanted = [plain("Ann", seed=seed, **settings).tokens for seed in range(12)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda seed: made("Ann", seed=seed, **settings).tokens, range(12)))
    assert found == wanted


def test_a_batch_of_ragged_texts_is_that_of_its_texts_alone() -> None:
    constraint, script = SCHEMAS[2]
    made = generator(words(script), constraint, Local(), Speculation(nodes=16, adapts=False))
    prompts = ["a", "Ann is 41", "green, and red", "a"]
    settings = {"max_tokens": 30, "temperature": 1.0, "seed": 5}
    together = made.batch(prompts, **settings)
    alone = [made(prompts[i], sequence=int(i == 3), **settings) for i in range(4)]
    assert [facts(one)[:2] for one in together] == [facts(one)[:2] for one in alone]


@pytest.mark.parametrize("number", range(3))
def test_a_model_that_reads_chains_gives_equal_completions(number: int) -> None:
    class Chained(Whim):
        no_trees, no_chains = "it has states", None
        longest = 0

        def forward_trees(self, tokens, parents, skip, cache):
            for row in parents:
                assert row == list(range(-1, len(row) - 1))
                self.longest = max(self.longest, len(row))
            return super().forward_trees(tokens, parents, skip, cache)

    constraint, script = SCHEMAS[number]
    settings = {"max_tokens": 30, "temperature": 0.7, "seed": 2}
    model = Chained(words(script).vocabulary, script, 5.0)
    wanted = generator(words(script), constraint, Local(), None).batch(["Ann", "b", "Ann is 41"], **settings)
    made = generator(model, constraint, Local(), Speculation(nodes=16, adapts=False))
    found = made.batch(["Ann", "b", "Ann is 41"], **settings)
    assert [facts(one) for one in found] == [facts(one) for one in wanted]
    assert sum(one.stats.accepted for one in found) > 0
    assert model.longest > 3


RECORD = {
    "town": "zakopane",
    "river": "bialy dunajec",
    "guests": 4711,
    "open": True,
    "notes": ["quiet", "old"],
}
RECORD_SCHEMA = {
    "type": "object",
    "properties": {
        "town": {"type": "string"}, "river": {"type": "string"}, "guests": {"type": "integer"},
        "open": {"type": "boolean"}, "notes": {"type": "array", "items": {"type": "string"}},
    },
    "required": list(RECORD),
    "additionalProperties": False,
}  # fmt: skip


@pytest.mark.ci
@pytest.mark.parametrize("temperature", [0.0, pytest.param(0.8, marks=pytest.mark.ci)])
def test_slots_that_the_model_is_asked_about_ahead_save_passes_and_change_no_text(temperature: float) -> None:
    """Alone, in a batch, streamed, and near a token limit."""
    sources = tuple(name for name in DRAFT_SOURCES if name != "slot_favourites")
    made = {
        name: generator(Clerk(fresh(small_bpe_vocabulary()), RECORD), RECORD_SCHEMA, Local(), draft)
        for name, draft in {
            "plain": None,
            "unasked": Speculation(nodes=64, adapts=False, sources=sources, memory=DraftMemory()),
            "asked": Speculation(nodes=64, adapts=False),
        }.items()
    }
    passes = {}
    for limit in (400, 70):
        options = {"max_tokens": limit, "temperature": temperature, "seed": 3}
        outputs = {name: one.batch(["a", "bc", "a"], **options) for name, one in made.items()}
        wanted = [facts(one) for one in outputs["plain"]]
        assert [facts(one) for one in outputs["asked"]] == wanted
        assert [facts(one) for one in outputs["unasked"]] == wanted
        assert facts(made["asked"]("a", **options)) == wanted[0]
        *_, last = made["asked"].stream("a", **options)
        assert last.output is not None
        assert facts(last.output) == wanted[0]
        passes[limit] = {name: one[1].stats.forwards for name, one in outputs.items()}
        assert outputs["asked"][1].stats.sources["slot_favourites"][1] > 0
    if not temperature:
        assert outputs["plain"][0].finish == "limit"
    asked, unasked, plain = (passes[400][name] for name in ("asked", "unasked", "plain"))
    assert max(asked, unasked) < plain
    if temperature:  # what is drawn is seldom what the model likes best
        assert asked <= 1.01 * unasked
    else:
        assert asked < unasked


@pytest.mark.slow
def test_thousands_of_texts_are_the_same_with_and_without_speculation() -> None:
    accepted = sum(check(*case) for case in cases(2500, 1))
    assert accepted > 1000
