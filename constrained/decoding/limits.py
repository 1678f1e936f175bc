"""Token limit and seed of a call, checked before the first token."""

from __future__ import annotations

import difflib
import operator
import secrets
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from constrained.automaton.protocol import NO_LIMIT, shown_count
from constrained.errors import DoesNotFit, InvalidArgument, PromptTooLong
from constrained.models import LanguageModel
from constrained.sampling import LogitsWarper
from constrained.spec.noise import GumbelNoise

if TYPE_CHECKING:
    from constrained.automaton import Automaton

WARPER_SETTINGS = tuple(field.name for field in fields(LogitsWarper))
"""Settings of a call that reshape the model's distribution; see there."""

DEFAULT_TOKENS = 512
"""Default token limit (more if the shortest completion needs it, less if the context is shorter)."""


def check_max_tokens(automaton: Automaton, max_tokens: int | None, also: str = "") -> int:
    """The tokens of the shortest completion, which `max_tokens` can hold; None: `NO_LIMIT`.

    Args:
        automaton: of the constraint.
        max_tokens: the caller's limit.
        also: where else the limit has to be changed.

    Raises:
        DoesNotFit: it is longer.
    """
    needed = automaton.shortest_completion(automaton.start)
    limit = NO_LIMIT if max_tokens is None else max_tokens
    if needed > limit:
        which = "the shortest one" if automaton.counts_exactly(automaton.start) else "the shortest one found"
        longer = "" if needed > NO_LIMIT else f"max_tokens={needed} or more{also}, or "
        raise DoesNotFit(
            f"max_tokens={limit} cannot hold a complete text: {which} needs {shown_count(needed)} tokens",
            action=f"pass {longer}a constraint with shorter texts",
            needed=needed,
            limit=limit,
        )
    return needed


def token_limit(
    model: LanguageModel, automaton: Automaton, prompt_tokens: int, max_tokens: int | None
) -> int:
    """The token limit of a completion: at least the shortest completion, and within the model's context.

    Args:
        model: its context is an upper bound.
        automaton: its shortest completion has to fit.
        prompt_tokens: length of the prompt in tokens.
        max_tokens: the caller's limit, or None.

    Raises:
        InvalidArgument: `max_tokens` is not a whole number >= 0.
        PromptTooLong: prompt and shortest completion do not fit into the context.
        DoesNotFit: the shortest completion is longer than `max_tokens` or than the context.
    """
    allowed = None if max_tokens is None else nonnegative_int("max_tokens", max_tokens)
    needed = check_max_tokens(automaton, allowed)
    wanted = max(DEFAULT_TOKENS, 2 * needed) if allowed is None else allowed
    if model.context is None:
        return min(wanted, NO_LIMIT)
    if needed >= model.context:
        raise DoesNotFit(
            f"the shortest text of the constraint needs {shown_count(needed)} tokens, and the model reads {model.context} in all",
            action="pass a constraint with shorter texts, or use a model with a longer context",
            needed=needed,
            limit=model.context,
        )
    room = model.context - prompt_tokens
    if room < needed:
        raise PromptTooLong(
            f"the prompt has {prompt_tokens} tokens and the text needs {needed} or more: "
            f"the model reads {model.context} in all",
            action="shorten the prompt, split it, or use a model with a longer context",
        )
    return min(wanted, room, NO_LIMIT)


def check_names(settings: Iterable[str]) -> None:
    """Refuses settings of a call that do not exist.

    Raises:
        InvalidArgument: names the first unknown setting, and the most similar known one.
    """
    for name in settings:
        if name not in ("max_tokens", *WARPER_SETTINGS):
            if name in ("seed", "sequence"):
                raise InvalidArgument(
                    f"{name!r} is an argument of each call", action=f"call generator(prompt, {name}=...)"
                )
            known = ("max_tokens", "seed", "sequence", *WARPER_SETTINGS)
            similar = difflib.get_close_matches(name, known, 1)
            raise InvalidArgument(
                f"there is no setting {name!r}" + (f": did you mean {similar[0]!r}?" if similar else ""),
                action=f"use some of: {', '.join(known)}",
            )


def make_noise(seed: int | None, sequence: int, *, greedy: bool) -> GumbelNoise:
    """The Gumbel noise of one sequence; without a seed a fresh one is drawn (greedy decoding needs no noise).

    Raises:
        InvalidArgument: `seed` or `sequence` is not a whole number, or out of range.
    """
    if seed is None:
        # 53 bits: the seed is recorded in the results, and survives JSON.
        seed = 0 if greedy else secrets.randbits(53)
    return GumbelNoise(nonnegative_int("seed", seed, bits=64), nonnegative_int("sequence", sequence, bits=32))


def nonnegative_int(name: str, value: Any, *, bits: int | None = None) -> int:
    """`value` as an int >= 0.

    Raises:
        InvalidArgument: `value` is not a whole number >= 0, or needs more than `bits` bits.
    """
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if number < 0 or (bits is not None and number >> bits):
        wanted = "a whole number >= 0" if bits is None else f"a whole number in 0 .. 2**{bits} - 1"
        raise InvalidArgument(f"{name} is {value!r}", action=f"pass {wanted}")
    return number
