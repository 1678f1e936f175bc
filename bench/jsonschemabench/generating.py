"""A text under an engine, with the time of its first token and of the others; greedy, by the same model for all."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from constrained.automaton.bitmask import unpack_ids
from constrained.bench.masks.engines.base import CompiledSchema, EngineFault
from constrained.bench.masks.engines.text import MaskedSequence
from constrained.constraint import Constraint, json_schema
from constrained.decoding import Generator
from constrained.errors import DoesNotFit, PromptTooLong
from constrained.models import LanguageModel
from constrained.prompting import schema_text as prompts
from constrained.sampling import Local

_CHARACTERS = (4000, 2000, 1000, 400, 100)
"""Of the description of a schema in a prompt, at most."""


@dataclass(frozen=True, slots=True)
class TimedCompletion:
    """A text.

    Attributes:
        text: as far as it came.
        tokens: how many.
        complete: the engine let the model end it, or closed it in time.
        cut: the limit changed or ended it.
        first_seconds, token_seconds: see `Row`.
    """

    text: str
    tokens: int
    complete: bool
    cut: bool
    first_seconds: float | None
    token_seconds: float | None


def request_text(schema: Any, characters: int) -> str:
    """What every engine is asked, with a description of the schema in so many characters at most."""
    described = prompts.schema_to_text(schema, max_chars=characters)
    return f"Answer with JSON only, of this type:\n{described}"


def prompt_for(schema: Any, encode: Callable[[str], list[int]], context: int | None, room: int) -> list[int]:
    """The prompt for a schema, the same for every engine: shortened until `room` tokens of the context are left for the text."""
    ids: list[int] = []
    for characters in _CHARACTERS:
        ids = encode(request_text(schema, characters))
        if context is None or len(ids) + room <= context:
            break
    return ids


def generate_constrained(generator: Generator, prompt: list[int], limit: int) -> TimedCompletion:
    """This library: its own loop, which closes every text within the limit and tells where."""
    began = time.perf_counter()
    first = last = None
    try:
        for chunk in generator.stream(prompt, max_tokens=limit):
            last = time.perf_counter()
            first = first or last
            output = chunk.output
    except (DoesNotFit, PromptTooLong):
        return TimedCompletion("", 0, False, True, None, None)
    assert output is not None
    return _timed(output.text, len(output.tokens), True, output.cut is not None, began, first, last)


def generate_with_masks(
    model: LanguageModel, compiled: CompiledSchema, prompt: list[int], limit: int
) -> TimedCompletion:
    """Another engine: its masks on the logits, as its logits processor applies them.

    Raises:
        EngineFault: nothing is allowed, or the engine complains.
    """
    vocabulary = model.vocabulary
    masked = MaskedSequence(compiled, vocabulary)
    began = time.perf_counter()
    first = last = None
    cache = model.cache(1)
    unread, complete = prompt, False
    tokens: list[int] = []
    while len(tokens) <= limit:
        logits = model.forward([unread], cache)[0]
        allowed = unpack_ids(masked.fill()[0])
        allowed = allowed[allowed < vocabulary.size]
        if not len(allowed):
            raise EngineFault("the mask allows nothing")
        token = int(allowed[np.argmax(logits[allowed])])
        last = time.perf_counter()
        first = first or last
        if token in vocabulary.eos_ids:
            complete = True
            break
        if len(tokens) == limit:
            break
        tokens.append(token)
        masked.commit(token)
        unread = [token]
    text = vocabulary.decode(tokens).decode("utf-8", "replace")
    return _timed(text, len(tokens), complete, not complete, began, first, last)


def compile_constrained(model: LanguageModel, schema: Any) -> Generator:
    """This library's compiled schema, read a token at a time, as the other engines' are."""
    constraint: Constraint = json_schema(schema)
    # As the other engines do, it spends no pass on an end that must come.
    return Generator(model, constraint, sampler=Local(ends="certain"), speculation=None)


def _timed(
    text: str, tokens: int, complete: bool, cut: bool, began: float, first: float | None, last: float | None
) -> TimedCompletion:
    if first is None or last is None:
        return TimedCompletion(text, tokens, complete, cut, None, None)
    rest = (last - first) / (tokens - 1) if tokens > 1 else None
    return TimedCompletion(text, tokens, complete, cut, first - began, rest)
