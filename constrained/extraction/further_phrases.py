"""Lists of strings, and strings that got no phrase: asked one after the other, each behind what is decided already.

A small model that writes a list goes on where the text says nothing more: it writes what goes well with the items, or one of them again.
Here each item is a question of its own, behind the members that are decided already and the items so far: it is a phrase of the text that
nothing else has, or the list ends. A list for which the text has no first item is left to a model that writes lists right
(`constrained.extraction.trial`); it is empty where the model is a small one, which would make items up.

A required string that got no phrase beside the others (`constrained.extraction.phrases`) is asked for in the same way: what the others have
is no option any more, and the model sees it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from constrained.decisions import ABSENT, Decision
from constrained.decisions.decision import decided
from constrained.decisions.questions import json_text, leaf_members, member_pointer
from constrained.extraction.chunks import ANDS
from constrained.extraction.named_lists import plain_list
from constrained.extraction.phrases import (
    CONFIDENT,
    WORD,
    PhraseQuestions,
    by_member,
    is_plain_string,
    joined,
    reads_phrases,
)
from constrained.grammars.text.quantities import find_quantities
from constrained.sampling.token_tree import ROOT
from constrained.spec.scores import log_sum_exp

if TYPE_CHECKING:
    from constrained.decoding.prompt_reader import PromptReader
    from constrained.extraction.optional_objects import Presence
    from constrained.sampling import Randomness
    from constrained.vocabulary import Vocabulary

LEAST_STRING = -6.0
"""Log-probability that a phrase has at least as a string, in nats."""
LEAST_FIRST = -6.0
"""The same as the first item of a list."""
LEAST = -4.0
"""The same as a further item, that there is one and that it is this one; or as the first one of a list that may be left out."""
ENUMERATED = 2.0
"""What a phrase gains that stands in an enumeration with the items so far or, as the first one, with anything."""
QUANTITY = -3.0
"""What a number or a date gains as an item: it loses."""
LEAST_FREE = 0.01
"""Probability that a string has at least to begin with none of the words that other members have."""
LIKELY_END = -0.7
"""Log-probability that a list goes on, in nats, below which it ends where no enumeration goes on."""
_JOINS = {*ANDS, "&", "or", "oder", "ou", "o"}
"""Words between the last two items of an enumeration."""
MOST_ITEMS = 32
"""Items of a list that is read like this; the model writes a longer one."""


@dataclass(frozen=True)
class StringList:
    """A member whose values are lists of strings.

    Attributes:
        path: the names of the objects around it and its own.
        may_miss: whether it may be left out.
        least, most: number of items.
    """

    path: tuple[str, ...]
    may_miss: bool
    least: int
    most: int


class _PhraseItem(NamedTuple):
    """A phrase, and the numbers of the words of each place where it stands."""

    decision: Decision
    places: Sequence[frozenset[int]]


class FurtherPhrases:
    """The lists of strings of the values for one text, and the strings that must be there and got no phrase."""

    def __init__(
        self, constraint: Any, vocabulary: Vocabulary, text: str, writes_lists: Callable[[], bool]
    ) -> None:
        """Nothing is asked yet.

        Args:
            constraint: of the values.
            vocabulary: of the model.
            text: of the document.
            writes_lists: whether the model writes a list for which the text has no item.
        """
        self._constraint, self._vocabulary, self._text = constraint, vocabulary, text
        self._writes_lists = writes_lists
        self._words = WORD.findall(text)
        schema = constraint.enforced_schema if constraint.is_json else None
        members = list(leaf_members(schema, nullable=True))
        self._paths = [path for path, _, _ in members]
        asked = members if len(self._words) > 1 and reads_phrases(text) else ()
        lists = (_string_list(path, member, may_miss) for path, member, may_miss in asked)
        self._lists = {one.path: one for one in lists if one is not None}
        strings = [(path, may_miss) for path, member, may_miss in asked if is_plain_string(member)]
        self._strings = {member_pointer(path) for path, _ in strings}
        self._required = {member_pointer(path) for path, may_miss in strings if not may_miss}

    def __bool__(self) -> bool:
        """Whether there is anything to ask."""
        return bool(self._lists or self._required)

    def decide(
        self,
        known: Mapping[str, str],
        said: Sequence[str],
        there: Presence,
        reader: PromptReader,
        temperature: float,
        randomness: Randomness | None,
    ) -> tuple[dict[str, Any], dict[str, Decision]]:
        """Reads the members one after the other.

        Args:
            known: the JSON texts of other members, by JSON Pointer.
            said: what the text may say for them, besides strings.
            there: the objects that may be left out.
            reader: reads behind the prompt.
            temperature: of draws; 0: greedy.
            randomness: for draws.

        Returns:
            By JSON Pointer, the values of members, and the decisions about strings and items of lists. None: a list is left out.
        """
        texts, values, decisions = dict(known), dict[str, Any](), dict[str, Decision]()
        for path in self._paths:
            pointer = member_pointer(path)
            is_string = pointer in self._required or pointer in there.needed & self._strings
            if pointer in texts or there.hides(pointer) or not (is_string or path in self._lists):
                continue
            ask = partial(self._ask, reader, texts, said, temperature, randomness)
            before = self._opening(path, texts)
            if is_string:
                item = ask(before, None, LEAST_STRING)
                if item is not None:
                    one = decisions[pointer] = item.decision
                    values[pointer], texts[pointer] = one.value, one.text
                continue
            wanted, items = self._lists[path], list[_PhraseItem]()
            while len(items) < min(wanted.most, MOST_ITEMS):
                item = ask(before + "[", items, LEAST if items or wanted.may_miss else LEAST_FIRST)
                if item is None:
                    break
                items.append(item)
            if not items and self._writes_lists():
                continue
            if not items and wanted.may_miss and pointer not in there.needed:
                values[pointer] = None
            elif wanted.least <= len(items) < MOST_ITEMS:
                items.sort(key=lambda item: min(map(min, item.places)))  # as the text has them
                values[pointer] = [item.decision.value for item in items]
                texts[pointer] = json.dumps(
                    values[pointer], ensure_ascii=False, separators=self._constraint.separators
                )
                decisions |= {f"{pointer}/{number}": item.decision for number, item in enumerate(items)}
        return values, decisions

    def _ask(
        self,
        reader: PromptReader,
        texts: Mapping[str, str],
        said: Sequence[str],
        temperature: float,
        randomness: Randomness | None,
        before: str,
        items: Sequence[_PhraseItem] | None,
        least: float,
    ) -> _PhraseItem | None:
        """The phrase behind some text and, in a list, its items so far; None where there is none.

        Args:
            reader: reads behind the prompt.
            texts: the JSON texts of members that are known.
            said: see `decide`.
            temperature: of draws.
            randomness: for draws.
            before: what is written.
            items: of a list; None: it is none.
            least: log-probability that a phrase has at least, in nats.
        """
        between, _ = self._constraint.separators
        begun = before + between.join(item.decision.text for item in items or ())
        values = [json.loads(text) for text in texts.values()]
        used = [*said, *(one for value in values for one in (value if isinstance(value, list) else [value]))]
        found = [item.decision.value for item in items or ()]
        goes_on = None if items is None else {word for item in items for word in self._following(item)}
        phrases = PhraseQuestions(
            self._constraint,
            self._vocabulary,
            self._text,
            {(): False},
            begun + between * bool(items),
            [*used, *found],
            goes_on,
        )
        (lead,) = phrases.leads.paths
        rows = reader.rows(phrases.leads, len(lead) - 2)
        if items:
            node = self._node(phrases, len(begun.encode()) - 1)
            chance = 0.0 if node not in rows else self._goes_on(rows[node]())
            if chance < LIKELY_END and not goes_on:
                return None
            least -= chance
        row = rows[lead[-1]]()
        phrases.choose([row])
        if not phrases.questions:
            return None
        (question,), (evidence,) = by_member(phrases.questions, phrases.evidence(reader))
        if evidence.elsewhere >= CONFIDENT and not phrases.begins_word(evidence.likeliest):
            return None
        # Of the strings that do not begin as what another member has.
        free = math.log(max(LEAST_FREE, 1.0 - phrases.used_share(row)))
        totals = joined(question, evidence.totals) - free
        scores = np.append(totals[:-1], least)
        for index in range(len(totals) - 1):
            value = question.value(index)
            places = phrases.free_places(value)
            if not places or value in found:
                scores[index] = -math.inf
            elif items is not None:
                scores[index] += self._gain(value, places, items)
        evidence = replace(evidence, mass=float(np.exp(min(0.0, log_sum_exp(totals[:-1])))))
        decision = decided(question, evidence, scores, temperature, randomness)
        return None if decision.text == ABSENT else _PhraseItem(decision, phrases.free_places(decision.value))

    @cached_property
    def _dates(self) -> set[str]:
        """The dates of the text, as it writes them."""
        dates = find_quantities(self._text).dates.values()
        return {self._text[slice(*place)] for places in dates for place in places}

    def _gain(self, value: str, places: Sequence[Collection[int]], items: Sequence[_PhraseItem]) -> float:
        """What the place of a phrase, and what it is, say for it as an item, in nats."""
        gain = QUANTITY if value in self._dates or not any(map(str.isalpha, value)) else 0.0
        if not items:
            return gain + ENUMERATED * any(self._follows(max(place)) for place in places)
        others = [one for item in items for one in item.places]
        is_next = any(
            min(place) in self._follows(max(one)) or min(one) in self._follows(max(place))
            for place in places
            for one in others
        )
        return gain + ENUMERATED * is_next

    def _following(self, item: _PhraseItem) -> Iterator[int]:
        """The words with which the next item of an enumeration may begin."""
        for place in item.places:
            yield from (word for word in self._follows(max(place)) if word < len(self._words))

    def _follows(self, last: int) -> range:
        """Where the next item of an enumeration may begin behind the last word of one: at once, or behind an article."""
        words = self._words
        if last + 1 >= len(words):
            return range(0)
        joined = words[last + 1].lower() in _JOINS
        if not joined and words[last][-1] not in ",;":
            return range(0)
        return range(last + 1 + joined, last + 3 + joined)

    def _opening(self, path: tuple[str, ...], values: Mapping[str, str]) -> str:
        """The text before a member, with those before it that are known."""
        text, around = "", tuple[str, ...]()
        for other in self._paths[: self._paths.index(path)]:
            pointer = member_pointer(other)
            if pointer in values:
                text += self._moved(around, other, text) + values[pointer]
                around = other
        return text + self._moved(around, path, text)

    def _moved(self, last: tuple[str, ...], path: tuple[str, ...], text: str) -> str:
        """What stands between the value of a member and that of another one behind it."""
        between, behind_name = self._constraint.separators
        shared = 0
        while shared < min(len(last), len(path)) - 1 and last[shared] == path[shared]:
            shared += 1
        closed = "}" * (len(last) - 1 - shared) + between if text else "{"
        opened = "{".join(json_text(name) + behind_name for name in path[shared:])
        return closed + opened

    def _node(self, phrases: PhraseQuestions, size: int) -> int:
        """The node of the lead behind which so many bytes are read; `ROOT`: a token goes beyond."""
        read = 0
        for node in phrases.leads.paths[0]:
            read += len(self._vocabulary.tokens[phrases.leads.tokens[node]])
            if read >= size:
                return node if read == size else ROOT
        return ROOT

    def _goes_on(self, row: NDArray[Any]) -> float:
        """Log-probability that a list goes on, in nats, where the quote of an item comes next."""
        between, _ = self._constraint.separators
        more, end = (_quoted(self._vocabulary, first) for first in (between[:1], "]"))
        if not len(more) or not len(end):
            return 0.0
        goes_on, stops = log_sum_exp(row[more]), log_sum_exp(row[end])
        return float(goes_on - np.logaddexp(goes_on, stops))


@lru_cache(maxsize=16)
def _quoted(vocabulary: Vocabulary, behind: str) -> NDArray[np.intp]:
    """The tokens that begin with a quote and what comes behind it."""
    begin = b'"' + behind.encode()
    return np.array(
        [one for text, one in vocabulary.ids_by_bytes.items() if text.startswith(begin)], dtype=np.intp
    )


def _string_list(path: tuple[str, ...], schema: Any, may_miss: bool) -> StringList | None:
    """A member as a list of strings; None: it is none."""
    schema = plain_list(schema)
    if schema is None or not is_plain_string(schema.get("items")):
        return None
    return StringList(path, may_miss, schema.get("minItems", 0), schema.get("maxItems", MOST_ITEMS))
