"""How reliable draft tokens are that begin with the counts of a prior: learned on texts that were not counted.

Recorded texts are replayed, without a model. `assistant` and `slot_favourites` read logits and propose nothing there, so
the bundled model writes extractions between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constrained.bench.harness.settings import Progress
from constrained.bench.masks.workload import load_bench_vocabulary
from constrained.bench.prior.settings import PriorSettings
from constrained.bench.replay.run import (
    WITHOUT_MEMORY,
    DraftConfiguration,
    ReplayResults,
    replay_case,
    replay_cases,
)
from constrained.bench.replay.settings import ReplaySettings
from constrained.constraint import json_schema
from constrained.decoding import Generator, Speculation
from constrained.models import load
from constrained.spec.memory import DraftMemory
from constrained.spec.prior import DraftPrior
from constrained.spec.sources import DRAFT_SOURCES
from tools.tiny_model.corpus import draw_example
from tools.tiny_model.prompt import extraction_messages

Calibration = tuple[list[tuple[int, tuple[float, float]]], list[float]]
"""Hits and trials of each kind of draft token, and the numbers of the mixture."""

_MOST_TRIALS = 256.0
"""Of a kind of draft token, so that it can still learn."""
_KEPT_SQUARES = 1 / 8
"""Of what AdaGrad's sums of squares grew by, likewise: the weights go on in larger steps."""
_MAX_TOKENS = 256
"""Of an extraction."""


def calibrate(
    settings: PriorSettings, prior: DraftPrior, rows: Sequence[dict[str, Any]], progress: Progress
) -> tuple[tuple[tuple[int, float, float], ...], tuple[float, ...]]:
    """How often draft tokens of each kind were right, and the weights of the mixture; each text begins with the counts alone.

    Args:
        settings: what is read.
        prior: counts over other texts.
        rows: whose values are replayed.
        progress: told before each replay.

    Returns:
        (Kind, accepted, proposed) of each kind, and the weights: as in `DraftPrior`.
    """
    vocabulary, _ = load_bench_vocabulary(settings.vocabulary)
    begin = prior.memory(vocabulary)
    extractions = _Extractions(settings, prior) if settings.extractions else None
    replays = ReplaySettings(sample=settings.replays, vocabulary=settings.vocabulary)
    way = DraftConfiguration("all", DRAFT_SOURCES, settings.nodes)
    learned: Calibration = DraftMemory().core.dump_calibration()
    for done, case in enumerate(replay_cases(replays, rows, vocabulary, ReplayResults(replays))):
        progress("calibrating", done, settings.replays)
        memory = _continued(begin, learned)
        # Every third text comes with a document, so that prompt lookup is calibrated, too.
        replay_case(case, "document" if done % 3 == 2 else WITHOUT_MEMORY, way, memory, vocabulary)
        learned = memory.core.dump_calibration()
        while extractions and extractions.written * settings.replays < (done + 1) * settings.extractions:
            learned = extractions.write(learned)
    kinds, weights = learned
    found = []
    for kind, (hits, trials) in sorted(kinds):
        share = min(1.0, _MOST_TRIALS / trials)
        found.append((kind, round(hits * share, 2), round(trials * share, 2)))
    return tuple(found), tuple(round(number, 4) for number in _able_to_learn(weights))


def _able_to_learn(numbers: list[float]) -> list[float]:
    """The numbers of the mixture, of each set its weights and their sums of squares, with less in these sums."""
    fresh = DraftMemory().core.dump_calibration()[1]  # ends in the sums of the last set, which begin at 1
    weights = len(fresh) - 1 - max(at for at, number in enumerate(fresh) if number != 1.0)
    return [
        1 + _KEPT_SQUARES * (number - 1) if at // weights % 2 else number for at, number in enumerate(numbers)
    ]


class _Extractions:
    """Extractions by the bundled model, one after the other.

    Attributes:
        written: how many.
    """

    def __init__(self, settings: PriorSettings, prior: DraftPrior) -> None:
        self.written = 0
        self._settings = settings
        self._model = load()
        self._begin = prior.memory(self._model.vocabulary)

    def write(self, learned: Calibration) -> Calibration:
        """The next one, with draft tokens; returns what is known of them then."""
        memory = _continued(self._begin, learned)
        drafts = Speculation(nodes=self._settings.nodes, adapts=False, memory=memory)
        example = draw_example(self.written, "train")  # benches take the other split
        generator = Generator(self._model, json_schema(example.schema), speculation=drafts)
        messages = extraction_messages(example.text, example.schema)
        temperature = float(self.written % 2)  # every second text is greedy
        generator(messages, max_tokens=_MAX_TOKENS, temperature=temperature, seed=self.written)
        self.written += 1
        return memory.core.dump_calibration()


def _continued(begin: DraftMemory, learned: Calibration) -> DraftMemory:
    """The counts alone, and what is known of draft tokens."""
    memory = begin.fork()
    memory.core.restore_calibration(*learned)
    return memory
