"""Classes of keys: which of some patterns a key may match, and no others.

n patterns could be matched in 2^n ways; most ways no key has. The classes are split one pattern at a time, and what
is surely empty is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from grammars import ir
from grammars.errors import ConstraintTooLarge, Problem
from grammars.json_schema.source.document import child_pointer
from grammars.json_schema.text.patterns import StringPattern
from grammars.json_schema.text.strings import strings_excluding
from grammars.regex.disjoint import DerivativeLanguages

MAX_CLASSES = 128
"""Most classes of keys of one object."""


class KeyClass(NamedTuple):
    """Keys that match some patterns; of the others, `without` are those that some of these keys would match."""

    matched: tuple[StringPattern, ...] = ()
    excluded_patterns: tuple[StringPattern, ...] = ()

    def key_regex(self, names: Sequence[str]) -> ir.Regex:
        """The JSON strings of these keys but some names."""
        return strings_excluding(
            names,
            [pattern.value_language for pattern in self.excluded_patterns],
            [pattern.value_language for pattern in self.matched],
        )


def partition_keys(
    patterns: Sequence[StringPattern], forbidden: Collection[StringPattern], place: str
) -> list[KeyClass]:
    """The classes of keys by the patterns that they match, none twice.

    Args:
        patterns: each once.
        forbidden: those of them that no key may match.
        place: the schema that says so.

    Raises:
        ConstraintTooLarge: there are too many.
    """
    languages = DerivativeLanguages()
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

    found = [KeyClass()]
    for pattern in patterns:
        split = []
        for keys in found:
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
        found = split
        if len(found) > MAX_CLASSES:
            raise ConstraintTooLarge(
                "too many patterns of keys on one object",
                Problem(
                    child_pointer(place, "patternProperties"),
                    f"more than {MAX_CLASSES} combinations of {len(patterns)} patterns that one key may match",
                ),
                action="merge patterns that lead to the same schema",
            )
    return found
