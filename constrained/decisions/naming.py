"""Options that a text names: that the word of an answer stands in the text is evidence, which a small model hardly takes from it.

That no option's word stands there is evidence, too: for leaving the member out, where it may be, unless a word of the member's name does.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.decisions.questions import ABSENT, Question
from constrained.grammars.text.quantities import currencies

NAMING = 3.0
"""What an option gains that the text names, in nats; measured: 1 to 5 give nearly the same."""
SHARING = 0.75
"""What an option gains by a word that the text has, in nats for each nat that the word is rare among the options; measured: .5 to 1 give nearly the same."""
_SHORT = 100
"""Words of a text from which on `AFFIRMED` and `SHARING` count less: a long one has most words, in other senses."""
UNNAMED = 1.0
"""What `ABSENT` gains where the text names no option, in nats, or the others where it has a word of the member's name; measured: 1 and 2 give
nearly the same, .5 two thirds of it."""

AFFIRMED = 2.0
"""What a boolean gains by a word of its name in the text, or its negation there, in nats; measured: 1 to 4 give the same."""

_GAPS = re.compile(r"[\s_\-]+")
_WORDS = re.compile(r"[^\W\d_]+?(?=[A-Z]|[\W\d_]|$)")
_MONEY = frozenset(
    "amount budget charge cost costs deposit fare fee income pay price refund rent revenue salary sum total wage"  # noqa: SIM905
    " preis kosten miete gehalt cena precio prix".split()
)
"""Words of members whose values are money."""
_CURRENCY_NAMES = frozenset(["currency", "devise", "moneda", "valuta", "waluta", "währung"])
COUNTS = frozenset(
    ["amount", "anzahl", "cantidad", "count", "menge", "number", "pieces", "qty", "quantity", "units"]
)
"""Words of members that say how many."""
_NUMBERS = COUNTS - {"units"} | {"age", "alter", "jahr", "rating", "score", "size", "value", "wert", "year"}
"""Words at the end of names whose values are numbers."""
_CODES = frozenset(["code", "id", "isbn", "kennung", "ref", "reference", "referenz", "serial", "sku"])
"""The same of words with a digit in them."""
_RELATIONS = (
    ("from|von|ab|aus|de|desde|da|od|z", "from origin start source departure pickup sender"),
    ("to|into|nach|à|para|hasta|do", "to destination end target arrival dropoff recipient receiver"),
    ("by|von|par|por", "artist author director writer composer creator"),
)
"""Words before a value that say in which relation it stands, and words of names that mean it: ``Porto`` in ``from Porto`` is an ``origin``."""
_ACTING = "by|to|with|von|par|por"
"""Words between a verb and who acts: ``directed by`` for `director`, ``assigned to`` for `assignee`."""
_BESIDE = re.compile(r"[^\W\d_]+|%|\d|[,;.!?\n]")
_NEGATION = re.compile(
    r"\b(?:no|not|non|never|without|none|cannot|lacks?|kein\w*|nicht|ohne|sans|pas|aucune?|sin|ning[uú]n\w*|senza|sem|bez|nie|není|nejsou)\b|n['’]t\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:if|whether|unless|should|wenn|ob|falls|si|pokud|zda|se)\b", re.IGNORECASE)
_CLAUSE = re.compile(r"[.,;:!?\n]|\b(?:and|but|und|aber|et|mais|y|pero)\b", re.IGNORECASE)
_SAYS_LITTLE = frozenset(
    "accepts allowed available have includes included needs offers offered possible required wants with".split()  # noqa: SIM905
)
"""Words of names of booleans that many texts have."""
_NEAR = 3
"""Words before or behind a value that may say whose it is."""
_STEM = 4
"""Letters of a word in a name that are looked for at least; the last two may differ: ``families`` has ``family``."""
_SHORTEST = 2
"""Characters of an option that is looked for: a letter or a digit stands in most texts."""


def named_options(question: Question, text: str) -> NDArray[np.float64]:
    """What the options gain from the words of a text, in nats, float64 [options].

    `NAMING` for each option whose value stands in it as words of its own. Case, hyphens and underscores make no difference. Where one
    option is part of another one, the longer one is read first. If no option's does, and the member may be left out: `UNNAMED` for
    the others where a word of its name stands there, and else for `ABSENT`, of booleans, too.

    Other options of several words gain `SHARING` for those that stand there in any form, those of few options most: ``card_payment``.
    Of booleans the one that the text affirms gains `AFFIRMED`, see `is_affirmed`.

    Args:
        question: its texts, numbers and booleans are looked for, no nulls or lists.
        text: that the question is about.
    """
    values = [question.value(index) for index in range(len(question.options))]
    sought = [value for value in values if len(_words(value)) >= _SHORTEST]
    gains = np.zeros(len(values))
    gains[list(named_places(values, text))] = NAMING
    affirmed = is_affirmed(question.pointer.rpartition("/")[2], text) if True in values else None
    trust = min(1.0, _SHORT / (1 + text.count(" ")))
    gains[[value is affirmed for value in values]] += AFFIRMED * trust * (affirmed is not None)
    absent = np.array([option.text == ABSENT for option in question.options])
    if absent.any() and not gains.any():
        if _has_word_of(question.pointer.rpartition("/")[2], text):
            gains[~absent] = UNNAMED
        elif sought or (True in values and _telling_words(question.pointer.rpartition("/")[2])):
            gains[absent] = UNNAMED
    return gains + _shared_words(values, text) * trust * (gains <= 0)


def _shared_words(values: Sequence[Any], text: str) -> NDArray[np.float64]:
    """What options gain by their words of a text: see `named_options`."""
    has_several = [isinstance(value, str) and len(name_words(value)) > 1 for value in values]
    words = [
        _long_words(value) if several else set() for value, several in zip(values, has_several, strict=True)
    ]
    counts = Counter(word for row in words for word in row)
    stated = {word for word in counts if _stands_in(word, text)}
    return np.array(
        [SHARING * sum(math.log((len(values) + 1) / counts[word]) for word in row & stated) for row in words]
    )


def _long_words(name: str) -> set[str]:
    return {word for word in name_words(name) if len(word) >= _STEM}


def _telling_words(name: str) -> list[str]:
    """The words in the name of a boolean whose absence from a text says something."""
    return [word for word in name_words(name) if len(word) >= _STEM and word not in _SAYS_LITTLE]


def _stands_in(word: str, text: str) -> bool:
    """Whether a text has a word in any form: ``families`` for ``family``."""
    return re.search(rf"(?<!\w){_stem(word)}", text, re.IGNORECASE) is not None


def _stem(word: str) -> str:
    """A pattern of how the forms of a word begin."""
    return re.escape(word[: max(_STEM, len(word) - 2)])


def named_places(values: Sequence[Any], text: str) -> dict[int, int]:
    """Where a text names some values first, by their indices: see `named_options`."""
    left = _GAPS.sub(" ", text).casefold()
    left += "".join(f" {code.lower()}" for code in dict.fromkeys(code for code, _ in currencies(text)))
    words = {index: word for index, value in enumerate(values) if len(word := _words(value)) >= _SHORTEST}
    found = {}
    for index in sorted(words, key=lambda index: -len(words[index])):
        named = re.compile(rf"(?<!\w){_any_number(words[index])}(?!\w)")
        first = named.search(left)
        if first is not None:
            found[index] = first.start()
            left = named.sub(lambda match: "\0" * len(match[0]), left)
    return found


def is_affirmed(name: str, text: str) -> bool | None:
    """Whether a text affirms what a boolean is called: ``balcony`` in ``with a balcony``, not in ``no balcony``; ``unpaid`` denies ``paid``; None: it has no word of it."""
    stems = "|".join(map(_stem, _telling_words(name)))
    sought = rf"(?<!\w)(?P<un>un|in|non|nicht|ne)?(?:{stems})\w*"
    for named in re.finditer(sought, text, re.IGNORECASE) if stems else ():
        before = _CLAUSE.split(text[max(0, named.start() - 60) : named.start()])[-1].split()[-_STEM:]
        behind = _CLAUSE.split(text[named.end() : named.end() + 60])[0].split()[:_NEAR]
        if not _CONDITION.search(" ".join(before)):
            return named["un"] is None and _NEGATION.search(" ".join([*before, *behind])) is None
    return None


def _any_number(word: str) -> str:
    """A pattern of a word, or of several, in singular and plural as English has them: ``toll`` is ``tolls``."""
    if len(word) <= _SHORTEST or not word[-1].isalpha():
        return re.escape(word)
    is_plural = word.endswith("s") and not word.endswith("ss") and len(word) > _STEM
    one = word[:-1] if is_plural else word
    return re.escape(one) + ("(?:es)?" if one.endswith(("s", "x", "z", "ch", "sh")) else "s?")


def name_words(name: str) -> list[str]:
    """The words of a member's name, in lower case: ``familyFriendly``, ``family_friendly``."""
    return [word.lower() for word in _WORDS.findall(name)]


