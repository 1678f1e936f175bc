"""The states of the rows of `generate`, found by the tokens of each row.

`generate` passes only the tokens so far to a processor. Rows are reordered (beams), copied
(`num_return_sequences`), taken back (assistants), padded after their end, and one processor may see several calls.
So states are not stored by row: sequences are nodes of a trie below their prompt, and a row is looked up in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from constrained.automaton.protocol import DEAD
from constrained.errors import InvalidArgument

if TYPE_CHECKING:
    import torch

    from constrained.automaton import Automaton

_ROOT = 0


class _PrefixTrie:
    """The texts seen under one automaton, as a trie. Node 0 is the empty text."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.ends = frozenset(automaton.vocabulary.eos_ids)
        self.children: dict[tuple[int, int], int] = {}
        self.states = [automaton.start]
        self.lengths = [0]
        self.ended = [False]

    def child(self, node: int, token: int) -> int:
        """The node of a text with one more token; what follows an end counts for nothing."""
        if self.ended[node]:
            return node
        node_id = self.children.get((node, token))
        if node_id is None:
            node_id = self.children[node, token] = len(self.states)
            state = self.states[node]
            inside = 0 <= token < self.automaton.vocabulary.size
            after = self.automaton.next(state, token) if state != DEAD and inside else DEAD
            self.states.append(after)
            self.lengths.append(self.lengths[node] + 1)
            self.ended.append(after != DEAD and token in self.ends)
        return node_id

    def find(self, tokens: Sequence[int]) -> int | None:
        """The node of a text that was seen."""
        node: int | None = _ROOT
        for token in tokens:
            assert node is not None
            if self.ended[node]:
                return node
            node = self.children.get((node, token))
            if node is None:
                return None
        return node


class TrackedSequence:
    """The node of a row in the trie of its prompt."""

    __slots__ = ("node", "texts")

    def __init__(self, texts: _PrefixTrie, node: int) -> None:
        self.texts = texts
        self.node = node

    @property
    def automaton(self) -> Automaton:
        """The automaton of this row."""
        return self.texts.automaton

    @property
    def state(self) -> int:
        """The state after the tokens of the row."""
        return self.texts.states[self.node]

    @property
    def length(self) -> int:
        """Tokens of the text."""
        return self.texts.lengths[self.node]

    @property
    def ended(self) -> bool:
        """Whether the text has its end of sequence: what follows is padding."""
        return self.texts.ended[self.node]


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
        self._texts: list[_PrefixTrie] = []  # one for each row, shared by the rows of a prompt
        self._nodes: list[int] = []
        self._alone: list[bool] = []

    def has_unique_prompt(self, row: int) -> bool:
        """Whether no other row has this prompt, so that the row is not one of several beams."""
        return self._alone[row]

    def track(self, input_ids: torch.Tensor) -> list[TrackedSequence]:
        """The nodes of the rows of a step.

        Args:
            input_ids: what `generate` passes, int64 ``[rows, length]``, the prompts in front.

        Raises:
            InvalidArgument: rows and constraints do not match; or sequences got shorter, which an assistant does and
                also a second call whose prompt holds a part of the first one's text.
        """
        if (last := self._next_tokens(input_ids)) is not None:
            nodes = [
                texts.child(node, token)
                for texts, node, token in zip(self._texts, self._nodes, last, strict=True)
            ]
        elif (found := self._looked_up(input_ids)) is not None:
            nodes = found
        else:
            self._begin(input_ids)
            nodes = [_ROOT] * len(self._texts)
        self._nodes = nodes
        self._last = input_ids
        return [TrackedSequence(texts, node) for texts, node in zip(self._texts, nodes, strict=True)]

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
        return all(texts.ended[node] for texts, node in zip(self._texts, self._nodes, strict=True))

    def _looked_up(self, input_ids: torch.Tensor) -> list[int] | None:
        """The nodes of rows that were reordered or cut back; None if they belong to another call."""
        prompts, last = self._prompts, self._last
        if prompts is None or last is None or len(prompts) != len(input_ids):
            return None
        width = prompts.shape[1]
        if input_ids.shape[1] < width or not bool((input_ids[:, :width] == prompts).all()):
            return None
        if input_ids.shape[1] == width:
            return [_ROOT] * len(input_ids)  # equal prompts again, or sequences cut back to them
        rows = input_ids[:, width:].tolist()
        before = [texts.find(row[:-1]) for texts, row in zip(self._texts, rows, strict=True)]
        if any(node is None for node in before):
            return None  # every sequence of this call was tracked when it was one token shorter
        if input_ids.shape[1] != last.shape[1] + 1 and not self.assisted:
            raise InvalidArgument(
                "sequences got shorter: an assistant's draft tokens were rejected, or this is another call whose "
                "prompts start with sequences of the last one",
                action="pass assisted=True, or call reset() before another call of generate",
            )
        if self._all_ended() and not self.assisted:
            return None
        return [
            texts.child(node, row[-1])
            for texts, node, row in zip(self._texts, before, rows, strict=True)
            if node is not None
        ]

    def _begin(self, input_ids: torch.Tensor) -> None:
        """The first step of a call: all rows are prompts."""
        rows, constraints = len(input_ids), len(self.automata)
        if constraints > 1 and rows % constraints:
            raise InvalidArgument(
                f"{constraints} constraints do not fit {rows} rows", action="pass one for each prompt"
            )
        self._prompts = input_ids
        each = max(1, rows // constraints) if constraints > 1 else rows
        texts = [_PrefixTrie(automaton) for automaton in self.automata]
        self._texts = [texts[row // each] for row in range(rows)]
        # Copies of a prompt stand side by side.
        same = [False, *(input_ids[1:] == input_ids[:-1]).all(dim=1).tolist(), False]
        self._alone = [not (same[row] or same[row + 1]) for row in range(rows)]
