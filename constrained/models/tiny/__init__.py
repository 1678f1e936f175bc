"""The bundled tiny model: the corpus it is trained on, the training script, its scores and its weights."""

from __future__ import annotations

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"
"""Folder with the model and tokenizer, as `transformers` reads them."""
