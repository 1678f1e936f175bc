"""Constraints under `model.generate` of transformers.

processor.py   `ConstraintLogitsProcessor`: masks scores; beams, assistants and everything else stay generate's
histories.py   which automaton state each row of a step is in, found by the tokens of the row
generating.py  `decode`, for `custom_generate=`: this library's loop and samplers behind generate's arguments
"""

from __future__ import annotations

from constrained.integrations.transformers.generating import ConstrainedOutput, decode
from constrained.integrations.transformers.processor import ConstraintLogitsProcessor

__all__ = ["ConstrainedOutput", "ConstraintLogitsProcessor", "decode"]
