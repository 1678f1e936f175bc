"""Drafts in the decoding loop: who makes them for a text, how many nodes a pass reads, what that cost.

A draft never changes a text. The token at a place is drawn by the sampler itself, with the noise of that place, from the
logits after the tokens before it; a draft only decides for how many places logits are there before they are asked for.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from constrained.decoding.lazy_distribution import LazyDistribution
from constrained.errors import InvalidArgument, VocabularyError
from constrained.models import Logits
from constrained.sampling import Distribution, LogitsWarper
from spec.budget import DraftBudget
from spec.drafts import DrafterFactory, DrafterProtocol, DraftTreeProtocol, LazyDrafter, proposing_sources
from spec.memory import DraftMemory
from spec.noise import GumbelNoise
from spec.rehearsal import SchemaWarmup
from spec.sources import DRAFT_SOURCES

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.constraint import Constraint
    from constrained.decoding.sequence import TokenSequence
    from constrained.models import Cache, LanguageModel
    from constrained.vocabulary import Vocabulary

_LONGEST_PROMPT = 1024
"""Tokens of a prompt that is still read together with a draft: a mask of its square is needed."""

_FAVOURITES = 4
"""Tokens of a row that are worth remembering: a fifth one is hardly ever right."""


_budgets: WeakKeyDictionary[Any, dict[tuple[int, int, bool], DraftBudget]] = WeakKeyDictionary()
_budgets_lock = threading.Lock()


@dataclass(frozen=True)
class Speculation:
    """How to guess ahead: the argument ``speculation`` of `Generator`.

    Attributes:
        nodes: tokens guessed for one text and pass, at most.
        sources: names out of `spec.sources.DRAFT_SOURCES`.
        adapts: guess only as many as pay, by what passes are measured to take; False: always `nodes`.
        memory: what was learned from other texts, under this and other constraints; shared by all generators that are
            given the same one. By default a generator learns for itself.

    Raises:
        InvalidArgument: a value is out of its range.
    """

    nodes: int = 64
    sources: tuple[str, ...] = DRAFT_SOURCES
    adapts: bool = True
    memory: DraftMemory | None = None

    def __post_init__(self) -> None:
        if isinstance(self.nodes, bool) or not isinstance(self.nodes, int) or self.nodes < 0:
            raise InvalidArgument(f"nodes is {self.nodes!r}", action="pass a whole number >= 0")
        unknown = [name for name in self.sources if name not in DRAFT_SOURCES]
        if unknown:
            raise InvalidArgument(
                f"source {unknown[0]!r} is not known", action=f"use some of: {', '.join(DRAFT_SOURCES)}"
            )


def resolve_speculation(speculation: Any) -> Speculation | None:
    """The configuration for an argument ``speculation``: ``"auto"``, None, or a `Speculation`.

    Raises:
        InvalidArgument: the argument is something else.
    """
    if speculation is None or isinstance(speculation, Speculation):
        return speculation
    if speculation == "auto":
        return Speculation()
    raise InvalidArgument(f"speculation is {speculation!r}", action='pass "auto", None, or a Speculation')


def speculation_obstacle(model: LanguageModel, automaton: Automaton | None = None) -> str | None:
    """Why there are no draft tokens for a model, and an automaton; None where draft trees or at least chains are possible."""
    if automaton is not None and automaton.relaxed_automaton.automaton_table is None:
        return "the automaton has no automaton_table: it is not a native one"
    return None if model.no_trees is None else model.no_chains


class DraftScheduler:
    """What the drafts of one generator share. Safe to share between threads.

    Attributes:
        speculation: the configuration.
        memory: what was learned.
        drafts: makes drafters.
    """

    def __init__(
        self,
        speculation: Speculation,
        automaton: Automaton,
        constraint: Constraint,
        *,
        chains: bool = False,
    ) -> None:
        """Learns nothing yet.

        Args:
            speculation: the configuration.
            automaton: what may be said.
            constraint: what it was compiled from.
            chains: guess one continuation, for a model that reads no trees.
        """
        self.speculation = speculation
        self.memory = speculation.memory or DraftMemory()
        self._automaton = automaton
        self._constraint = constraint
        self._drafts: DrafterFactory | None = None
        self._chains = chains
        self._lock = threading.Lock()

    @property
    def drafts(self) -> DrafterFactory:
        """Makes drafters; it is made itself when the first guess is asked for."""
        with self._lock:
            if self._drafts is None:
                made = DrafterFactory(
                    self._automaton.relaxed_automaton,  # predicates see verified tokens only
                    self.memory,
                    getattr(self._constraint, "key", repr(self._constraint)),
                    source_names=self.speculation.sources,
                    is_json=self._constraint.is_json,
                    chain_drafts=self._chains,
                )
                prime_with_schema(made, self._constraint, self._automaton.vocabulary)
                self._drafts = made
            return self._drafts

    def drafter(self, prompt: Sequence[int]) -> DrafterProtocol:
        """Drafts for a text that follows a prompt."""
        return self.drafts.new_drafter(prompt)

    def lazy_drafter(self, prompt: Sequence[int]) -> LazyDrafter:
        """The same, made when the first guess is asked for."""
        return LazyDrafter(lambda: self.drafter(prompt))

    def budget(self, model: LanguageModel, texts: int) -> DraftBudget:
        """What passes of about so many texts cost, and how many guesses pay: the model's, for all its generators."""
        bucket = texts if texts <= 4 else next(size for size in _batches() if size >= texts)
        wrapped = getattr(model, "model", model)  # which may be wrapped anew for each call
        key = (bucket, self.speculation.nodes, self.speculation.adapts)
        with _budgets_lock:
            known = _budgets.get(wrapped)
            if known is None:
                known = _budgets[wrapped] = {}
            if key not in known:
                known[key] = DraftBudget(self.speculation.nodes, adapts=self.speculation.adapts)
            return known[key]

    def record_accepted(self, model: LanguageModel, texts: int, tokens: int) -> None:
        """So many tokens of the last pass over so many texts had been guessed."""
        self.budget(model, texts).record_accepted(texts, tokens)


