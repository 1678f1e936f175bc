"""Speculation in the decoding loop: creates drafters for sequences, and sets the draft budget of a forward pass.

With equal logits draft tokens never change a completion. The sampler draws the token of each position with the noise of that
position, from the logits after the prefix; draft tokens only decide how many positions one forward pass covers.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from constrained.errors import InvalidArgument, VocabularyError
from constrained.lru_cache import LRUCache
from constrained.spec import _core
from constrained.spec.budget import DraftBudget
from constrained.spec.drafts import DrafterFactory, LazyDrafter
from constrained.spec.memory import MAX_CONSTRAINTS, DraftMemory
from constrained.spec.prior import new_memory
from constrained.spec.schema_warmup import SchemaWarmup, value_openings
from constrained.spec.sources import DRAFT_SOURCES

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.constraint import Constraint
    from constrained.models import LanguageModel
    from constrained.vocabulary import Vocabulary

MAX_OPENINGS = 24
"""Values of an example that probes ask the model about."""

_budgets: WeakKeyDictionary[Any, dict[tuple[int, int, bool], DraftBudget]] = WeakKeyDictionary()
_budgets_lock = threading.Lock()


@dataclass(frozen=True)
class Speculation:
    """Configuration of speculation: the argument ``speculation`` of `Generator`.

    Attributes:
        nodes: most draft tokens for one sequence and forward pass.
        sources: names in `constrained.spec.sources.DRAFT_SOURCES`.
        adapts: choose the number of draft tokens by the measured time of forward passes; False: always `nodes`.
        memory: statistics of past outputs, under this and other constraints; generators may share one. By default
            each generator has its own, which starts from what comes with the library (`constrained.spec.prior`).

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
    """Creates the drafters of one generator and sets their draft budgets. Safe to share between threads.

    Attributes:
        speculation: the configuration.
        drafts: creates drafters.
    """

    def __init__(
        self,
        speculation: Speculation,
        automaton: Automaton,
        constraint: Constraint,
        *,
        chains: bool = False,
    ) -> None:
        """Creates a scheduler; its draft sources are built when the first draft token is needed.

        Args:
            speculation: the configuration.
            automaton: the compiled constraint.
            constraint: the constraint that it was compiled from.
            chains: propose one continuation only, for a model that cannot read draft trees.
        """
        self.speculation = speculation
        # Not at the first draft: the budget would take this for the time of drafting.
        self._memory = speculation.memory or new_memory(automaton.vocabulary)
        self._automaton = automaton
        self._constraint = constraint
        self._drafts: DrafterFactory | None = None
        self._chains = chains
        self._lock = threading.Lock()

    @property
    def drafts(self) -> DrafterFactory:
        """Creates drafters; built at the first use."""
        with self._lock:
            if self._drafts is None:
                made = DrafterFactory(
                    self._automaton.relaxed_automaton,  # predicates see verified tokens only
                    self._memory,
                    getattr(self._constraint, "key", repr(self._constraint)),
                    source_names=self.speculation.sources,
                    is_json=self._constraint.is_json,
                    chain_drafts=self._chains,
                )
                prime_with_schema(made, self._constraint, self._automaton.vocabulary)
                self._drafts = made
            return self._drafts

    def drafter(self, prompt: Sequence[int]) -> _core.Drafter:
        """A drafter for a completion of a prompt."""
        return self.drafts.new_drafter(prompt)

    def lazy_drafter(
        self, prompt: Sequence[int], narrowed: Automaton | None = None, *, drawn: bool
    ) -> LazyDrafter:
        """A drafter that is built when its first draft token is needed.

        Args:
            prompt: token ids.
            narrowed: the automaton of a part of the language, which it follows.
            drawn: tokens are drawn at a temperature.
        """

        def made() -> _core.Drafter:
            drafts = self.drafts if narrowed is None else self.drafts.narrowed(narrowed.relaxed_automaton)
            return drafts.new_drafter(prompt)

        return LazyDrafter(made, lambda: self.drafts.acceptance_table(prompt, drawn=drawn))

    def budget(self, model: LanguageModel, texts: int) -> DraftBudget:
        """The draft budget for batches of about `texts` sequences; all generators of a model share it."""
        bucket = texts if texts <= 4 else next(size for size in _batches() if size >= texts)
        wrapped = getattr(model, "model", model)  # callers may wrap one model in several adapters
        key = (bucket, self.speculation.nodes, self.speculation.adapts)
        with _budgets_lock:
            known = _budgets.get(wrapped)
            if known is None:
                known = _budgets[wrapped] = {}
            if key not in known:
                known[key] = DraftBudget(self.speculation.nodes, adapts=self.speculation.adapts)
            return known[key]

    def record_accepted(self, model: LanguageModel, texts: int, tokens: int) -> None:
        """Records that `tokens` draft tokens were accepted in the last pass over `texts` sequences."""
        self.budget(model, texts).record_accepted(texts, tokens)


def _batches() -> Iterator[int]:
    """Upper bounds of the batch sizes that share a draft budget: 6, 8, 12, 16, 24, ..."""
    size = 4
    while True:
        yield size + size // 2
        size *= 2
        yield size


def prime_with_schema(drafts: DrafterFactory, constraint: Constraint, vocabulary: Vocabulary) -> None:
    """Primes draft sources with an example value of the schema, which has its names in order."""
    schema = getattr(constraint, "schema", None)
    if not constraint.is_json or schema is None:
        return
    options = constraint.json_options
    separators = options.separators or ((",", ":") if options.whitespace == "none" else (", ", ": "))
    example = SchemaWarmup(schema).example_value()
    made = json.dumps(example, ensure_ascii=False, separators=separators)
    with contextlib.suppress(VocabularyError, UnicodeError):  # names that the vocabulary cannot write
        places = islice(value_openings(example, separators[1]), MAX_OPENINGS)
        drafts.prime(vocabulary.encode(made), [_opening_tokens(vocabulary, *place) for place in places])


def _opening_tokens(vocabulary: Vocabulary, opening: str, value: str) -> list[int]:
    """The tokens of an opening, as they are before a value: without one that would have a part of the value in it."""
    left, found = len(opening.encode()), []
    for token in vocabulary.encode(opening + value):
        left -= len(vocabulary.tokens[token])
        if left < 0:
            break
        found.append(token)
    return found


class DraftSchedulers:
    """The draft schedulers of the constraints used last, with one memory. Safe to share between threads.

    Attributes:
        speculation: the configuration, with the memory.
    """

    def __init__(self, speculation: Speculation, vocabulary: Vocabulary, *, chains: bool) -> None:
        """None so far.

        Args:
            speculation: the configuration; its memory is used if it has one.
            vocabulary: of the model.
            chains: as of `DraftScheduler`.
        """
        self._chains = chains
        self.speculation = replace(speculation, memory=speculation.memory or new_memory(vocabulary))
        self._schedulers: LRUCache[str, tuple[Automaton, DraftScheduler]] = LRUCache(MAX_CONSTRAINTS)

    def for_constraint(self, constraint: Constraint, automaton: Automaton) -> DraftScheduler:
        """The draft scheduler of a constraint, from the cache if it is there."""
        cached = self._schedulers.get(constraint.key)
        if cached is not None and cached[0] is automaton:
            return cached[1]
        scheduler = DraftScheduler(self.speculation, automaton, constraint, chains=self._chains)
        self._schedulers.put(constraint.key, (automaton, scheduler))
        return scheduler
