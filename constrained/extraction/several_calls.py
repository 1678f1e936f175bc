"""The calls that a message asks for, where it asks for several of one tool.

A small model repeats its first call, or ends behind it. It reads the arguments of one call well, and knows of each number of the message how
well it goes with each argument. So the quantities of the message, in their order, are cut into the calls that go best with all of them
(`stated_quantities`): a call has each argument once, and one that it lacks is that of the call before. Where a phrase that is an
argument stands in an enumeration, there is a call for each item (`enumerated_calls`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Generator as Coroutine
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.decisions.naming import named_places, names_currency
from constrained.decisions.questions import followed, member_pointer
from constrained.decoding.request_runner import BatchedRequest
from constrained.extraction.chunks import sentence_ends
from constrained.extraction.enumerations import SMALL, are_joined, begins_and, enumeration
from constrained.extraction.numbered_records import BREAK
from constrained.extraction.phrases import is_plain_string
from constrained.extraction.prompt import shown_text
from constrained.extraction.quantities import StatedMember
from constrained.extraction.record_reader import ReadValue, RecordReader, Settings, written_value
from constrained.extraction.stated_numbers import covered
from constrained.grammars.json_pointer import unescape

if TYPE_CHECKING:
    from constrained.extraction.extraction import Extraction
    from constrained.extraction.extractor import Extractor

Span = tuple[int, int]

MOST_CALLS = 16
"""Calls of a message that are read like this."""
_MOST_PLACES, _MOST_MEMBERS = 48, 6
_NEW, _MISSING, _UNUSED, _NEVER = -1.0, -3.0, -7.0, -1e3
"""What a call more, an argument that it must have and lacks, and a quantity that is in no call count, in nats."""
_UNLIKELY = -15.0
"""Of a quantity that a member may not have, beside others of its unit."""
_IN_ORDER = 0.5
"""The same of a quantity behind those of the members before its own."""
_UNIT = re.compile(r"\s?-?([^\W\d_]+|%|°)")
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b")
_LIST = re.compile(r"\[[^\[\]]*\]")
_WORD = re.compile(r"[^\W\d_]+")
_CURRENCY = re.compile(r"[$€£¥]\s?$")
_NEXT = re.compile(
    r"(?:and\s|also\s)?(?:then|finally|also|another|compare|the\s(?:second|third|fourth|other|next|last)|dann|puis|luego)\b",
    re.IGNORECASE,
)
"""What often begins the next of several requests."""
_IN_TURN = re.compile(r"\b(?:respectively|jeweils|respectivamente|respectivement)\b", re.IGNORECASE)


class StatedCall(NamedTuple):
    """The quantities of a call, by the pointers of their members, as JSON texts, and where they stand."""

    texts: Mapping[str, str]
    places: Mapping[str, Span]


def several_texts(
    extractor: Extractor[Any], found: Extraction[Any], settings: Settings
) -> Coroutine[list[BatchedRequest], None, list[str]]:
    """Reads the arguments of each call of a message, as JSON texts; returns none where it asks for a single call.

    Args:
        extractor: reads the arguments of one call.
        found: those that it has read from the whole message.
        settings: of the requests.
    """
    value = found.json_value
    text = shown_text(found.document, extractor.generator.constraint)  # of which the places are
    schema = extractor.generator.constraint.enforced_schema
    if not isinstance(value, dict) or not isinstance(schema, Mapping):
        return []
    members = {name: followed(one, schema) for name, one in schema.get("properties", {}).items()}
    quantities = [
        one for one in found._stated if one.pointer.count("/") == 1 and not names_currency(one.pointer)
    ]
    calls = stated_quantities(text, quantities)
    phrases = {
        name: value[name]
        for name, member in members.items()
        if isinstance(value.get(name), str) and is_plain_string(member)
    }
    numbers = [{unescape(name[1:]): json.loads(one) for name, one in call.texts.items()} for call in calls]
    is_listed = _IN_TURN.search(text) or _is_enumerated(text, calls)
    listed = {
        item for one in value.values() if isinstance(one, list) for item in one if isinstance(item, str)
    }
    varied = enumerated_calls(text, phrases, numbers, listed) if is_listed else []
    if not calls and not varied:
        return []
    dealt = {unescape(name[1:]) for call in calls for name in call.texts}
    needed = schema.get("required", ())
    optional = {unescape(one.pointer[1:]) for one in quantities} - set(needed)
    shared = {name: one for name, one in value.items() if not calls or name not in optional}
    made = [{**shared, **row} for row in varied or numbers]
    spans = call_spans(text, calls) if calls and not varied else None
    if spans is not None and set(members) - dealt:
        texts = [text[slice(*span)].strip() for span in spans]
        around = text[: spans[0][0]] + text[spans[-1][1] :]
        fixed = dealt | {name for name, one in value.items() if _is_said(one, around)}
        reader = RecordReader(
            extractor.generator, extractor.parts, extractor.writes_lists, extractor.require_grounding
        )
        known = [{member_pointer([name]): one for name, one in row.items()} for row in numbers]
        read = yield from reader.steps(texts, known, settings)
        said = [
            {} if one is None else {name: own for name, own in _said(one, part).items() if name not in fixed}
            for one, part in zip(read, texts, strict=True)
        ]
        for row, own in zip(made, said, strict=True):
            # ``20 USD and 35 GBP to EUR``: what the call before lacks, the next one may say.
            lent = {name for name, one in row.items() if name not in own and one in own.values()}
            row |= {name: other[name] for name in lent for other in said if name in other}
            row |= own
    written = [written_value(row, extractor.generator) for row in made]
    kept = list(dict.fromkeys(one for one in written if one is not None))
    return kept if len(kept) > 1 and None not in written else []


def _said(read: ReadValue, text: str) -> dict[str, Any]:
    """The strings of a value that its text has, but for those that the model wrote though another member has them."""
    sure = {one.value for one in read.decisions.values() if isinstance(one.value, str)}
    return {
        name: one
        for name, one in read.value.items()
        if _is_said(one, text)
        and (member_pointer([name]) in read.decisions or not isinstance(one, str) or one not in sure)
    }


def _is_said(value: Any, text: str) -> bool:
    """Whether a text has a string, or all strings of a list."""
    words = value if isinstance(value, list) else [value]
    return bool(words) and all(isinstance(one, str) and bool(named_places([one], text)) for one in words)


def stated_quantities(text: str, members: Sequence[StatedMember]) -> list[StatedCall]:
    """The calls whose quantities a text states; none, where that is a single one.

    Args:
        text: the message.
        members: that are quantities.
    """
    places = _merged(span for member in members for _, spans, _ in member.options for span in spans)
    lists = covered(text, (match.span() for match in _LIST.finditer(text)))
    places = [place for place in places if not lists[place[0]] and not _is_no_quantity(text, *place)]
    if not 2 <= len(places) <= _MOST_PLACES or not members or len(members) > _MOST_MEMBERS:
        return []
    best = [[_option(member, place) for member in members] for place in places]
    frames, rows = _frames(text, places), [[score for _, score in row] for row in best]
    is_listed = _IN_TURN.search(text) is not None
    for index in range(len(places) - 2, -1, -1):  # ``1, 3 and 10 years`` are years
        if not frames[index][0] and frames[index + 1][0] and are_joined(text, *places[index : index + 2]):
            frames[index], rows[index], is_listed = frames[index + 1], rows[index + 1], True
    units = [unit for unit, _ in frames]
    frames = [(unit if units.count(unit) > 1 else "", word) for unit, word in frames]
    scores = [
        [score if said else _NEVER for score, (said, _) in zip(row, mine, strict=True)]
        for row, mine in zip(_smoothed(rows, frames), best, strict=True)
    ]
    needed = [member.is_needed for member in members]
    columns = [*_in_columns(text, places, scores, needed)]
    found = columns if columns and is_listed else [_segmented(scores, needed), *columns]
    _, calls = max(found, key=lambda one: one[0])
    of_member: dict[int, set[str]] = {}
    for call in calls:
        for member, index in call.items():
            of_member.setdefault(member, set()).add(frames[index][0])
    if not 2 <= len(calls) <= MOST_CALLS or any(len(units) > 1 for units in of_member.values()):
        return []
    made, texts = list[StatedCall](), dict[str, str]()
    for call in calls:
        texts = texts | {members[one].pointer: best[index][one][0] for one, index in call.items()}
        made.append(StatedCall(texts, {members[one].pointer: places[index] for one, index in call.items()}))
    return made


def _is_no_quantity(text: str, start: int, end: int) -> bool:
    """Whether a number is an exponent or an ordinal."""
    return text[start - 1 : start] == "^" or _ORDINAL.match(text, end) is not None


def _merged(spans: Iterator[Span]) -> list[Span]:
    """Some places in order, those that overlap as one."""
    merged = list[Span]()
    for start, end in sorted(set(spans)):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _option(member: StatedMember, place: Span) -> tuple[str, float]:
    """What stands at a place as a value of a member, and how well it goes with it."""
    mine = [
        (text, score)
        for text, spans, score in member.options
        if any(start < place[1] and place[0] < end for start, end in spans)
    ]
    return max(mine, key=lambda one: one[1], default=("", _UNLIKELY))


def _frames(text: str, places: Sequence[Span]) -> list[tuple[str, str]]:
    """The unit behind each quantity, or the currency before it, and the word before."""
    units, words = list[str](), list[str]()
    for start, end in places:
        unit = _UNIT.match(text, end)
        said = "" if unit is None or SMALL.fullmatch(unit[1].lower()) else unit[1].lower()
        currency = _CURRENCY.search(text, max(0, start - 2), start) or _CURRENCY.match(text, start, start + 1)
        units.append(
            currency[0].strip() if currency else said[:-1] if len(said) > 3 and said.endswith("s") else said
        )
        before = [
            word
            for word in _WORD.findall(text[max(0, start - 40) : start].lower())
            if not SMALL.fullmatch(word)
        ]
        words.append(before[-1] if before else "")
    return list(zip(units, words, strict=True))


def _smoothed(scores: Sequence[Sequence[float]], frames: Sequence[tuple[str, str]]) -> list[list[float]]:
    """The scores of quantities by member: one gains by what others of the same unit, or behind the same word, have."""
    made = []
    for index, (unit, word) in enumerate(frames):
        alike = [i for i, one in enumerate(frames) if one[0] == unit and (unit or one[1] == word)]
        same = [i for i in alike if frames[i][1] == word]
        made.append(
            [
                max(
                    own,
                    (own + max(sum(scores[i][m] for i in alike) / len(alike), *(scores[i][m] for i in same)))
                    / 2,
                )
                for m, own in enumerate(scores[index])
            ]
        )
    return made


def _segmented(
    scores: Sequence[Sequence[float]], needed: Sequence[bool]
) -> tuple[float, list[dict[int, int]]]:
    """The likeliest way to cut quantities, in their order, into calls: its score, and of each call the quantity of each member."""
    members = range(len(needed))

    def lacks(mask: int) -> float:
        return _MISSING * sum(needed[m] and not mask >> m & 1 for m in members)

    # By the members that the last call has: the score, and the way there, as (way before, new call, member).
    best: dict[int, tuple[float, Any]] = {0: (0.0, None)}
    for row in scores:
        after: dict[int, tuple[float, Any]] = {}
        for mask, (score, way) in best.items():
            found: list[tuple[int, float, Any]] = [(mask, score + _UNUSED, (way, False, None))]
            for m in members:
                if not mask >> m & 1:
                    in_order = _IN_ORDER * (mask < 1 << m)
                    found.append((mask | 1 << m, score + row[m] + in_order, (way, False, m)))
                if mask:
                    found.append((1 << m, score + row[m] + _NEW + lacks(mask), (way, True, m)))
            for key, total, one in found:
                if key not in after or after[key][0] < total:
                    after[key] = total, one
        best = after
    mask, (score, way) = max(best.items(), key=lambda one: one[1][0] + lacks(one[0]))
    steps = []
    while way is not None:
        way, is_new, member = way
        steps.append((is_new, member))
    calls: list[dict[int, int]] = [{}]
    for index, (is_new, member) in enumerate(reversed(steps)):
        if is_new:
            calls.append({})
        if member is not None:
            calls[-1][member] = index
    return score + lacks(mask), [call for call in calls if call]


def _in_columns(
    text: str, places: Sequence[Span], scores: Sequence[Sequence[float]], needed: Sequence[bool]
) -> Iterator[tuple[float, list[dict[int, int]]]]:
    """The same where enumerations have one member of all calls each: ``bought at 15, 20 and 25, sold at 18, 21 and 30``."""
    groups = [[0]]
    for index, (one, other) in enumerate(pairwise(places), 1):
        if are_joined(text, one, other):
            groups[-1].append(index)
        else:
            groups.append([index])
    count = max(map(len, groups))
    if count < 2:
        return
    roles: dict[int, list[int]] = {}
    score = _NEW * (count - 1)
    rated = []
    for group in groups:
        if len(group) in (1, count):
            rated += [
                (sum(scores[index][m] for index in group) / len(group), m, group) for m in range(len(needed))
            ]
    for mean, m, group in sorted(rated, key=lambda one: -one[0]):
        if m not in roles and group not in roles.values() and mean > _UNUSED:
            roles[m] = group
    if not any(len(group) == count for group in roles.values()):
        return
    for m, group in roles.items():
        score += sum(scores[index][m] for index in group)
    score += _UNUSED * sum(len(group) for group in groups if group not in roles.values())
    score += _MISSING * sum(is_needed and m not in roles for m, is_needed in enumerate(needed))
    yield score, [{m: group[k if len(group) > 1 else 0] for m, group in roles.items()} for k in range(count)]


def _is_enumerated(text: str, calls: Sequence[StatedCall]) -> bool:
    """Whether the quantities of calls, if any vary, are an enumeration."""
    return all(
        are_joined(text, max(one.places.values()), min(other.places.values()))
        for one, other in pairwise(calls)
    )


def call_spans(text: str, calls: Sequence[StatedCall]) -> list[Span] | None:
    """The parts of a text that say something of one of some calls each; None: they cannot be told apart."""
    spans = [(min(call.places.values())[0], max(call.places.values())[1]) for call in calls]
    if any(one[1] > other[0] for one, other in pairwise(spans)):
        return None
    begins, ends = [0, *sentence_ends(text, 0, spans[0][0])], [*sentence_ends(text, spans[-1][1], len(text))]
    cuts = [begins[-1]]
    for (_, end), (start, _) in pairwise(spans):
        before = len(text[:start].rstrip("$€£¥ "))
        breaks = [match.end() for match in BREAK.finditer(text, end, start)]
        following = [one for one in breaks if _NEXT.match(text, one)]
        following = following or [one for one in breaks if begins_and(text, one)]
        if not breaks or breaks[-1] < before:  # else the call begins with its quantity
            breaks = sentence_ends(text, end, start)[:1] or following[:1] or breaks[:1]
        if not breaks:
            return None
        cuts.append(breaks[-1])
    return [*pairwise([*cuts, ends[0] if ends else len(text)])]


def enumerated_calls(
    text: str,
    phrases: Mapping[str, str],
    quantities: Sequence[Mapping[str, Any]] = (),
    listed: Collection[str] = (),
) -> list[dict[str, Any]]:
    """The arguments of each call that vary, by name, where phrases of one call stand in enumerations; none, where none does.

    Enumerations go together where the text says "respectively"; else each item of one goes with each of the others.

    Args:
        text: the message.
        phrases: of one call.
        quantities: of each call, where they vary.
        listed: items of its lists: an enumeration with one of them is that list.
    """
    lists: list[list[dict[str, Any]]] = [[dict(row) for row in quantities]] if quantities else []
    for name, phrase in phrases.items():
        others = {*listed, *(one for other, one in phrases.items() if other != name)}
        items = enumeration(text, phrase)
        if len(items) > 1 and not others & {*items, phrase}:
            lists.append([{name: item} for item in items])
    if len(lists) == bool(quantities):
        return []
    in_turn = len({*map(len, lists)}) == 1 and _IN_TURN.search(text)
    rows = zip(*lists, strict=True) if in_turn else product(*lists)
    calls = [{name: one for part in row for name, one in part.items()} for row in rows]
    return calls if len(calls) <= MOST_CALLS else []
