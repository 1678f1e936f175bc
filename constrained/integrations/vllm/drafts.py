"""Draft tokens for requests with a constraint, learned from the requests before. Does not import vLLM.

vLLM asks a proposer in its worker for drafts and then the manager in the engine which of them the constraint allows. `Proposer`
proposes nothing; the manager answers with a chain of `EngineDrafts`, which knows constraint and tokens. Rejection sampling
accepts a draft token as often as the model would have drawn it, so the distribution stays.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from constrained.decoding.speculation import DraftSchedulers, Speculation
from constrained.errors import InvalidArgument
from constrained.integrations.engines.settings import VllmSettings
from constrained.spec.budget import DraftBudget
from constrained.spec.sources import DRAFT_SOURCES

if TYPE_CHECKING:
    from constrained.integrations.engines.request_grammar import RequestGrammar
    from constrained.spec.drafts import LazyDrafter

PROPOSER = "constrained.integrations.vllm.drafts.Proposer"
"""``model`` in ``--speculative-config '{"method": "custom_class", "model": ..., "num_speculative_tokens": 8}'``."""

_SOURCES = tuple(
    name for name in DRAFT_SOURCES if name not in ("assistant", "slot_favourites")
)  # they need the model's most likely tokens


class Proposer:
    """A proposer of draft tokens, as vLLM's method ``custom_class`` takes it, that leaves proposing to the manager."""

    def __init__(self, vllm_config: Any) -> None:
        """Called by vLLM.

        Raises:
            InvalidArgument: the plug-in is not active in this process, so nothing would be drafted.
        """
        if not VllmSettings.installed:
            raise InvalidArgument(
                f"{PROPOSER} drafts nothing by itself, and vLLM runs without the plug-in of this library",
                action=f"set {VllmSettings.VARIABLE}=1; leave VLLM_PLUGINS unset, or add constrained to it",
            )

    def load_model(self, *arguments: Any, **options: Any) -> None:
        """Loads nothing; vLLM on CPU calls this for every proposer."""

    def propose(self, sampled_token_ids: Sequence[Any], *arguments: Any, **options: Any) -> list[list[int]]:
        """No draft tokens for each request."""
        return [[] for _ in sampled_token_ids]


class RequestDrafts:
    """The drafts of one request.

    Attributes:
        drafter: proposes.
        proposed: the last draft.
    """

    def __init__(self, drafter: LazyDrafter) -> None:
        self.drafter = drafter
        self.proposed: list[int] = []


class EngineDrafts:
    """Drafts for all requests of an engine. Called by the engine's thread.

    The number of draft tokens follows the measured times of passes: see `constrained.spec.budget`. Times are those between the last
    draft and the first token of a step, so they include what vLLM itself does for a draft token.
    """

    def __init__(self, most: int, *, adapts: bool = True) -> None:
        """Drafts that know nothing of the engine's requests yet.

        Args:
            most: draft tokens of a request and pass, at most.
            adapts: False: always the most.
        """
        self._most = most
        self._adapts = adapts
        self._speculation = Speculation(nodes=most, sources=_SOURCES)
        self._schedulers: DraftSchedulers | None = None
        self._budgets: dict[int, DraftBudget] = {}
        self._requests: frozenset[str] = frozenset()
        self._steady = (
            False  # the pass reads the requests of the pass before, and no prompt of a constrained one
        )
        self._nodes = 0  # draft tokens of one request in the pass, at most
        self._timed = True
        self._size = 0
        self._drafting = 0.0
        self._drafted_at = time.perf_counter()

    def request(self, grammar: RequestGrammar, prompt: Sequence[int]) -> RequestDrafts | None:
        """The drafts of a new request; None if its automaton has no table for them."""
        automaton, constraint = grammar.automaton, grammar.automaton.constraint
        if constraint is None or automaton.relaxed_automaton.automaton_table is None:
            return None
        if self._schedulers is None:
            self._schedulers = DraftSchedulers(self._speculation, automaton.vocabulary, chains=True)
        scheduler = self._schedulers.for_constraint(constraint, automaton)
        return RequestDrafts(scheduler.lazy_drafter(list(prompt), drawn=False))

    def begin_pass(self, requests: Collection[str], drafts: dict[str, list[int]]) -> None:
        """Tells which requests a pass reads, and their draft tokens."""
        now = frozenset(requests)
        self._steady, self._requests = now == self._requests, now
        self._nodes = max((len(drafts.get(name, ())) for name in now), default=0)
        self._timed = False

    def commit(self, drafts: RequestDrafts, tokens: Sequence[int], ends: Collection[int]) -> None:
        """Appends the tokens that a request got in this pass.

        Args:
            drafts: of the request.
            tokens: ids.
            ends: ids that end the sequence.
        """
        budget, count = self._budget, max(1, len(self._requests))
        if not self._timed:
            seconds = time.perf_counter() - self._drafted_at
            budget.record_pass(count, self._nodes, seconds, self._drafting, comparable=self._steady)
            self._timed, self._drafting = True, 0.0
            self._size = budget.draft_size()
        accepted = 0
        while (
            accepted < min(len(tokens), len(drafts.proposed))
            and tokens[accepted] == drafts.proposed[accepted]
        ):
            accepted += 1
        budget.record_accepted(count, accepted)
        drafts.proposed = []
        for token in tokens:
            if token not in ends:
                drafts.drafter.commit(token)

    def propose(self, drafts: RequestDrafts, grammar: RequestGrammar) -> list[int]:
        """Draft tokens that may follow, a chain."""
        if not self._size or grammar.is_terminated():
            drafts.drafter.pause()
            self._drafted_at = time.perf_counter()
            return []
        began = time.perf_counter()
        tree = drafts.drafter.draft(self._size, max(1, grammar.budget))
        drafted = time.perf_counter()
        (size,) = self._budget.verify_sizes([tree.path_probability[1:]], drafted - began)
        drafts.proposed = grammar.validate_tokens(list(tree.token[1 : 1 + size]))
        drafts.drafter.mark_verified(len(drafts.proposed))
        self._drafted_at = time.perf_counter()
        self._drafting += self._drafted_at - began
        return drafts.proposed

    @property
    def _budget(self) -> DraftBudget:
        """Of batches of about this size."""
        bucket = max(1, len(self._requests) - 1).bit_length()
        if bucket not in self._budgets:
            self._budgets[bucket] = DraftBudget(self._most, adapts=self._adapts)
        return self._budgets[bucket]
