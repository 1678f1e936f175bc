"""A sample under every scenario and every configuration."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from constrained.automaton import Automaton, compile
from constrained.bench.harness.settings import Progress, check_names, data_file, no_progress
from constrained.bench.masks.workload import load_bench_vocabulary
from constrained.bench.masks.workload import sample as draw
from constrained.bench.replay.measure import ReplayCounts, replay, replay_prompt_lookup, required_draws
from constrained.bench.replay.prompts import calls_by_tool, earlier_calls, make_document, tool_name
from constrained.bench.replay.settings import ReplaySettings
from constrained.constraint import json_schema
from constrained.decoding.speculation import prime_with_schema
from constrained.errors import ConstraintError, ConstraintTooLarge, InvalidArgument, VocabularyError
from constrained.spec.drafts import DrafterFactory
from constrained.spec.memory import DraftMemory
from constrained.spec.prior import DraftPrior, row_key, shipped_prior
from constrained.spec.sources import DRAFT_SOURCES
from constrained.vocabulary import Vocabulary

WITHOUT_MEMORY = "cold, nothing learned"
FIRST_CALL, LATER_CALL = "first tool call", "later tool call"
SCENARIOS = ("cold", WITHOUT_MEMORY, "document", "repeated", "repeated, document", FIRST_CALL, LATER_CALL)
"""Every schema for the first time; the same with nothing learned from the schemas before; with a document in the prompt;
after other values of the schema; both; calls of tools, one of each, without a prompt, and with earlier calls of the tool in it."""

_SIZES = (16, 128)
"""Of trees, for all sources together, beside the size of the settings."""
_LONGEST = 2048
"""Tokens of a text at most."""


@dataclass(frozen=True, slots=True)
class DraftConfiguration:
    """A configuration of speculation.

    Attributes:
        name: for the table.
        sources: draft sources; none: prompt lookup.
        nodes: of a tree.
        chains: drafts are chains, as for models that cannot read trees.
        prior: drafters know the prior.
    """

    name: str
    sources: tuple[str, ...]
    nodes: int
    chains: bool = False
    prior: bool = True


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
class ReplayCase:
    """A schema and its recorded values.

    Attributes:
        name: id of the row.
        automaton: of the schema.
        texts: what is drawn for each valid value.
        document: for the last one.
        tool: that the values call, if there are earlier calls.
        calls: earlier ones of the same tool, as a prompt.
    """

    name: str
    automaton: Automaton
    texts: list[list[int]]
    document: list[int]
    tool: str | None = None
    calls: list[int] = field(default_factory=list)

    def prompt(self, scenario: str) -> list[int]:
        """The prompt under a scenario."""
        return self.calls if scenario == LATER_CALL else self.document if "document" in scenario else []


def configurations(settings: ReplaySettings) -> list[DraftConfiguration]:
    """All that are compared."""
    nodes = settings.nodes
    found = [
        DraftConfiguration("prompt lookup", (), nodes),
        DraftConfiguration("forced only", ("forced",), nodes),
    ]
    # A replay has no logits, and no assistant.
    recorded = [name for name in DRAFT_SOURCES if name not in ("assistant", "slot_favourites")]
    found += [DraftConfiguration(f"forced, {name}", ("forced", name), nodes) for name in recorded[1:]]
    for left_out in recorded:
        others = tuple(name for name in DRAFT_SOURCES if name != left_out)
        found.append(DraftConfiguration(f"all but {left_out}", others, nodes))
    found.append(DraftConfiguration("all but the prior", DRAFT_SOURCES, nodes, prior=False))
    found += [
        DraftConfiguration(f"all, {size} nodes", DRAFT_SOURCES, size) for size in sorted((*_SIZES, nodes))
    ]
    found.append(DraftConfiguration("all, a chain of 16", DRAFT_SOURCES, 16, chains=True))
    check_names(settings.only, [way.name for way in found])
    return [way for way in found if not settings.only or way.name in settings.only]


def run(settings: ReplaySettings, progress: Progress = no_progress) -> ReplayResults:
    """Measures everything.

    The texts of a scenario come one after the other, in the same order for every configuration; each configuration
    has a memory of its own, which holds the prior before the first text (where nothing is learned, before every text).
    Rows that the prior of the library or the named one was fitted to are left out.

    Raises:
        InvalidArgument: the prior cannot be read.
    """
    vocabulary, _ = load_bench_vocabulary(settings.vocabulary)
    results = ReplayResults(settings)
    ways = configurations(settings)
    prior = _load_prior(settings.prior)
    begin = {True: prior.memory(vocabulary), False: DraftMemory()}
    memories = {(scenario, way.name): begin[way.prior].fork() for scenario in SCENARIOS for way in ways}
    learned = prior.learned | shipped_prior().learned
    drawn = draw(data_file(settings.data), 0, settings.seed)
    rows = (row for row in drawn if row_key(row["id"]) not in learned)
    calls = calls_by_tool(drawn)
    done, tools = 0, set[str]()
    for case in replay_cases(settings, rows, vocabulary, results, calls):
        new = case.tool is not None and case.tool not in tools
        tools |= {case.tool} if case.tool is not None else set()
        for scenario in SCENARIOS:
            if scenario.startswith("repeated") and len(case.texts) < 2:
                continue
            if scenario in (FIRST_CALL, LATER_CALL) and not new:
                continue
            results.texts[scenario] = results.texts.get(scenario, 0) + 1
            by_way = results.by_scenario.setdefault(scenario, {})
            for way in ways:
                key = (scenario, way.name)
                if scenario == WITHOUT_MEMORY:
                    memories[key] = begin[way.prior].fork()
                one = replay_case(case, scenario, way, memories[key], vocabulary)
                by_way.setdefault(way.name, ReplayCounts(texts=0)).add(one)
        done += 1
        progress("replaying", done, settings.sample)
    return results


def _load_prior(name: str) -> DraftPrior:
    if name == "shipped":
        return shipped_prior()
    if name == "none":
        return DraftPrior()
    try:
        return DraftPrior.load(Path(name).read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidArgument(
            f"the prior {name!r} cannot be read: {error}",
            action="pass shipped, none, or a file of `constrained bench prior`",
        ) from None


def replay_case(
    case: ReplayCase, scenario: str, way: DraftConfiguration, memory: DraftMemory, vocabulary: Vocabulary
) -> ReplayCounts:
    """Passes of the last text of a case, under a scenario; the memory learns."""
    prompt = case.prompt(scenario)
    if not way.sources:
        return replay_prompt_lookup(case.texts[-1], prompt)
    drafts = DrafterFactory(
        case.automaton, memory, case.name, source_names=way.sources, chain_drafts=way.chains
    )
    if {"slot_ngrams", "names"} & set(way.sources):
        assert case.automaton.constraint is not None
        prime_with_schema(drafts, case.automaton.constraint, vocabulary)
    if scenario.startswith("repeated"):
        for text in case.texts[:-1]:
            replay(text, drafts.lazy_drafter([]), way.nodes)
    return replay(case.texts[-1], drafts.lazy_drafter(prompt), way.nodes)


def replay_cases(
    settings: ReplaySettings,
    rows: Iterable[dict[str, Any]],
    vocabulary: Vocabulary,
    results: ReplayResults,
    calls: Mapping[str, list[tuple[str, str]]] = MappingProxyType({}),
) -> Iterator[ReplayCase]:
    """The first rows that can be replayed, as many as the sample has."""
    count = 0
    for row in rows:
        if count == settings.sample:
            return
        if settings.splits and not row["id"].startswith(settings.splits):
            continue
        values = [test["data"] for test in row["tests"] if test["valid"]]
        try:
            texts = [vocabulary.encode(json.dumps(value, ensure_ascii=False)) for value in values]
        except VocabularyError:
            continue
        if not texts or max(map(len, texts)) > _LONGEST:
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
        earlier = earlier_calls(row, calls)
        yield ReplayCase(
            row["id"], automaton, good, prose,
            tool_name(row) if earlier else None, vocabulary.encode("\n".join(earlier)) if earlier else [],
        )  # fmt: skip
