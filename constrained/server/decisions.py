"""``/v1/decisions``, OpenAI's, and ``/v1/systemone``, TypeSafe's: closed questions about a text, all read in one pass."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from constrained.decisions.questions import MOST_OPTIONS
from constrained.decoding.shared_runner import RequestSteps
from constrained.extraction.decider import Decided, Decider, Prior
from constrained.extraction.typed_questions import (
    Kind,
    TypedAnswer,
    TypedQuestion,
    content_text,
    questions_schema,
    system_one_answers,
    system_one_questions,
    typed_answers,
)
from constrained.models import LanguageModel
from constrained.server.errors import ApiError, invalid_field_error, to_api_error, unsupported_field_error
from constrained.server.requests import Items, LenientModel, StrictModel
from constrained.server.settings import ServerSettings

_MOST_QUESTIONS = 400
"""As in OpenAI's API."""


class DecisionPart(LenientModel):
    """A part of a text; `data` is that of ``input_json``."""

    type: str
    text: str | None = None
    refusal: str | None = None
    data: Any = None


_Content = str | Items[DecisionPart]


class DecisionItem(LenientModel):
    """A message, a call of a tool, or what it returned."""

    type: str = "message"
    role: Literal["user", "developer", "system", "assistant"] | None = None
    content: _Content | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None
    output: _Content | None = None


class DecisionOption(StrictModel):
    """A value of a choice."""

    value: str | bool
    description: str | None = None


class DecisionLevel(StrictModel):
    """A level of a score."""

    label: str
    description: str | None = None


_Options = Field(min_length=2, max_length=MOST_OPTIONS)


class DecisionQuestion(StrictModel):
    """A question; `choices` belong to a choice, and `levels` to a score."""

    type: Kind
    instructions: _Content
    name: str | None = None
    choices: Annotated[Items[DecisionOption], _Options] | None = None
    levels: Annotated[Items[DecisionLevel], _Options] | None = None


class DecisionsRequest(StrictModel):
    """The body of ``POST /v1/decisions``; `prior` is not part of OpenAI's API, and the fields after it change nothing."""

    model: str
    input: str | Items[DecisionItem]
    questions: Annotated[Items[DecisionQuestion], Field(min_length=1, max_length=_MOST_QUESTIONS)]
    prior: Prior = "subtract"
    prompt_cache_key: str | None = None
    prompt_cache_options: Any = None
    safety_identifier: str | None = None

    def text(self) -> str:
        """What the questions are about.

        Raises:
            ApiError: it has images, or items of another type.
        """
        if isinstance(self.input, str):
            return self.input
        items = [_item_text(item, f"input[{i}]") for i, item in enumerate(self.input)]
        if len(items) == 1 and self.input[0].role == "user":
            return items[0][1]
        return "\n\n".join(f"{who}: {said}" for who, said in items)

    def typed(self) -> list[TypedQuestion]:
        """The questions; those without a name are called by their number.

        Raises:
            ApiError: one has not the fields of its type.
        """
        return [_typed(question, i) for i, question in enumerate(self.questions)]

    def body(self, model: str, answers: Sequence[TypedAnswer], tokens: int) -> dict[str, Any]:
        """The answers in the order of the questions."""
        usage = {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens,
        }
        found = [
            {"name": question.name, **_answer(answer)}
            for question, answer in zip(self.questions, answers, strict=True)
        ]
        return {"model": model, "answers": found, "usage": usage}


class SystemOneQuestion(StrictModel):
    """A question; a noul may say what ``true`` and ``false`` mean, a choice has labels, a score levels."""

    type: Literal["noul", "choice", "score"]
    instructions: str | dict[str, Any] | list[Any] = ""
    criteria: dict[str, Any] | list[Any] | None = None


class SystemOneRequest(StrictModel):
    """The body of ``POST /v1/systemone``."""

    model: str | None = None
    state: str | dict[str, Any] | list[Any]
    questions: Annotated[dict[str, SystemOneQuestion], Field(min_length=1, max_length=_MOST_QUESTIONS)]
    prior: Prior = "subtract"

    def text(self) -> str:
        """What the questions are about; JSON as its text."""
        return content_text(self.state)

    def typed(self) -> list[TypedQuestion]:
        """The questions.

        Raises:
            InvalidArgument: one has not the criteria of its type.
        """
        return system_one_questions(self._plain)

    def body(self, model: str, answers: Sequence[TypedAnswer], tokens: int) -> dict[str, Any]:
        """The answers by the names of the questions."""
        return {
            "model": model,
            "answers": system_one_answers(answers, self._plain),
            "usage": {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens},
        }

    @property
    def _plain(self) -> Mapping[str, Mapping[str, Any]]:
        return {name: question.model_dump() for name, question in self.questions.items()}


