"""Where a mask comes from: how often each memo of the token automaton answers, and what the rest costs.

The four levels, from the outside in: the row of a state; the row of what a state's row depends on (its terminals'
residuals and what follows them); the tokens of a residual, shared by all schemas; the row as a set of tokens, shared
by all schemas.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns as clock
from typing import TYPE_CHECKING

import numpy as np

from constrained.automaton import Automaton
from constrained.automaton import compile as compile_automaton
from constrained.bench.masks.workload import SchemaCase
from constrained.errors import ConstrainedError

if TYPE_CHECKING:
    from constrained.vocabulary import Vocabulary

KINDS = (
    "the state was seen before",
    "its parts were seen before",
    "new parts, known residuals",
    "new residuals, known row",
    "new residuals, new row",
    "bodies of deferred rules",
)
"""How a mask came about, by the outermost memo that answered."""

_SHOWN = 40
"""Bytes of text before a slow mask."""


@dataclass(frozen=True, slots=True)
class SlowMask:
    """A mask that took long.

    Attributes:
        nanoseconds: that it took.
        kind: of `KINDS`.
        schema: id.
        instance, position: of the value in the schema's, and of the token in the value.
        text: the last bytes before it.
    """

    nanoseconds: int
    kind: str
    schema: str
    instance: int
    position: int
    text: bytes


@dataclass(slots=True)
class MemoStats:
    """Counts over a replay.

    Attributes:
        schemas: compiled; refused ones are left out.
        masks: filled, one a token and one at the end of each value.
        nanoseconds: of every mask, by kind.
        states, mask_keys: of each automaton after its values.
        residuals: lexicon entries made, over all schemas.
        rows: distinct rows over all schemas.
        slowest: masks, the slowest first; as many as were asked for.
    """

    schemas: int = 0
    masks: int = 0
    nanoseconds: dict[str, list[int]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    states: list[int] = field(default_factory=list)
    mask_keys: list[int] = field(default_factory=list)
    residuals: int = 0
    rows: int = 0
    slowest: list[SlowMask] = field(default_factory=list)

    @property
    def hit_rates(self) -> list[tuple[str, float]]:
        """Share of all masks that were answered at a level or further out."""
        total = max(1, self.masks)
        rates, answered = [], 0
        for kind in KINDS[:-3]:
            answered += len(self.nanoseconds[kind])
            rates.append((kind, answered / total))
        rates.append(("the row as a set of tokens was there", 1 - self.rows / total))
        return rates


def measure(
    cases: Sequence[SchemaCase],
    vocabulary: Vocabulary,
    progress: Callable[[int, int], None] = lambda *_: None,
    slowest: int = 0,
) -> MemoStats:
    """Replays every value of every schema on one vocabulary, cold, one thread.

    Args:
        cases: schemas with values as token ids.
        vocabulary: of these ids; its memos should be empty.
        progress: called with the number of schemas done, and of all schemas.
        slowest: masks to list.
    """
    memos = MemoStats()
    core = vocabulary.core
    entries, rows = core.memory["lexicon_entries"], core.memory["masks"]
    for done, case in enumerate(cases):
        progress(done, len(cases))
        try:
            automaton = compile_automaton(json.loads(case.schema), vocabulary)
        except ConstrainedError:
            continue
        memos.schemas += 1
        masks = list(memos.slowest)
        for number, instance in enumerate(case.instances):
            masks += _replay(automaton, instance.tokens, memos, case.id, number)
        memos.slowest = heapq.nlargest(slowest, masks, key=lambda mask: mask.nanoseconds)
        memos.states.append(automaton.memory["states"])
        memos.mask_keys.append(automaton.memory["mask_keys"])
    memos.residuals = core.memory["lexicon_entries"] - entries
    memos.rows = core.memory["masks"] - rows
    return memos


def _replay(
    automaton: Automaton, tokens: Sequence[int], memos: MemoStats, schema: str, instance: int
) -> Iterator[SlowMask]:
    core, row, state = automaton.vocabulary.core, automaton.new_mask(), automaton.start
    text = b""
    for position, token in enumerate((*tokens, None)):
        before, own = core.memory, automaton.memory
        known = automaton.has_mask(state)
        begun = clock()
        automaton.fill_mask(state, row)
        took = clock() - begun
        after = core.memory
        if automaton.memory["rules"] != own["rules"]:
            kind = KINDS[5]
        elif known:
            kind = KINDS[0]
        elif automaton.memory["mask_keys"] == own["mask_keys"]:
            kind = KINDS[1]
        elif after["lexicon_entries"] == before["lexicon_entries"]:
            kind = KINDS[2]
        elif after["masks"] == before["masks"]:
            kind = KINDS[3]
        else:
            kind = KINDS[4]
        memos.masks += 1
        memos.nanoseconds[kind].append(took)
        yield SlowMask(took, kind, schema, instance, position, text)
        if token is None or not (state := automaton.next(state, token)):
            return
        text = (text + automaton.vocabulary.tokens[token])[-_SHOWN:]


def format_memo_stats(memos: MemoStats) -> list[str]:
    """The figures, as Markdown."""
    total = max(1, sum(sum(times) for times in memos.nanoseconds.values()))
    out = [
        f"{memos.masks:,} masks of {memos.schemas} schemas; {memos.residuals:,} residuals looked at, "
        f"{memos.rows:,} distinct rows.",
        "",
        "| answered because | of all masks | of the time | p50, us | p90 | p99 |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for kind, times in memos.nanoseconds.items():
        if times:
            quantiles = np.percentile(np.array(times) / 1e3, [50, 90, 99])
            out.append(
                f"| {kind} | {len(times) / max(1, memos.masks):.1%} | {sum(times) / total:.1%} "
                f"| {quantiles[0]:.1f} | {quantiles[1]:.1f} | {quantiles[2]:.1f} |"
            )
    out += ["", "| memo | masks it answers, alone or with the ones above |", "|---|---:|"]
    out += [f"| {kind} | {rate:.1%} |" for kind, rate in memos.hit_rates]
    out += ["", "| for each schema | p50 | p90 | p99 | max |", "|---|---:|---:|---:|---:|"]
    for name, counts in (("states", memos.states), ("keys of rows", memos.mask_keys)):
        if counts:
            quantiles = np.percentile(counts, [50, 90, 99, 100])
            out.append(f"| {name} | " + " | ".join(f"{value:,.0f}" for value in quantiles) + " |")
    if memos.slowest:
        out += [
            "",
            "| slowest, us | because | schema | value | token | behind |",
            "|---:|---|---|---:|---:|---|",
        ]
    for mask in memos.slowest:
        text = mask.text.decode("utf-8", "replace").replace("|", "\\|")
        place = f"{mask.schema} | {mask.instance} | {mask.position} | {text}"
        out.append(f"| {mask.nanoseconds / 1e3:,.1f} | {mask.kind} | {place} |")
    return out
