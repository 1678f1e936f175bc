"""Sources of guesses, each small and able to be left out.

forced     what the automaton leaves no choice about, and literals where it leaves a small one
ngram      tokens that followed the last tokens: in this text and its prompt, under this constraint, ever
skeleton   tokens that stood in the same slot of a JSON value, and in the same state of the automaton
copying    bytes of the prompt that go on from what is being written
suffix     long repetitions of past texts
recycle    the model's own runners-up after a token
"""

from __future__ import annotations

from spec.sources.base import DraftSource, DraftToken
from spec.sources.copying import PromptLookup
from spec.sources.forced import ForcedTokens
from spec.sources.ngram import TokenNGrams
from spec.sources.recycle import TokenRecycling
from spec.sources.skeleton import SlotNGrams
from spec.sources.suffix import SuffixLookup

DRAFT_SOURCES = ("forced", "ngram", "skeleton", "copying", "suffix", "recycle")
"""Names of all sources, in the order of their numbers."""

__all__ = [
    "DRAFT_SOURCES",
    "DraftSource",
    "DraftToken",
    "ForcedTokens",
    "PromptLookup",
    "SlotNGrams",
    "SuffixLookup",
    "TokenNGrams",
    "TokenRecycling",
]
