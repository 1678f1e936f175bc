"""Coarse classes of bytes and of lengths."""

from __future__ import annotations

from tests.reference.spec.layout import SPACE


def byte_class(byte: int) -> int:
    """Lower case and bytes above ASCII, upper case, digits, white space, others: 0 .. 4."""
    char = bytes((byte,))
    if char.islower() or byte >= 0x80:
        return 0
    return 1 if char.isupper() else 2 if char.isdigit() else 3 if char in SPACE else 4


def length_class(length: int) -> int:
    """The number of binary digits, at most 7."""
    return min(length.bit_length(), 7)
