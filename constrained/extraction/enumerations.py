"""Enumerations in a text: ``gold, silver, and palladium``."""

from __future__ import annotations

import re

from constrained.extraction.chunks import ANDS
from constrained.extraction.phrases import SMALL_WORD

Span = tuple[int, int]

SMALL = re.compile(
    f"{SMALL_WORD.pattern}|and|or|if|is|are|as|be|i|it|than|that|then|this|was|were|will|each|y|i|und|et"
)
"""Words that are no unit and no item."""
_AND = rf"(?:{'|'.join([*ANDS, 'or', 'oder', 'ou', 'nebo', '&'])})"
_BETWEEN = rf"(?:[,;]\s*(?P<last>{_AND}\s)?|\s(?P<and>{_AND})\s)"
_JOIN = re.compile(rf"[\"'”’]?\s*{_BETWEEN}\s*(?:the\s|an?\s)?[\"'“‘]?", re.IGNORECASE)
_JOINED = re.compile(rf"{_JOIN.pattern}$", re.IGNORECASE)
"""What joins two items of an enumeration."""
_BEGINS_AND, _ENDS_AND = re.compile(rf"{_AND}\s", re.IGNORECASE), re.compile(rf"\s{_AND}\s$", re.IGNORECASE)
_NAME = r"[^\W\d_a-zß-ÿ](?:[\w’'.-]*\w)?"
_NAMES = re.compile(rf"{_NAME}(?:\s(?:(?:of|de)\s)?{_NAME})*(?:,\s[A-Z]{{2}}\b)?")
_NAMES_BEFORE = re.compile(rf"{_NAMES.pattern}$")
_NO_ITEM = re.compile(
    f"{SMALL.pattern}|also|can|could|did|do|does|finally|find|get|how|please|should|tell|what|when|where|which|who|would"
)
_BEHIND = re.compile(rf"$|[.?!;)\"'”’]|\s(?:{SMALL_WORD.pattern})\s|{_BETWEEN}", re.IGNORECASE)
"""What may come behind the last item."""
_STATE = re.compile(r",\s[A-Z]{2}\b")
_PAIRED = re.compile(r"\b(?:between|both|zwischen|entre|mezi)\s+(?:the\s|an?\s)?$", re.IGNORECASE)
"""What comes before two that are arguments of one call."""
_WORD_BEHIND, _WORD_BEFORE = re.compile(r"\s?([^\W\d_]+|%)"), re.compile(r"([^\W\d_]+)\s$")
_WINDOW = 80
"""Characters before an item in which it begins."""


def begins_and(text: str, start: int) -> bool:
    """Whether a word such as "and" stands at a place, or right before it."""
    return (
        _ENDS_AND.search(text, max(0, start - 6), start) is not None
        or _BEGINS_AND.match(text, start) is not None
    )


def are_joined(text: str, one: Span, other: Span) -> bool:
    """Whether nothing but a comma or a word such as "and" stands between two places, and the words that stand around both: ``first 2 years and first 3 years``."""
    start, end = one[1], other[0]
    unit, same_unit = _WORD_BEHIND.match(text, start, end), _WORD_BEHIND.match(text, other[1])
    if unit is not None and same_unit is not None and unit[1] == same_unit[1]:
        start = unit.end()
    lead, same_lead = (_WORD_BEFORE.search(text, max(0, at - 20), at) for at in (one[0], end))
    if lead is not None and same_lead is not None and lead[1] == same_lead[1] and same_lead.start(1) > start:
        end = same_lead.start(1)
    return _JOIN.fullmatch(text, start, end) is not None


def enumeration(text: str, phrase: str) -> list[str]:
    """The items of the first enumeration in which a phrase stands, with it; itself, where it stands in none."""
    for match in re.finditer(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.IGNORECASE):
        start, at = match.span()
        is_name = text[start].isupper()
        state = _STATE.match(text, at) if is_name else None
        at = at if state is None else state.end()
        items, has_and = [text[start:at]], False
        count = len(phrase.split())
        while (join := _JOIN.match(text, at)) and (item := _item(text, join.end(), count, is_name)):
            items.append(item)
            at = join.end() + len(item)
            has_and |= bool(join["and"] or join["last"])
        at = start
        while (join := _JOINED.search(text, max(0, at - 12), at)) and (
            item := _item_before(text, join.start(), count, is_name)
        ):
            items.insert(0, item)
            at = join.start() - len(item)
            has_and |= bool(join["and"] or join["last"])
        if len(items) > 1 and has_and and not _PAIRED.search(text, max(0, at - 20), at):
            return list(dict.fromkeys(re.sub("['’]s$", "", item) for item in items))
    return [phrase]


def _item(text: str, start: int, count: int, is_name: bool) -> str | None:
    """The item of an enumeration that begins at a place: a name, or at most so many words."""
    words = re.compile(rf"[^\W\d_A-Z][\w-]*(?:\s[\w-]+){{0,{count - 1}}}")
    found = (_NAMES if is_name else words).match(text, start)
    is_item = found is not None and (
        is_name or (_BEHIND.match(text, found.end()) and not _NO_ITEM.fullmatch(found[0].split()[0]))
    )
    return found[0] if found is not None and is_item else None


def _item_before(text: str, end: int, count: int, is_name: bool) -> str | None:
    """The item of an enumeration that ends at a place."""
    words = re.compile(rf"(?<![\w'’-])[^\W\d_A-Z][\w-]*(?:\s[\w-]+){{{count - 1}}}$")
    found = (_NAMES_BEFORE if is_name else words).search(text, max(0, end - _WINDOW), end)
    return None if found is None or _NO_ITEM.fullmatch(found[0].split()[0].lower()) else found[0]
