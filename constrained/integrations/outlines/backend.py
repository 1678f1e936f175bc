"""`logits_processor` for a model of Outlines, and `OutlinesBackend`, its interface for backends."""

from __future__ import annotations

from typing import Any

from outlines.backends import BaseBackend

from constrained import constraint as kinds
from constrained.errors import InvalidArgument, Problem, UnsupportedConstraint


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


class OutlinesBackend(BaseBackend):
    """What Outlines asks of a backend. Outlines chooses backends by names that it knows: use it directly, or `logits_processor`."""

    def __init__(self, model: Any) -> None:
        """Compiles nothing yet.

        Args:
            model: see `logits_processor`.
        """
        self.model = model

    def get_json_schema_logits_processor(
        self, json_schema: str, whitespace_pattern: str | None = None
    ) -> Any:
        """The processor of a JSON Schema; white space is bounded.

        Raises:
            UnsupportedConstraint: `whitespace_pattern` is given.
        """
        if whitespace_pattern is not None:
            raise UnsupportedConstraint(
                "whitespace_pattern cannot be enforced",
                Problem("whitespace_pattern", "is not supported", whitespace_pattern),
                action="leave it out: white space is bounded",
            )
        return logits_processor(self.model, kinds.json_schema(json_schema))

    def get_regex_logits_processor(self, regex: str) -> Any:
        """The processor of a regular expression."""
        return logits_processor(self.model, kinds.regex(regex))

    def get_cfg_logits_processor(self, grammar: str) -> Any:
        """The processor of a grammar: with ``::=`` EBNF or GBNF, otherwise Lark."""
        return logits_processor(self.model, kinds.ebnf(grammar) if "::=" in grammar else kinds.lark(grammar))
