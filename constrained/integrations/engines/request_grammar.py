"""The tokens of one request: what engines call a grammar, over an `Automaton`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from constrained.automaton.forced_tokens import forced_within
from constrained.automaton.protocol import DEAD, NO_LIMIT, shown_count
from constrained.errors import DoesNotFit, InvalidArgument

if TYPE_CHECKING:
    from constrained.automaton import Automaton


PADDING = -1
"""What engines append to drafts; nothing follows it."""


class RequestGrammar:
    """The state of a request after each of its tokens. A state is a number, so nothing is computed to roll back.

    Attributes:
        automaton: the compiled constraint.
        limit: tokens that the request may write, end of sequence included; None: no limit.
        failure: why the request cannot go on: an error while a mask or a state was computed. Nothing is accepted then, so
            that the engine ends this request and no other one.
        canonical: forced text has the tokens that the tokenizer writes, see `constrained.automaton.forced_tokens`.
        tokens_before: tokens that the request wrote before the constraint began (reasoning).
    """

    def __init__(self, automaton: Automaton, limit: int | None = None, *, canonical: bool = True) -> None:
        """The grammar of a new request.

        Raises:
            DoesNotFit: no completion is as short as `limit`.
        """
        self.automaton = automaton
        self.check_lengths(limit)
        self.limit = limit
        self.canonical = canonical
        self.tokens_before = 0
        self.failure: Exception | None = None
        self._states = [automaton.start]
        self._ended: int | None = None  # number of tokens with which the sequence ended

    def check_lengths(self, limit: int | None, least: int = 0) -> None:
        """See `check_lengths`."""
        check_lengths(self.automaton.shortest_completion(self.automaton.start), limit, least)

    @property
    def state(self) -> int:
        """The state after all accepted tokens."""
        return self._states[-1]

    @property
    def accepted(self) -> int:
        """Number of accepted tokens."""
        return len(self._states) - 1

    @property
    def budget(self) -> int:
        """Tokens that may still follow, as for `Automaton.fill_mask_within`.

        One token is kept for the end of sequence if there is room. Where the completion does not fit any more, because
        reasoning took too long, there is no limit: the engine cuts it, as it would without a constraint.
        """
        if self.limit is None:
            return NO_LIMIT
        left = self.limit - self.tokens_before - self.accepted
        needed = self.automaton.shortest_completion(self.state)
        return left - 1 if needed < left else left if needed == left else NO_LIMIT

    def forced_token(self) -> int | None:
        """The only token that is allowed next, because text is forced; None where there are several."""
        return forced_within(self.automaton, self.state, self.budget) if self.canonical else None

    def append(self, tokens: Sequence[int]) -> bool:
        """Appends tokens; False, and no change, if one of them is not allowed. Padding (-1) ends the list."""
        states: list[int] = []
        state, ended, ends = self.state, self._ended, self.automaton.vocabulary.eos_ids
        for token in tokens:
            if token == PADDING:
                break
            state = self._next(state, token)
            if state == DEAD or self.failure is not None:
                return False
            states.append(state)
            if ended is None and token in ends:
                ended = self.accepted + len(states)
        self._states += states
        self._ended = ended
        return True

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """The longest allowed prefix of some tokens, within the limit and up to the end of sequence. Changes nothing."""
        if self.is_terminated() or self.failure is not None:
            return []
        valid: list[int] = []
        state, budget = self.state, self.budget
        for token in tokens:
            state = DEAD if token == PADDING else self._next(state, token, budget - len(valid))
            if state == DEAD:
                break
            valid.append(token)
            if token in self.automaton.vocabulary.eos_ids:
                break
        return valid

    def rollback(self, num_tokens: int) -> None:
        """Removes the last tokens."""
        if num_tokens > 0:
            del self._states[max(1, len(self._states) - num_tokens) :]
            if self._ended is not None and self.accepted < self._ended:
                self._ended = None

    def is_terminated(self) -> bool:
        """Whether the sequence has ended."""
        return self._ended is not None

    def reset(self) -> None:
        """Removes all tokens."""
        self.rollback(self.accepted)

    def _next(self, state: int, token: int, budget: int = NO_LIMIT) -> int:
        if not 0 <= token < self.automaton.vocabulary.size:
            return DEAD
        try:
            if budget == NO_LIMIT:
                return self.automaton.next(state, token)
            return self.automaton.next_within(state, token, budget)
        except Exception as error:  # the engine must go on
            self.failure = error
            return DEAD


def check_lengths(needed: int, limit: int | None, least: int = 0) -> None:
    """Compares the length of the shortest completion with the limits of a request.

    Args:
        needed: tokens of the shortest completion, end of sequence not counted.
        limit: tokens that the request may write; None: no limit.
        least: tokens before which it must not end.

    Raises:
        DoesNotFit: no completion is as short as the limit.
        InvalidArgument: completions may be shorter than `least`, where the engine forbids every end: no token would be left.
    """
    limit = NO_LIMIT if limit is None else limit
    if needed > limit:
        longer = "shorten it" if needed > NO_LIMIT else f"set max_tokens to {needed + 1} or more"
        raise DoesNotFit(
            f"the shortest valid completion has {shown_count(needed)} tokens, and max_tokens is {limit}",
            action=longer,
            needed=needed,
            limit=limit,
        )
    if needed < least:
        raise InvalidArgument(
            f"a valid completion may have {needed} tokens, and the request must not end before {least}",
            action="leave that limit out, and state the least length in the constraint",
        )
