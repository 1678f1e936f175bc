"""Constraints inside `mlx-lm`: a logits processor for ``generate``, ``stream_generate`` and ``BatchGenerator``."""

from __future__ import annotations

from typing import Any

import numpy as np

from constrained.automaton.forced_tokens import Spelling
from constrained.extras import require_extra
from constrained.integrations.text_mask import TextMask
from constrained.vocabulary import Vocabulary

with require_extra("mlx"):
    import mlx.core as mx


class MlxLogitsProcessor:
    """Masks the tokens after which the output cannot be completed.

        model, tokenizer = mlx_lm.load(name)
        processor = MlxLogitsProcessor(constraint, tokenizer, max_tokens=200)
        mlx_lm.generate(model, tokenizer, prompt, max_tokens=200, logits_processors=[processor])

    A processor is of one text at a time: in a batch every request has its own, which costs nothing, as compiled constraints
    are kept. Drafts of a `draft_model` are checked too.
    """

    def __init__(
        self,
        constraint: Any,
        tokenizer: Any,
        *,
        max_tokens: int | None = None,
        spelling: Spelling = "canonical",
    ) -> None:
        """Compiles the constraint.

        Args:
            constraint: a `Constraint`, a Python type, a JSON Schema or an `Automaton`.
            tokenizer: of `mlx_lm.load`, of transformers, or a `Vocabulary`. The ends of sequence of `mlx_lm.load` count.
            max_tokens: what `generate` gets as ``max_tokens``: the text is complete within it. Without it a long text is
                cut off.
            spelling: how text that is forced is spelled, as of `constrained.Local`.

        Raises:
            ConstraintError, ConstraintTooLarge: the constraint cannot be enforced.
            InvalidArgument: there is no such spelling.
            DoesNotFit: no complete text has only `max_tokens` tokens.
            VocabularyError, ModelMismatch: the tokenizer cannot be used, or an automaton is of another one.
        """
        self._text = TextMask(constraint, _vocabulary(tokenizer), max_tokens, spelling)

    def reset(self) -> None:
        """Says that the next step begins another text; needed only where its prompt goes on with the last one."""
        self._text.reset()

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """The logits, -inf where a token is not allowed.

        Args:
            tokens: prompt and text, ids ``[length]``.
            logits: of the next token, floating ``[1, columns]``.

        Raises:
            InvalidArgument: another processor forced a token that the constraint does not allow.
            BudgetExhausted: no token is allowed.
        """
        allowed = mx.array(self._text.allowed(np.array(tokens), logits.shape[-1]))
        return mx.where(allowed, logits, mx.array(-mx.inf, logits.dtype))


def _vocabulary(tokenizer: Any) -> Vocabulary:
    if isinstance(tokenizer, Vocabulary):
        return tokenizer
    ends = getattr(tokenizer, "eos_token_ids", None)  # of mlx-lm's wrapper
    inner = getattr(tokenizer, "_tokenizer", tokenizer)
    return Vocabulary.from_tokenizer(inner, eos_ids=ends or None)
