"""Classes of keys: which of some patterns a key may match, and no others.

n patterns could be matched in 2^n ways; most ways no key has. The classes are split one pattern at a time, and what
is surely empty is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from grammars import ir
from grammars.errors import ConstraintTooLarge, Problem
from grammars.json_schema.source.document import step
from grammars.json_schema.text.patterns import Pattern
from grammars.json_schema.text.strings import other_keys
from grammars.regex.disjoint import Languages

MAX_CLASSES = 128
"""Most classes of keys of one object."""


class Class(NamedTuple):
    """Keys that match some patterns; of the others, `without` are those that some of these keys would match."""

    matched: tuple[Pattern, ...] = ()
    without: tuple[Pattern, ...] = ()

    def texts(self, names: Sequence[str]) -> ir.Regex:
        """The JSON strings of these keys but some names."""
        return other_keys(
            names,
            [pattern.characters for pattern in self.without],
            [pattern.characters for pattern in self.matched],
        )


def classes(patterns: Sequence[Pattern], forbidden: Collection[Pattern], place: str) -> list[Class]:
    """The classes of keys by the patterns that they match, none twice.

    Args:
        patterns: each once.
        forbidden: those of them that no key may match.
        place: the schema that says so.

    Raises:
        ConstraintTooLarge: there are too many.
    """
    languages = Languages()
    known: dict[frozenset[Pattern], bool] = {}

    def meet(a: Pattern, b: Pattern) -> bool:
        pair = frozenset((a, b))
        if pair not in known:
            known[pair] = not languages.apart([a.characters, b.characters])
        return known[pair]

    def apart(within: Sequence[Pattern], without: Sequence[Pattern]) -> bool:
        return languages.apart([p.characters for p in within], [p.characters for p in without])

    found = [Class()]
    for pattern in patterns:
        split = []
        for keys in found:
            matched = (*keys.matched, pattern)
            if not all(meet(pattern, other) for other in keys.matched):
                split.append(keys)
                continue
            without = tuple(other for other in keys.without if meet(pattern, other))
            if (len(matched) > 2 or without) and apart(matched, without):
                split.append(keys)
                continue
            if pattern not in forbidden:
                split.append(Class(matched, without))
            if not keys.matched or not apart(keys.matched, (*keys.without, pattern)):
                split.append(Class(keys.matched, (*keys.without, pattern)))
        found = split
        if len(found) > MAX_CLASSES:
            raise ConstraintTooLarge(
                "too many patterns of keys on one object",
                Problem(
                    step(place, "patternProperties"),
                    f"more than {MAX_CLASSES} combinations of {len(patterns)} patterns that one key may match",
                ),
                action="merge patterns that lead to the same schema",
            )
    return found
