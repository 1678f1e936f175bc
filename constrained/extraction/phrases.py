"""Strings of an object: which phrase of the text each of them has, if any.

A small model copies a whole clause, or the description of the type, where a name is asked for; and where members may be left out it writes
one phrase into one member after another, or makes values up. Here each string is a question behind the opening of an object, side by side
with the others, and its options are phrases of the text: those that begin at the words with which the model would begin most likely, which
a short pass finds out before. A phrase goes to the member in which it is most likely, and is then lost to the others. A member that wants no
phrase is left to the model, and so is one for which the model would begin with something else, as a large one may with the country of a city.
But one that may be left out is left out where the model would begin with no word of the text, unless it is one that writes what a text
says right (`constrained.extraction.trial`).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained.decisions import ABSENT, Decision, Question
from constrained.decisions.decision import decided
from constrained.decisions.evidence import Evidence, option_ends, option_tree, read_evidence
from constrained.decisions.naming import NAMING, labelled_places, name_words, names_code, names_number
from constrained.decisions.questions import (
    capitalized,
    json_text,
    leaf_members,
    member_pointer,
    member_question,
    member_text,
    respelled,
)
from constrained.extraction.chunks import ANDS
from constrained.extraction.phrase_assignment import AGAIN, Wishes, Words, assigned_phrases
from constrained.extraction.quantities import is_described_date
from constrained.extraction.trial import passes_trial
from constrained.grammars.json_schema.view import without_null
from constrained.grammars.text.quantities import NUMBER_WORDS
from constrained.sampling.token_tree import TokenTree
from constrained.spec.scores import log_sum_exp

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.decoding.prompt_reader import PromptReader
    from constrained.models import LanguageModel
    from constrained.sampling import Randomness
    from constrained.vocabulary import Vocabulary

LEAST = -7.0
"""Log-probability that a phrase has at least in a member that may be left out, in nats."""
LEAST_REQUIRED = -5.0
"""The same in a required one, which the model writes otherwise."""
CONFIDENT = 0.5
"""Probability of a token from which on the model has a value in mind that begins with it."""
BEGUN = 0.2
"""Probability of all tokens that begin words of the text, from which on a string is written that wants no phrase."""
MOST_WORDS = 4096
"""Words of a text whose phrases are asked about."""
MOST_NODES = 1024
"""Tokens of all phrases in one pass."""
_BEGINNINGS = (4, 2, 1)
"""Words of the text with which the phrases of a member begin; fewer where there would be too many tokens."""
_ITEM_BEGINNINGS = (2, 1)
"""The same of an item, beside those with which the enumeration goes on."""
CAPITAL = 3
"""Bytes of a beginning with a capital that the text does not have: of fewer many words may begin so."""
_LONGEST = 6
"""Words of a phrase."""
_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_STOPS = ",;:"
"""No phrase ends with them."""
_ENDS = re.compile(r"\n|[;:!?]\s|\w{5}\.\s")
"""What no phrase goes beyond."""
_ITEM_ENDS = re.compile(r"\n|[,;:!?]\s|\w{5}\.\s")
"""The same of an item."""
_ARTICLE = re.compile(
    r"an?|the|ein(?:e[nmr]?)?|d(?:er|ie|as|en|em|u|es)|une?|l[aeo]s?|les|el|una|un[oa]s|il|i|gli"
)
"""No item begins with one; with a capital it may belong to a name."""
_PRONOUN = re.compile(
    r"he|she|it|they|we|i|you|him|her|them|er|sie|es|wir|ich|ihn|ihm|ihr|elle|ils?|elles|nous|vous|je|él|ellos|ellas|nosotros|yo"
)
"""No string is one: it stands for somebody whom the text names elsewhere."""
_PREPOSITION = re.compile(
    r"at|by|for|from|in|of|on|to|with|bei|für|im|mit|von|vom|zu|zum|zur|à|au|aux|avec|dans|de|du|en|par|pour|al|con|del|para|do|na|od|pro|se|u|z|ze"
)
"""No string is one alone; with a capital it may be a code: ``IN`` for Indiana."""
WORD = re.compile(r"[^\W\d_]{2,}[:=#](?=\w)|\S+")
"""What stands between spaces, but a label that stands at its value: ``doi:10.1000/182``."""
_DIGIT = re.compile(r"\d")
_CODE = re.compile(r"(?=\S*\d)(?=\S*[A-Z])\S+|\d{5,}")
"""What is hardly anything but a code."""
_MOST_NAMED = 8
"""Words that a member's name says."""
_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:[.,]\d{3})+|\d+)(?:[.,]\d+)?")
SMALL_WORD = re.compile(f"{_ARTICLE.pattern}|{_PREPOSITION.pattern}")
_EDGES = "\"'“”‘’«»„()[]<>*`|.,;:!?"


