"""Constraints inside `llama_cpp.Llama`: a logits processor for ``create_completion`` and ``create_chat_completion``.

`constrained.load("model.gguf")` runs this library's own loop on such a model, with draft tokens and all samplers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.forced_tokens import Spelling
from constrained.errors import InvalidArgument, ModelMismatch
from constrained.integrations.text_mask import TextMask
from constrained.vocabulary.llama_vocabulary import llama_vocabulary


class LlamaCppLogitsProcessor:
    """Masks the tokens after which the output cannot be completed.

        processor = LlamaCppLogitsProcessor(constraint, llama, max_tokens=200)
        llama.create_completion(prompt, max_tokens=200, logits_processor=processor)

    It can stand in a list, with others, but not beside a ``logit_bias``: llama-cpp-python then drops the list. A processor can be used for one call after another, not for two at a time. llama-cpp-python calls it from C, where an
    exception is shown (`sys.unraisablehook`) and lost: the text then ends at once.

    Attributes:
        error: what ended the last text; None if nothing did.
    """

    def __init__(
        self, constraint: Any, llama: Any, *, max_tokens: int | None = None, spelling: Spelling = "canonical"
    ) -> None:
        """Compiles the constraint.

        Args:
            constraint: a `Constraint`, a Python type, a JSON Schema or an `Automaton`.
            llama: the `llama_cpp.Llama` that generates.
            max_tokens: what `create_completion` gets as ``max_tokens``: the text is complete within it. Without it a long
                text is cut off.
            spelling: how text that is forced is spelled, as of `constrained.Local`.

        Raises:
            ConstraintError, ConstraintTooLarge: the constraint cannot be enforced.
            DoesNotFit: no complete text has only `max_tokens` tokens.
            InvalidArgument: `llama` has a ``draft_model``, whose tokens it shows as if they were part of the text; or there is
                no such spelling.
            VocabularyError, ModelMismatch: its tokenizer cannot be used, or an automaton is of another one.
        """
        if llama.draft_model is not None:
            raise InvalidArgument(
                "with a draft_model, llama-cpp-python shows drafts as if they were part of the text",
                action="leave draft_model out, or generate by constrained.load(llama), which drafts by itself",
            )
        self.error: Exception | None = None
        self._text = TextMask(constraint, llama_vocabulary(llama), max_tokens, spelling)

    def __iter__(self) -> Iterator[LlamaCppLogitsProcessor]:
        """Itself: llama-cpp-python runs what it gets as a list, and what is none as nothing, without the constraint."""
        yield self

    def extend(self, others: Iterable[Any]) -> list[Any]:
        """A list with other processors; llama-cpp-python asks for it where there is a ``logit_bias``."""
        return [self, *others]

    def reset(self) -> None:
        """Says that the next step begins another text; needed only where its prompt goes on with the last one."""
        self._text.reset()

    def __call__(
        self, input_ids: NDArray[np.integer[Any]], scores: NDArray[np.floating[Any]]
    ) -> NDArray[np.floating[Any]]:
        """The scores, -inf where a token is not allowed.

        Args:
            input_ids: prompt and text, ids ``[length]``.
            scores: of the next token, floating ``[vocabulary.size]``.

        Raises:
            ModelMismatch: the scores are of another model.
            InvalidArgument: another processor forced a token that the constraint does not allow.
            BudgetExhausted: no token is allowed.
        """
        vocabulary, self.error = self._text.vocabulary, None
        try:
            if len(scores) != vocabulary.size:
                raise ModelMismatch(
                    f"the model returned {len(scores)} scores for a vocabulary of {vocabulary.size} ids",
                    action="make a processor for each model",
                )
            allowed = self._text.allowed(input_ids, len(scores))
        except Exception as error:
            self.error = error
            scores[:] = -np.inf
            scores[[token for token in vocabulary.eos_ids if token < len(scores)]] = 0
            raise
        return np.where(allowed, scores, scores.dtype.type(-np.inf))