def _batches() -> Iterator[int]:
    """Numbers of texts, each up to half as large again as the one before, that share a budget with those below."""
    size = 4
    while True:
        yield size + size // 2
        size *= 2
        yield size


def prime_with_schema(drafts: DrafterFactory, constraint: Constraint, vocabulary: Vocabulary) -> None:
    """Shows to drafts in which order a schema names members, before the first text is written."""
    schema = getattr(constraint, "schema", None)
    if not constraint.is_json or schema is None:
        return
    spaced = getattr(constraint, "whitespace", "bounded") != "none"
    named = dict(getattr(constraint, "options", {})).get("separators")
    separators = tuple(named) if named else (", ", ": ") if spaced else (",", ":")
    made = json.dumps(SchemaWarmup(schema).example_value(), ensure_ascii=False, separators=separators)
    with contextlib.suppress(VocabularyError, UnicodeError):  # names that the vocabulary cannot write
        drafts.prime(vocabulary.encode(made))


@dataclass(slots=True)
class TreeLogits:
    """What a pass found out about one row.

    Attributes:
        tree: what was guessed; None where nothing was read but the row.
        logits: after the row's end and after each node of the tree, among those of other rows.
        begin: where they begin there.
        nodes: how many nodes of the tree were read.
        chain: tokens that were read before the tree began.
    """

    tree: DraftTreeProtocol | None
    logits: Logits
    begin: int
    nodes: int
    chain: int

    def distribution(self, node: int, warp: LogitsWarper) -> Distribution:
        """The model's law after a node."""
        return LazyDistribution(self.logits, self.begin + node, warp)

    def row(self, node: int) -> NDArray[np.floating[Any]]:
        """Logits after a node, on the host, floating [V]."""
        return self.logits.row(self.begin + node)

    def depth(self, node: int) -> int:
        """How many guesses lead to a node."""
        return self.tree.depth[node] if self.tree is not None else 0

    def top_tokens(self, node: int) -> list[int]:
        """What the model finds likely after a node, best first."""
        return self.logits.top_tokens(self.begin + node, _FAVOURITES)

    def child(self, node: int, token: int) -> int:
        """The node of a token after another node, -1 where it was not read."""
        if self.tree is None:
            return -1
        child = self.tree.child(node, token)
        return child if child <= self.nodes else -1

    def origin(self, node: int, token: int) -> int:
        """Who guessed that a token follows a node, as bits (`spec.drafts.proposing_sources`); 0 where that was not read."""
        child = self.child(node, token)
        return 0 if self.tree is None or child < 0 else proposing_sources(self.tree, child)

    def path(self, node: int) -> list[int]:
        """The tokens of the pass that lead to a node, for `Cache.settle`."""
        nodes = self.tree.path(node) if self.tree is not None else []
        return [*range(self.chain), *(self.chain - 1 + node for node in nodes)]


