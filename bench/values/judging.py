"""Which fields of an answer are right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from constrained.bench.values.items import ValueItem
from constrained.extraction.values.scoring import FieldScore, score_fields
from constrained.grammars.json_pointer import escape

_LEFT_OUT = ""
"""Among accepted values: the argument need not be there."""
_IGNORED = re.compile(r"[ ,./\-_*^]")
"""Characters of strings that BFCL does not compare; case does not count either."""


def judge(item: ValueItem, value: Any) -> list[FieldScore]:
    """A score for each field that is asked for, and for each that is invented.

    Args:
        item: with the value that is right.
        value: the answer; None if there is none. Of calls a list of ``{"name", "arguments"}``.
    """
    if item.constraint is None:
        return list(_calls(item.gold, value or []))
    return score_fields(item.gold, value)


def _calls(gold: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> Iterator[FieldScore]:
    """Calls of one function belong together, those first that have the most in common; their order does not count.

    The name is a field, and so is each argument that is asked for. One that may be left out counts only where its value is
    not accepted, as invented; so it is the same number of fields for every answer.
    """
    asked = [next(iter(call.items())) for call in gold]
    pairs = []
    for i, (name, accepted) in enumerate(asked):
        for j, call in enumerate(found):
            if call["name"] == name:
                scores = list(_arguments(accepted, call["arguments"]))
                right = sum(score.verdict == "right" for score in scores)
                pairs.append((-right, len(scores) - right, i, j, scores))
    pairs.sort(key=lambda pair: pair[:4])
    left, unused = set(range(len(asked))), set(range(len(found)))
    for _, _, i, j, scores in pairs:
        if i in left and j in unused:
            left.remove(i)
            unused.remove(j)
            yield FieldScore("/name", asked[i][0], asked[i][0], "right")
            yield from scores
    for i in sorted(left):
        yield FieldScore("/name", asked[i][0], None, "missing")
        yield from _arguments(asked[i][1], {})
    for j in sorted(unused):
        yield FieldScore("/name", None, found[j]["name"], "invented")
        yield from _arguments({}, found[j]["arguments"])


def _arguments(accepted: Mapping[str, Sequence[Any]], found: Mapping[str, Any]) -> Iterator[FieldScore]:
    for name in {**accepted, **found}:
        pointer, values = f"/arguments/{escape(name)}", accepted.get(name)
        if values == []:  # nothing is listed where nothing belongs into an array
            values = [[]]
        is_right = values is not None and name in found and any(_equal(one, found[name]) for one in values)
        if values is None or _LEFT_OUT in values:
            if name in found and not is_right:
                yield FieldScore(pointer, None, found[name], "invented")
        elif name not in found:
            yield FieldScore(pointer, values[0], None, "missing")
        else:
            yield FieldScore(pointer, values[0], found[name], "right" if is_right else "wrong")


def _equal(accepted: Any, found: Any) -> bool:
    """Whether a value is an accepted one; members of objects have accepted values of their own."""
    if isinstance(accepted, str):
        return isinstance(found, str) and _plain(accepted) == _plain(found)
    if isinstance(accepted, dict):
        return isinstance(found, dict) and all(
            score.verdict == "right" for score in _arguments(accepted, found)
        )
    if isinstance(accepted, list):
        same = isinstance(found, list) and len(accepted) == len(found)
        return same and all(map(_equal, accepted, found))
    return isinstance(accepted, bool) == isinstance(found, bool) and bool(accepted == found)


def _plain(text: str) -> str:
    return _IGNORED.sub("", text).lower()
