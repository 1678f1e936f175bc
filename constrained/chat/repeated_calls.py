"""`RepeatedCallGuard`: a reply ends behind a call that it has made before.

A small model repeats its call until the token limit: 18 of 31 replies of SmolLM2-135M on BFCL had the same call twice. Nobody means
that, and an agent would act twice. The second one is left out of the `Reply`, and `ReplyParser` has no deltas of it.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import TYPE_CHECKING

from constrained.chat.reply_parser import ReplyParser
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.repetition import Repair

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.chat.reply_form import ReplyForm
    from constrained.vocabulary import Vocabulary


class RepeatedCallGuard:
    """The guard of one reply.

    Attributes:
        repairs: the call that was repeated, if one was.
    """

    def __init__(self, constraint: ReplyForm, vocabulary: Vocabulary) -> None:
        """A guard that has read nothing.

        Args:
            constraint: of the reply.
            vocabulary: of the model.
        """
        self.repairs: list[Repair] = []
        self._constraint = constraint
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parser = ReplyParser(constraint)
        self._tokens: list[int] = []

    def copy(self) -> RepeatedCallGuard:
        """An independent copy."""
        twin = RepeatedCallGuard(self._constraint, self._vocabulary)
        for count in range(1, len(self._tokens) + 1):
            twin.commit(self._tokens[:count])
        return twin

    def commit(self, tokens: Sequence[int]) -> None:
        """Reads the last one of the completion's tokens."""
        self._tokens.append(tokens[-1])
        self._parser.feed(self._decoder.decode(self._vocabulary.decode(tokens[-1:])))
        if self.repairs or self._parser.in_call or not (calls := self._parser.calls):
            return
        *before, last = calls
        if last in before:
            self.repairs.append(Repair("", f"{last.name}({last.text})", len(tokens)))

    def candidates(self, automaton: Automaton, state: int, budget: int) -> AutomatonCandidates:
        """The candidates of a state; behind a repeated call those of the shortest end."""
        if not self.repairs:
            return AutomatonCandidates(automaton, state, budget)
        return _ShortestEnd(automaton, state, min(budget, automaton.shortest_completion(state)))


class _ShortestEnd(AutomatonCandidates):
    """The tokens of the shortest completions; no token limit excludes the others."""

    limit_excludes = False

    def without_limit(self) -> AutomatonCandidates:
        """These candidates."""
        return self
