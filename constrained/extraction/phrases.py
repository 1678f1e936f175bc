"""Optional strings of a short text: which of its phrases each of them has, if any.

A small model that may leave members out hardly does: it writes one phrase into one member after another, or makes values up. Here each
string is a question behind the opening of an object, side by side with the others, and its options are the phrases of the text. A phrase
goes to the member in which it is most likely, and is then lost to the others. A member that wants no phrase is left to the model,
and so is one for which the model would begin with something else, as a large one may with the country of a city.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained.decisions import Decision, Question
from constrained.decisions.decision import decided
from constrained.decisions.evidence import Evidence, option_tree
from constrained.decisions.questions import leaf_members, member_question, without_null

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.sampling import Randomness
    from constrained.vocabulary import Vocabulary

LEAST = -7.0
"""Log-probability that a phrase has at least in a member that gets it, in nats."""
AGAIN = -1.5
"""The same of a phrase that another member has: one place may be both where something is sent and where the bill goes."""
CONFIDENT = 0.5
"""Probability of a token that begins no phrase, from which on the model has another value in mind."""
MOST_NODES = 1024
"""Tokens of all phrases in the pass over a prompt."""
_LONGEST, _SHORTEST = 8, 4
"""Words of the longest phrase, and where a text has too many phrases."""
_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_NO_MASS = 1e-30
_EDGES = "\"'“”‘’«»„()[].,;:!?"


@dataclass(frozen=True)
class PhraseQuestions:
    """The questions about the strings of one text.

    Attributes:
        questions: of each string member; `ABSENT` is the last option.
        optional: pointers of those that may be left out.
        places: by phrase, the words of the text that it has, for each time that it stands there.
    """

    questions: Sequence[Question]
    optional: frozenset[str]
    places: Mapping[str, Sequence[frozenset[int]]]

    def decide(
        self,
        evidence: Sequence[Evidence],
        known: Iterable[Any],
        temperature: float,
        randomness: Randomness,
    ) -> dict[str, Decision]:
        """The decisions about optional members by their pointers, without those that want no phrase.

        Args:
            evidence: for each question.
            known: values of other members; phrases among them are used.
            temperature: of draws; 0: greedy.
            randomness: for draws.
        """
        used = frozenset[int]()
        for value in known:
            used |= self._free(value, used) or frozenset()
        scores = [one.logprobs + math.log(max(one.mass, _NO_MASS)) for one in evidence]
        for row in scores:
            row[-1] = LEAST
        left = [
            index
            for index, row in enumerate(scores)
            if row.max() > LEAST and evidence[index].elsewhere < CONFIDENT
        ]
        found = {}
        while left:
            for index in left:
                self._take(scores[index], self.questions[index], used)
            index = max(left, key=lambda one: float(scores[one].max()))
            left.remove(index)
            question = self.questions[index]
            decision = decided(question, evidence[index], scores[index], temperature, randomness)
            if question.pointer in self.optional:
                found[question.pointer] = decision
            used |= self._free(decision.value, used) or frozenset()
        return found

    def _free(self, phrase: Any, used: frozenset[int]) -> frozenset[int] | None:
        """The words of a phrase in the first place where none of them is used."""
        return next((words for words in self.places.get(phrase, ()) if not words & used), None)

    def _take(self, scores: NDArray[np.float64], question: Question, used: frozenset[int]) -> None:
        """Rules phrases out whose words are used, but those that the member wants all the same."""
        for index in range(len(scores) - 1):
            if scores[index] < AGAIN and self._free(question.value(index), used) is None:
                scores[index] = -math.inf


def phrase_questions(constraint: Constraint, vocabulary: Vocabulary, text: str) -> PhraseQuestions | None:
    """The questions about a text; None where no string may be left out, or the text has too many phrases.

    Args:
        constraint: of the values.
        vocabulary: of the model.
        text: of the document.
    """
    schema = constraint.enforced_schema if constraint.is_json else None
    members = {path: may_miss for path, member, may_miss in leaf_members(schema) if _is_plain(member)}
    if len(members) < 2 or not any(members.values()) or _WITHOUT_SPACES.search(text):
        return None
    for longest in range(_LONGEST, _SHORTEST - 1, -1):
        places = _phrases(text, longest)
        if len(members) * len(places) > 2 * MOST_NODES:
            continue
        texts = [json.dumps(phrase, ensure_ascii=False) for phrase in places]
        pairs = [
            (member_question(constraint, texts, vocabulary, path, True), may_miss)
            for path, may_miss in members.items()
        ]
        asked = [question for question, _ in pairs if question is not None]
        if asked and len(option_tree(asked).tokens) <= MOST_NODES:
            optional = frozenset(one.pointer for one, may_miss in pairs if one is not None and may_miss)
            return PhraseQuestions(asked, optional, places)
    return None


def _is_plain(schema: Any) -> bool:
    """Whether a member is a string without bounds."""
    schema = without_null(schema)
    return (
        isinstance(schema, Mapping)
        and schema.get("type") == "string"
        and not set(schema) - {"type", "title", "description", "default"}
    )


def _phrases(text: str, longest: int) -> dict[str, list[frozenset[int]]]:
    """The runs of words of a text, with and without the punctuation around them, and the words of each place."""
    words = [match.span() for match in re.finditer(r"\S+", text)]
    found: dict[str, list[frozenset[int]]] = {}
    for first in range(len(words)):
        for last in range(first, min(first + longest, len(words))):
            whole = text[words[first][0] : words[last][1]]
            for phrase in dict.fromkeys((whole, whole.strip(_EDGES))):
                if phrase:
                    found.setdefault(phrase, []).append(frozenset(range(first, last + 1)))
    return found