def names_alike(one: str, other: str) -> bool:
    """Whether two names, or a word and a name, have words that begin with the same four letters: ``child`` and ``children``."""
    stems = [{word[:_STEM] for word in name_words(name) if len(word) >= _STEM} for name in (one, other)]
    return bool(stems[0] & stems[1])


def is_named_beside(text: str, start: int, end: int, name: str) -> bool:
    """Whether a word of a name stands close to a place of a text, within its clause and no other number between: ``Total: 251.50``, ``5 doors``."""
    sides = _BESIDE.findall(text, end, end + 60), _BESIDE.findall(text, max(0, start - 60), start)[::-1]
    words = name_words(name)
    for side in sides:
        for near in side[:_NEAR]:
            if not near.isalpha() and near != "%":
                break
            word = "percent" if near == "%" else near.lower()
            if word in words or names_alike(word, name):
                return True
    return False


def names_number(name: str) -> bool:
    """Whether the values that a name is for are numbers: ``party_size_number``, ``rating_value``."""
    return bool(words := name_words(name)) and words[-1] in _NUMBERS


def names_code(name: str) -> bool:
    """Whether the values that a name is for are codes: ``ticket_id``, ``reference``."""
    return bool(words := name_words(name)) and words[-1] in _CODES


def names_currency(name: str) -> bool:
    """Whether the values that a name is for are currencies: ``from_currency``."""
    return not _CURRENCY_NAMES.isdisjoint(name_words(name))


