"""Masks that other programs get: forced text has the tokens that the tokenizer writes, unless any spelling is asked for."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
import torch

import constrained
from constrained import ConstraintLogitsProcessor, json_schema
from constrained.automaton import compile
from constrained.automaton.bitmask import unpack_bits
from constrained.automaton.forced_tokens import Spelling, is_canonical
from constrained.integrations.engines.request_grammar import RequestGrammar
from constrained.integrations.engines.step_masks import StepMasks
from constrained.integrations.text_mask import TextMask
from constrained.models import LanguageModel
from constrained.vocabulary import Vocabulary

ACCOUNT = json_schema(
    {
        "type": "object",
        "properties": {
            "accountHolderName": {"enum": ["Ana", "Bo"]},
            "isPublic": {"type": "boolean"},
        },
        "required": ["accountHolderName", "isPublic"],
        "additionalProperties": False,
    },
    separators=(", ", ": "),
)
LIMIT = 60


@cache
def bundled() -> LanguageModel:
    return constrained.load()


def random_scores(vocabulary: Vocabulary, draw: np.random.Generator) -> np.ndarray:
    """Scores under which short tokens win wherever they are allowed, as with a model that never saw the text."""
    lengths = np.array([len(token) or 99 for token in vocabulary.tokens])
    return (draw.normal(size=vocabulary.size) - lengths).astype(np.float32)


def of_transformers(spelling: Spelling, draw: np.random.Generator) -> list[int]:
    vocabulary = bundled().vocabulary
    processor = ConstraintLogitsProcessor(ACCOUNT, vocabulary, max_tokens=LIMIT, spelling=spelling)
    written = [bundled().encode("x")[-1]]
    while written[-1] not in vocabulary.eos_ids:
        scores = torch.from_numpy(random_scores(vocabulary, draw)).unsqueeze(0)
        written.append(int(processor(torch.tensor([written]), scores).argmax()))
    return written[1:]


def of_text_masks(spelling: Spelling, draw: np.random.Generator) -> list[int]:
    vocabulary = bundled().vocabulary
    masks = TextMask(ACCOUNT, vocabulary, LIMIT, spelling)
    written = [bundled().encode("x")[-1]]
    while written[-1] not in vocabulary.eos_ids:
        allowed = masks.allowed(np.array(written), vocabulary.size)
        written.append(int(np.where(allowed, random_scores(vocabulary, draw), -np.inf).argmax()))
    return written[1:]


def of_engines(spelling: Spelling, draw: np.random.Generator) -> list[int]:
    vocabulary = bundled().vocabulary
    automaton = compile(ACCOUNT, vocabulary)
    masks, grammar = StepMasks(), RequestGrammar(automaton, LIMIT, canonical=is_canonical(spelling))
    out = torch.full((2, -(-vocabulary.size // 32)), -1, dtype=torch.int32)
    written: list[int] = []
    while not grammar.is_terminated():
        with masks.step():
            masks.add(grammar, out, 1)
        allowed = unpack_bits(out[1].numpy())[: vocabulary.size]
        written.append(int(np.where(allowed, random_scores(vocabulary, draw), -np.inf).argmax()))
        assert grammar.append(written[-1:])
    return written


@pytest.mark.parametrize("write", [of_transformers, of_text_masks, of_engines])
def test_forced_text_is_spelled_by_the_tokenizer(write) -> None:  # type: ignore[no-untyped-def]
    vocabulary = bundled().vocabulary
    name = vocabulary.encode("accountHolderName")
    assert len(name) < len("accountHolderName") / 2
    for seed in range(5):
        texts = {}
        for spelling in ("canonical", "any"):
            tokens = write(spelling, np.random.default_rng(seed))[:-1]
            texts[spelling] = tokens
            assert json.loads(vocabulary.decode(tokens))["accountHolderName"] in ("Ana", "Bo")
        spelled = [
            any(tokens[i : i + len(name)] == name for i in range(len(tokens))) for tokens in texts.values()
        ]
        assert spelled == [True, False]


def test_a_token_that_another_processor_forbids_leaves_the_other_spellings() -> None:
    vocabulary = bundled().vocabulary
    processor = ConstraintLogitsProcessor(ACCOUNT, vocabulary, max_tokens=LIMIT)
    plain = torch.zeros(1, vocabulary.size)
    (only,) = (processor(torch.tensor([[0]]), plain) == 0)[0].nonzero()
    plain[0, only] = -torch.inf
    processor.reset()
    left = (processor(torch.tensor([[0]]), plain) == 0)[0].nonzero()
    assert [vocabulary.tokens[int(token)] for token in left] == [b"{"]


def test_another_spelling_is_refused() -> None:
    with pytest.raises(constrained.InvalidArgument, match="spelling is 'best'"):
        ConstraintLogitsProcessor(ACCOUNT, bundled().vocabulary, spelling="best")  # type: ignore[arg-type]
