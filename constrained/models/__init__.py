"""Language models behind one small interface: ids in, logits out, and a cache that remembers texts.

Must not know: grammars, automata, samplers. torch and transformers are imported when a model is made, not before.
"""

from __future__ import annotations

from constrained.models.base import Cache, LanguageModel, Prompt
from constrained.models.loading import load
from constrained.models.logits import Logits

__all__ = ["Cache", "LanguageModel", "Logits", "Prompt", "load"]
