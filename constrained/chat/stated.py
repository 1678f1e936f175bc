"""Numbers and names that a user's message states and no call has: where a reply lacks some, another call may be wanted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import reduce
from typing import Any

from constrained.chat.tool_format import common_prefix
from constrained.grammars.text.quantities import find_quantities

_NAME = re.compile(r"\b[^\W\d_]{2,}\b")
_BEGIN = re.compile(r"(?:^|[.!?\n])[\s\"'“„«(]*\Z")
"""What stands before the first word of a sentence."""
_SCALES = (0, 2, -3, -6, -9)
"""Powers of ten by which a text may have another number: 0.05 for 5 %, 3200000 for 3.2 million."""
_LAST_NUMBER = re.compile(r"[:\[,]\s*(-?[0-9][0-9.]*)$")
_LAST_NAME = re.compile(r"\"([^\W\d_]+)$")

MOST_CHARACTERS = 4096
"""Of a message; a longer one holds a document, and not all that it states is asked for."""


class StatedValues:
    """What a message states: numbers, and names, which are words with a capital letter inside a sentence."""

    def __init__(self, text: str) -> None:
        """What this message states."""
        text = text if len(text) <= MOST_CHARACTERS else ""
        self._numbers = frozenset(find_quantities(text).numbers)
        self._names = frozenset(
            word[0]
            for word in _NAME.finditer(text)
            if word[0][0].isupper() and not _BEGIN.search(text, max(0, word.start() - 8), word.start())
        )

    def __len__(self) -> int:
        return len(self._numbers) + len(self._names)

    def without(self, arguments: str) -> StatedValues:
        """What the arguments of a call, a JSON text, have nothing of."""
        try:
            values = list(leaves(json.loads(arguments)))
        except (
            ValueError,
            RecursionError,
        ):  # a number of thousands of digits, or a deep nest: what nobody asked for
            return NOTHING_STATED
        numbers, words = set[Decimal](), set[str]()
        for leaf in values:
            if isinstance(leaf, str):
                numbers |= find_quantities(leaf).numbers.keys()
                words |= set(_NAME.findall(leaf.lower()))
            elif not isinstance(leaf, bool) and leaf is not None:
                value = Decimal(str(leaf))
                numbers |= {value.scaleb(zeros) for zeros in _SCALES}
        left = StatedValues("")
        left._numbers = self._numbers - numbers
        left._names = frozenset(word for word in self._names if word.lower() not in words)
        return left

    def rest(self, text: str) -> str | None:
        """How a JSON text goes on that ends inside one of these numbers or names, as far as they agree; None if it does not."""
        number, name = _LAST_NUMBER.search(text), _LAST_NAME.search(text)
        begun = number or name
        if begun is None:
            return None
        values = self._names if number is None else map("{:f}".format, self._numbers)
        rests = [value.removeprefix(begun[1]) for value in values if value.startswith(begun[1])]
        return reduce(common_prefix, rests) if rests else None


NOTHING_STATED = StatedValues("")


def leaves(value: Any) -> Iterator[Any]:
    """The values in a JSON value that are no arrays and objects."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from leaves(one)
    else:
        yield value
