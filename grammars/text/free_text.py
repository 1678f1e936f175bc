"""Free text without markers, and up to a marker, which is recognised where it first ends: every string is split in one way."""

from __future__ import annotations

from collections.abc import Sequence

from constrained.grammars import ir


def text_without(markers: Sequence[str]) -> ir.Regex:
    """Text that contains none of the markers."""
    return ir.difference(ir.TEXT, ir.concat(ir.TEXT, _any(markers), ir.TEXT))


def text_up_to(marker: str, markers: Sequence[str]) -> ir.Regex:
    """Text that ends with `marker`, the first of the `markers` in it."""
    return ir.difference(ir.concat(ir.TEXT, ir.literal(marker)), _text_beyond(markers))


def texts_up_to(markers: Sequence[str], excludes: Sequence[str] = ()) -> list[ir.Regex]:
    """For each marker, the text that ends with it, the first marker in it, and contains nothing of `excludes`."""
    unwanted = ir.union(_text_beyond(markers), ir.concat(ir.TEXT, _any(excludes), ir.TEXT))
    return [ir.difference(ir.concat(ir.TEXT, ir.literal(marker)), unwanted) for marker in markers]


def _text_beyond(markers: Sequence[str]) -> ir.Regex:
    """Text in which a marker ends before the end."""
    return ir.concat(ir.TEXT, _any(markers), ir.repeat(ir.ANY_CHAR, 1))


def _any(markers: Sequence[str]) -> ir.Regex:
    return ir.union(*(ir.literal(marker) for marker in markers))
