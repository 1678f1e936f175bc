"""A sample under every scenario and every configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from constrained.automaton import Automaton, compile
from constrained.constraint import json_schema
from constrained.decoding.speculation import prime_with_schema
from constrained.errors import ConstraintError, ConstraintTooLarge, VocabularyError
from constrained.evaluate.harness.settings import Progress, check_names, no_progress
from constrained.evaluate.masks.workload import load_bench_vocabulary
from constrained.evaluate.masks.workload import sample as draw
from constrained.evaluate.replay.document import make_document
from constrained.evaluate.replay.measure import ReplayCounts, replay, replay_prompt_lookup, required_draws
from constrained.vocabulary import Vocabulary
from spec.drafts import DrafterFactory
from spec.memory import DraftMemory
from spec.sources import DRAFT_SOURCES

WITHOUT_MEMORY = "cold, nothing learned"
SCENARIOS = ("cold", WITHOUT_MEMORY, "document", "repeated", "repeated, document")
"""Every schema for the first time; the same with nothing learned from the schemas before; with a document in the prompt;
after other values of the schema; both."""


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """What is measured.

    Attributes:
        data: MaskBench rows, one JSON object a line.
        sample: texts, each of another schema.
        seed: of the sample and of the documents.
        nodes: of a tree.
        sizes: other sizes, for all sources together.
        vocabulary: see `load_bench_vocabulary`.
        longest: tokens of a text at most.
        only: names of configurations to measure; all, if there are none.
    """

    data: Path
    sample: int = 800
    seed: int = 0
    nodes: int = 64
    sizes: tuple[int, ...] = (16, 128)
    vocabulary: str = "tekken"
    longest: int = 2048
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DraftConfiguration:
    """A configuration of speculation.

    Attributes:
        name: for the table.
        sources: draft sources; none: prompt lookup.
        nodes: of a tree.
        chains: drafts are chains, as for models that cannot read trees.
    """

    name: str
    sources: tuple[str, ...]
    nodes: int
    chains: bool = False


@dataclass(slots=True)
class ReplayResults:
    """What was measured.

    Attributes:
        settings: of the run.
        by_scenario: scenario -> configuration -> the sum over all texts.
        texts: per scenario, how many.
        skipped: schemas that cannot be compiled, or do not accept their value.
    """

    settings: ReplaySettings
    by_scenario: dict[str, dict[str, ReplayCounts]] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    skipped: int = 0

    def as_json(self) -> dict[str, Any]:
        """The results as JSON values, without the settings."""
        found = {
            scenario: {name: asdict(one) for name, one in rows.items()}
            for scenario, rows in self.by_scenario.items()
        }
        return {"texts": self.texts, "skipped": self.skipped, "by_scenario": found}


@dataclass(slots=True)
class _Case:
    name: str
    automaton: Automaton
    texts: list[list[int]]
    """What is drawn for each valid value."""
    document: list[int]
    """For the last one."""


def configurations(settings: ReplaySettings) -> list[DraftConfiguration]:
    """All that are compared."""
    nodes = settings.nodes
    found = [
        DraftConfiguration("prompt lookup", (), nodes),
        DraftConfiguration("forced only", ("forced",), nodes),
    ]
    # A replay has no logits: no tokens are recycled.
    names = [name for name in DRAFT_SOURCES if name not in ("forced", "token_recycling", "slot_favourites")]
    found += [DraftConfiguration(f"forced, {name}", ("forced", name), nodes) for name in names]
    found += [
        DraftConfiguration(f"all, {size} nodes", DRAFT_SOURCES, size)
        for size in sorted((*settings.sizes, nodes))
    ]
    found.append(DraftConfiguration("all, a chain of 16", DRAFT_SOURCES, 16, chains=True))
    check_names(settings.only, [way.name for way in found])
    return [way for way in found if not settings.only or way.name in settings.only]


def run(settings: ReplaySettings, progress: Progress = no_progress) -> ReplayResults:
    """Measures everything.

    The texts of a scenario come one after the other, in the same order for every configuration; each configuration
    has a memory of its own, which is empty before the first text (where nothing is learned, before every text).
    """
    vocabulary, _ = load_bench_vocabulary(settings.vocabulary)
    results = ReplayResults(settings)
    ways = configurations(settings)
    memories = {(scenario, way.name): DraftMemory() for scenario in SCENARIOS for way in ways}
    done = 0
    for case in _cases(settings, vocabulary, results):
        for scenario in SCENARIOS:
            if scenario.startswith("repeated") and len(case.texts) < 2:
                continue
            results.texts[scenario] = results.texts.get(scenario, 0) + 1
            rows = results.by_scenario.setdefault(scenario, {})
            for way in ways:
                key = (scenario, way.name)
                if scenario == WITHOUT_MEMORY:
                    memories[key] = DraftMemory()
                one = _measure(case, scenario, way, memories[key], vocabulary)
                rows.setdefault(way.name, ReplayCounts()).add(one)
        done += 1
        progress("replaying", done, settings.sample)
    return results


def _measure(
    case: _Case, scenario: str, way: DraftConfiguration, memory: DraftMemory, vocabulary: Vocabulary
) -> ReplayCounts:
    prompt = case.document if "document" in scenario else []
    if not way.sources:
        return replay_prompt_lookup(case.texts[-1], prompt)
    drafts = DrafterFactory(
        case.automaton, memory, case.name, source_names=way.sources, chain_drafts=way.chains
    )
    if "slot_ngrams" in way.sources:
        assert case.automaton.constraint is not None
        prime_with_schema(drafts, case.automaton.constraint, vocabulary)
    if scenario.startswith("repeated"):
        for text in case.texts[:-1]:
            replay(text, drafts.new_drafter([]), way.nodes)
    return replay(case.texts[-1], drafts.new_drafter(prompt), way.nodes)


def _cases(settings: ReplaySettings, vocabulary: Vocabulary, results: ReplayResults) -> Iterator[_Case]:
    count = 0
    for row in draw(settings.data, 0, settings.seed):
        if count == settings.sample:
            return
        values = [test["data"] for test in row["tests"] if test["valid"]]
        try:
            texts = [vocabulary.encode(json.dumps(value, ensure_ascii=False)) for value in values]
        except VocabularyError:
            continue
        if not texts or max(map(len, texts)) > settings.longest:
            continue
        try:
            automaton = compile(json_schema(row["schema"]), vocabulary)
        except (ConstraintError, ConstraintTooLarge):
            results.skipped += 1
            continue
        draws = [required_draws(automaton, text) for text in texts]
        good = [text for text in draws if text is not None]
        if draws[-1] is None:
            results.skipped += 1
            continue
        count += 1
        prose = vocabulary.encode(make_document(values[-1], settings.seed))
        yield _Case(row["id"], automaton, good, prose)
