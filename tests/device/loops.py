"""Every loop that decodes, as a function of a model: what it gives can be compared between devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import constrained
from constrained import CARS, Generator, Local, Speculation
from constrained.decoding.request_batch import RequestBatch
from constrained.decoding.request_runner import BatchedRequest
from constrained.extraction.plan import value_generator

CONSTRAINT = constrained.regex(r'\{"name": "[^"\\]{4,7}"\}')
"""With forced tokens, and with places at which nearly every token is allowed, for a model of random weights."""
LIKELY = constrained.regex(r'[^"]{4}')
"""For a sampler that draws whole completions until one is valid."""
DRAFTS = Speculation(nodes=8, adapts=False)
PROMPTS = ("someone:", "a b", "and another one, older:")


def _tokens(outputs: Any) -> Any:
    return [(one.tokens, round(one.logprob, 3)) for one in outputs]


def assert_same_texts(found: Any, expected: Any, close: float = 1.5e-3) -> None:
    """Equal tokens. Trees have another attention on a CPU than on a device, and sums of log-probabilities are rounded to 0.001."""
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in expected]
    assert [logprob for _, logprob in found] == pytest.approx([one for _, one in expected], abs=close, rel=0)


def generator(model: Any, drafts: Speculation | None) -> Any:
    """One completion with its weight: the default."""
    return _tokens([Generator(model, CONSTRAINT, speculation=drafts)("someone:", seed=3, temperature=1.0)])


def unweighted(model: Any, drafts: Speculation | None) -> Any:
    """One completion without its weight, as `extract` and `generate` draw it."""
    make = Generator(model, CONSTRAINT, sampler=Local(weights=False), speculation=drafts)
    return _tokens([make("someone:", seed=3, temperature=1.0)])


def greedy(model: Any, drafts: Speculation | None) -> Any:
    """The most likely tokens, without a weight."""
    make = Generator(model, CONSTRAINT, sampler=Local(weights=False), speculation=drafts)
    return _tokens([make("someone:", temperature=0)])


def batch(model: Any, drafts: Speculation | None) -> Any:
    """Prompts of three lengths side by side, with weights."""
    return _tokens(Generator(model, CONSTRAINT, speculation=drafts).batch(PROMPTS, seed=3, temperature=1.0))


def serving(model: Any, drafts: Speculation | None) -> Any:
    """The continuous batch of the server and of `extract_many`: requests with temperatures of their own."""
    make = value_generator(model, CONSTRAINT, None, drafts)
    requests = RequestBatch(make.model, make._drafting, max_rows=8)
    members = [
        BatchedRequest(make, make._request(prompt, seed=3, temperature=heat))
        for prompt, heat in zip(PROMPTS, (1.0, 0.0, 0.7), strict=True)
    ]
    for member in members:
        requests.add(member)
    while len(requests):
        requests.step()
    return _tokens(member.outcome for member in members)


def _sampled(sampler: str) -> Callable[[Any, Speculation | None], Any]:
    def sample(model: Any, drafts: Speculation | None) -> Any:
        cars = sampler == "cars"
        make = Generator(
            model,
            LIKELY if cars else CONSTRAINT,
            sampler=CARS(ends="certain") if cars else sampler,
            speculation=drafts,
        )
        return _tokens(make.sample("someone:", 3, seed=3, temperature=1.0))

    sample.__doc__ = f"A set of three completions by the sampler {sampler!r}."
    return sample


LOOPS: dict[str, Callable[[Any, Speculation | None], Any]] = {
    "generator": generator,
    "unweighted": unweighted,
    "greedy": greedy,
    "batch": batch,
    "serving": serving,
    **{f"set, {name}": _sampled(name) for name in ("local", "awrs", "cars", "smc")},
}
