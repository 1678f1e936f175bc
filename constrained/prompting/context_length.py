"""Prompts longer than the model's context are refused without tokenizing all of them.

A text is encoded in parts until these have more tokens than the context. So refusing a text of many megabytes costs as much as
tokenizing one that fills the context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from constrained.errors import PromptTooLong

_WHOLE = 4
"""Characters for each token of the context up to which a text is encoded as it is: it may well fit."""

_PART = 4096
"""Least number of characters of a part."""

_CUT = 64
"""Tokens of a part that are not counted: a cut between two parts changes a few tokens next to it, and can add some."""


def check_context_length(text: str, encode: Callable[[str], Sequence[int]], context: int | None) -> None:
    """Refuses a text that has more tokens than a model reads, if it is long.

    Args:
        text: all of it, such as a rendered chat.
        encode: token ids of a part of it.
        context: tokens that the model reads; None: any number.

    Raises:
        PromptTooLong: a first part of the text has more tokens already.
    """
    if context is None or len(text) <= _WHOLE * context:
        return
    size = max(_PART, context)
    count = 0
    for start in range(0, len(text), size):
        count += max(0, len(encode(text[start : start + size])) - _CUT)
        if count > context:
            seen = min(start + size, len(text))
            raise PromptTooLong(
                f"the prompt has more than {count} tokens in its first {seen} characters, of {len(text)}: "
                f"the model reads {context} in all",
                action="shorten the prompt, split it, or use a model with a longer context",
            )