@lru_cache(maxsize=64)
def labelled_places(text: str, name: str) -> tuple[int, ...]:
    """Where something begins that a text calls by a name, or else by its last word: ``Venue: Depot Garage``, ``near the Burger King``.

    Or else behind the verb of the last word, ``directed by`` for `director`, or a word that means the same relation as one of the name. What follows without a colon or the like begins with a capital
    letter or a digit.
    """
    words = name_words(name)
    related = (before for before, names in _RELATIONS if not {*names.split()}.isdisjoint(words))
    acting = [rf"{_stem(word)}\w*\s+(?:{_ACTING})" for word in words[-1:] if len(word) >= _STEM]
    for label in dict.fromkeys([r"[\s_-]?".join(words), words[-1] if words else "", *acting, *related]):
        if len(label) < _SHORTEST:
            continue
        found = re.finditer(
            rf"(?<![^\W_])(?:{label})(?:\s*(?P<sign>[:=#])\s*|\s+(?:(?-i:is|of|the|ist|est|es)\s+)*)(?=[\"'“„«]?(?P<begin>\w))",
            text,
            re.IGNORECASE,
        )
        begins = ((match.end(), match["sign"], match["begin"]) for match in found)
        places = tuple(end for end, sign, begin in begins if sign or begin.isupper() or begin.isdigit())
        if places:
            return places
    return ()


def names_money(name: str) -> bool:
    """Whether the values that a name is for are amounts of money: ``price``."""
    return not _MONEY.isdisjoint(name_words(name))


def _has_word_of(name: str, text: str) -> bool:
    """Whether a word of a member's name stands in a text, in any form: ``familyFriendly`` in ``for families``."""
    return any(_stands_in(word, text) for word in _long_words(name))


def _words(value: object) -> str:
    """How a value would stand in a text; empty: it is not looked for."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return _GAPS.sub(" ", str(value)).casefold().strip()
