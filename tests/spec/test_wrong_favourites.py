"""A model that misleads: what it favours where it is asked ahead is not what it writes there. Sources of its logits lose their weight."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import constrained
from constrained.decoding.speculation import Speculation
from constrained.spec.memory import DraftMemory
from constrained.spec.sources import DRAFT_SOURCES
from constrained.testing.models import FunctionModel
from constrained.vocabulary import Vocabulary
from tests.spec.speculating import prior_memory
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

NAMES = ("name", "city", "street", "owner", "colour", "note", "code", "team")
SYLLABLES = ("ba", "ke", "lo", "mi", "nu", "ra", "se", "to")
OTHERS = tuple(name for name in DRAFT_SOURCES if name != "slot_favourites")


class Registrar(FunctionModel):
    """Writes a record, whose values are strings.

    Attributes:
        record: the next one.
        honest: what it favours behind another beginning than that of the record, where it is asked ahead, is what it will
            write in this slot; otherwise words that it will not write.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.record: dict[str, str] = {}
        self.honest = True
        self._words = [i for i, piece in enumerate(vocabulary.tokens) if len(piece) > 1 and piece.isalpha()]

    def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
        return self.vocabulary.encode(prompt) if isinstance(prompt, str) else list(prompt)

    def logits(self, prompt: list[int], tokens: list[int]) -> np.ndarray:
        text, written = self.vocabulary.decode(tokens).decode(errors="replace"), json.dumps(self.record)
        logits = np.zeros(self.vocabulary.size)
        logits[random.Random(sum(tokens[-3:])).sample(self._words, 8)] = 20.0 - np.arange(8)
        rest = written[len(text) :] if written.startswith(text) else ""
        if self.honest and not rest:
            slot = text[text.rfind(', "') + 1 :].strip(" {")
            _, found, after = written.partition(slot)
            rest = after if slot and found else ""
        if rest:
            logits[self.vocabulary.encode(rest)[0]] = 30.0
        elif text == written:
            logits[list(self.vocabulary.eos_ids)] = 30.0
        return logits


@dataclass
class Run:
    """What was written one after the other: completions, passes, favourites that were right, and that were wrong."""

    texts: list[list[int]] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)


def write(memory: DraftMemory, sources: tuple[str, ...], nodes: int, honest: Sequence[bool]) -> Run:
    """Records under a schema each. Prompts tell the values where the model's favourites do not."""
    rng, model, run = random.Random(1), Registrar(small_bpe_vocabulary()), Run()
    drafts = Speculation(nodes=nodes, sources=sources, adapts=False, memory=memory)
    for model.honest in honest:
        words = ["".join(rng.choices(SYLLABLES, k=3)) for _ in range(12)]
        model.record = {name: " ".join(rng.sample(words, 2)) for name in rng.sample(NAMES, 4)}
        schema = {
            "properties": {name: {"type": "string"} for name in model.record},
            "required": list(model.record),
            "additionalProperties": False,
        }
        made = constrained.Generator(model, constrained.json_schema(schema), speculation=drafts)
        told = "nobody" if model.honest else " and ".join(sorted(model.record.values()))
        out = made(f"Nothing is known but of {told}.", max_tokens=200, temperature=0)
        assert json.loads(out.text) == model.record
        drafted, accepted = out.stats.sources.get("slot_favourites", (0, 0))
        run.texts.append(out.tokens)
        run.passes.append(out.stats.forwards)
        run.right.append(accepted)
        run.wrong.append(drafted - accepted)
    return run


@pytest.mark.ci
@pytest.mark.parametrize(
    ("nodes", "honest", "misled"),
    [
        (16, 3, 9),
        *(
            pytest.param(*case, marks=pytest.mark.ci)
            for case in [(16, 0, 24), (16, 9, 24), (64, 0, 24), (64, 9, 24)]
        ),
    ],
)
def test_favourites_that_are_wrong_lose_their_weight(nodes: int, honest: int, misled: int) -> None:
    begin = prior_memory(small_bpe_vocabulary())
    rounds = [True] * honest + [False] * misled
    others, run = (write(begin.fork(), sources, nodes, rounds) for sources in (OTHERS, DRAFT_SOURCES))
    assert run.texts == others.texts
    if honest:  # they are trusted first, and right
        assert sum(run.passes[:honest]) < 0.8 * sum(others.passes[:honest])
        assert sum(run.right[:honest]) > 10 * honest
        third = misled // 3
        # Half as many are left, or as few as three in a text of four strings.
        assert sum(run.wrong[-third:]) <= max(sum(run.wrong[honest : honest + third]) / 2, 3 * third)
    assert sum(run.passes[honest:]) <= 1.06 * sum(others.passes[honest:])
