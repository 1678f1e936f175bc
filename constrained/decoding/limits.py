"""How long a text may get, and how a call is seeded: checked before the first token."""

from __future__ import annotations

import operator
import secrets
from typing import TYPE_CHECKING, Any

from constrained.errors import DoesNotFit, InvalidArgument, PromptTooLong
from constrained.models import LanguageModel
from spec.noise import GumbelNoise

if TYPE_CHECKING:
    from constrained.automaton import Automaton

DEFAULT_TOKENS = 512
"""Limit of a call that does not name one (more if the shortest text needs it, less if the context ends)."""


def token_limit(
    model: LanguageModel, automaton: Automaton, prompt_tokens: int, max_tokens: int | None
) -> int:
    """Greatest number of tokens of a text, so that a complete text fits into it and into the model's context.

    Args:
        model: gives the context.
        automaton: gives the length of the shortest complete text.
        prompt_tokens: length of the prompt.
        max_tokens: what the caller allows; where the context ends sooner, that counts.

    Raises:
        InvalidArgument: `max_tokens` is no whole number >= 0.
        PromptTooLong: prompt and shortest text do not fit into the context.
        DoesNotFit: the shortest text is longer than `max_tokens`.
    """
    needed = automaton.shortest_completion(automaton.start)
    allowed = None if max_tokens is None else nonnegative_int("max_tokens", max_tokens)
    if allowed is not None and allowed < needed:
        raise DoesNotFit(
            f"max_tokens={allowed} cannot hold a complete text: the shortest one needs {needed} tokens",
            action=f"pass max_tokens={needed} or more, or a constraint with shorter texts",
            needed=needed,
            limit=allowed,
        )
    wanted = max(DEFAULT_TOKENS, 2 * needed) if allowed is None else allowed
    if model.context is None:
        return wanted
    room = model.context - prompt_tokens
    if room < needed:
        raise PromptTooLong(
            f"the prompt has {prompt_tokens} tokens and the text needs {needed} or more: "
            f"the model reads {model.context} in all",
            action="shorten the prompt, split it, or use a model with a longer context",
        )
    return min(wanted, room)


def make_noise(seed: int | None, sequence: int, *, greedy: bool) -> GumbelNoise:
    """The noise of one text; without a seed a fresh one is drawn (greedy texts use none).

    Raises:
        InvalidArgument: not a whole number, or out of range.
    """
    if seed is None:
        # 53 bits: the seed is recorded in the results, and survives JSON.
        seed = 0 if greedy else secrets.randbits(53)
    return GumbelNoise(nonnegative_int("seed", seed, bits=64), nonnegative_int("sequence", sequence, bits=32))


def nonnegative_int(name: str, value: Any, *, bits: int | None = None) -> int:
    """`value` as an int >= 0.

    Raises:
        InvalidArgument: it is none, or needs more than `bits` bits.
    """
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if number < 0 or (bits is not None and number >> bits):
        wanted = "a whole number >= 0" if bits is None else f"a whole number in 0 .. 2**{bits} - 1"
        raise InvalidArgument(f"{name} is {value!r}", action=f"pass {wanted}")
    return number
