"""Closed questions: which members are asked about, with which options, and what the model says to them."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from constrained.constraint.generated import generated_constraint
from constrained.decisions import ABSENT, ask, closed_questions
from constrained.decisions.evidence import option_tree
from constrained.spec.scores import log_sum_exp
from tests.support.tiny_models import llama


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


@dataclass
class Inner:
    kind: Literal["x", "y z"]


@dataclass
class Record:
    name: str
    level: Level
    free: bool
    count: int
    inner: Inner
    tags: list[Literal["a", "b"]]
    other: Literal["u", "v"] | None = None


def questions(wanted: Any) -> dict[str, list[str]]:
    found = closed_questions(generated_constraint(wanted), llama().vocabulary)
    return {question.pointer: [option.text for option in question.options] for question in found}


def test_members_with_few_values_are_asked_about_also_inside_and_null_is_absence() -> None:
    assert questions(Record) == {
        "/level": ['"high"', '"low"'],
        "/free": ["false", "true"],
        "/inner/kind": ['"x"', '"y z"'],
        "/tags": ['["a", "b"]', '["a"]', '["b", "a"]', '["b"]', "[]"],
        "/other": ['"u"', '"v"', ABSENT],
    }


@pytest.mark.parametrize(
    ("member", "options"),
    [
        ({"const": 1}, None),
        ({"enum": [1, "1", None, [2]]}, ['"1"', "1", "[2]", "null"]),
        ({"anyOf": [{"const": "a"}, {"const": "b"}]}, ['"a"', '"b"']),
        ({"type": "integer", "minimum": 3, "maximum": 5}, ["3", "4", "5"]),
        ({"type": "integer", "minimum": 3}, None),
        ({"type": "integer", "minimum": 0, "maximum": 1}, ["0", "1"]),
        ({"enum": ["£20-25", "cheap"]}, ['"£20-25"', '"cheap"']),
        ({"type": "string", "pattern": "^[ab]$"}, ['"a"', '"b"']),
        ({"$ref": "#/$defs/one"}, ["false", "true"]),
        ({"type": "array", "items": {"type": "boolean"}}, None),
    ],
)
def test_the_options_of_a_required_member(member: Any, options: list[str] | None) -> None:
    schema = {
        "type": "object",
        "properties": {"m": member},
        "required": ["m"],
        "$defs": {"one": {"type": "boolean"}},
    }
    assert questions(schema) == ({} if options is None else {"/m": options})


def test_what_is_no_object_and_no_json_has_no_questions() -> None:
    for wanted in (
        list[bool],
        str,
        {"type": "object"},
        {"anyOf": [{"properties": {"a": {"type": "boolean"}}}]},
    ):
        assert questions(wanted) == {}


def test_the_evidence_is_what_a_pass_for_each_token_says() -> None:
    model = llama()
    asked = closed_questions(generated_constraint(Record), model.vocabulary)
    prompt = model.encode("a text")
    for question, evidence in zip(asked, ask(model, prompt, asked), strict=True):
        totals, lead = [], 0.0
        for option in question.options:
            total = 0.0
            for i, token in enumerate([*option.tokens, None]):
                row = model.forward([[*prompt, *option.tokens[:i]]], model.cache(1))[0].astype(np.float64)
                if token is None:
                    total += 0.0 if option.ends is None else log_sum_exp(row[option.ends]) - log_sum_exp(row)
                else:
                    total += row[token] - log_sum_exp(row)
                if i + 1 == question.lead:
                    lead = total
            totals.append(total)
        whole = log_sum_exp(np.array(totals))
        np.testing.assert_allclose(evidence.logprobs, np.array(totals) - whole, atol=1e-4)
        assert evidence.mass == pytest.approx(np.exp(whole - lead), rel=1e-3)


def test_the_tokens_of_an_option_are_those_of_the_whole_object() -> None:
    model = llama()
    for question in closed_questions(generated_constraint(Record), model.vocabulary):
        *path, name = question.pointer.split("/")[1:]
        for option in question.options[:-1]:
            opening = "".join(f"{{{json.dumps(one)}: " for one in [*path, name])
            canonical = model.vocabulary.encode(opening + option.text + ", ")
            assert list(option.tokens) == canonical[: len(option.tokens)]
    assert len(option_tree(closed_questions(generated_constraint(Record), model.vocabulary)).tokens) < 80