Decisions = TypeVar("Decisions", DecisionsRequest, SystemOneRequest)


def prepare_decision(
    request: DecisionsRequest | SystemOneRequest, model: LanguageModel, settings: ServerSettings
) -> tuple[RequestSteps, int]:
    """Finds the options of the questions, and encodes the prompt.

    Returns:
        What reads the answers, a list of `TypedAnswer`, in the thread that owns the model; and the number of the prompt's tokens.

    Raises:
        ApiError: a field is invalid.
    """
    field = "questions"
    try:
        questions = request.typed()
        schema = questions_schema(questions)
        if len(json.dumps(schema)) > settings.max_schema:
            what = f"{field}: are larger than {settings.max_schema} bytes"
            raise ApiError(400, what, code="schema_too_large", param=field)
        decider: Decider[Any] = Decider(model, schema, prior=request.prior)
        field = "input" if isinstance(request, DecisionsRequest) else "state"
        text = request.text()
        ids = decider.ids(text)
    except Exception as error:
        raise to_api_error(error, field) from error

    def steps() -> RequestSteps:
        yield []
        found: Decided[dict[str, Any]] = decider.read(text, ids)
        return typed_answers(questions, found.fields)

    return steps(), len(ids)


def _typed(question: DecisionQuestion, place: int) -> TypedQuestion:
    name = f"question {place + 1}" if question.name is None else question.name
    field = f"questions[{place}]"
    for kind, wanted in (("choice", "choices"), ("score", "levels")):
        given = getattr(question, wanted) is not None
        if given != (question.type == kind):
            what = f"does not belong to a {question.type}" if given else f"a {kind} needs it"
            raise invalid_field_error(f"{field}.{wanted}", what)
    options: list[tuple[str | bool | int, str | None]] = [
        *((one.value, one.description) for one in question.choices or ()),
        *((one.label, one.description) for one in question.levels or ()),
    ]
    instructions = _text(question.instructions, f"{field}.instructions")
    return TypedQuestion(name, question.type, instructions, options or [(True, None), (False, None)])


def _answer(answer: TypedAnswer) -> dict[str, Any]:
    kind = answer.question.kind
    if kind == "predicate":
        return {"type": kind, "probability": answer.probabilities[0], "mass": answer.mass}
    named = enumerate(zip(answer.question.options, answer.probabilities, strict=True))
    if kind == "choice":
        shares = [{"value": value, "probability": share} for _, ((value, _), share) in named]
        main: dict[str, Any] = {"choice": answer.value}
    else:
        shares = [
            {"value": level, "label": label, "probability": share} for level, ((label, _), share) in named
        ]
        main = {"score": answer.score}
    return {
        "type": kind,
        **main,
        "confidence": answer.confidence,
        "probabilities": shares,
        "mass": answer.mass,
    }


def _item_text(item: DecisionItem, place: str) -> tuple[str, str]:
    """Who says something, and what."""
    if item.type == "message" and item.role is not None and item.content is not None:
        return item.role, _text(item.content, f"{place}.content")
    if item.type in ("function_call", "custom_tool_call") and item.name is not None:
        return "assistant", f"calls {item.name}: {item.arguments or item.input or ''}"
    if item.type in ("function_call_output", "custom_tool_call_output") and item.output is not None:
        return "tool", _text(item.output, f"{place}.output")
    raise unsupported_field_error(place, f"an item of type {item.type!r:.40} with these fields")


def _text(content: _Content, place: str) -> str:
    if isinstance(content, str):
        return content
    texts = []
    for i, part in enumerate(content):
        said = content_text(part.data) if part.type == "input_json" else part.text or part.refusal
        if said is None:
            raise unsupported_field_error(
                f"{place}[{i}]", f"a part of type {part.type!r:.40}: pass text or JSON"
            )
        texts.append(said)
    return "\n".join(texts)
