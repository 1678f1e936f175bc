"""An assistant drafts for a larger model: texts are those without it, and it pauses where it does not pay."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained import Generator
from constrained.decoding import Speculation
from constrained.decoding.assistant import AssistantReader
from constrained.errors import InvalidArgument, VocabularyError
from constrained.models import LanguageModel
from constrained.models.loading import with_assistant
from constrained.spec.assistant_balance import INITIAL_BALANCE, MAX_BALANCE, PAUSE_CREDIT, AssistantBalance
from constrained.spec.sources import DRAFT_SOURCES
from constrained.vocabulary import Vocabulary
from tests.spec.speculating import facts
from tests.support.tiny_models import llama, random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

WORDS = constrained.regex(r"[a-z]{2,8}( [a-z]{2,8}){0,6}[.!]?")
RECORD: Any = {
    "type": "object",
    "properties": {"kind": {"enum": ["red", "blue", "green"]}, "name": {"type": "string", "maxLength": 20}},
    "required": ["kind", "name"],
    "additionalProperties": False,
}
PROMPTS = ("the name of", "Zoë lives in Łódź, and", "1 2 3")
ALWAYS = Speculation(adapts=False, nodes=16)


@cache
def other() -> LanguageModel:
    """A smaller random model of the same tokens."""
    return constrained.load(random_llama(hidden_size=16), small_bpe_tokenizer())


def written(output: Any) -> tuple[Any, ...]:
    """What an assistant must not change; sums of a wider pass are rounded otherwise."""
    tokens, text, logprob, weight, *more = facts(output)
    return (tokens, text, pytest.approx(logprob, abs=1e-3), pytest.approx(weight, abs=1e-3), *more)


def assisted(assistant: LanguageModel | None) -> LanguageModel:
    model = copy.copy(llama())
    return model if assistant is None else with_assistant(model, assistant)


@pytest.mark.parametrize("constraint", [WORDS, RECORD], ids=["words", "record"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("draft", ["auto", ALWAYS], ids=["auto", "always"])
def test_texts_are_those_without_it(constraint: Any, temperature: float, draft: Any) -> None:
    settings: Any = {"temperature": temperature, "max_tokens": 40}
    plain = Generator(assisted(None), constraint, speculation=None, **settings)
    wanted = [written(plain(prompt, seed=number)) for number, prompt in enumerate(PROMPTS)]
    together = [written(one) for one in plain.batch(PROMPTS, seed=7)]
    for assistant in (other(), llama(), constrained.load()):  # the last one has other tokens
        made = Generator(assisted(assistant), constraint, speculation=draft, **settings)
        assert [facts(made(prompt, seed=number)) for number, prompt in enumerate(PROMPTS)] == wanted
        assert [facts(one) for one in made.batch(PROMPTS, seed=7)] == together
        *_, last = made.stream(PROMPTS[0], seed=0)
        assert last.output is not None
        assert facts(last.output) == wanted[0]


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5])
def test_what_the_same_model_would_draw_is_accepted(temperature: float) -> None:
    """Both take the noise of the sequence: at a temperature, too, they draw the same tokens."""
    only = Speculation(adapts=False, nodes=16, sources=("assistant",))
    made = Generator(assisted(llama()), WORDS, speculation=only, temperature=temperature, max_tokens=40)
    for seed in range(4):
        stats = made("the name of", seed=seed).stats
        drafted, accepted = stats.sources["assistant"]
        assert drafted == accepted > 0
        assert stats.forwards < stats.tokens


def test_an_assistant_that_never_helps_costs_no_more_than_its_balance() -> None:
    balance = AssistantBalance()
    spent = 0.0
    for _ in range(2000):
        if balance.affords():
            balance.spend(0.5, 4)
            spent += 0.5
    assert INITIAL_BALANCE < spent <= INITIAL_BALANCE + 2000 * PAUSE_CREDIT + 0.5


def test_one_that_helps_goes_on() -> None:
    balance = AssistantBalance()
    for _ in range(200):
        assert balance.affords()
        balance.spend(0.5, 4)
        balance.record_origin(3 << DRAFT_SOURCES.index("assistant"))  # another source said so, too
        balance.record_origin(1 << DRAFT_SOURCES.index("assistant"))
    assert balance.balance == MAX_BALANCE


@given(st.lists(st.floats(0.01, 3.0), min_size=1, max_size=30))
def test_a_dear_assistant_writes_what_is_more_certain(costs: list[float]) -> None:
    balance = AssistantBalance()
    for cost in costs:
        balance.spend(cost, 1)
    assert 0.1 <= balance.least <= max(0.1, *costs)
    before = balance.least
    balance.spend(5.0, 0)  # a prompt says nothing about single tokens
    assert balance.least == before


def test_how_often_both_draw_alike_is_learned() -> None:
    balance = AssistantBalance()
    for _ in range(200):
        balance.compare(1, True)
    assert balance.drawn_alike == pytest.approx(0.5, abs=0.05)


def test_behind_its_context_it_writes_nothing() -> None:
    short = copy.copy(other())
    short.context = 20
    made = Generator(assisted(short), WORDS, speculation=ALWAYS, max_tokens=40)
    assert made("x" * 60, seed=1).text == Generator(llama(), WORDS, max_tokens=40)("x" * 60, seed=1).text


def test_it_reads_nothing_twice() -> None:
    """Two passes without a token between them, as a slot takes that is read."""
    made = Generator(assisted(None), WORDS, max_tokens=40)
    sequence = made._request("the name").new_sequence()
    assistant = assisted(other()).assistant
    assert assistant is not None
    reader = AssistantReader(assistant, AssistantBalance())
    assert reader.continuation(sequence) == reader.continuation(sequence) != []


def test_load_takes_a_model_or_its_name() -> None:
    model = constrained.load(assistant="bundled")
    assert model.assistant is not None
    assert isinstance(model.assistant.model, LanguageModel)
    assert model.assistant.model is not model


def test_a_model_that_reads_no_drafts_has_no_assistant() -> None:
    with pytest.raises(InvalidArgument, match="the same bits"):
        constrained.load(isolate=True, assistant="bundled")


def test_an_assistant_without_some_bytes_is_refused() -> None:
    few = copy.copy(other())
    few.vocabulary = Vocabulary.from_bytes([b"", *(bytes([byte]) for byte in range(ord("z")))], eos_ids=[0])
    with pytest.raises(VocabularyError, match="no token for the byte 0x7a"):
        with_assistant(copy.copy(llama()), few)


def test_a_prompt_of_special_tokens_that_it_lacks_has_no_drafts() -> None:
    model = with_assistant(copy.copy(llama()), constrained.load())
    prompt = [next(iter(model.vocabulary.special.values()))]
    assert model.assistant is not None
    assert model.assistant.tokens.ids(prompt) == []
    texts = [
        Generator(one, WORDS, speculation=ALWAYS, max_tokens=20)(prompt, seed=3).text
        for one in (model, llama())
    ]
    assert texts[0] == texts[1]
