"""What `decode` returns besides the tokens.

This page imports nothing of the engine: torch registers the class until the very end of the process, and with it
whatever the page knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from transformers.generation.utils import GenerateDecoderOnlyOutput

if TYPE_CHECKING:
    from constrained.decoding import Output


@dataclass
class ConstrainedOutput(GenerateDecoderOnlyOutput):
    """What `generate` returns with ``return_dict_in_generate=True``.

    Attributes:
        sequences: prompts and texts, int64 ``[rows, length]``.
        outputs: one for each row: value, text, logprob, weight, statistics.
    """

    outputs: tuple[Output, ...] | None = None
