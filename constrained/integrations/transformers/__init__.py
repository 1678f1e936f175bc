"""Constraints under `model.generate` of transformers.

`processor` masks scores: beams, assistants and everything else stay generate's. `histories` finds which automaton
state each row of a step is in, by the tokens of the row. `generating` has `decode`, for ``custom_generate=``: this
library's loop and samplers behind generate's arguments; `result` what it can return besides the tokens.
"""

from __future__ import annotations

from constrained.extras import require_extra

with require_extra("transformers"):
    from constrained.integrations.transformers.generating import decode
    from constrained.integrations.transformers.processor import ConstraintLogitsProcessor
    from constrained.integrations.transformers.result import ConstrainedOutput

__all__ = ["ConstrainedOutput", "ConstraintLogitsProcessor", "decode"]
