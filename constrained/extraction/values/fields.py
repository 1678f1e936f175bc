"""How sure the model was of each value of an extraction.

The probabilities come from one pass of the model over prompt and completion, made when they are first asked for: the
decoding loop, which is shared with everything else, records nothing for them. A model that reads one token at a time
takes one pass a token.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.bitmask import unpack_ids
from constrained.extraction.values.json_places import scalar_places
from constrained.spec.scores import log_sum_exp

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.models import LanguageModel

_CHUNK = 128
"""Tokens of one pass: the attention mask of a draft tree grows with their number times the context."""
_ALTERNATIVES = 5
DERAILED = 0.05
"""Probability of the allowed tokens under which a value is no longer the model's."""
_BEGINNING = 3
"""Tokens of a value that say whether it is."""


@dataclass(frozen=True, slots=True)
class FieldProbability:
    """How likely a value is, given what stands before it.

    Attributes:
        value: the scalar, as in JSON.
        logprob: log-probability in nats of the tokens that write it, among the tokens that the constraint allowed, at
            temperature 1. Tokens that follow by the constraint alone count 0. A token that also writes a part of a
            neighbour counts for both; the token that ends a number is part of it.
        choice: the text of the first of these tokens for which the constraint left a choice; "" if there was none.
        others: probability of all other tokens there, 0 to 1.
        allowed: probability, without the constraint, of all tokens that it allowed where the value begins: the least of the first
            three tokens that write it. A small one says that the model wanted to write something else.
        alternatives: the most likely of the others: text and probability. Another token need not lead to another value.
    """

    value: Any
    logprob: float
    choice: str
    others: float
    alternatives: tuple[tuple[str, float], ...]
    allowed: float = 1.0

    @property
    def derailed(self) -> bool:
        """Whether the constraint left the model little of what it wanted to write: `allowed` is under `DERAILED`."""
        return self.allowed < DERAILED

    @property
    def probability(self) -> float:
        """exp(`logprob`)."""
        return math.exp(self.logprob)


def score_fields(
    model: LanguageModel,
    automaton: Automaton,
    prompt: Sequence[int],
    tokens: Sequence[int],
    *,
    is_json: bool = True,
    ended: bool = False,
) -> dict[str, FieldProbability]:
    """The probability of every scalar of a completion.

    Args:
        model: wrote the completion.
        automaton: of its constraint.
        prompt: token ids, at least one.
        tokens: ids of the completion.
        is_json: whether the completion is JSON; otherwise it is one value.
        ended: whether the model chose to end the completion there.

    Returns:
        By JSON Pointer, in the order of the completion.
    """
    vocabulary = automaton.vocabulary
    pieces = [vocabulary.tokens[token] for token in tokens]
    text = b"".join(pieces).decode("utf-8", "replace")
    places = scalar_places(text) if is_json else {"": (0, len(text), text)}
    ends = list(accumulate(map(len, pieces)))
    draws = _draws(model, automaton, prompt, tokens, ended)
    offsets = [0, *accumulate(len(char.encode()) for char in text)]
    found = {}
    for pointer, (start, end, value) in places.items():
        first, last = offsets[start], offsets[end]
        inside = [i for i, stop in enumerate(ends) if stop > first and stop - len(pieces[i]) < last]
        open_ended = not is_json or (isinstance(value, (int, float)) and not isinstance(value, bool))
        behind = inside[-1] + 1 if inside else 0
        if open_ended and behind < len(draws) and (not inside or ends[inside[-1]] == last):
            inside.append(behind)  # where it ends is part of the value
        chosen = [draws[i] for i in inside]
        # The token of an opening quote says nothing about the value yet.
        content = first + 1 if isinstance(value, str) and is_json else first
        choice = next(
            (draws[i] for i in inside if draws[i].allowed > 1 and (i == len(tokens) or ends[i] > content)),
            None,
        )
        found[pointer] = FieldProbability(
            value,
            sum(draw.logprob for draw in chosen),
            "" if choice is None else _text(choice.token, automaton),
            0.0 if choice is None else max(0.0, -math.expm1(choice.logprob)),
            ()
            if choice is None
            else tuple((_text(token, automaton), probability) for token, probability in choice.others),
            min((draw.mass for draw in chosen[:_BEGINNING]), default=1.0),
        )
    return found


