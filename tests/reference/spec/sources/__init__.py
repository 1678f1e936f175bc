"""The sources of draft tokens in Python; see `constrained.spec.sources` for what each proposes."""

from __future__ import annotations

from tests.reference.spec.sources.base import DraftSource, DraftToken
from tests.reference.spec.sources.forced import ForcedTokens
from tests.reference.spec.sources.names import MemberNames
from tests.reference.spec.sources.ngram import TokenNGrams
from tests.reference.spec.sources.prompt_lookup import PromptLookup
from tests.reference.spec.sources.slot_favourites import SlotFavourites
from tests.reference.spec.sources.slot_ngrams import SlotNGrams
from tests.reference.spec.sources.spans import DocumentSpans
from tests.reference.spec.sources.suffix import SuffixLookup
from tests.reference.spec.sources.token_recycling import TokenRecycling

__all__ = [
    "DocumentSpans",
    "DraftSource",
    "DraftToken",
    "ForcedTokens",
    "MemberNames",
    "PromptLookup",
    "SlotFavourites",
    "SlotNGrams",
    "SuffixLookup",
    "TokenNGrams",
    "TokenRecycling",
]
