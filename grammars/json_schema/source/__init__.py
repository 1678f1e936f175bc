"""Schemas as they are written: documents, references, dialects, keywords, and the constraints each keyword states."""
