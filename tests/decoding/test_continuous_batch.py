"""A batch whose texts come and go: each of them is what it would be alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from constrained import Generator, LanguageModel, Vocabulary, load
from constrained.decoding import continuous_batch
from constrained.decoding.continuous_batch import ContinuousBatch
from constrained.decoding.speculation import Speculation
from constrained.models.base import Cache
from constrained.spec.memory import DraftMemory
from constrained.testing import ScriptedModel
from tests.support.tiny_models import random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

WISHES: list[tuple[Any, str, int]] = [
    ({"type": "array", "items": {"type": "integer"}}, "some numbers", 30),
    ({"enum": ["red", "green"]}, "a colour of the sky or of something else", 12),
    ({"type": "object", "additionalProperties": {"type": "boolean"}}, "x", 25),
    ({"type": "string", "maxLength": 9}, "a name", 18),
]


class Writer:
    """A text as a batch wants it."""

    def __init__(
        self, generator: Generator, prompt: str, limit: int, number: int = 0, temperature: float = 1.0
    ) -> None:
        (task,) = generator._tasks(
            [prompt], [number], 7, generator.sampler, max_tokens=limit, temperature=temperature
        )
        self.takes = 0
        self.sequence = task.new_sequence()
        self.sampler: Any = generator.sampler
        self.cancelled = False

    @property
    def top_count(self) -> int:
        return self.sampler.top_count(self.sequence.params.warp)

    @property
    def finished(self) -> bool:
        return self.cancelled or bool(self.sequence.finish)

    def advance(self, distribution: Any) -> None:
        self.takes += 1
        self.sequence.step(distribution, self.sampler)


MODELS: dict[str, Callable[[], LanguageModel]] = {
    "separate rows": lambda: load(random_llama(), small_bpe_tokenizer(), isolate=True),
    "joined rows": lambda: load(random_llama(), small_bpe_tokenizer(), isolate=False),
    "no weights": lambda: ScriptedModel(
        Vocabulary.from_bytes([*(bytes([i]) for i in range(256)), b""], [256]), "[1, 2]", margin=1.0
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_texts_that_come_and_go_are_what_they_are_alone(kind: str) -> None:
    model = MODELS[kind]()
    generators = [Generator(model, wanted, chat=False, sampler="local") for wanted, _, _ in WISHES]
    alone = [
        generator(prompt, seed=7, max_tokens=limit, temperature=1.0).tokens
        for generator, (_, prompt, limit) in zip(generators, WISHES, strict=True)
    ]
    writers = [
        Writer(generator, prompt, limit)
        for generator, (_, prompt, limit) in zip(generators, WISHES, strict=True)
    ]
    batch: ContinuousBatch[Writer] = ContinuousBatch(model)
    for i, writer in enumerate(writers):  # one more every other step
        batch.add([writer])
        batch.step()
        batch.step()
        assert len(batch.sequences) <= i + 1
    while batch.sequences:
        batch.step()
    assert [tuple(writer.sequence.tokens) for writer in writers] == alone


def test_a_long_prompt_is_read_in_pieces_and_others_get_their_steps_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = MODELS["joined rows"]()
    prompts, limits = ["x", "some numbers in a row " * 20], [40, 12]
    generator = Generator(model, WISHES[0][0], chat=False, sampler="local")
    alone = [
        generator(prompt, seed=7, max_tokens=limit, temperature=1.0).tokens
        for prompt, limit in zip(prompts, limits, strict=True)
    ]
    monkeypatch.setattr(continuous_batch, "PIECE", 16)
    short, long, late = (Writer(generator, prompts[i], limits[i]) for i in (0, 1, 0))
    batch: ContinuousBatch[Writer] = ContinuousBatch(model)
    batch.add([short])
    pieces: list[int] = []

    def between() -> None:
        pieces.append(len(long.sequence.unread))
        before = short.takes
        batch.step()
        assert short.finished or short.takes > before
        if len(pieces) == 2:
            batch.add([late], between)  # joins while the prompt is read

    batch.add([long], between)
    count = len(long.sequence.prompt)
    assert pieces == list(range(count - 16, 0, -16))
    assert len(pieces) > 5
    while batch.sequences:
        batch.step()
    assert [tuple(one.sequence.tokens) for one in (short, long, late)] == [alone[0], alone[1], alone[0]]


def test_a_request_that_is_cancelled_while_its_prompt_is_read_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = MODELS["joined rows"]()
    generator = Generator(model, WISHES[0][0], chat=False, sampler="local")
    monkeypatch.setattr(continuous_batch, "PIECE", 16)
    prompt = "some numbers in a row " * 20
    gone, stays = Writer(generator, prompt, 12), Writer(generator, prompt, 12)
    batch: ContinuousBatch[Writer] = ContinuousBatch(model)

    def between() -> None:
        gone.cancelled = True

    batch.add([gone, stays], between)
    while batch.sequences:
        batch.step()
    assert not gone.sequence.tokens
    assert tuple(stays.sequence.tokens) == generator(prompt, seed=7, max_tokens=12, temperature=1.0).tokens


@pytest.mark.parametrize("kind", MODELS)
def test_speculation_changes_the_speed_and_not_the_completions(kind: str) -> None:
    """Trees of different shapes side by side, texts that join between them, end within them, or are given up."""
    model = MODELS[kind]()
    alone = [
        Generator(model, wanted, chat=False, sampler="local", speculation=None)(
            prompt, seed=7, max_tokens=limit, temperature=1.0
        )
        for wanted, prompt, limit in WISHES
    ]
    draft = Speculation(nodes=12, adapts=False, memory=DraftMemory())
    generators = [
        Generator(model, wanted, chat=False, sampler="local", speculation=draft) for wanted, _, _ in WISHES
    ]
    drafting = generators[0]._drafting
    passes = []
    for _ in range(2):  # the second time it has seen the texts
        writers = [
            Writer(generator, prompt, limit)
            for generator, (_, prompt, limit) in zip(generators, WISHES, strict=True)
        ]
        gone = Writer(generators[0], "another prompt", 30, number=5)
        batch: ContinuousBatch[Writer] = ContinuousBatch(model, drafting)
        steps = 0
        for i, writer in enumerate(writers):
            batch.add([writer])
            batch.step()
            steps += 1
            if i == 1:
                batch.add([gone])
            gone.cancelled = i == 2
        while batch.sequences:
            batch.step()
            steps += 1
        assert [tuple(writer.sequence.tokens) for writer in writers] == [one.tokens for one in alone]
        assert batch._step.cache is None
        passes.append(steps)
    assert passes[1] < passes[0], "and they were guessed"


def test_large_batches_run_without_draft_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["no weights"]()
    widths: list[int] = []
    reads = model.forward_trees
    monkeypatch.setattr(
        model, "forward_trees", lambda *inputs: widths.append(len(inputs[0])) or reads(*inputs)
    )
    draft = Speculation(nodes=12, adapts=False)
    generator = Generator(model, WISHES[0][0], chat=False, speculation=draft)
    long, short = Writer(generator, "some numbers", 30), Writer(generator, "some numbers", 4, number=1)
    batch: ContinuousBatch[Writer] = ContinuousBatch(model, generator._drafting, speculation_max_batch=1)
    batch.add([long])
    batch.add([short])
    while batch.sequences:
        batch.step()
    assert widths
    assert set(widths) == {1}


def test_copies_of_a_prompt_read_it_once() -> None:
    model = MODELS["joined rows"]()
    generator = Generator(model, {"type": "array", "items": {"type": "integer"}}, chat=False)
    three = [Writer(generator, "some numbers", 20, number=i) for i in range(3)]
    batch: ContinuousBatch[Writer] = ContinuousBatch(model)
    batch.add(three)
    while batch.sequences:
        batch.step()
    alone = [
        generator("some numbers", seed=7, sequence=i, max_tokens=20, temperature=1.0).tokens for i in range(3)
    ]
    assert [tuple(writer.sequence.tokens) for writer in three] == alone
    assert len(set(alone)) > 1


def test_what_is_given_up_leaves_and_its_memory_with_it() -> None:
    model = MODELS["joined rows"]()
    generator = Generator(model, {"type": "array", "items": {"type": "integer"}}, chat=False)
    stays, goes = Writer(generator, "some numbers", 20), Writer(generator, "x", 20, number=3)
    batch: ContinuousBatch[Writer] = ContinuousBatch(model)
    batch.add([stays])
    batch.add([goes])
    batch.step()
    goes.cancelled = True
    while batch.sequences:
        batch.step()
    expected = generator("some numbers", seed=7, max_tokens=20, temperature=1.0).tokens
    assert tuple(stays.sequence.tokens) == expected
    assert batch._step.cache is None
    batch.add([Writer(generator, "x", 20)])
    batch.clear()
    assert batch.sequences == []


def test_a_joined_cache_gives_the_logits_of_its_rows() -> None:
    """Rows of different lengths, joined in both orders and after some have left."""
    model = MODELS["joined rows"]()
    prompts = [[5, 6, 7, 8, 9], [3], [11, 12]]

    def read(prompt: list[int]) -> Cache:
        cache = model.cache(1)
        model.forward([prompt], cache)
        return cache

    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        joined = read(prompts[order[0]])
        for i in order[1:]:
            joined.join(read(prompts[i]))
        assert joined.lengths == [len(prompts[i]) for i in order]
        joined.keep([2, 0])
        left = [order[2], order[0]]
        together = model.forward([[4], [4]], joined)
        for row, i in zip(together, left, strict=True):
            np.testing.assert_allclose(row, model.forward([[4]], read(prompts[i]))[0], rtol=1e-3, atol=1e-4)
        joined.keep([])
        joined.join(read(prompts[0]))
        np.testing.assert_allclose(
            model.forward([[4]], joined)[0],
            model.forward([[4]], read(prompts[0]))[0],
            rtol=1e-3,
            atol=1e-4,
        )


@pytest.mark.parametrize("engine", ["eager", "static"])
def test_prompts_are_read_one_after_the_other_in_one_place(engine: str) -> None:
    """Where rows are written in place, each joins the batch before the next prompt is read: no slab of its own is left behind."""
    model = load(random_llama(), small_bpe_tokenizer(), engine=engine)
    batch: ContinuousBatch[Writer] = ContinuousBatch(model)
    writers = [Writer(Generator(model, WISHES[0][0]), "some numbers", 9, number) for number in range(5)]
    for number, writer in enumerate(writers):
        batch.add([writer])
        assert batch._step.cache is not None
        assert len(batch._step.cache.lengths) == number + 1
    while batch.sequences:
        batch.step()
    alone = Generator(model, WISHES[0][0])
    for number, writer in enumerate(writers):
        single: ContinuousBatch[Writer] = ContinuousBatch(model)
        other = Writer(alone, "some numbers", 9, number)
        single.add([other])
        while single.sequences:
            single.step()
        assert writer.sequence.tokens == other.sequence.tokens


def test_a_cache_that_cannot_join_is_an_error() -> None:
    class Old(Cache):
        lengths: Any = ()

        def keep(self, rows: Sequence[int]) -> None: ...

    with pytest.raises(NotImplementedError, match="Old"):
        Old().join(Old())
