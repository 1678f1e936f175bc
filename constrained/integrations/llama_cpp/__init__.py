"""Constraints inside `llama_cpp.Llama`: a logits processor for ``create_completion`` and ``create_chat_completion``.

`constrained.load("model.gguf")` runs this library's own loop on such a model, with draft tokens and all samplers.
"""

from __future__ import annotations

from constrained.integrations.llama_cpp.processor import LlamaCppLogitsProcessor

__all__ = ["LlamaCppLogitsProcessor"]
