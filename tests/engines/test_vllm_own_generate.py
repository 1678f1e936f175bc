"""The requests of vLLM's `test_struct_output_generate.py` through its engine with our plug-in and the bundled model.

vLLM's test asks models of a hub what they would write; a small model cannot, so the limits are smaller here, and only what the
constraint promises is judged.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any

import jsonschema
import pytest
from lark import Lark
from pydantic import BaseModel

import constrained
from tests.engines.vllm_worker import run_engine

EMPLOYEE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "skills": {
            "type": "array",
            "items": {"type": "string", "maxLength": 10},
            "minItems": 1,
            "maxItems": 3,
        },
        "grade": {"type": "string", "pattern": "^[A-D]$"},
    },
    "required": ["name", "age", "skills", "grade"],
    "additionalProperties": False,
}
UNSUPPORTED = {
    "type": "object",
    "properties": {
        "score": {"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 100},
        "tags": {
            "type": "array",
            "items": {"type": "string", "pattern": "^[a-z]{1,10}$"},
            "uniqueItems": True,
            "maxItems": 4,
        },
    },
    "required": ["score", "tags"],
    "additionalProperties": False,
}
SQL = """
root ::= select_statement
select_statement ::= "SELECT" column "from" table "where" condition
column ::= "col_1" | "col_2"
table ::= "table_1" | "table_2"
condition ::= column "=" number
number ::= "1" | "2"
"""
SQL_LARK = """
start: select_statement
select_statement: "SELECT" column "from" table "where" condition
column: "col_1" | "col_2"
table: "table_1" | "table_2"
condition: column "=" number
number: "1" | "2"
"""
ADDRESS = r"((25[0-5]|(2[0-4]|1\d|[1-9]|)\d)\.){3}(25[0-5]|(2[0-4]|1\d|[1-9]|)\d)"
LANGUAGES = ["Python", "Java", "JavaScript", "C++", "C#", "PHP", "TypeScript", "Ruby", "Swift", "Kotlin"]
FIFTY = {
    "type": "object",
    "properties": {"description": {"type": "string", "minLength": 50, "maxLength": 50}},
    "required": ["description"],
    "additionalProperties": False,
}
OPEN = {
    "type": "object",
    "properties": {name: {"type": "string", "maxLength": 8} for name in ("a1", "a2", "a3")},
    "required": ["a1", "a2", "a3"],
}
TAG = {
    "type": "structural_tag",
    "structures": [
        {
            "begin": "<function=get_weather>",
            "schema": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 9}},
                "required": ["city"],
                "additionalProperties": False,
            },
            "end": "</function>",
        }
    ],
    "triggers": ["<function="],
}


class CarType(str, Enum):
    sedan = "sedan"
    suv = "SUV"
    truck = "Truck"


class Car(BaseModel):
    brand: str
    model: str
    car_type: CarType


def is_json(schema: Any) -> Any:
    def check(text: str) -> None:
        jsonschema.validate(json.loads(text), schema)

    return check


def matches(pattern: str) -> Any:
    def check(text: str) -> None:
        assert re.fullmatch(pattern, text)

    return check


def is_call(text: str) -> None:
    for call in re.findall(r"<function=(.*?)</function>", text, re.DOTALL):
        name, _, arguments = call.partition(">")
        assert name == "get_weather"
        assert isinstance(json.loads(arguments)["city"], str)
    assert "<function=" not in re.sub(r"<function=get_weather>.*?</function>", "", text, flags=re.DOTALL)


def has_only_named(text: str) -> None:
    assert set(json.loads(text)) == {"a1", "a2", "a3"}


STATEMENT = "SELECTcol_[12]fromtable_[12]wherecol_[12]=[12]"
REQUESTS: dict[str, tuple[dict[str, Any], Any]] = {
    "schema": ({"json": EMPLOYEE}, is_json(EMPLOYEE)),
    "schema as text": ({"json": json.dumps(EMPLOYEE)}, is_json(EMPLOYEE)),
    "object": ({"json_object": True}, is_json({"type": "object"})),
    "what XGrammar refuses": ({"json": UNSUPPORTED}, is_json(UNSUPPORTED)),
    "ebnf": ({"grammar": SQL}, matches(STATEMENT)),
    "lark": ({"grammar": SQL_LARK}, lambda text: Lark(SQL_LARK).parse(text)),
    "regex": ({"regex": ADDRESS}, matches(ADDRESS)),
    "choice": ({"choice": LANGUAGES}, LANGUAGES.index),
    "pydantic": ({"json": Car.model_json_schema()}, is_json(Car.model_json_schema())),
    "fifty characters": ({"json": FIFTY}, is_json(FIFTY)),
    "structural tag": ({"structural_tag": json.dumps(TAG)}, is_call),
    "no additional properties": (
        {"json": OPEN, "disable_additional_properties": True, "disable_any_whitespace": True},
        has_only_named,
    ),
}

model = constrained.load()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Each request twice, with two completions, beside a request without a constraint; then what is no grammar."""
    prompt = model.encode("Answer: ", chat=False)
    asked = [
        {"prompt": prompt, "structured": wanted, "temperature": 1.0, "seed": 7, "max_tokens": 300, "n": 2}
        for wanted, _ in REQUESTS.values()
    ]
    free = {"prompt": prompt, "temperature": 0.0, "max_tokens": 20}
    wrong = {"prompt": prompt, "structured": {"grammar": "not a grammar"}, "max_tokens": 20}
    batches = [[*asked, free], [*asked, free], [wrong], [free]]
    found = run_engine(batches, tmp_path_factory.mktemp("own"))
    assert "failed" not in found, found
    return found


@pytest.mark.parametrize("name", REQUESTS)
def test_completions_satisfy_the_constraint(results: dict[str, Any], name: str) -> None:
    place = 2 * list(REQUESTS).index(name)
    for batch in results["results"][:2]:  # parameters may be used again
        for one in batch[place : place + 2]:
            assert one["finish"] == "stop"
            REQUESTS[name][1](one["text"])


def test_requests_without_a_constraint_are_free(results: dict[str, Any]) -> None:
    (alone,) = results["results"][3]
    for batch in results["results"][:2]:
        assert len(batch) == 2 * len(REQUESTS) + 1
        assert batch[-1]["tokens"] == alone["tokens"]
    with pytest.raises(json.JSONDecodeError):
        json.loads(alone["text"])


def test_what_is_no_grammar_is_refused(results: dict[str, Any]) -> None:
    (refusal,) = results["results"][2]
    assert refusal["type"] == "VLLMValidationError"
    assert "line 1, column 5" in refusal["error"]
