"""Constraints inside Outlines: its models, its loops, our masks."""

from __future__ import annotations

from typing import Any

from constrained.errors import InvalidArgument


def logits_processor(model: Any, constraint: Any, *, max_tokens: int | None = None) -> Any:
    """The processor of a constraint for a model of Outlines.

        generator = outlines.Generator(model, processor=logits_processor(model, constraint, max_tokens=200))
        generator(prompt, max_new_tokens=200)

    Args:
        model: `outlines.models.Transformers`, `LlamaCpp` or `MLXLM`.
        constraint: a `Constraint`, a Python type, a JSON Schema or an `Automaton`.
        max_tokens: what the generator gets as its limit: every text is complete within it.

    Raises:
        InvalidArgument: a model of another kind, which takes no processor of ours.
        ConstraintError, ConstraintTooLarge: the constraint cannot be enforced.
        DoesNotFit: no complete text has only `max_tokens` tokens.
    """
    kind = type(model).__name__
    if kind in ("Transformers", "TransformersMultiModal"):
        from constrained.integrations.transformers import ConstraintLogitsProcessor
        from constrained.vocabulary import Vocabulary

        vocabulary = Vocabulary.from_tokenizer(model.hf_tokenizer, model=model.model)
        return ConstraintLogitsProcessor(constraint, vocabulary, max_tokens=max_tokens)
    if kind == "LlamaCpp":
        from constrained.integrations.llama_cpp import LlamaCppLogitsProcessor

        return LlamaCppLogitsProcessor(constraint, model.model, max_tokens=max_tokens)
    if kind == "MLXLM":
        from constrained.integrations.mlx import MlxLogitsProcessor

        return MlxLogitsProcessor(constraint, model.mlx_tokenizer, max_tokens=max_tokens)
    raise InvalidArgument(
        f"a {kind} takes no logits processor of ours", action="use a model of transformers, llama.cpp or MLX"
    )
