"""Words of a text that have the form of a member: an address, a code, a telephone number."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Place = tuple[int, int]

_FEW = 8
"""Words that fit a form, with parts of others; where more do than a quarter of all, and than this, it says too little."""
_MOST_TEXT = 1024
"""Words of a text in which words of a form are looked for."""
_MOST_WORDS = 4
"""Words of a text that are one, such as a telephone number."""
_EDGES = "\"'“”‘’«»„()[]<>{}*`|,;:!?"
"""What stands around a word."""
_OWNED = re.compile("['’]s$")


def word_places(text: str) -> list[list[Place]]:
    """The words of a text, and some in a row: of each, where it stands without what may be no part of it, the shortest first."""
    words = [match.span() for match in re.finditer(r"\S+", text)]
    found = []
    for first, (start, _) in enumerate(words if len(words) <= _MOST_TEXT else []):
        for _, end in words[first : first + _MOST_WORDS]:
            begin = start + len(text[start:end]) - len(text[start:end].lstrip(_EDGES))
            ends = [begin + len(text[begin:end].rstrip(edges)) for edges in (f"{_EDGES}.", _EDGES)]
            owner = _OWNED.search(text, begin, ends[0])
            ends = [*([] if owner is None else [owner.start()]), *ends]
            found.append([(begin, one) for one in dict.fromkeys(ends) if one > begin])
    return found


def words_of_form(
    text: str, places: Sequence[Sequence[Place]], allows: Callable[[str], bool]
) -> dict[str, list[Place]] | None:
    """The words of a text that have a form, the longest ones; None: most have it, or the text is too long.

    Args:
        text: of the document.
        places: of `word_places`.
        allows: whether a word has the form.
    """
    if not places:
        return None
    known: dict[str, bool] = {}

    def is_allowed(place: Place) -> bool:
        part = text[slice(*place)]
        if part not in known:
            known[part] = allows(part)
        return known[part]

    allowed = [place for row in places if (place := next(filter(is_allowed, row), None)) is not None]
    if len(allowed) > max(_FEW, len(places) // _MOST_WORDS):
        return None
    found: dict[str, list[Place]] = {}
    for place in dict.fromkeys(allowed):
        if not any(one != place and one[0] <= place[0] and place[1] <= one[1] for one in allowed):
            found.setdefault(text[slice(*place)], []).append(place)
    return found
