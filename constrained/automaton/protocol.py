"""The interface of a token automaton: what decoding, speculation and engines outside ask of it.

Must not know: grammars, the native core, models, samplers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

from constrained.automaton.bitmask import Bitmask, pack_ids, unpack_ids, zero_mask
from constrained.errors import UnsupportedConstraint

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.vocabulary import Vocabulary

DEAD = 0
"""The state that no completion leads out of."""

NO_LIMIT = 1 << 30
"""A token budget that never runs out."""


def shown_count(tokens: int) -> str:
    """A number of tokens in words: numbers beyond `NO_LIMIT` may be saturated."""
    return f"more than {NO_LIMIT}" if tokens > NO_LIMIT else str(tokens)


@runtime_checkable
class Automaton(Protocol):
    """A language over token ids, as a deterministic automaton.

    A state is an int that stands for all prefixes with the same completions; `DEAD` is the state of every prefix
    without one. Methods change nothing that a caller can see: to fork a sequence, copy its state; to roll it back,
    keep the earlier states. A state is valid as long as its automaton, unless a class says otherwise; equal ints are
    the same state, but where memory was reclaimed a state may be met again as another int. Automata that `compile`
    returns can be shared between threads.

    Masks are int32 ``[ceil(vocabulary.size / 32)]``: token t is bit ``t % 32`` of word ``t // 32``. The bits of the
    end-of-sequence tokens are set iff the text of the state is complete.

    To write an automaton of one's own, derive from this class and define `vocabulary`, `start`, `next`, `accepts`
    and `shortest_completion`. The other methods are defined by these; `fill_mask_within` then takes one transition
    for each token of the vocabulary, and should be overridden where masks can be computed faster, or
    `expensive_membership` set.

        class Digits(constrained.Automaton):
            start = 1

            def __init__(self, vocabulary):
                self.vocabulary = vocabulary
                self.constraint = DigitsConstraint()     # gives values to texts; `Generator` needs one

            def next(self, state, token): ...

    Attributes:
        vocabulary: the tokens that `next` takes.
        constraint: gives values to complete texts; None for an automaton that was compiled from a bare grammar.
        expensive_membership: a mask costs one membership query for each candidate token (a predicate, a parser);
            samplers then query single tokens instead of computing masks.
    """

    vocabulary: Vocabulary
    constraint: Constraint | None = None
    expensive_membership: bool = False

    @property
    @abstractmethod
    def start(self) -> int:
        """The state of the empty prefix; `DEAD` iff the language is empty."""
        raise NotImplementedError

    @abstractmethod
    def next(self, state: int, token: int) -> int:
        """The state after a token; `DEAD` if the token is not allowed.

        An end-of-sequence token is allowed iff `accepts(state)`; nothing but another one is allowed after it.
        """
        raise NotImplementedError

    @abstractmethod
    def accepts(self, state: int) -> bool:
        """Whether the text of the state is complete."""
        raise NotImplementedError

    @abstractmethod
    def shortest_completion(self, state: int) -> int:
        """The number of tokens, end of sequence not counted, of a shortest completion; 0 iff the text is complete.

        Automata of grammars are exact where few texts can follow. Elsewhere they count the tokens of the completion with
        the fewest bytes, exactly from where few texts follow on: an upper bound, because a longer text may take fewer
        (`counts_exactly` tells; `TokenAutomaton.count_thoroughly` tries more). A lower bound is allowed where the number is not known, at the price of dead ends under a token limit.
        """
        raise NotImplementedError

    def counts_exactly(self, state: int) -> bool:
        """Whether `shortest_completion` is known to be exact, here and in every state that can follow.

        Then masks within a budget allow all that can be completed in time. Otherwise a limit may exclude a text that would
        just fit; `Output.cut` tells where a limit excluded what would have been drawn.
        """
        return False

    def next_within(self, state: int, token: int, budget: int) -> int:
        """The state after a token; `DEAD` if the token is not allowed or leaves no completion within the budget.

        Args:
            state: any.
            token: id.
            budget: tokens that may follow the state, this one included and end of sequence not counted.
        """
        after = self.next(state, token)
        if after == DEAD or token in self.vocabulary.eos_ids:
            return after
        return after if self.shortest_completion(after) < budget else DEAD

    def walk(self, state: int, tokens: Sequence[int]) -> list[int]:
        """The states after each token; stops before the first token that is not allowed."""
        states = []
        for token in tokens:
            state = self.next(state, token)
            if state == DEAD:
                break
            states.append(state)
        return states

    def fill_mask(self, state: int, mask: Bitmask) -> None:
        """Writes the mask of a state, int32 ``[words]``."""
        self.fill_mask_within(state, mask, NO_LIMIT)

    def fill_mask_within(self, state: int, mask: Bitmask, budget: int) -> None:
        """Writes the mask of the tokens after which at most ``budget - 1`` more tokens complete the text.

        Automata of grammars bound the work of a mask: where it runs out, the mask lacks tokens that `next_within` allows,
        but never all that lead to the end in time, and it does not depend on earlier calls.
        """
        size = self.vocabulary.size
        mask[:] = pack_ids((token for token in range(size) if self.next_within(state, token, budget)), size)

    def fill_masks(self, states: Sequence[int], masks: Bitmask) -> None:
        """Writes the masks of several states, int32 ``[states, words]``."""
        for state, mask in zip(states, masks, strict=True):
            self.fill_mask(state, mask)

    def has_mask(self, state: int) -> bool:
        """Whether `fill_mask` copies a mask that is already computed."""
        return False

    def mask_id(self, state: int) -> int:
        """The id of a state's mask in `Vocabulary.masks`, for `DeviceMaskCache`.

        Raises:
            UnsupportedConstraint: the masks of this automaton are not stored there.
        """
        raise UnsupportedConstraint(
            f"the masks of a {type(self).__name__} have no ids",
            action="use fill_mask, or query single tokens with next",
        )

    def mask_ids(self, states: Sequence[int]) -> list[int]:
        """The ids of several states' masks; raises as `mask_id`."""
        return [self.mask_id(state) for state in states]

    def only_eos(self, state: int, budget: int) -> bool:
        """Whether the text is complete and only an end of sequence can follow within the budget.

        With `expensive_membership`, False is allowed where this is not known: the model then decides.
        """
        if not self.accepts(state):
            return False
        if budget < 1:
            return True
        mask = self.new_mask()
        self.fill_mask_within(state, mask, budget)
        return set(unpack_ids(mask).tolist()) <= set(self.vocabulary.eos_ids)

    def forced(self, state: int) -> bytes:
        """A common prefix of all completions, as long as it is known."""
        return b""

    def limit_may_exclude(self, state: int, budget: int) -> bool:
        """Whether a token limit may exclude a token in this state; False only if that is known without its masks."""
        return True

    @property
    def relaxed_automaton(self) -> Automaton:
        """An automaton that speculation can query freely: one without predicates, of a language that contains this one.

        It has states of its own; speculation follows it beside this one.
        """
        return self

    @property
    def automaton_table(self) -> Any:
        """The transitions as C functions in a capsule, for the native drafter; None: decoding runs without draft tokens.

        See spec/_core/automaton_table.hpp.
        """
        return None

    @property
    def report(self) -> Any:
        """Every keyword of the constraint: enforced, or an annotation, with its JSON Pointer."""
        return self.constraint.report if self.constraint is not None else ()

    @property
    def memory(self) -> dict[str, int]:
        """Sizes of the automaton's own tables: counts, and bytes."""
        return {}

    @property
    def outgrown(self) -> bool:
        """Whether a new text should have a new automaton of the same constraint.

        The states of earlier texts stay valid as long as their automaton, and take memory.
        """
        return False

    def new_mask(self, count: int | None = None) -> Bitmask:
        """A mask that allows nothing, int32 ``[words]``; with `count`, masks ``[count, words]``."""
        return zero_mask(self.vocabulary.size, count)


def is_automaton(target: object) -> TypeGuard[Automaton]:
    """Whether a target is an automaton. Its class is asked first: for any other object `isinstance` reads attributes, up to Python 3.11."""
    return hasattr(type(target), "fill_mask") and isinstance(target, Automaton)


__all__ = ["DEAD", "NO_LIMIT", "Automaton", "is_automaton"]
