"""Counts of the words that follow texts, packed for a file as a prefix forest.

A text that is another text and one of its words is not written again: roots are texts, all other nodes are words. Nodes are
written in preorder, as columns, which compress better than rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WordCounts = dict[str, int]


def packed(table: Mapping[str, WordCounts]) -> dict[str, list[Any]]:
    """Columns of a table, as JSON values; the same table gives the same columns.

    Args:
        table: text -> the words that follow it, none of them empty -> how often.
    """
    columns: dict[str, list[Any]] = {"shared": [], "roots": [], "sizes": [], "words": [], "counts": []}
    continued = {text + word for text, words in table.items() for word in words}
    written: set[str] = set()
    before = ""
    for root in sorted(set(table) - continued):
        shared = _shared(before, root)
        columns["shared"].append(shared)
        columns["roots"].append(root[shared:])
        before, ahead = root, [(root, "", 0)]
        while ahead:
            text, word, count = ahead.pop()
            if word:
                columns["words"].append(word)
                columns["counts"].append(count)
            new = text in table and text not in written
            words = sorted(table[text].items(), key=lambda item: (item[1], item[0])) if new else []
            written.add(text)
            columns["sizes"].append(len(words))
            ahead += [(text + word, word, count) for word, count in reversed(words)]
    return columns


def unpacked(columns: Mapping[str, list[Any]]) -> dict[str, WordCounts]:
    """The table of `packed`, the rarest words of each text first.

    Raises:
        ValueError: no table has these columns.
    """
    table: dict[str, WordCounts] = {}
    sizes, words = iter(columns["sizes"]), iter(zip(columns["words"], columns["counts"], strict=True))
    text = ""
    try:
        for shared, rest in zip(columns["shared"], columns["roots"], strict=True):
            text = text[:shared] + rest
            open_texts = [(text, next(sizes))]
            table[text] = {}
            while open_texts:
                above, left = open_texts.pop()
                if not left:
                    continue
                open_texts.append((above, left - 1))
                word, count = next(words)
                table[above][word] = count
                size = next(sizes)
                if size:
                    table[above + word] = {}
                    open_texts.append((above + word, size))
    except StopIteration:
        raise ValueError("a column is too short") from None
    if next(sizes, None) is not None or next(words, None) is not None:
        raise ValueError("a column is too long")
    return table


def _shared(text: str, other: str) -> int:
    """The length of the common prefix of two texts."""
    length = 0
    for a, b in zip(text, other, strict=False):
        if a != b:
            break
        length += 1
    return length