def forward_pass(
    model: LanguageModel,
    cache: Cache,
    sequences: Sequence[TokenSequence],
    speculation: DraftScheduler | None,
    top_count: int = 0,
) -> list[TreeLogits]:
    """One pass of the model, with what is guessed to follow.

    Args:
        model: reads.
        cache: its memory; to be settled afterwards if a branch has a tree.
        sequences: one per row, each with something unread.
        speculation: whose drafts; None for none.
        top_count: that draws will look at so many tokens of each place, mostly; 0: at the whole row.
    """
    unread = [answer.unread for answer in sequences]
    texts = len(sequences)
    budget = None if speculation is None else speculation.budget(model, texts)
    trees: list[DraftTreeProtocol] = []
    counts = [0] * texts
    guessing = 0.0
    longest = max(map(len, unread))
    wanted = budget.draft_size() if budget is not None and longest <= _LONGEST_PROMPT else 0
    for answer in sequences:
        if answer.drafter is not None and not wanted:
            answer.drafter.pause()
    if budget is not None and wanted:
        began = time.perf_counter()
        for answer in sequences:
            assert answer.drafter is not None
            trees.append(answer.drafter.draft(wanted, answer.remaining_tokens))
        guessing = time.perf_counter() - began
        for answer in sequences:
            answer.stats.draft_seconds += guessing
        counts = budget.verify_sizes([tree.path_probability[1:] for tree in trees], guessing)
        for answer, count in zip(sequences, counts, strict=True):
            assert answer.drafter is not None
            answer.drafter.mark_verified(count)
    began = time.perf_counter()
    branches = []
    if not any(counts):
        logits = model.forward_logits(unread, None, cache)
        for row, ids in enumerate(unread):
            branches.append(TreeLogits(None, logits, row, 0, len(ids)))
    else:
        tokens, parents, skip = [], [], []
        for ids, tree, count in zip(unread, trees, counts, strict=True):
            last = len(ids) - 1
            tokens.append([*ids, *tree.token[1 : count + 1]])
            parents.append([*range(-1, last), *(last + parent for parent in tree.parent[1 : count + 1])])
            skip.append(last)
        logits = model.forward_logits(tokens, (parents, skip), cache)
        begin = 0
        for ids, tree, count in zip(unread, trees, counts, strict=True):
            branches.append(TreeLogits(tree, logits, begin, count, len(ids)))
            begin += count + 1
    if top_count:
        prepare(logits, sequences, branches, top_count)
    took = time.perf_counter() - began
    for answer in sequences:
        answer.stats.forward_seconds += took
    if budget is not None:
        budget.record_pass(texts, max(counts), took, guessing, plain=longest == 1)
    return branches


def prepare(
    logits: Logits, sequences: Sequence[TokenSequence], branches: Sequence[TreeLogits], top_count: int
) -> None:
    """Says to logits how tokens will be drawn from them, if by noise."""
    noises, positions = [], []
    for answer, branch in zip(sequences, branches, strict=True):
        warp, noise = answer.params.warp, answer.randomness.noise
        if noise is None and not warp.greedy:
            return
        depths = [0] if branch.tree is None else branch.tree.depth[: branch.nodes + 1]
        noises += [noise or GumbelNoise(0)] * len(depths)
        positions += [answer.next_position_id + depth for depth in depths]
    logits.prepare(noises, positions, 0.0 if warp.greedy else float(warp.temperature or 1.0), top_count)
