"""What the real model answers: these texts, whatever drafts them, and whoever calls the library.

The answers were chosen out of thirty: those in which each token leads the next best allowed one by more than `CLEAR` in
its logit. Other CPUs and other versions of torch round to some 0.0001, so they give the same texts.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from constrained import ConstraintLogitsProcessor, Generator, Speculation, decode, regex
from constrained.automaton.bitmask import unpack_ids
from constrained.decoding.output import Output
from constrained.models.hugging_face import HuggingFaceModel
from tests.real.chats import ANIMALS, BORN, CAPITAL, COUNTRY, ECHO, YEAR, chat

pytestmark = pytest.mark.real

CLEAR = 0.3
ANSWERS = {
    "capital": (CAPITAL, "Paris"),
    "year": (YEAR, "1969"),
    "echo": (ECHO, "the quick brown fox jumps over the lazy dog"),
    "country": (COUNTRY, '{"capital": "Tallinn", "country": "Estonia"}'),
    "born": (BORN, '{"name": "Grace", "born": 1906}'),
    "animals": (ANIMALS, '["horse", "cow", "sheep"]'),
}
STORY = (chat("Tell me a story about a lighthouse."), regex(r"(?s:.*)"))


def smallest_lead(generator: Generator[Any], prompt: Any, output: Output[Any]) -> float:
    """The least difference between the logits of the best two allowed tokens, of all tokens of a text and its end."""
    model, automaton = generator.model, generator.automaton
    assert isinstance(model, HuggingFaceModel)
    ids = model.encode(prompt)
    with torch.inference_mode():
        logits = model.model(torch.tensor([[*ids, *output.tokens]])).logits[0, len(ids) - 1 :]
    leads = []
    state = automaton.start
    for row, token in zip(logits, [*output.tokens, None], strict=True):
        mask = automaton.new_mask()
        automaton.fill_mask(state, mask)
        allowed = torch.tensor(unpack_ids(mask).tolist(), dtype=torch.long)
        if len(allowed) > 1:
            first, second = row[allowed].topk(2).values.tolist()
            leads.append(first - second)
        if token is not None:
            state = automaton.next(state, token)
    return min(leads)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_this_text(model: HuggingFaceModel, name: str) -> None:
    (prompt, constraint), text = ANSWERS[name]
    generator = Generator(model, constraint)
    output = generator(prompt)
    assert output.text == text
    assert smallest_lead(generator, prompt, output) > CLEAR


@pytest.mark.parametrize("asked", [COUNTRY, YEAR, CAPITAL, STORY], ids=["schema", "regex", "choice", "free"])
def test_draft_tokens_change_no_text(model: HuggingFaceModel, asked: tuple[Any, Any]) -> None:
    prompt, constraint = asked
    outputs = [
        Generator(model, constraint, sampler="local", speculation=how)(prompt, max_tokens=40, temperature=0)
        for how in (None, "auto", Speculation(nodes=12, adapts=False))
    ]
    alone, _, drafted = outputs
    assert len({(output.tokens, output.finish) for output in outputs}) == 1
    assert (alone.finish == "limit") == (asked is STORY)
    assert drafted.stats.drafted > 0
    assert drafted.stats.forwards <= alone.stats.forwards


@pytest.mark.parametrize("asked", [COUNTRY, YEAR, STORY], ids=["schema", "regex", "free"])
def test_generate_of_transformers_gives_the_same_text(
    model: HuggingFaceModel, asked: tuple[Any, Any]
) -> None:
    prompt, constraint = asked
    expected = Generator(model, constraint)(prompt, max_tokens=40)
    ids = torch.tensor([model.encode(prompt)])
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "max_new_tokens": 40}
    masked = ConstraintLogitsProcessor(constraint, model.vocabulary, max_tokens=40)
    ways: list[dict[str, Any]] = [
        {"logits_processor": [masked]},
        {"custom_generate": decode, "constraint": constraint, "vocabulary": model.vocabulary},
    ]
    for way in ways:
        found = model.model.generate(**batch, **way, do_sample=False)[0, ids.shape[1] :].tolist()
        assert model.vocabulary.decode([one for one in found if one != 2]).decode() == expected.text
