"""The mask of one text, for processors that get all its tokens at every step."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.bitmask import Bitmask, allow_only, unpack_bits, zero_mask
from constrained.automaton.cache import compile_cached
from constrained.automaton.forced_tokens import Spelling, forced_within, is_canonical
from constrained.automaton.protocol import DEAD, NO_LIMIT
from constrained.decoding.limits import check_max_tokens
from constrained.errors import BudgetExhausted, InvalidArgument
from constrained.vocabulary import Vocabulary


class TextMask:
    """Which tokens may come next in one text.

    What the first step shows is the prompt. A step with one token more, or with fewer, goes on with the text (drafts may
    be rejected); one with another prompt, or with several tokens more, begins another text.
    """

    def __init__(
        self, constraint: Any, vocabulary: Vocabulary, max_tokens: int | None, spelling: Spelling
    ) -> None:
        """Compiles the constraint.

        Args:
            constraint: a `Constraint`, a Python type, a JSON Schema or an `Automaton`.
            vocabulary: of the model.
            max_tokens: the text is complete within it; None for no limit.
            spelling: as of `constrained.Local`.

        Raises:
            ConstraintError, ConstraintTooLarge: the constraint cannot be enforced.
            DoesNotFit: no complete text has only `max_tokens` tokens.
            ModelMismatch: the automaton is of another vocabulary.
        """
        self.vocabulary = vocabulary
        self.max_tokens = max_tokens
        self._automaton = compile_cached(constraint, vocabulary)[1]
        check_max_tokens(self._automaton, max_tokens, ", here and to the engine")
        self._canonical = is_canonical(spelling)
        self.reset()

    def reset(self) -> None:
        """The next step begins another text."""
        self._prompt: NDArray[np.integer[Any]] | None = None
        self._text: list[int] = []
        self._states = [self._automaton.start]  # one more than tokens

    def allowed(self, tokens: NDArray[np.integer[Any]], columns: int) -> NDArray[np.bool_]:
        """Which tokens may come next.

        Args:
            tokens: prompt and text, ids ``[length]``.
            columns: of the logits; those beyond the vocabulary are never allowed.

        Returns:
            bool ``[columns]``.

        Raises:
            InvalidArgument: the text has a token that the constraint does not allow.
            BudgetExhausted: nothing may come next.
        """
        self._follow(tokens)
        spread = unpack_bits(self._mask())
        if len(spread) < columns:
            return np.pad(spread, (0, columns - len(spread)))
        return spread[:columns]

    def _follow(self, tokens: NDArray[np.integer[Any]]) -> None:
        prompt = self._prompt
        if (
            prompt is None
            or len(tokens) > len(prompt) + len(self._text) + 1
            or not np.array_equal(tokens[: len(prompt)], prompt)
        ):
            self.reset()
            self._prompt = prompt = np.array(tokens)
        text = tokens[len(prompt) :].tolist()
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, self._text, strict=False)))
        del self._text[same:], self._states[same + 1 :]
        for token in text[same:]:
            state = self._automaton.next(self._states[-1], token) if token < self.vocabulary.size else DEAD
            if state == DEAD:
                raise InvalidArgument(
                    f"token {len(self._text)} of the text, id {token}, is not allowed by the constraint",
                    action="remove processors that force tokens; call reset() where a prompt goes on with a text",
                )
            self._text.append(token)
            self._states.append(state)

    def _mask(self) -> Bitmask:
        mask = zero_mask(self.vocabulary.size)
        left = NO_LIMIT if self.max_tokens is None else max(0, self.max_tokens - len(self._text))
        forced = forced_within(self._automaton, self._states[-1], left) if self._canonical else None
        if forced is None:
            self._automaton.fill_mask_within(self._states[-1], mask, left)
        else:
            allow_only(mask, forced)
        if not mask.any():
            raise BudgetExhausted(
                "no token is allowed next", action="let the engine write at most max_tokens tokens"
            )
        return mask
