"""No name comes twice in an object that a model writes; readers would keep the last one."""

from __future__ import annotations

from typing import Any

import pytest

from constrained import as_constraint, json_schema
from constrained.chat.tools import Tool
from constrained.constraint.generated import generated_constraint
from tests.grammars.json_schema.test_contents import accepted

TEXTS = {'{"a": 1, "b": 1}': True, '{"a": 1, "a": 1}': False, '{"a": 1, "\\u0061": 1}': False}


@pytest.mark.parametrize(
    "wanted", [{"type": "object"}, {"additionalProperties": {"type": "integer"}}, dict[str, int]]
)
def test_no_name_comes_twice_where_a_model_writes(wanted: Any) -> None:
    for text, allowed in TEXTS.items():
        assert accepted(generated_constraint(wanted), text) == allowed
        assert accepted(as_constraint(wanted), text)


def test_nor_in_the_arguments_of_a_tool() -> None:
    for text, allowed in TEXTS.items():
        assert accepted(Tool("f", {"type": "object"}).arguments, text) == allowed


@pytest.mark.parametrize("order", ["schema", "any"])
def test_it_holds_at_every_depth(order: Any) -> None:
    constraint = json_schema({}, distinct_names=True, property_order=order)
    assert accepted(constraint, '[{"a":1},{"a":{"a":1}}]')
    assert not accepted(constraint, '[{"a":1},{"a":{"b":1,"b":1}}]')
