"""Constraints, from their source to one grammar (`ir`). Must not know: tokenizers, models."""
