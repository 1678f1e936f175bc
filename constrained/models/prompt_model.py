"""What encodes prompts as a model does, without its weights: small enough for another process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from constrained.errors import ModelError
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

    def cache(self, rows: int) -> NoReturn:
        """There is none.

        Raises:
            ModelError: always.
        """
        raise ModelError(
            f"a {type(self).__name__} gives no logits: it has no weights in this process",
            action="load the model with constrained.load; what an engine decodes, an Extractor can read",
        )

    def forward(self, tokens: Sequence[Sequence[int]], cache: Cache) -> NoReturn:
        """As `cache`."""
        self.cache(1)
