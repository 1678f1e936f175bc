"""Questions in words, of the three kinds that APIs of decisions have, as members of one type: all are asked in one pass.

A predicate has the probability that it is true; a choice is one of some values; a score is the expected one of some levels in
their order. `system_one_questions` and `system_one_answers` are the form that TypeSafe's API, LangChain and others share.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from constrained.decisions import Decision
from constrained.errors import InvalidArgument
from constrained.grammars.json_pointer import escape

Kind = Literal["predicate", "choice", "score"]


@dataclass(frozen=True)
class TypedQuestion:
    """A question.

    Attributes:
        name: of its member; the model sees it.
        kind: see the module.
        instructions: what is asked.
        options: the values, each with what is said about it or None; a predicate has ``True`` and ``False``, a score has its
            levels from the lowest to the highest.
    """

    name: str
    kind: Kind
    instructions: str
    options: Sequence[tuple[str | bool | int, str | None]]

    @property
    def schema(self) -> dict[str, Any]:
        """Of its member."""
        said = [f"{_written(value)}: {about}" for value, about in self.options if about]
        parts = [part for part in (self.instructions.strip(), "; ".join(said)) if part]
        return {"enum": [value for value, _ in self.options], "description": " - ".join(parts)}


@dataclass(frozen=True)
class TypedAnswer:
    """The answer to a question.

    Attributes:
        question: see `TypedQuestion`.
        value: the likeliest one.
        probabilities: of its options, in their order.
        mass: probability that the model writes one of the options at all.
    """

    question: TypedQuestion
    value: Any
    probabilities: Sequence[float]
    mass: float

    @property
    def score(self) -> float:
        """The expected place among the options, from 0."""
        return math.fsum(place * share for place, share in enumerate(self.probabilities))

    @property
    def confidence(self) -> float:
        """1 where one option is certain, 0 where all are alike.

        Of a choice: how far the likeliest option is above an even share. Of a score: how much nearer to the likeliest level the
        others are than with even shares.
        """
        count, best = len(self.probabilities), max(self.probabilities)
        if self.question.kind != "score":
            found = (count * best - 1) / (count - 1)
        else:
            top = list(self.probabilities).index(best)
            spread = math.fsum(share * abs(place - top) for place, share in enumerate(self.probabilities))
            even = math.fsum(abs(place - (count - 1) / 2) for place in range(count)) / count
            found = 1 - spread / even
        return min(1.0, max(0.0, found))


def questions_schema(questions: Sequence[TypedQuestion]) -> dict[str, Any]:
    """The JSON Schema of a record with a member for each question.

    Raises:
        InvalidArgument: there are none, two have one name, or one has not two different options.
    """
    if not questions:
        raise InvalidArgument("there are no questions", action="ask at least one")
    members: dict[str, Any] = {}
    for question in questions:
        if question.name in members:
            raise InvalidArgument(f"two questions have the name {question.name!r}", action="rename one")
        written = {_written(value, quoted=True) for value, _ in question.options}
        if len(written) < max(2, len(question.options)):
            raise InvalidArgument(
                f"question {question.name!r} has {len(written)} different options of {len(question.options)}",
                action="give at least two, each once",
            )
        members[question.name] = question.schema
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def typed_answers(questions: Sequence[TypedQuestion], decisions: Mapping[str, Decision]) -> list[TypedAnswer]:
    """The answers, by the decisions about the record of the questions."""
    answers = []
    for question in questions:
        decision = decisions[f"/{escape(question.name)}"]
        shares = [decision.probabilities[value] for value, _ in question.options]
        answers.append(TypedAnswer(question, decision.value, shares, decision.mass))
    return answers


def content_text(content: Any) -> str:
    """A text as it is, another JSON value as JSON."""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def system_one_questions(questions: Mapping[str, Mapping[str, Any]]) -> list[TypedQuestion]:
    """Questions by name, each with a ``type`` (``noul``, ``choice`` or ``score``), ``instructions`` and ``criteria``.

    Raises:
        InvalidArgument: one is of another type, or its criteria are.
    """
    return [_system_one_question(name, one) for name, one in questions.items()]


def _system_one_question(name: str, question: Mapping[str, Any]) -> TypedQuestion:
    kind, criteria = question.get("type"), question.get("criteria")
    instructions = content_text(question.get("instructions") or "")
    if kind == "noul" and isinstance(criteria or {}, Mapping):
        about = {key: _about((criteria or {}).get(key)) for key in ("true", "false")}
        return TypedQuestion(
            name, "predicate", instructions, [(True, about["true"]), (False, about["false"])]
        )
    if kind == "choice" and isinstance(criteria, Mapping):
        return TypedQuestion(
            name, "choice", instructions, [(str(label), _about(said)) for label, said in criteria.items()]
        )
    if kind == "score" and isinstance(criteria, Sequence) and not isinstance(criteria, str):
        return TypedQuestion(
            name, "score", instructions, [(level, _about(said)) for level, said in enumerate(criteria)]
        )
    raise InvalidArgument(
        f"question {name!r} has the type {kind!r} and criteria of type {type(criteria).__name__}",
        action="ask a noul, a choice (criteria: what is said about each label) or a score (criteria: a list of levels)",
    )


def system_one_answers(
    answers: Sequence[TypedAnswer], questions: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The answers by name, in the form of the questions."""
    return {one.question.name: _system_one_answer(one, questions[one.question.name]) for one in answers}


def _system_one_answer(answer: TypedAnswer, question: Mapping[str, Any]) -> dict[str, Any]:
    if answer.question.kind == "predicate":
        return {"type": "noul", "noul": answer.probabilities[0], "mass": answer.mass}
    named = zip(answer.question.options, answer.probabilities, strict=True)
    shares = {str(value): share for (value, _), share in named}
    rest = {"probabilities": shares, "confidence": answer.confidence, "mass": answer.mass}
    if answer.question.kind == "choice":
        return {"type": "choice", "choice": answer.value, **rest}
    legend = {str(level): said for level, said in enumerate(question["criteria"])}
    return {"type": "score", "score": answer.score, "legend": legend, **rest}


def _about(said: Any) -> str | None:
    return None if said is None else content_text(said)


def _written(value: str | bool | int, *, quoted: bool = False) -> str:
    """An option as the model reads it."""
    return value if isinstance(value, str) and not quoted else json.dumps(value, ensure_ascii=False)
