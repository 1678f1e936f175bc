"""Constraints inside mlx-lm, with the bundled model as mlx-lm loads it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

import constrained
from constrained import Generator, choice, regex
from constrained.errors import BudgetExhausted, DoesNotFit, InvalidArgument
from constrained.models.tiny import WEIGHTS

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 30}, "born": {"type": "integer"}},
    "required": ["name", "born"],
    "additionalProperties": False,
}
TEXTS = ["Ana Novak was born in 1987 in Brno.", "In 1990 came Jan Dvorak.", "Eva Mala, 2001."]
LIMIT = 40


@cache
def engine() -> Any:
    """Model and tokenizer of mlx-lm."""
    import mlx_lm

    return mlx_lm.load(str(WEIGHTS))


@cache
def ours() -> Any:
    """The same model in transformers."""
    return constrained.load()


def processor(constraint: Any = PERSON, max_tokens: int | None = LIMIT) -> Any:
    from constrained.integrations.mlx import MlxLogitsProcessor

    return MlxLogitsProcessor(constraint, engine()[1], max_tokens=max_tokens)


def generated(text: str, *processors: Any, max_tokens: int = LIMIT + 1, **options: Any) -> str:
    import mlx_lm

    prompt = ours().encode(text)
    said: str = mlx_lm.generate(
        *engine(), prompt, max_tokens=max_tokens, logits_processors=list(processors), **options
    )
    return said


@pytest.mark.parametrize("constraint", [PERSON, regex("[A-Z][a-z]+ [0-9]{2,6}"), choice(["yes", "no"])])
def test_greedy_texts_are_those_of_the_generator(constraint: Any) -> None:
    expected = Generator(ours(), constraint)
    for text in TEXTS:
        assert generated(text, processor(constraint)) == expected(text, max_tokens=LIMIT).text


def test_a_processor_serves_one_call_after_another() -> None:
    one = processor()
    first, second, again = (generated(text, one) for text in (TEXTS[0], TEXTS[1], TEXTS[0]))
    assert first == again != second


def test_a_batch_has_a_constraint_for_each_request() -> None:
    from mlx_lm.generate import BatchGenerator

    model, tokenizer = engine()
    constraints = [PERSON, regex("[0-9]{3,9};"), None, choice(["maybe", "never"]), PERSON]
    prompts = [ours().encode(text) for text in (*TEXTS, TEXTS[0], TEXTS[1])]
    batch = BatchGenerator(
        model, stop_tokens=[[token] for token in tokenizer.eos_token_ids], completion_batch_size=3
    )
    numbers = batch.insert(
        prompts,
        [LIMIT + 1] * len(prompts),
        logits_processors=[[] if c is None else [processor(c)] for c in constraints],
    )
    texts: dict[int, list[int]] = {number: [] for number in numbers}
    while responses := batch.next_generated():
        for response in responses:
            if response.finish_reason != "stop":
                texts[response.uid].append(response.token)
    for number, constraint, prompt in zip(numbers, constraints, prompts, strict=True):
        if constraint is not None:
            expected = Generator(ours(), constraint, sampler="local")(prompt, max_tokens=LIMIT)
            assert ours().vocabulary.decode(texts[number]).decode() == expected.text


def test_drafts_of_another_model_change_nothing() -> None:
    model, _ = engine()
    for text in TEXTS:
        plain = generated(text, processor())
        assert generated(text, processor(), draft_model=model, num_draft_tokens=3) == plain


@pytest.mark.parametrize("limit", [16, 19, 22])
def test_texts_are_complete_within_the_limit(limit: int) -> None:
    from mlx_lm.sample_utils import make_sampler

    for _ in range(3):
        said = generated(
            TEXTS[0], processor(max_tokens=limit), max_tokens=limit + 1, sampler=make_sampler(temp=1.5)
        )
        assert set(json.loads(said)) == {"name", "born"}


def test_what_does_not_fit_and_what_is_forced_are_errors() -> None:
    import mlx.core as mx

    with pytest.raises(DoesNotFit, match="needs"):
        processor(max_tokens=3)
    with pytest.raises(InvalidArgument, match="is not allowed by the constraint"):
        generated(
            TEXTS[0],
            processor(),
            lambda tokens, logits: mx.where(mx.arange(logits.shape[-1]) == 77, logits, -mx.inf),
        )

    def nothing(text: str) -> bool:
        return not text

    with pytest.raises(BudgetExhausted, match="no token is allowed"):
        generated(TEXTS[0], processor(regex("[a-z]+") & constrained.predicate(nothing), max_tokens=None))
