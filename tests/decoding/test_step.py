"""The decoding step announces how it will draw, whoever takes it, and then needs no whole row of logits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from constrained import Generator, Local, Speculation, Vocabulary
from constrained.decoding.continuous_batch import ContinuousBatch
from constrained.models.logits import HostLogits, PlannedDraws, TopKeys
from constrained.sampling.base import run_particles
from constrained.spec.budget import DraftBudget
from constrained.testing import ScriptedModel
from tests.decoding.test_continuous_batch import Writer
from tests.server.serving import MODEL, served

BYTES = Vocabulary.from_bytes([*(bytes([i]) for i in range(256)), b""], [256])
WORDS = {"enum": ["red", "green", "blue"]}
UNWEIGHED = Local(weights=False)


class CountingLogits(HostLogits):
    """Logits that answer as those of a device do, from arrays, and count whole rows that leave it."""

    def __init__(self, arrays: Sequence[Any], counts: dict[str, int]) -> None:
        super().__init__(arrays)
        self._counts = counts
        self._top: dict[int, TopKeys] = {}

    def row(self, index: int) -> Any:
        self._counts["rows"] += 1
        return super().row(index)

    def top_tokens(self, index: int, count: int) -> list[int]:
        return (
            self._top[index].ids[:count].tolist() if index in self._top else super().top_tokens(index, count)
        )

    def plan(self, draws: PlannedDraws) -> None:
        self._counts["planned"] += 1
        rows = zip(draws.places, draws.noises, draws.positions, draws.temperatures, strict=True)
        for place, noise, position, temperature in rows:
            logits = self._rows[place].astype(np.float64)
            scaled = logits / (temperature or 1.0)
            keys = scaled + (noise.gumbel(position, np.arange(len(logits))) if temperature else 0.0)
            order = np.argsort(-keys, kind="stable")
            ids = order[: draws.count]
            total = float(np.log(np.exp(scaled - scaled.max()).sum()) + scaled.max())
            self._top[place] = TopKeys(ids, logits[ids], float(keys[order[draws.count]]), total, noise)

    def top_keys(self, index: int) -> TopKeys | None:
        return self._top.get(index)


class CountingModel(ScriptedModel):
    """Its logits count; `passes` are those that gave some."""

    def __init__(self) -> None:
        super().__init__(BYTES, '"green"', margin=12.0)
        self.counts = {"passes": 0, "planned": 0, "rows": 0}

    plans_draws = True

    def forward_logits(self, tokens: Any, trees: Any, cache: Any, draws: Any = None) -> CountingLogits:
        self.counts["passes"] += 1
        found = super().forward_logits(tokens, trees, cache)
        logits = CountingLogits([np.stack(found._rows)], self.counts)  # type: ignore[attr-defined]
        if draws is not None:
            logits.plan(draws)
        return logits


def one_sequence(model: CountingModel) -> None:
    Generator(model, WORDS, sampler=UNWEIGHED, chat=False)("Say:", seed=1, temperature=1.0)


def one_sequence_with_drafts(model: CountingModel) -> None:
    speculation = Speculation(nodes=8, adapts=False)
    generator = Generator(model, WORDS, sampler=UNWEIGHED, chat=False, speculation=speculation)
    generator("Say:", seed=1, temperature=1.0)


def a_request_to_the_server(model: CountingModel) -> None:
    with served(model) as server:
        model.counts |= dict.fromkeys(model.counts, 0)  # the server has warmed up
        request = {"model": MODEL, "prompt": "Say:", "seed": 1, "temperature": 1.0}
        answer = server.post("/v1/completions", request | {"structured_outputs": {"json": WORDS}})
        assert answer.json()["choices"][0]["text"] == '"green"'


def a_set(model: CountingModel) -> None:
    generator = Generator(model, WORDS, chat=False, sampler="local")
    (request,) = generator._tasks(["Say:"], None, 1, generator.sampler, temperature=1.0)
    batch = request.particle_batch(model)
    (sequence,) = batch.start([batch.randomness(0)])
    run_particles(batch, [sequence], UNWEIGHED)


@pytest.mark.parametrize("decode", [one_sequence, one_sequence_with_drafts, a_request_to_the_server, a_set])
def test_a_pass_announces_its_draws_and_no_whole_row_leaves_the_device(
    decode: Callable[[CountingModel], None],
) -> None:
    model = CountingModel()
    decode(model)
    assert model.counts["passes"] >= 1
    assert model.counts["planned"] == model.counts["passes"]
    assert model.counts["rows"] == 0


def test_members_of_a_batch_may_draw_at_different_temperatures() -> None:
    """Each place is prepared with its own temperature, and those whose sampler needs whole rows are not prepared."""
    model = CountingModel()
    batch: ContinuousBatch[Writer] = ContinuousBatch(model)
    writers = []
    for number, temperature in enumerate((0.0, 0.5, 3.0)):
        generator = Generator(model, WORDS, sampler=UNWEIGHED if number else Local(), chat=False)
        writers.append(Writer(generator, "Say:", 12, number=number, temperature=temperature))
    for writer in writers:
        batch.add([writer])
    while batch.sequences:
        batch.step()
    for number, (writer, temperature) in enumerate(zip(writers, (0.0, 0.5, 3.0), strict=True)):
        alone = Generator(ScriptedModel(BYTES, '"green"', margin=12.0), WORDS, chat=False)(
            "Say:", seed=7, sequence=number, max_tokens=12, temperature=temperature
        )
        assert tuple(writer.sequence.tokens) == alone.tokens
    assert model.counts["rows"] == len(writers[0].sequence.draws)


def test_sequences_that_share_a_row_draw_with_their_own_noise() -> None:
    """The keys of a row are computed with the noise of one sequence: the others read the whole row."""
    model = CountingModel()
    generator = Generator(model, WORDS, sampler=UNWEIGHED, chat=False)
    writers = [Writer(generator, "Say:", 12, number=i, temperature=9.0) for i in range(4)]
    batch: ContinuousBatch[Writer] = ContinuousBatch(model)
    batch.add(writers)
    assert model.counts["rows"] >= 1
    while batch.sequences:
        batch.step()
    for i, writer in enumerate(writers):
        alone = generator("Say:", seed=7, sequence=i, max_tokens=12, temperature=9.0)
        assert tuple(writer.sequence.tokens) == alone.tokens


def test_the_budget_times_a_pass_on_the_cpu_without_its_interruptions(monkeypatch) -> None:
    class Interrupted(ScriptedModel):
        def forward(self, tokens: Any, cache: Any) -> Any:
            time.sleep(0.02)
            return super().forward(tokens, cache)

    seconds: list[float] = []
    record = DraftBudget.record_pass

    def recording(self: DraftBudget, *args: Any, **named: Any) -> None:
        seconds.append(args[2])
        record(self, *args, **named)

    monkeypatch.setattr(DraftBudget, "record_pass", recording)
    for here in (True, False):
        model = Interrupted(BYTES, '"red"')
        if here:
            model.device = SimpleNamespace(type="cpu")
        seconds.clear()
        out = Generator(model, WORDS, sampler="local", speculation="auto")("a")
        assert out.text == '"red"'
        assert len(seconds) > 2
        assert (max(seconds) < 0.02) is here
        assert out.stats.forward_seconds >= 0.04
