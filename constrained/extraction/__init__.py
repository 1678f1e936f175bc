"""Extraction: documents in, values of a type out, each with its document and what became of it."""

from __future__ import annotations

from constrained.extraction.api import aextract, extract, extract_many
from constrained.extraction.decider import Decided, Decider, decide
from constrained.extraction.extraction import Document, Extraction
from constrained.extraction.extractor import Extractor
from constrained.extraction.files.records import read_documents
from constrained.extraction.partial import Partial

__all__ = [
    "Decided",
    "Decider",
    "Document",
    "Extraction",
    "Extractor",
    "Partial",
    "aextract",
    "decide",
    "extract",
    "extract_many",
    "read_documents",
]
