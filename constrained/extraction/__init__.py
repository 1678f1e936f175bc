"""Extraction: documents in, values of a type out, each with its document and what became of it."""

from __future__ import annotations

from constrained.extraction.api import extract
from constrained.extraction.extraction import Document, Extraction
from constrained.extraction.extractor import Extractor

__all__ = ["Document", "Extraction", "Extractor", "extract"]