def projection_tax(
    model: LanguageModel,
    automaton: Automaton,
    prompt: Sequence[int],
    tokens: Sequence[int],
    *,
    ended: bool = False,
) -> float:
    """What a constraint cost: -log, in nats, of the mass that it left of the model's distribution, over all tokens.

    Args:
        model: wrote the completion.
        automaton: of its constraint.
        prompt: token ids, at least one.
        tokens: ids of the completion.
        ended: as of `score_fields`.
    """
    draws = _draws(model, automaton, prompt, tokens, ended)
    return -sum(math.log(max(draw.mass, sys.float_info.min)) for draw in draws)


@dataclass(frozen=True, slots=True)
class _Draw:
    token: int
    logprob: float
    allowed: int
    others: tuple[tuple[int, float], ...]
    mass: float = 1.0


def _draws(
    model: LanguageModel, automaton: Automaton, prompt: Sequence[int], tokens: Sequence[int], ended: bool
) -> list[_Draw]:
    """Each token of a completion with its log-probability among the allowed ones, and the likeliest others.

    Where the model ended the completion, the last draw is its end of sequence: of several, all of them together.
    """
    draws: list[_Draw] = []
    state = automaton.start
    mask = automaton.new_mask()
    ends = list(automaton.vocabulary.eos_ids)
    drawn = [[token] for token in tokens] + ([ends] if ended else [])
    for row, same in zip(_rows(model, prompt, tokens, ended), drawn, strict=True):
        if automaton.expensive_membership:
            allowed = np.arange(automaton.vocabulary.size)  # a predicate would be called for each token
        else:
            automaton.fill_mask(state, mask)
            allowed = unpack_ids(mask)
        scores = row.astype(np.float64)
        mass = math.exp(min(0.0, log_sum_exp(scores[allowed]) - log_sum_exp(scores)))
        draws.append(replace(_draw(scores[allowed], allowed, same), mass=mass))
        if len(draws) < len(drawn):
            state = automaton.next(state, same[0])
    return draws


def _draw(logits: NDArray[np.float64], allowed: NDArray[np.integer[Any]], drawn: list[int]) -> _Draw:
    """The draw of one of some tokens with the same meaning; `logits` are those of the allowed tokens."""
    is_drawn = np.isin(allowed, drawn)
    choices = int(np.count_nonzero(~is_drawn)) + 1
    top = float(logits.max())
    if choices == 1 or top == -math.inf:  # nothing else can follow, or the model excludes whatever can
        return _Draw(drawn[0], 0.0 if choices == 1 else -math.inf, choices, ())
    logits -= top + math.log(float(np.exp(logits - top).sum()))
    best = np.argsort(-logits, kind="stable")[: _ALTERNATIVES + len(drawn)]
    others = [(int(allowed[i]), float(np.exp(logits[i]))) for i in best if not is_drawn[i]]
    with np.errstate(divide="ignore"):
        logprob = (
            float(np.log(np.exp(logits[is_drawn]).sum())) if len(drawn) > 1 else float(logits[is_drawn][0])
        )
    return _Draw(drawn[0], min(logprob, 0.0), choices, tuple(others[:_ALTERNATIVES]))


def _rows(
    model: LanguageModel, prompt: Sequence[int], tokens: Sequence[int], ended: bool
) -> Iterator[NDArray[np.floating[Any]]]:
    """The logits before each token of a completion, and before its end; of one pass at a time, as rows are wide."""
    rest = list(tokens if ended else tokens[:-1])
    if not tokens and not ended:
        return
    cache = model.cache(1)
    yield model.forward([list(prompt)], cache)[0]
    if model.no_trees is not None and model.no_chains is not None:
        for token in rest:
            yield model.forward([[token]], cache)[0]
        return
    for begin in range(0, len(rest), _CHUNK):
        part = rest[begin : begin + _CHUNK]
        (read,) = model.forward_trees([part], [list(range(-1, len(part) - 1))], [0], cache)
        yield from read
        cache.keep_paths([0], [list(range(len(part)))])


def _text(token: int, automaton: Automaton) -> str:
    if token in automaton.vocabulary.eos_ids:
        return "(end)"
    return automaton.vocabulary.tokens[token].decode("utf-8", "backslashreplace")


def by_doubt(fields: Mapping[str, FieldProbability]) -> list[tuple[str, FieldProbability]]:
    """The fields, first those that the model would least have written by itself."""
    return sorted(fields.items(), key=lambda item: item[1].logprob + math.log(max(item[1].allowed, 1e-30)))