class PhraseQuestions:
    """The questions about the strings of one text.

    Attributes:
        leads: what stands before the value of each string.
        questions: of each string, once `choose` was called; `ABSENT` is the last option.
    """

    def __init__(
        self,
        constraint: Constraint,
        vocabulary: Vocabulary,
        text: str,
        members: Mapping[tuple[str, ...], bool],
        before: str = "",
        known: Iterable[Any] = (),
        goes_on: Collection[int] | None = None,
    ) -> None:
        """Nothing is asked yet.

        Args:
            constraint: of the values.
            vocabulary: of the model.
            text: of the document.
            members: by the names of the objects around a string and its own, whether it may be left out.
            before: what is written before the opening of the first object.
            known: values of other members; no phrase begins with a word of them.
            goes_on: words with which an enumeration goes on, of the items of a list, which have no comma inside; None: of other strings.
        """
        self._goes_on = goes_on
        self._ends = _ENDS if goes_on is None else _ITEM_ENDS
        self._constraint: Any = constraint
        self._vocabulary, self._text, self._members = vocabulary, text, members
        self._before = before
        self._words = [match.span() for match in WORD.finditer(text)]
        self._begins = [self._tokens_of(first, head) for first, head in enumerate(self._heads())]
        self.leads = TokenTree.of([self._lead(path) for path in members])
        self.questions: list[Question] = []
        self._optional = {member_pointer(path) for path, may_miss in members.items() if may_miss}
        self._known_places: dict[str, list[frozenset[int]]] = {}
        self._begun: dict[str, float] = {}  # probability that a string begins with a word of the text
        self._used = self._words_of(known)
        self._shared: dict[str, tuple[str, Decision]] = {}

    @property
    def pointers(self) -> set[str]:
        """Of the strings."""
        return set(map(member_pointer, self._members))

    def _lead(self, path: tuple[str, ...]) -> Sequence[int]:
        """The tokens before a string, with its quote; without it where the tokenizer never cuts behind one."""
        lead = self._before + member_text(self._constraint, path, '"')
        tokens = self._vocabulary.encode(lead + "A")
        return tokens[: self._cut(tokens, len(lead.encode()))]

    def _cut(self, tokens: Sequence[int], size: int) -> int:
        """How many tokens have no more than so many bytes together."""
        return bisect_right(list(accumulate(len(self._vocabulary.tokens[token]) for token in tokens)), size)

    def _heads(self) -> list[int | None]:
        """Of each word the first token of a string that begins with it; None: it is one token with the quote, as ``"+49``."""
        before = self._before + member_text(self._constraint, next(iter(self._members)), '"')
        before = before[before[:-1].rfind('"') :]  # what is before does not matter
        size = len(before.encode())
        lead = self._cut(self._vocabulary.encode(before + "A"), size)
        found = list[int | None]()
        for number in range(len(self._words)):
            tokens = self._vocabulary.encode(before[:-1] + json_text(self._word(number)))
            found.append(tokens[lead] if self._cut(tokens, size) >= lead else None)
        return found

    def _word(self, first: int) -> str:
        word = self._text[slice(*self._words[first])]
        return _bare(word) or word

    def _tokens_of(self, first: int, head: int | None) -> list[int]:
        """The tokens with which a string may begin that begins with a word of the text; first the one of the tokenizer.

        Behind a quote a tokenizer may cut a word at other places than behind a space, and there a model has seen it; and a model
        may write a capital where the text has none.
        """
        if head is None:
            return []
        ids, spelled = self._vocabulary.ids_by_bytes, self._word(first)
        word, capital = spelled.encode(), capitalized(spelled).encode()
        others = [ids.get(word[:size]) for size in range(1, len(word) + 1)]
        if capital != word and not _ARTICLE.fullmatch(spelled):
            others += [ids.get(capital[:size]) for size in range(CAPITAL, len(capital) + 1)]
        return list(dict.fromkeys([head, *(one for one in others if one is not None)]))

    def choose(self, rows: Sequence[NDArray[Any]]) -> None:
        """Chooses the phrases that are asked about.

        Args:
            rows: logits [V] behind each lead.
        """
        heads = sorted({tokens[0] for tokens in self._begins if tokens and not self._is_digit(tokens[0])})
        self._begun = {
            member_pointer(path): float(np.exp(log_sum_exp(row[heads]) - log_sum_exp(row))) if heads else 0.0
            for path, row in zip(self._members, rows, strict=True)
        }
        for beginnings in _BEGINNINGS if self._goes_on is None else _ITEM_BEGINNINGS:
            self.questions = self._asked(rows, beginnings)
            if len(option_tree(self.questions).tokens) <= MOST_NODES:
                return
        self.questions = []

    def _is_digit(self, token: int) -> bool:
        """Whether a token is one digit, with which a number that the text does not have begins as well."""
        spelled = self._vocabulary.tokens[token]
        return len(spelled) == 1 and spelled.isdigit()

    def _asked(self, rows: Sequence[NDArray[Any]], beginnings: int) -> list[Question]:
        """The questions whose phrases begin at the words that are likeliest in each string."""
        asked = list[Question]()
        for path, row, nodes in zip(self._members, rows, self.leads.paths, strict=True):
            least = log_sum_exp(row) + (LEAST if member_pointer(path) in self._optional else LEAST_REQUIRED)
            top = int(np.argmax(row))
            heads = [None if not one else top if top in one else one[0] for one in self._begins]
            firsts = self._likeliest(row, heads, beginnings)
            if self._goes_on is not None:
                firsts = [self._behind_article(first) for first in {*firsts, *self._goes_on}]
            named = [*self._named(path), *self._second_words(firsts)]
            firsts = sorted({*firsts, *named} - self._used)
            likely = [head is None or row[head] >= least for head in heads]
            for first in named:
                likely[first] = True
            label = " ".join(name_words(path[-1])) if path else ""  # it is no value
            found = self._phrases(firsts, likely)
            phrases = [json_text(one) for one in found if self._may_be(one) and one.casefold() != label]
            question = member_question(self._constraint, phrases, self._vocabulary, path, True, self._before)
            if question is not None:
                asked += self._parted(question, tuple(self.leads.tokens[node] for node in nodes), top)
        return asked

    def _named(self, path: Sequence[str]) -> list[int]:
        """The words with which a string may begin for its name: behind it in the text, or codes where it is one of codes."""
        if not path:
            return []
        labelled = self._labelled(path[-1])
        codes = [number for number in range(len(self._words)) if _DIGIT.search(self._word(number))]
        return [*labelled, *codes][:_MOST_NAMED] if names_code(path[-1]) else labelled[:_MOST_NAMED]

    def _second_words(self, firsts: Sequence[int]) -> list[int]:
        """The word of a name behind the likeliest first one, which another string may have: ``Octavia`` of ``Skoda Octavia``."""
        if (
            self._goes_on is not None
            or len(self._members) < 2
            or not firsts
            or firsts[0] + 1 >= len(self._words)
        ):
            return []
        first = firsts[0]
        begin = self._word(first + 1)[:1]
        is_name = begin.isupper() or begin.isdigit()
        between = self._text[self._words[first][0] : self._words[first + 1][0]]
        return [first + 1] if is_name and not _ITEM_ENDS.search(between) else []

    def _labelled(self, name: str) -> list[int]:
        """The words that stand behind a name in the text: see `labelled_places`."""
        return [bisect_right(self._words, (at, math.inf)) - 1 for at in labelled_places(self._text, name)]

    def _may_be(self, phrase: str) -> bool:
        """Whether a phrase is more than a pronoun, a preposition or an article; in capitals it may be a code, but no item."""
        if _PRONOUN.fullmatch(phrase.lower()) or _PREPOSITION.fullmatch(phrase):
            return False
        is_code = phrase.isupper() and self._goes_on is None
        return is_code or not _ARTICLE.fullmatch(phrase.lower())

    def _behind_article(self, first: int) -> int:
        """The word with which an item begins that begins with some word in the text."""
        is_article = _ARTICLE.fullmatch(self._word(first)) is not None
        return first + (is_article and first + 1 < len(self._words))

    def _parted(self, question: Question, lead: tuple[int, ...], top: int) -> Iterator[Question]:
        """The question about the phrases that begin behind a lead, and one about those whose first token is one with the quote.

        Args:
            question: about all of them.
            lead: the tokens before the strings.
            top: the token that the model would write behind it.
        """
        *phrases, absent = question.options
        behind = [one for one in phrases if one.tokens[: len(lead)] == lead]
        others = [one for one in phrases if one.tokens[: len(lead)] != lead]
        if behind:
            yield self._with_spellings(replace(question, options=(*behind, absent)), lead, top)
        if others:
            yield replace(question, options=(*others, absent))

    def _with_spellings(self, question: Question, lead: Sequence[int], begin: int) -> Question:
        """A question whose phrases may also begin with the token that the model would write, if the tokenizer would write another."""
        between, _ = self._constraint.separators
        *phrases, absent = question.options
        if any(option.tokens[len(lead) : len(lead) + 1] == (begin,) for option in phrases):
            return question
        spelled = [twin for one in phrases for twin in respelled(one, lead, begin, self._vocabulary, between)]
        return replace(question, options=(*phrases, *spelled, absent))

    def _likeliest(self, row: NDArray[Any], heads: Sequence[int | None], count: int) -> list[int]:
        """The words with which a string begins most likely, of those with the same first token at most two; and some of unknown likelihood."""
        alike: dict[int, list[int]] = {}
        others = list[int]()
        for first, head in enumerate(heads):
            if first in self._used:
                continue
            if head is not None:
                alike.setdefault(head, []).append(first)
            elif any(map(str.isalnum, self._word(first))):
                others.append(first)
        likely = sorted(alike, key=lambda head: -row[head])
        return [
            *[first for head in likely[:count] for first in alike[head][:2]][:count],
            *others[: (count + 1) // 2],
        ]

    def _phrases(self, firsts: Sequence[int], likely: Sequence[bool]) -> list[str]:
        """The runs of words that begin at some words, with and without the punctuation around them; none ends with *and*.

        Args:
            firsts: these words.
            likely: of each word of the text, whether a phrase that begins there may be chosen; else the word alone is asked about.
        """
        found: dict[str, None] = {}
        for first in firsts:
            longest = _LONGEST if likely[first] else 1
            for last in range(first, min(first + longest, len(self._words))):
                whole = self._text[self._words[first][0] : self._words[last][1]]
                if last > first and self._ends.search(whole[: -len(self._text[slice(*self._words[last])])]):
                    break
                if last > first and self._word(last) in ANDS:
                    continue
                found |= dict.fromkeys(one for one in (whole.rstrip(_STOPS), _bare(whole)) if one)
        return list(found)

    def decide(
        self,
        evidence: Sequence[Evidence],
        known: Iterable[Any],
        model: LanguageModel,
        temperature: float,
        randomness: Randomness | None,
        named: Iterable[Any] = (),
    ) -> dict[str, Decision]:
        """The decisions by the pointers of their members, without those that want no phrase.

        Args:
            evidence: for each question.
            known: values of other members; phrases among them are used.
            model: was asked.
            temperature: of draws; 0: greedy.
            randomness: for draws.
            named: values of members that have one of a few; a name may have their words: ``Raja Indian Cuisine`` has ``Indian``.
        """
        used, words = self._words_of(known), self._words_of(named)
        questions, evidence = by_member(self.questions, evidence)
        labelled = {one.pointer: {*self._labelled(_name(one))} for one in questions}
        asked, about, wishes = list[Question](), list[Evidence](), list[Wishes]()
        for question, one in zip(questions, evidence, strict=True):
            is_optional = question.pointer in self._optional
            row = joined(question, one.totals)
            row[-1] = LEAST if is_optional else LEAST_REQUIRED
            is_sure = row > AGAIN
            gains = self._gains(question, labelled)
            row[:-1] += gains
            is_another = one.elsewhere >= CONFIDENT and max(gains) <= 0
            if is_another or (is_optional and row[:-1].max() <= row[-1]):
                if not self._is_made_up(question.pointer, model):
                    continue
                row[:-1] = -math.inf
            places = [self.places(question.value(index)) for index in range(len(row) - 1)]
            for index, spans in enumerate(places):
                if not is_sure[index] and all(self._is_part_of(place, words) for place in spans):
                    row[index] = -math.inf
            asked.append(question)
            about.append(one)
            wishes.append(Wishes(row, is_sure, places, is_optional))

        def decision(index: int, scores: NDArray[np.float64]) -> Decision:
            return decided(asked[index], about[index], scores, temperature, randomness)

        def drawn(index: int, scores: NDArray[np.float64]) -> int:
            text = decision(index, scores).text
            return [option.text for option in asked[index].options].index(text)

        rows, shared = assigned_phrases(wishes, used, drawn if temperature else None)
        self._shared = {
            asked[one.other].pointer: (asked[one.holder].pointer, decision(one.holder, one.scores))
            for one in shared
        }
        found = {question.pointer: decision(index, rows[index]) for index, question in enumerate(asked)}
        return {
            pointer: one for pointer, one in found.items() if pointer in self._optional or one.text != ABSENT
        }

    def _gains(self, question: Question, labelled: Mapping[str, Collection[int]]) -> list[float]:
        """What the phrases of a question gain from the names of members, in nats.

        By standing behind that of their own in the text, and not only behind another one's; by being a number, or a code, where it is one
        of such; by being none elsewhere.

        Args:
            question: about a member.
            labelled: by the pointers of members, the words behind their names.
        """
        name, mine = _name(question), labelled[question.pointer]
        others = {
            word for pointer, words in labelled.items() if pointer != question.pointer for word in words
        }
        gains = []
        for index in range(len(question.options) - 1):
            phrase = str(question.value(index))
            begins = {min(place) for place in self.places(phrase)}
            gain = NAMING * (not begins.isdisjoint(mine)) - NAMING * bool(
                begins and begins <= others - {*mine}
            )
            has_digit = _DIGIT.search(phrase) is not None
            if names_code(name):
                gain += NAMING * (has_digit and " " not in phrase)
                gain += NAMING * (_CODE.fullmatch(phrase) is not None)
            elif names_number(name):
                gain += NAMING if has_digit or _is_number(phrase) else -NAMING
            else:
                gain -= NAMING * _is_number(phrase)
            gains.append(gain)
        return gains

    def whole_names(self, others: Mapping[str, Decision]) -> dict[str, Decision]:
        """The decisions about members that have a part of a name of which another member did not get the rest.

        Args:
            others: by pointer, the decisions about strings that were asked for behind those of `decide`.
        """
        return {
            holder: name
            for other, (holder, name) in self._shared.items()
            if other not in others or str(others[other].value) not in str(name.value)
        }

    def _is_part_of(self, place: Words, words: Words) -> bool:
        """Whether a phrase has some words, and is no name that has others, too."""
        if not place & words:
            return False
        return place <= words or not all(self._word(word)[:1].isupper() for word in place)

    def _is_made_up(self, pointer: str, model: LanguageModel) -> bool:
        """Whether a string that may be left out would be made up: a small model would begin it with no word of the text."""
        return pointer in self._optional and self._begun[pointer] < BEGUN and not passes_trial(model)

    def evidence(self, reader: PromptReader) -> list[Evidence]:
        """Reads the questions about the only string; their masses are of what a model writes that writes a string.

        Args:
            reader: has read the lead but for the quote.
        """
        read = reader.scores(option_tree(self.questions), option_ends(self.questions))
        (lead,) = self.leads.paths
        has_quote = self.questions[0].options[0].tokens[: len(lead)] == self.leads.tokens
        share = math.exp(-read.path(0)[len(lead) - 1]) if has_quote else 1.0
        return [replace(one, mass=one.mass * share) for one in read_evidence(read, self.questions)]

    def used_share(self, row: NDArray[Any]) -> float:
        """Probability that a string begins as a value that is known does, and as no other word of the text.

        Args:
            row: logits [V] where it begins.
        """
        free = {one for first, tokens in enumerate(self._begins) if first not in self._used for one in tokens}
        used = {one for first in self._used for one in self._begins[first]} - free
        return float(np.exp(log_sum_exp(row[sorted(used)]) - log_sum_exp(row))) if used else 0.0

    def begins_word(self, token: int) -> bool:
        """Whether a string that begins with a word of the text may begin with a token."""
        return any(token in tokens for tokens in self._begins)

    def free_places(self, phrase: Any) -> list[frozenset[int]]:
        """Where a phrase stands, by the numbers of its words, without those where values that are known have words."""
        return [words for words in self.places(phrase) if not words & self._used]

    def _words_of(self, values: Iterable[Any]) -> frozenset[int]:
        """The words that some values have, each in another place."""
        used = frozenset[int]()
        for value in values:
            used |= self._free(value, used) or frozenset()
        return used

    def _free(self, phrase: Any, used: frozenset[int]) -> frozenset[int] | None:
        """The words of a phrase in the first place where none of them is used."""
        return next((words for words in self.places(phrase) if not words & used), None)

    def places(self, phrase: Any) -> list[frozenset[int]]:
        """The words that a phrase has, for each time that it stands in the text."""
        if not isinstance(phrase, str) or not phrase:
            return []
        if phrase not in self._known_places:
            found, at = [], self._text.find(phrase)
            while at >= 0:
                first, last = (
                    bisect_right(self._words, (one, math.inf)) - 1 for one in (at, at + len(phrase) - 1)
                )
                whole = self._text[self._words[first][0] : self._words[last][1]]
                if phrase in (whole, whole.rstrip(_STOPS), _bare(whole)):
                    found.append(frozenset(range(first, last + 1)))
                at = self._text.find(phrase, at + 1)
            self._known_places[phrase] = found
        return self._known_places[phrase]


def _name(question: Question) -> str:
    return question.pointer.rpartition("/")[2]


def _bare(phrase: str) -> str:
    """A phrase without the punctuation around it, and the sign of a number: ``#77``."""
    return phrase.strip(_EDGES).lstrip("#")


def _is_number(phrase: str) -> bool:
    """Whether a phrase is a number, in digits or as a word."""
    return phrase.lower() in NUMBER_WORDS or _NUMBER.fullmatch(phrase) is not None


def phrase_questions(
    constraint: Constraint, vocabulary: Vocabulary, text: str, others: Collection[str] = ()
) -> PhraseQuestions | None:
    """The questions about a text; None where there are no strings without bounds, or the text has too many words or none.

    Args:
        constraint: of the values.
        vocabulary: of the model.
        text: of the document.
        others: pointers of strings that are asked about otherwise.
    """
    schema = constraint.enforced_schema if constraint.is_json else None
    leaves = leaf_members(schema, nullable=True)
    members = {
        path: may_miss
        for path, member, may_miss in leaves
        if is_plain_string(member) and member_pointer(path) not in others
    }
    if not members or not reads_phrases(text) or len(text.split()) < 2:
        return None
    return PhraseQuestions(constraint, vocabulary, text, members)


def reads_phrases(text: str) -> bool:
    """Whether a text has words, and not too many of them."""
    return not _WITHOUT_SPACES.search(text) and len(text.split()) <= MOST_WORDS


def by_member(
    questions: Sequence[Question], evidence: Sequence[Evidence]
) -> tuple[list[Question], list[Evidence]]:
    """One question for each member, where `PhraseQuestions` parts it, and the evidence for it."""
    found: list[Question] = []
    about: list[Evidence] = []
    for question, one in zip(questions, evidence, strict=True):
        if found and found[-1].pointer == question.pointer:
            totals = np.append(about[-1].totals[:-1], one.totals)
            whole = log_sum_exp(totals)
            found[-1] = replace(question, options=(*found[-1].options[:-1], *question.options))
            about[-1] = replace(about[-1], logprobs=totals - whole, mass=float(np.exp(min(0.0, whole))))
        else:
            found.append(question)
            about.append(one)
    return found, about


def joined(question: Question, totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each phrase the log-probability of all its spellings: the first of them has it, the others have none."""
    places: dict[str, list[int]] = {}
    for index, option in enumerate(question.options):
        places.setdefault(option.text, []).append(index)
    found = np.full(len(totals), -math.inf)
    for row in places.values():
        found[row[0]] = log_sum_exp(totals[row])
    return found


def is_plain_string(schema: Any) -> bool:
    """Whether a member is a string without bounds, and no date by its description."""
    schema = without_null(schema)
    return (
        isinstance(schema, Mapping)
        and schema.get("type") == "string"
        and not set(schema) - {"type", "title", "description", "default"}
        and not is_described_date(schema)
    )
