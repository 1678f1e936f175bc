"""What counts as a prompt, the same for every model."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from constrained.errors import PromptError
from constrained.prompting.images import ImageReader

_ROLES = ("system", "user", "assistant", "tool", "developer", "function")


def is_chat(prompt: object) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    """Whether a prompt is a list of messages."""
    return (
        isinstance(prompt, Sequence)
        and not isinstance(prompt, str | bytes)
        and len(prompt) > 0
        and all(isinstance(message, Mapping) for message in prompt)
    )


def check_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    """Checks that each message of a chat has a role that is no misspelt one, and a content unless it calls tools.

    Raises:
        PromptError: names the message.
    """
    for index, message in enumerate(messages):
        role = message.get("role")
        if not isinstance(role, str):
            raise PromptError(f"message {index} has no role", action="pass {'role': 'user', 'content': ...}")
        meant = [] if role in _ROLES else difflib.get_close_matches(role, _ROLES, 1, cutoff=0.8)
        if meant:  # others may be those of a chat template
            raise PromptError(f"message {index} has the role {role!r}", action=f"did you mean {meant[0]!r}?")
        if message.get("content") is None and not message.get("tool_calls"):
            raise PromptError(
                f"message {index} has no content", action="pass {'role': 'user', 'content': ...}"
            )


def check_ids(ids: object, size: int, images: ImageReader | None = None) -> list[int]:
    """Token ids as a list of ints.

    Args:
        ids: of a prompt.
        size: number of ids of the vocabulary.
        images: knows ids of images, too; None: there are none.

    Raises:
        PromptError: not a sequence of ids below `size`, or of images, or empty.
    """
    if isinstance(ids, str | bytes | Mapping) or not hasattr(ids, "__iter__"):
        raise PromptError(
            f"a prompt cannot be of type {type(ids).__name__}",
            action="pass a str, a list of messages with role and content, or a list of token ids",
        )
    if isinstance(ids, list) and set(map(type, ids)) == {int} and min(ids) >= 0 and max(ids) < size:
        return list(ids)  # the usual case, ten times as fast
    checked = []
    for token in ids:
        try:
            number = token.__index__()
        except (AttributeError, TypeError):
            raise PromptError(
                f"a prompt cannot hold a {type(token).__name__}",
                action="pass a str, a list of messages with role and content, or a list of token ids",
            ) from None
        if not 0 <= number < size and not (images is not None and images.knows(number)):
            raise PromptError(
                f"token id {number} is outside a vocabulary of {size} ids", action="check the ids"
            )
        checked.append(number)
    if not checked:
        raise PromptError("the prompt is empty", action="say what is wanted, in at least one token")
    return checked
