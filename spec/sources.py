"""The sources of draft tokens, by name; they are implemented in C++ (`spec/_core/sources.cpp`).

forced           tokens that the automaton leaves no alternative to, and its usual choices: layout, literals, ends
ngram            tokens that followed the last tokens: in this sequence and its prompt, under this constraint, in all outputs
slot_ngrams      tokens that stood in one slot of a JSON value, in one state of the automaton, at places of one shape
prompt_lookup    bytes of the prompt that continue the value being written
assistant        tokens that a smaller model would write next (`constrained.load(..., assistant=...)`)
slot_favourites  tokens that the model ranked high in this slot: asked for ahead, or behind a draft token that was refused
"""

from __future__ import annotations

from collections.abc import Collection

DRAFT_SOURCES = (
    "forced",
    "ngram",
    "slot_ngrams",
    "prompt_lookup",
    "assistant",
    "slot_favourites",
)
"""Names of all sources. The index of a name is the source's number; enum Source in spec/_core/drafter.hpp has that order."""

_NGRAM = DRAFT_SOURCES.index("ngram")
_WIDER_NGRAMS = 3 << len(
    DRAFT_SOURCES
)  # n-grams of the constraint and of all constraints: sources of their own to C++


def source_bits(names: Collection[str]) -> int:
    """The native drafter's bit set of sources."""
    bits = sum(1 << number for number, name in enumerate(DRAFT_SOURCES) if name in names)
    return bits | _WIDER_NGRAMS if "ngram" in names else bits


def merge_ngram_scopes(bits: int) -> int:
    """A bit set over `DRAFT_SOURCES` from the native drafter's, which has three bits for n-grams."""
    named = bits & ((1 << len(DRAFT_SOURCES)) - 1)
    return named | 1 << _NGRAM if bits > named else named
