"""What encodes prompts as a model does, without its weights: small enough for another process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.models.base import Cache, LanguageModel, Prompt
from constrained.prompting.chat_template import encode_prompt
from constrained.vocabulary import Vocabulary


class PromptModel(LanguageModel):
    """A model's tokenizer with its chat template, its vocabulary and its context. It reads no tokens.

    Args:
        vocabulary: of the model.
        tokenizer: of the model; None: its prompts are token ids.
        context: of the model.
    """

    def __init__(self, vocabulary: Vocabulary, tokenizer: Any, context: int | None) -> None:
        self.vocabulary = vocabulary
        self.tokenizer = tokenizer
        self.context = context

    def encode(self, prompt: Prompt, *, chat: bool = True) -> list[int]:
        """See `LanguageModel.encode`."""
        return encode_prompt(prompt, self.tokenizer, self.vocabulary.size, chat=chat, context=self.context)

    def cache(self, rows: int) -> Cache:
        """There is none.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a PromptModel has no weights")

    def forward(self, tokens: Sequence[Sequence[int]], cache: Cache) -> NDArray[np.float32]:
        """It computes none.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a PromptModel has no weights")
