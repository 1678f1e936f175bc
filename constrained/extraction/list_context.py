"""`ListContext`: with what a model would begin the next record of a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.decisions.evidence import option_ends, option_tree, read_evidence
from constrained.decisions.questions import json_text, member_pointer, member_question
from constrained.decoding.prompt_reader import PromptReader
from constrained.decoding.stats import Stats
from constrained.extraction.phrases import PhraseQuestions
from constrained.models import Cache, Prompt

if TYPE_CHECKING:
    from constrained.decoding import Generator

Span = tuple[int, int]

LIKELY_NEXT = 0.25
"""Probability of all phrases of a sentence as an anchor, from which on it surely has a record, or another one."""
LEAST_SHARE = 0.03
"""Probability of an anchor, as a share of that of the likeliest one that comes later, from which on it is one of the list."""
LEAST_SHARE_SURE = 0.003
"""The same of an anchor that its sentence is sure of."""
_MOST_IN_SENTENCE = 16


class ListContext:
    """Reads texts behind the prompt for a whole value, and the anchors of the records so far.

    Attributes:
        pointer: JSON Pointer of the anchor in a record.
    """

    def __init__(
        self, whole: Generator[Any], prompt: Callable[[str], Prompt], name: str | None, anchor: str
    ) -> None:
        """Nothing is read yet.

        Args:
            whole: writes values of the type.
            prompt: of a text for a whole value.
            name: of the member that is the list; None: the type is the list.
            anchor: the member with which records begin.
        """
        self.pointer = member_pointer([anchor])
        self._model, self._constraint, self._prompt = whole.model, whole.constraint, prompt
        self._name, self._anchor = name, anchor
        self._head: Cache | None = None
        self._shared = 0

    def anchors(self, text: str, first: str, used: Sequence[Any]) -> list[Span]:
        """Where the anchors of the records of a sentence stand.

        Args:
            text: of the sentence.
            first: the anchor that is taken where the model has none in mind; "": none.
            used: values of other members; their words are no part of an anchor.
        """
        found, places = list[str](), dict[str, Span]()
        reader = self._read(text)
        while len(found) < _MOST_IN_SENTENCE:
            phrases = PhraseQuestions(
                self._constraint, self._model.vocabulary, text, {(self._anchor,): False}, self._written(found)
            )
            (lead,) = phrases.leads.paths
            phrases.choose([reader.rows(phrases.leads, len(lead) - 2)[lead[-1]]()])
            evidence = phrases.evidence(reader) if phrases.questions else []
            decided = phrases.decide(evidence, [*used, *found], self._model, 0.0, None)
            decision = decided.get(self.pointer)
            anchor = "" if found else first
            if decision is not None and decision.mass >= LIKELY_NEXT:
                anchor = str(decision.value)
            at = text.find(anchor, places[anchor][1] if anchor in places else 0)
            if at < 0 or not any(map(str.isalpha, anchor)):
                break
            places[anchor] = at, at + len(anchor)
            found.append(anchor)
        return sorted(places.values())

    def confirmed(self, text: str, found: Sequence[tuple[str, bool]]) -> list[bool]:
        """Which anchors the model would write behind those before them, and does not pass over for a later one.

        What begins a record in a sentence alone may be no record in the text: a pronoun, or a place that is near.

        Args:
            text: of the document.
            found: anchors in their order, each with whether it is sure.
        """
        anchors = [anchor for anchor, _ in found]
        kept: list[bool] = []
        reader = self._read(text)
        scores: dict[str, float] = {}
        for number, (anchor, is_sure) in enumerate(found):
            if not scores:
                before = self._written([one for one, is_kept in zip(anchors, kept, strict=False) if is_kept])
                scores = self._scores(reader, anchors[number:], before)
            later = max((scores[one] for one in anchors[number + 1 :]), default=0.0)
            kept.append(scores[anchor] >= (LEAST_SHARE_SURE if is_sure else LEAST_SHARE) * later)
            scores = {} if kept[-1] else scores
        return kept

    def _scores(self, reader: PromptReader, anchors: Sequence[str], before: str) -> dict[str, float]:
        """The probability that the next record begins with each of some anchors."""
        texts = [json_text(one) for one in dict.fromkeys(anchors)]
        question = member_question(
            self._constraint, texts, self._model.vocabulary, [self._anchor], True, before
        )
        assert question is not None  # there are an anchor and `ABSENT`
        scores = reader.scores(option_tree([question]), option_ends([question]))
        (evidence,) = read_evidence(scores, [question])
        shares = np.exp(evidence.totals[: len(texts)])  # without that of `ABSENT`
        return dict(zip(dict.fromkeys(anchors), map(float, shares), strict=True))

    def _written(self, anchors: Sequence[str]) -> str:
        """The value as far as the records with some anchors, as a model writes it; nothing but these is in them."""
        constraint: Any = self._constraint
        between, behind_name = constraint.separators
        opening = "" if self._name is None else "{" + json_text(self._name) + behind_name
        records = ("{" + json_text(self._anchor) + behind_name + json_text(one) + "}" for one in anchors)
        return opening + "[" + "".join(one + between for one in records)

    def _read(self, text: str) -> PromptReader:
        """Reads behind the prompt of a text. What all prompts begin with is read once."""
        prompt = self._model.encode(self._prompt(text))
        if self._head is None:
            other = self._model.encode(self._prompt("."))
            pairs = zip(prompt[:-1], other, strict=False)
            self._shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            self._head = self._model.cache(1)
            self._model.forward([prompt[: self._shared]], self._head)
        row = self._head.fork([0])
        self._model.forward([prompt[self._shared :]], row)
        return PromptReader(self._model, row, Stats())
