"""Which list each sentence of a text is about, where the text has headings: ``Tasks: Lena migrates ...``, or ``Education`` on a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from constrained.decisions.naming import names_alike
from constrained.extraction.chunks import TextChunk

_HEADING = re.compile(r"[\s#*]*(?P<label>[^\W\d_]\w*(?: \w+){0,2}) ?(?::[\s*]*|\s*$)")


class HeadedSentence(NamedTuple):
    """A sentence.

    Attributes:
        span: where it stands, without the heading before it.
        name: of the list that it is about; None: no heading says.
    """

    span: tuple[int, int]
    name: str | None


def sections(text: str, sentences: Iterable[TextChunk], lists: Mapping[str, bool]) -> list[HeadedSentence]:
    """The sentences of a text, each with the list that the last heading before it names; headings alone are left out.

    Args:
        text: of all.
        sentences: of it, and lines.
        lists: the names of lists, and whether they are lists of objects: in ``Present: Rosa, Emil.`` a heading is of one sentence.
    """
    found = list[HeadedSentence]()
    name: str | None = None
    for one in sentences:
        heading = _HEADING.match(text, one.start, one.end)
        label = "" if heading is None else heading["label"]
        start, mine = one.start, name
        named = next((other for other in lists if names_alike(label, other)), None)
        if heading is not None and named is not None:
            start, mine = heading.end(), named
            if lists[named] or start == one.end:
                name = named
        if start < one.end:
            found.append(HeadedSentence((start, one.end), mine))
    return found
