"""Biases and penalties: the model's distribution changes as defined, in every loop, with drafts and with every sampler."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained import Generator
from constrained.automaton.protocol import NO_LIMIT
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.speculation import Speculation
from constrained.errors import InvalidArgument
from constrained.sampling import LogitsWarper
from tests.support.tiny_models import llama

WORDS = constrained.regex(r"[a-d]{2,8}( [a-d]{2,8}){0,3}[.!]?")
SETTINGS: list[dict[str, Any]] = [
    {"logit_bias": {70: 4.0, 71: -100.0}},
    {"presence_penalty": -1.0, "frequency_penalty": 0.5},
    {"repetition_penalty": 0.8, "presence_penalty": 0.4, "logit_bias": {72: 1.0}},
    {"repetition_penalty": 1.4, "repetition_window": 3},
]
numbers = st.floats(-3, 3).map(lambda x: round(x, 3))


def judged(logits: Any, prompt: list[int], completion: list[int], warp: LogitsWarper) -> list[float]:
    """The definition, token by token."""
    bias, result = dict(warp.logit_bias or ()), []
    written = prompt + completion
    recent = written if warp.repetition_window is None else written[len(written) - warp.repetition_window :]
    if (warp.repetition_window or 0) > len(written):
        recent = written
    for token, value in enumerate(logits):
        score = float(value) + bias.get(token, 0.0)
        if token in recent:
            factor = warp.repetition_penalty or 1.0
            score = score / factor if score > 0 else score * factor
        count = completion.count(token)
        score -= (warp.frequency_penalty or 0.0) * count + (warp.presence_penalty or 0.0) * (count > 0)
        result.append(score)
    return result


@given(
    st.lists(numbers, min_size=6, max_size=6),
    st.lists(st.integers(0, 5), max_size=4),
    st.lists(st.integers(0, 5), max_size=6),
    st.dictionaries(st.integers(0, 5), numbers),
    numbers,
    numbers,
    st.floats(0.1, 4),
    st.none() | st.integers(0, 12),
)
def test_logits_are_adjusted_as_defined(
    logits, prompt, completion, bias, frequency, presence, repetition, window
):
    warp = LogitsWarper(
        1.0,
        logit_bias=bias,
        frequency_penalty=frequency,
        presence_penalty=presence,
        repetition_penalty=repetition,
        repetition_window=window,
    )
    row = np.array(logits, dtype=np.float32)
    before = row.copy()
    got = warp.adjust(row, prompt, completion)
    np.testing.assert_allclose(got, judged(row, prompt, completion, warp), rtol=1e-12, atol=1e-12)
    assert (row == before).all()


def replayed(generator: Generator, output: Any, prompt: str, settings: dict[str, Any]) -> float:
    """The log-probability of an output, by a loop of its own: one pass for each prefix, and the definition."""
    model, warp = generator.model, LogitsWarper(**{"temperature": 1.0, **settings})
    ids = model.encode(prompt, chat=False)
    total, state = 0.0, generator.automaton.start
    ended = output.finish == "end" or not generator.sampler.certain_ends
    drawn = [*output.tokens, *(model.vocabulary.eos_ids if ended else ())]
    prefixes = [list(output.tokens[:place]) for place in range(len(drawn))]
    rows = model.forward([ids + prefix for prefix in prefixes], model.cache(len(prefixes)))
    for place, (token, written, row) in enumerate(zip(drawn, prefixes, rows, strict=True)):
        scaled = np.array(judged(row, ids, written, warp)) / (warp.temperature or 1.0)
        total += scaled[token] - (scaled.max() + math.log(np.exp(scaled - scaled.max()).sum()))
        if warp.greedy:
            allowed = AutomatonCandidates(generator.automaton, state, NO_LIMIT).ids
            assert max(scaled[allowed]) == pytest.approx(scaled[token], abs=1e-4)
        if place < len(output.tokens):
            state = generator.automaton.next(state, token)
    return total


@pytest.mark.parametrize(("settings", "temperature"), list(zip(SETTINGS, [0, 0.7, 1.0, 0.9], strict=True)))
def test_a_completion_is_drawn_from_the_adjusted_distribution(settings, temperature):
    wanted = {**settings, "temperature": temperature}
    plain = Generator(llama(), WORDS, chat=False, sampler=constrained.Local(ends="certain"))
    drafted = Generator(
        llama(), WORDS, chat=False, sampler="local", speculation=Speculation(nodes=8, adapts=False)
    )
    settled = Generator(llama(), WORDS, chat=False, sampler="local")
    prompt = "the abba cab"
    output = plain(prompt, seed=5, max_tokens=32, **wanted)
    quick = drafted(prompt, seed=5, max_tokens=32, **wanted)
    assert quick.text == settled(prompt, seed=5, max_tokens=32, **wanted).text
    assert output.finish != "limit"
    assert output.logprob == pytest.approx(replayed(plain, output, prompt, wanted), abs=1e-3)
    several = drafted.batch([prompt, "x", prompt], seed=5, max_tokens=32, **wanted)
    assert several[0].text == quick.text
    assert (
        "".join(chunk.delta for chunk in drafted.stream(prompt, seed=5, max_tokens=32, **wanted))
        == quick.text
    )


def test_samplers_of_the_conditional_distribution_take_the_adjusted_model_for_the_model():
    settings = {"presence_penalty": 1.0, "logit_bias": {70: 2.0}}
    generator = Generator(llama(), constrained.regex("[a-z]{2,4}"), chat=False, sampler="smc")
    for output in generator.sample("abc", 4, seed=1, max_tokens=8, **settings).outputs:
        assert output.logprob == pytest.approx(replayed(generator, output, "abc", settings), abs=1e-3)


def test_drafts_are_accepted_and_repetition_is_felt():
    generator = Generator(
        llama(), constrained.regex("(abcd ){30}"), chat=False, speculation=Speculation(adapts=False)
    )
    output = generator("abcd abcd", frequency_penalty=1.0, max_tokens=200)
    assert output.stats.accepted > 20
    letters = Generator(llama(), constrained.regex("[a-h]{12}"), chat=False)
    free, varied = (letters("a", max_tokens=20, frequency_penalty=p) for p in (0.0, 99.0))
    assert len(set(varied.tokens)) == len(varied.tokens)
    assert len(set(free.tokens)) < len(free.tokens)
    (token,) = llama().vocabulary.encode("h")
    assert letters("a", max_tokens=20, logit_bias={token: 100.0}).text == "h" * 12


def test_bad_values_are_refused_and_neutral_ones_are_none():
    generator = Generator(llama(), WORDS)
    for settings in (
        {"logit_bias": {10**6: 1.0}},
        {"logit_bias": {-1: 1.0}},
        {"logit_bias": {"a": 1.0}},
        {"logit_bias": {1: math.inf}},
        {"logit_bias": [1]},
        {"frequency_penalty": math.nan},
        {"presence_penalty": "1"},
        {"repetition_penalty": 0},
        {"repetition_penalty": 2, "repetition_window": -1},
        {"repetition_penalty": 2, "repetition_window": 1.5},
    ):
        with pytest.raises(InvalidArgument):
            generator("a", **settings)
    nothing = LogitsWarper(
        1.0, logit_bias={3: 0}, frequency_penalty=0, presence_penalty=0.0, repetition_penalty=1
    )
    assert nothing == LogitsWarper(1.0)
    assert not nothing.adjusts
