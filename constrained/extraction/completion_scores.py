"""What the model says of a completion when it reads it once more: probabilities of fields, and the projection tax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from constrained.decoding import Generator
from constrained.decoding.output import Output
from constrained.extraction.values.fields import FieldProbability, projection_tax, score_fields
from constrained.models import LanguageModel, Prompt

if TYPE_CHECKING:
    from constrained.automaton import Automaton

ScoredRequest: TypeAlias = tuple[Generator[Any], Prompt]
"""The generator that wrote a completion, and its prompt."""


def output_fields(request: ScoredRequest, output: Output[Any]) -> dict[str, FieldProbability]:
    """The probabilities of the scalars of a completion; one pass of the model.

    Args:
        request: what wrote it.
        output: the completion.
    """
    return score_fields(
        *_scored(request, output), is_json=request[0].constraint.is_json, ended=_ended(output)
    )


def completion_tax(request: ScoredRequest, output: Output[Any]) -> float:
    """The projection tax of a completion, see `Extraction.projection_tax`; one pass of the model."""
    return projection_tax(*_scored(request, output), ended=_ended(output))


def _scored(
    request: ScoredRequest, output: Output[Any]
) -> tuple[LanguageModel, Automaton, list[int], tuple[int, ...]]:
    generator, prompt = request
    ids = generator.model.encode(prompt, chat=generator.chat)
    return generator.model, generator.automaton, ids, output.tokens


def _ended(output: Output[Any]) -> bool:
    return output.finish == "end"
