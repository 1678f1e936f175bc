"""`ReplyGuard`: a reply makes no call twice, and no value in the arguments of a call repeats itself without end.

A small model repeats its call until the token limit: 18 of 31 replies of SmolLM2-135M on BFCL had the same call twice. Nobody means
that, and an agent would act twice. Behind each call the model is asked how it departs from a copy of those that were made
(`constrained.decoding.departure`): by another call, or by the end of the reply; before the end comes a call with a number or name of the user's
message that none has (`constrained.chat.stated`). Where it cannot be asked, or spells a copy in another way,
the reply ends behind the copy, which is left out of the `Reply`, and of which `ReplyParser` has no deltas. Each call's arguments have a
`RepetitionGuard`, if they are written as JSON, and no call follows one in which it closed a value.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import TYPE_CHECKING

from constrained.chat.reply_parser import ReplyParser, ToolCall
from constrained.chat.stated import NOTHING_STATED, StatedValues
from constrained.chat.tool_format import ID, INDEX
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.prompt_reader import MOST_NODES
from constrained.decoding.repetition import Repair, RepetitionGuard
from constrained.errors import VocabularyError
from constrained.vocabulary.special_tokens import encode_with_special

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.chat.reply_form import ReplyForm
    from constrained.vocabulary import Vocabulary


class ReplyGuard:
    """The guard of one reply.

    Attributes:
        repairs: the values that were closed, and the call that was repeated, if one was.
        avoided: behind a call the tokens of copies of the calls so far, the latest first.
    """

    def __init__(
        self, form: ReplyForm, special_tokens: Sequence[str], vocabulary: Vocabulary, prompt: Sequence[int]
    ) -> None:
        """A guard that has read nothing.

        Args:
            form: of the reply.
            special_tokens: names of those in it.
            vocabulary: of the model.
            prompt: token ids; what stands in it may be repeated in arguments.
        """
        self.repairs: list[Repair] = []
        self.avoided: Sequence[Sequence[int]] = ()
        self._lacked = StatedValues(form.asked)  # what the user's message states and no call has
        self._share = 0  # what the first call had of it
        self._form = form
        self._special_tokens = special_tokens
        self._vocabulary = vocabulary
        self._prompt = prompt
        self._arguments: RepetitionGuard | None = None  # of the call that is being written
        self._ends = False  # whether the reply ends: the last call was made before, or repeats itself inside
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parser = ReplyParser(form)
        self._tokens: list[int] = []

    def copy(self) -> ReplyGuard:
        """An independent copy."""
        twin = ReplyGuard(self._form, self._special_tokens, self._vocabulary, self._prompt)
        for count in range(1, len(self._tokens) + 1):
            twin.commit(self._tokens[:count])
        return twin

    def commit(self, tokens: Sequence[int]) -> None:
        """Reads the last one of the completion's tokens."""
        self._tokens.append(tokens[-1])
        was_in_call = self._parser.in_call
        piece = self._vocabulary.decode(tokens[-1:])
        self._parser.feed(self._decoder.decode(piece))
        if self._parser.in_call:
            self._read_arguments(tokens, piece)
            return
        was_closed = self._arguments is not None and bool(self._arguments.repairs)
        self._arguments = None
        if not was_in_call or self._ends:
            return
        calls = self._parser.calls
        *before, last = calls
        if last in before:
            self._ends = True
            self.repairs.append(Repair("", f"{last.name}({last.text})", len(tokens)))
        elif was_closed:
            self._ends = True
        elif self._form.allows_more_calls:
            self.avoided = self._copies(calls)
            left = self._lacked.without(last.text) if self.avoided else NOTHING_STATED
            had = len(self._lacked) - len(left)
            # The call behind one that has less of it than the first would have still less: it is not what the user meant.
            self._share = self._share or had
            self._lacked = left if had >= self._share > 0 else NOTHING_STATED

    def _read_arguments(self, tokens: Sequence[int], piece: bytes) -> None:
        """Reads a token of a call, of which the arguments may have begun."""
        if self._arguments is None:
            calls = self._parser.calls
            if self._form.format.style is not None or not calls or not calls[-1].text:
                return
            self._arguments, piece = RepetitionGuard(self._vocabulary, self._prompt), calls[-1].text.encode()
        known = len(self._arguments.repairs)
        self._arguments.read(tokens, piece)
        self.repairs += self._arguments.repairs[known:]

    def _copies(self, calls: Sequence[ToolCall]) -> list[list[int]]:
        """How the reply would go on with each of these calls; none in a format that numbers its calls, or writes no JSON."""
        format, held = self._form.format, self._parser.held
        between = format.call_separator
        if format.style is not None or INDEX in between or ID in between or not between.startswith(held):
            return []
        copies: list[list[int]] = []
        for call in reversed(calls):
            text = (between + call.name + format.after_name + call.text)[len(held) :]
            try:
                copy = self._vocabulary.encode(encode_with_special(text, self._special_tokens))
            except VocabularyError:  # half a character was written, and decoded as U+FFFD
                continue
            if sum(map(len, copies)) + len(copy) > MOST_NODES:
                break
            copies.append(copy)
        return copies

    def wanted(self, text: str) -> str | None:
        """The rest of the value of the user's message in which a text behind the calls so far ends, if none of them has it."""
        return self._lacked.rest(text)

    def candidates(self, automaton: Automaton, state: int, budget: int) -> AutomatonCandidates:
        """The candidates of a state; behind the last call those of the shortest end."""
        if self._ends:
            return _ShortestEnd(automaton, state, min(budget, automaton.shortest_completion(state)))
        if self._arguments is not None:
            return self._arguments.candidates(automaton, state, budget)
        return AutomatonCandidates(automaton, state, budget)


class _ShortestEnd(AutomatonCandidates):
    """The tokens of the shortest completions; no token limit excludes the others."""

    limit_excludes = False

    def without_limit(self) -> AutomatonCandidates:
        """These candidates."""
        return self
