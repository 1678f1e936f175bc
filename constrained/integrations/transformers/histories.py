"""The states of the rows of `generate`, found by the tokens of each row.

`generate` passes only the tokens so far to a processor. Rows are reordered (beams), copied
(`num_return_sequences`), taken back (assistants), padded after their end, and one processor may see several calls.
So a row that is not the one of the last step with one more token is looked up among all rows of that step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from constrained.automaton.protocol import DEAD
from constrained.errors import InvalidArgument

if TYPE_CHECKING:
    import torch

    from constrained.automaton import Automaton


class TrackedSequence:
    """A row of a step.

    Attributes:
        automaton: of the row.
        tokens: the text behind the prompt, without padding behind its end.
        states: after each number of tokens.
    """

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.tokens: list[int] = []
        self.states = [automaton.start]

    @property
    def state(self) -> int:
        """The state after the tokens of the row."""
        return self.states[-1]

    @property
    def length(self) -> int:
        """Tokens of the text."""
        return len(self.tokens)

    @property
    def ended(self) -> bool:
        """Whether the text has its end of sequence: what follows is padding."""
        ends = self.automaton.vocabulary.eos_ids
        return bool(self.tokens) and self.tokens[-1] in ends and self.state != DEAD

    def append(self, token: int) -> None:
        """One more token; what follows an end counts for nothing."""
        if self.ended:
            return
        inside = 0 <= token < self.automaton.vocabulary.size
        alive = inside and self.state != DEAD
        self.states.append(self.automaton.next(self.state, token) if alive else DEAD)
        self.tokens.append(token)

    def cut(self, tokens: list[int]) -> TrackedSequence | None:
        """A copy that ends where `tokens` do, which the text has at its beginning, or padding behind its end; else None."""
        count = min(len(tokens), len(self.tokens))
        if self.tokens[:count] != tokens[:count] or (count < len(tokens) and not self.ended):
            return None
        twin = TrackedSequence(self.automaton)
        twin.tokens, twin.states = tokens[:count], self.states[: count + 1]
        return twin


class SequenceTracker:
    """Follows the rows of `generate` from call to call.

    Attributes:
        automata: one for all prompts, or one for each.
        assisted: sequences may get shorter, as they do when an assistant's draft tokens are rejected.
    """

    def __init__(self, automata: Sequence[Automaton], *, assisted: bool = False) -> None:
        self.automata = list(automata)
        self.assisted = assisted
        self.forget()

    def forget(self) -> None:
        """The next step belongs to a new call of `generate`."""
        self._prompts: torch.Tensor | None = None
        self._last: torch.Tensor | None = None
        self._rows: list[TrackedSequence] = []
        self._alone: list[bool] = []

    def has_unique_prompt(self, row: int) -> bool:
        """Whether no other row has this prompt, so that the row is not one of several beams."""
        return self._alone[row]

    def track(self, input_ids: torch.Tensor) -> list[TrackedSequence]:
        """The rows of a step.

        Args:
            input_ids: what `generate` passes, int64 ``[rows, length]``, the prompts in front.

        Raises:
            InvalidArgument: rows and constraints do not match; or sequences got shorter, which an assistant does and
                also a second call whose prompt holds a part of the first one's text.
        """
        if (last := self._next_tokens(input_ids)) is not None:
            for row, token in zip(self._rows, last, strict=True):
                row.append(token)
        elif (found := self._looked_up(input_ids)) is not None:
            self._rows = found
        else:
            self._begin(input_ids)
        self._last = input_ids
        return self._rows

    def _next_tokens(self, input_ids: torch.Tensor) -> list[int] | None:
        """The last tokens, where these are the last step's rows, in their order, with one more token each; else None."""
        import torch

        last = self._last
        if (
            last is None
            or len(last) != len(input_ids)
            or last.shape[1] + 1 != input_ids.shape[1]
            or self._all_ended()
        ):
            return None
        # Together, as each copy from a device waits for it.
        same = (input_ids[:, :-1] == last).all().to(input_ids.dtype)
        alike, *tokens = torch.cat([same.reshape(1), input_ids[:, -1]]).tolist()
        return tokens if alike else None

    def _all_ended(self) -> bool:
        """`generate` stops here, so what comes after it belongs to another call."""
        return all(row.ended for row in self._rows)

    def _looked_up(self, input_ids: torch.Tensor) -> list[TrackedSequence] | None:
        """The rows that were reordered or cut back; None if they belong to another call."""
        prompts, last = self._prompts, self._last
        if prompts is None or last is None or len(prompts) != len(input_ids):
            return None
        width = prompts.shape[1]
        if input_ids.shape[1] < width or not bool((input_ids[:, :width] == prompts).all()):
            return None
        if input_ids.shape[1] == width:
            return [
                TrackedSequence(row.automaton) for row in self._rows
            ]  # equal prompts again, or sequences cut back to them
        rows = input_ids[:, width:].tolist()
        found: list[TrackedSequence] = []
        for before, tokens in zip(self._rows, rows, strict=True):
            same = (one.cut(tokens[:-1]) for one in self._rows if one.automaton is before.automaton)
            row = next(filter(None, same), None)
            if row is None:
                return None  # every sequence of this call was tracked when it was one token shorter
            row.append(tokens[-1])
            found.append(row)
        if input_ids.shape[1] != last.shape[1] + 1 and not self.assisted:
            raise InvalidArgument(
                "sequences got shorter: an assistant's draft tokens were rejected, or this is another call whose "
                "prompts start with sequences of the last one",
                action="pass assisted=True, or call reset() before another call of generate",
            )
        if self._all_ended() and not self.assisted:
            return None
        return found

    def _begin(self, input_ids: torch.Tensor) -> None:
        """The first step of a call: all rows are prompts."""
        rows, constraints = len(input_ids), len(self.automata)
        if constraints > 1 and rows % constraints:
            raise InvalidArgument(
                f"{constraints} constraints do not fit {rows} rows", action="pass one for each prompt"
            )
        self._prompts = input_ids
        each = max(1, rows // constraints) if constraints > 1 else rows
        self._rows = [TrackedSequence(self.automata[row // each]) for row in range(rows)]
        # Copies of a prompt stand side by side.
        same = [False, *(input_ids[1:] == input_ids[:-1]).all(dim=1).tolist(), False]
        self._alone = [not (same[row] or same[row + 1]) for row in range(rows)]
