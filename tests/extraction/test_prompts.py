"""Instructions, context and examples in the prompt; examples are checked before the model runs."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pydantic
import pytest

import constrained
from constrained import Extractor, InvalidArgument
from constrained.extraction.prompt import extraction_prompt
from constrained.prompting.schema_text import extraction_messages
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary


class Kind(enum.Enum):
    BOOK = "book"
    GAME = "game"


@dataclass
class Thing:
    name: str
    kind: Kind
    day: datetime.date | None = None


class Price(pydantic.BaseModel):
    amount: Decimal
    currency: str = "EUR"

    @pydantic.field_validator("amount")
    @classmethod
    def positive(cls, amount: Decimal) -> Decimal:
        if amount <= 0:
            raise ValueError("not positive")
        return amount


def silent() -> ScriptedModel:
    def script(prompt: str) -> str:
        raise AssertionError("the model was asked")

    return ScriptedModel(byte_vocabulary(), script)


def test_a_prompt_without_extras_is_the_one_of_the_training() -> None:
    for constraint in (constrained.python_type(Thing), constrained.json_schema({"type": "integer"})):
        for text in ("A text.", "  Text:\n\nText:\n ", "é\n\nText:\né"):
            assert Extractor(silent(), constraint).prompt(text) == extraction_messages(
                text, constraint.schema
            )


def test_extras_stand_between_the_type_and_the_document() -> None:
    extractor = Extractor(
        silent(),
        Thing,
        instructions="Titles in full. ",
        context="A shop.",
        examples=[("Go!", {"kind": "game", "name": "Go"})],
    )
    (message,) = extractor.prompt("Emma, a novel")
    head = extraction_prompt("Emma, a novel", extractor.generator.constraint)[0]["content"]
    assert message["content"] == head.replace(
        "\n\nText:\n",
        "\n\nInstructions:\nTitles in full.\n\nContext:\nA shop.\n\nExample text:\nGo!\n\n"
        'Example answer:\n{"name": "Go", "kind": "game"}\n\nText:\n',
    )


@pytest.mark.parametrize(
    ("constraint", "value", "answer"),
    [
        (Thing, Thing("Go", Kind.GAME), '{"name": "Go", "kind": "game"}'),
        (
            Thing,
            Thing("Go", Kind.GAME, datetime.date(2020, 1, 2)),
            '{"name": "Go", "kind": "game", "day": "2020-01-02"}',
        ),
        (Thing, '{"name": "Go", "kind": "game"}', '{"name": "Go", "kind": "game"}'),
        (Price, Price(amount=Decimal("1.10")), '{"amount": 1.10}'),
        (list[Price], [Price(amount=Decimal(2), currency="USD")], '[{"amount": 2, "currency": "USD"}]'),
        ({"type": "string"}, "plain", '"plain"'),
        (constrained.choice(["yes", "no"]), "yes", "yes"),
        (constrained.choice([1, 2]), 2, "2"),
        (constrained.json_schema({"type": "array"}, whitespace="none"), [1, {"a": None}], '[1,{"a":null}]'),
    ],
)
def test_values_of_examples_have_several_forms(constraint: Any, value: Any, answer: str) -> None:
    extractor: Extractor[Any] = Extractor(silent(), constraint, examples=[("x", value)])
    assert [example.answer for example in extractor.extras.examples] == [answer]


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (
            [("a", {"name": "x", "kind": "game"}), ("b", {"name": "x", "kind": "film"})],
            "example 1 .*film(.|\n)*is not one of",
        ),
        ([("a", {"name": "x"})], "example 0 (.|\n)*'kind' is a required property"),
        ([("a", Thing)], "example 0 does not satisfy"),
        (["a"], "example 0 is not a pair"),
        ([(1, {})], "example 0 is not a pair"),
        ("ab", "examples is of type str"),
        ([("a", float("nan"))], "example 0 does not satisfy"),
    ],
)
def test_wrong_examples_are_refused_before_the_model_runs(examples: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Extractor(silent(), Thing, examples=examples)


def test_an_example_that_a_validator_refuses_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"example 0 is refused(.|\n)*not positive"):
        Extractor(silent(), Price, examples=[("a", {"amount": -1})])
