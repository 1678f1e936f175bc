"""Partition of undeclared keys into classes by the patterns of ``patternProperties`` that they match.

n patterns have up to 2^n combinations, most of them empty. Classes are split one pattern at a time, and classes that
are provably empty are dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.json_schema.source.document import child_pointer
from constrained.grammars.json_schema.text.patterns import StringPattern
from constrained.grammars.json_schema.text.strings import strings_excluding
from constrained.grammars.regex.languages import RegularLanguages
from constrained.grammars.work import spend

MAX_CLASSES = 128
"""Maximum number of key classes of one object."""


class KeyClass(NamedTuple):
    """Keys that match all of `matched` and none of `excluded_patterns`; other patterns cannot match them."""

    matched: tuple[StringPattern, ...] = ()
    excluded_patterns: tuple[StringPattern, ...] = ()

    def key_regex(self, names: Sequence[str]) -> ir.Regex:
        """The JSON strings of these keys, without some names."""
        return strings_excluding(
            names,
            [pattern.value_language for pattern in self.excluded_patterns],
            [pattern.value_language for pattern in self.matched],
        )


def partition_keys(
    patterns: Sequence[StringPattern], forbidden: Collection[StringPattern], place: str
) -> list[KeyClass]:
    """Disjoint classes of keys by the patterns that they match.

    Args:
        patterns: each once.
        forbidden: those of the patterns that no key may match.
        place: JSON Pointer of the schema, for errors.

    Raises:
        ConstraintTooLarge: there are more than `MAX_CLASSES`.
    """
    languages = RegularLanguages()
    known: dict[frozenset[StringPattern], bool] = {}

    def meet(a: StringPattern, b: StringPattern) -> bool:
        pair = frozenset((a, b))
        if pair not in known:
            known[pair] = not languages.provably_disjoint([a.value_language, b.value_language])
        return known[pair]

    def apart(within: Sequence[StringPattern], without: Sequence[StringPattern]) -> bool:
        return languages.provably_disjoint(
            [p.value_language for p in within], [p.value_language for p in without]
        )

    classes = [KeyClass()]
    for pattern in patterns:
        split = []
        for keys in classes:
            spend(1 + len(keys.excluded_patterns) // 4, place)
            matched = (*keys.matched, pattern)
            if not all(meet(pattern, other) for other in keys.matched):
                split.append(keys)
                continue
            without = tuple(other for other in keys.excluded_patterns if meet(pattern, other))
            if (len(matched) > 2 or without) and apart(matched, without):
                split.append(keys)
                continue
            if pattern not in forbidden:
                split.append(KeyClass(matched, without))
            if not keys.matched or not apart(keys.matched, (*keys.excluded_patterns, pattern)):
                split.append(KeyClass(keys.matched, (*keys.excluded_patterns, pattern)))
        classes = split
        if len(classes) > MAX_CLASSES:
            raise ConstraintTooLarge(
                "too many patterns of keys on one object",
                Problem(
                    child_pointer(place, "patternProperties"),
                    f"more than {MAX_CLASSES} combinations of {len(patterns)} patterns that one key may match",
                ),
                action="merge patterns that lead to the same schema",
            )
    return classes
