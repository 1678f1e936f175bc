"""Quantised models in GGUF files, by llama-cpp-python: ``load("model.gguf")``.

`memory` has the keys and values of sequences, `cache` the rows of a batch, `tokenizer` what prompts need, `model` the rest.
"""

from __future__ import annotations

from constrained.extras import require_extra

with require_extra("llama-cpp"):
    import llama_cpp  # noqa: F401

from constrained.models.llama_cpp.model import LlamaCppModel, load_gguf

__all__ = ["LlamaCppModel", "load_gguf"]
