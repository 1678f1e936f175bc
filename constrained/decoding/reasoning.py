"""A budget of tokens for the reasoning that precedes a reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from constrained.automaton.protocol import DEAD
from constrained.decoding.limits import nonnegative_int
from constrained.errors import InvalidArgument
from constrained.vocabulary.special_tokens import letters

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.constraint import Constraint


@dataclass(frozen=True, slots=True)
class ReasoningBudget:
    """Ends reasoning that becomes too long.

    After so many tokens the tokens of `end` are the only ones that may follow, one after the other, from the first place on
    where the constraint allows them: after the text that opens the reasoning, and not within a character.

    Attributes:
        tokens: the longest reasoning, the text that opens it included and `end` not.
        end: the text that ends the reasoning; special tokens by name.
    """

    tokens: int
    end: str

    def thought_after(self, thought: bytes | None, text: bytes) -> bytes | None:
        """The end of the reasoning so far, as far as it may belong to `end`; None: the reasoning has ended.

        Args:
            thought: as this returned it before the text; b"" at the beginning.
            text: of the next token.
        """
        if thought is None:
            return None
        end = self.end.encode()
        thought += text
        return None if end in thought else thought[-(len(end) - 1 or len(thought)) :]

    def forced(self, thought: bytes, automaton: Automaton, state: int, budget: int) -> int | None:
        """The token that must follow; None: the constraint does not allow the end here.

        Args:
            thought: as `thought_after` returns it.
            automaton: of the reply.
            state: its state.
            budget: tokens left within the token limit.
        """
        end = self.end.encode()
        written = next((n for n in range(len(end) - 1, 0, -1) if thought.endswith(end[:n])), 0)
        for token in _first_tokens(end[written:], automaton):
            if automaton.next_within(state, token, budget) != DEAD:
                return token
        return None


def reasoning_budget(constraint: Constraint, tokens: int) -> ReasoningBudget:
    """The budget for the reasoning that the texts of a constraint begin with.

    Raises:
        InvalidArgument: they begin with none, or `tokens` is not a whole number >= 0.
    """
    end = constraint.reasoning_end
    if end is None:
        raise InvalidArgument(
            f"thinking limits the reasoning before a value, and {constraint.render()} begins with none",
            action='put it behind its end, after("</think>", ...), or use generate or extract, which have thinking=',
        )
    return ReasoningBudget(nonnegative_int("thinking", tokens), end)


def _first_tokens(text: bytes, automaton: Automaton) -> list[int]:
    """Tokens that a text may begin with, the usual one first."""
    vocabulary = automaton.vocabulary
    names = {name.encode(): mark for name, mark in letters(vocabulary.special_tokens).items()}
    begun = max((name for name in names if text.startswith(name)), key=len, default=None)
    if begun is not None:
        return [vocabulary.ids_by_bytes[names[begun]]]
    cut = min((at for name in names if (at := text.find(name)) > 0), default=len(text))
    tokens = [vocabulary.encode(text[:cut])[0]]
    single = vocabulary.ids_by_bytes.get(text[:1])
    return tokens if single is None else [*tokens, single]
