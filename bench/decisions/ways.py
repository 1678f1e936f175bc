"""An item answered in one of five ways, by one model.

A way is made ready for an item, which is not timed, and then answers it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from string import ascii_uppercase
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from constrained.bench.decisions.settings import LETTERS, MASKS, ONE_BY_ONE, SUBTRACT
from constrained.bench.values.items import ValueItem
from constrained.decisions import Question
from constrained.decoding import Generator
from constrained.errors import InvalidArgument
from constrained.extraction.decider import Decider
from constrained.extraction.prompt import PromptParts, extraction_prompt
from constrained.models import LanguageModel
from constrained.spec.scores import log_sum_exp

_MAX_TOKENS = 192
"""Of a text that masks write."""
_LEAST = float(np.finfo(np.float64).tiny)
"""Probabilities below have no logarithm."""


@dataclass(frozen=True, slots=True)
class FieldAnswer:
    """The answer to one question.

    Attributes:
        pointer: of the member; "": the whole value.
        right: index of the value that is right, among those of the options.
        picked: of the value that was taken; None: there is no answer.
        logprobs: of the values, in nats; empty where a way gives none.
    """

    pointer: str
    right: int
    picked: int | None
    logprobs: Sequence[float] = ()


WayCall = Callable[[], list[FieldAnswer]]


def prepare(way: str, model: LanguageModel, item: ValueItem) -> WayCall:
    """A call that answers the questions of an item.

    Args:
        way: out of `constrained.bench.decisions.settings.WAYS`.
        model: answers.
        item: of `constrained.bench.decisions.items`.
    """
    prior: Literal["subtract", "none"] = "subtract" if way == SUBTRACT else "none"
    decider: Decider[Any] = Decider(model, item.constraint, instructions=item.instructions, prior=prior)
    if way == MASKS:
        return partial(_written, decider, Generator(model, item.constraint, sampler="local"), item)
    if way == LETTERS:
        return partial(_lettered, model, [_letter_prompt(decider, one, item) for one in decider.questions])
    return partial(_scored_one_by_one if way == ONE_BY_ONE else _decided, decider, item)


def _decided(decider: Decider[Any], item: ValueItem) -> list[FieldAnswer]:
    fields = decider(item.text).fields
    found = []
    for question in decider.questions:
        shares = np.array(list(fields[question.pointer].probabilities.values()))
        found.append(_answer(question, item, np.log(np.maximum(shares, _LEAST))))
    return found


def _scored_one_by_one(decider: Decider[Any], item: ValueItem) -> list[FieldAnswer]:
    model = decider.model
    begun = model.cache(1)
    first = model.forward([decider.ids(item.text)], begun)
    found = []
    for question in decider.questions:
        totals = []
        for option in question.options:
            parents = [range(-1, len(option.tokens) - 1)]
            (rows,) = model.forward_trees([option.tokens], parents, [0], begun.fork([0]))
            logs = [_log_softmax(row) for row in (first[0], *rows)]
            steps = [row[token] for row, token in zip(logs, option.tokens, strict=False)]
            ended = 0.0 if option.ends is None else log_sum_exp(logs[-1][option.ends])
            totals.append(sum(steps) + ended)
        places = np.array([_index(question, question.value(i)) for i in range(len(totals))])
        logprobs = _log_softmax(np.array(totals))
        merged = [log_sum_exp(logprobs[places == place]) for place in range(places.max() + 1)]
        found.append(_answer(question, item, np.array(merged)))
    return found


def _written(decider: Decider[Any], generator: Generator[Any], item: ValueItem) -> list[FieldAnswer]:
    output = generator(decider.ids(item.text), max_tokens=_MAX_TOKENS, temperature=0.0)
    written = json.loads(output.text) if decider.constraint.is_json else output.text
    found = []
    for question in decider.questions:
        picked = _index(question, written)
        found.append(FieldAnswer(question.pointer, _right(question, item), picked))
    return found


# ---------------------------------------------------------------- letters


def _lettered(
    model: LanguageModel, asked: Sequence[tuple[Question, ValueItem, list[int], list[int]]]
) -> list[FieldAnswer]:
    found = []
    for question, item, prompt, letters in asked:
        row = model.forward([prompt], model.cache(1))[0]
        found.append(_answer(question, item, _log_softmax(row[letters])))
    return found


def _letter_prompt(
    decider: Decider[Any], question: Question, item: ValueItem
) -> tuple[Question, ValueItem, list[int], list[int]]:
    """The question with a prompt that has its options behind letters, and the tokens of the letters."""
    model = decider.model
    values = _values(question)
    named = list(islice(_letters(model), len(values)))
    if len(named) < len(values):
        raise InvalidArgument(
            f"the vocabulary has {len(named)} letters that are one token, for {len(values)} options",
            action="leave the way letters out by --ways",
        )
    listed = "\n".join(f"{letter}. {_shown(value)}" for (letter, _), value in zip(named, values, strict=True))
    of = f"right value of {question.pointer[1:]}" if question.pointer else "right one"
    head = f"Read the text below. Answer with the letter of the {of} only:\n{listed}"
    parts = PromptParts(
        template=lambda _, text: f"{head}\n\nInstructions:\n{item.instructions}\n\nText:\n{text}"
    )
    prompt = model.encode(extraction_prompt(item.text, decider.constraint, parts))
    return question, item, prompt, [token for _, token in named]


def _shown(value: Any) -> str:
    if value is None:
        return "not said"
    return value if isinstance(value, str) else json.dumps(value)


def _letters(model: LanguageModel) -> Iterator[tuple[str, int]]:
    """A, B, ... Z, AA, AB, ... that are one token, with it."""
    for size in (1, 2):
        for letters in product(ascii_uppercase, repeat=size):
            name = "".join(letters)
            tokens = model.vocabulary.encode(name)
            if len(tokens) == 1:
                yield name, tokens[0]


# ---------------------------------------------------------------- answers


def _answer(question: Question, item: ValueItem, logprobs: NDArray[np.float64]) -> FieldAnswer:
    return FieldAnswer(question.pointer, _right(question, item), int(np.argmax(logprobs)), logprobs.tolist())


def _right(question: Question, item: ValueItem) -> int:
    """Index of the option that is right.

    Raises:
        InvalidArgument: no option is.
    """
    found = _index(question, item.gold)
    if found is None:
        raise InvalidArgument(f"{item.id}: {item.gold!r} is none of the options", action="correct the data")
    return found


def _index(question: Question, value: Any) -> int | None:
    """Index in `_values` of a value; of an object of its member."""
    if question.pointer and isinstance(value, Mapping):
        value = value.get(question.pointer[1:])
    known = [json.dumps(one) for one in _values(question)]
    return known.index(json.dumps(value)) if json.dumps(value) in known else None


def _values(question: Question) -> list[Any]:
    """The values of the options, each once: several texts may write one. None: the member is left out."""
    values = (question.value(index) for index in range(len(question.options)))
    return list({json.dumps(value): value for value in values}.values())


def _log_softmax(row: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    logs = row.astype(np.float64)
    found: NDArray[np.float64] = logs - log_sum_exp(logs)
    return found
