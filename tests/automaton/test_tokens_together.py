"""Tokens that are read together have the states that they have alone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest

import constrained
from constrained.automaton import compile, tokens_together
from constrained.automaton.bitmask import allows
from constrained.automaton.counted import CountedAutomaton
from constrained.automaton.protocol import DEAD
from constrained.automaton.tokens_together import judge_tokens
from constrained.vocabulary import Vocabulary
from tests.support.tokenizers_fixtures import small_bpe_vocabulary, tekken_vocabulary

WORDS = Vocabulary.from_bytes(
    [*(bytes(word) for n in range(1, 5) for word in itertools.product(range(3), repeat=n)), b"\3\0", b""],
    [121],
)


@pytest.mark.parametrize("dense", [0, 1 << 22])
@pytest.mark.parametrize("kept", [2, 1 << 15])
def test_a_random_automaton(monkeypatch: pytest.MonkeyPatch, dense: int, kept: int) -> None:
    monkeypatch.setattr(tokens_together, "_DENSE", dense)
    monkeypatch.setattr(tokens_together, "_KNOWN", kept)
    rng = random.Random(dense + kept)
    for _ in range(50):
        table = {
            (state, byte, first): rng.choice([None, *range(4)])
            for state in range(4)
            for byte in range(3)
            for first in (True, False)
        }
        verdicts = [rng.choice([-1, 0, 7]) for _ in range(4)]

        def step(state: int, byte: int, first: bool, table=table) -> int | None:
            return table.get((state, byte, first))

        def alone(token: bytes, step=step, verdicts=verdicts) -> int:
            state: int | None = 2
            for at, byte in enumerate(token):
                state = step(state, byte, at == 0)
                if state is None:
                    return -1
            return verdicts[state] if token else -1

        tokens = np.array(sorted(rng.sample(range(WORDS.size), rng.randrange(WORDS.size))), dtype=np.intp)
        found = judge_tokens(WORDS, tokens, 2, step, verdicts.__getitem__)
        assert found.tolist() == [alone(WORDS.tokens[token]) for token in tokens.tolist()]


CROSSING = [
    ('start: "Answer: " a\na[max_tokens=3]: /[^\\n]*/', "Answer:"),
    ('start: "- " a ("\\n- " a)*\na[max_tokens=4]: /[^\\n]+/', "- one\n-"),
    ('start: "A: " a "." /[A-Z !]*/\na[max_tokens=5]: /[a-z]+(, [a-z]+)*/', "A: one, two"),
    ('start: "A: " a ";"\na[max_tokens=3]: %json {"enum": ["north", "south", 17]}\n%ignore " "', "A: "),
]


@pytest.mark.parametrize(
    "make", [small_bpe_vocabulary, pytest.param(tekken_vocabulary, marks=pytest.mark.ci)]
)
@pytest.mark.parametrize(("grammar", "text"), CROSSING)
def test_tokens_that_cross_an_end_of_a_counted_text(
    grammar: str, text: str, make: Callable[[], Vocabulary]
) -> None:
    vocabulary = make()
    automaton = compile(constrained.lark(grammar), vocabulary)
    assert isinstance(automaton, CountedAutomaton)
    state = automaton.walk(automaton.start, vocabulary.encode(text))[-1]
    calls = 0
    stepped = automaton._stepped

    def counting(*arguments, **options):
        nonlocal calls
        calls += 1
        return stepped(*arguments, **options)

    automaton._stepped = counting  # type: ignore[method-assign]
    mask = automaton.new_mask()
    automaton.fill_mask(state, mask)
    assert calls < 5000  # of 131,072 tokens, up to 74,000 are such
    automaton._stepped = stepped  # type: ignore[method-assign]
    rng = random.Random(len(text))
    likely = [token for token, data in enumerate(vocabulary.tokens) if data[:1] in (b" ", b".", b";", b"\n")]
    for token in {*rng.sample(likely, min(1000, len(likely))), *rng.sample(range(vocabulary.size), 500)}:
        if token not in vocabulary.eos_ids:
            assert allows(mask, token) == (automaton.next(state, token) != DEAD)
