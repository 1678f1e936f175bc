"""Drafts in the decoding loop: who makes them for a text, how many nodes a pass reads, what that cost.

A draft never changes a text. The token at a place is drawn by the sampler itself, with the noise of that place, from the
logits after the tokens before it; a draft only decides for how many places logits are there before they are asked for.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from constrained.errors import InvalidArgument, VocabularyError
from spec.budget import DraftBudget
from spec.drafts import DrafterFactory, DrafterProtocol, LazyDrafter
from spec.memory import DraftMemory
from spec.rehearsal import SchemaWarmup
from spec.sources import DRAFT_SOURCES

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.constraint import Constraint
    from constrained.models import LanguageModel
    from constrained.vocabulary import Vocabulary

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
