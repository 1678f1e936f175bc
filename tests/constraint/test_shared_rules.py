"""Requests that share most of their tools share the work of lowering them, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

import constrained.grammars.json_schema
from constrained.automaton import DEAD, Automaton, compile
from constrained.chat.reply import reply_constraint
from constrained.constraint import json_schema, shared_rules, structural_tag
from constrained.errors import ConstraintError
from tests.support.finite import byte_vocabulary

BYTES = byte_vocabulary()


def schema(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "integer"}, "s": {"type": "string"}},
        "required": [name],
    }


def tag(names: list[str]) -> Any:
    tags = [
        {
            "begin": f"<c>{name}",
            "content": {"type": "json_schema", "json_schema": schema(name)},
            "end": "</c>",
        }
        for name in names
    ]
    form = {"type": "triggered_tags", "triggers": ["<c>"], "tags": tags}
    return structural_tag({"type": "structural_tag", "format": form})


def reply(names: list[str]) -> Any:
    return reply_constraint([{"name": name, "parameters": schema(name)} for name in names])


def call(make: Any, name: str) -> str:
    text = f'{{"{name}": 12, "s": "x"}}'
    return (
        f"<c>{name}{text}</c>"
        if make is tag
        else f'<tool_call>\n{{"name": "{name}", "arguments": {text}}}\n</tool_call>'
    )


def takes(automaton: Automaton, text: str) -> bool:
    state = automaton.start
    for byte in text.encode():
        state = automaton.next(state, byte)
    return state != DEAD and automaton.accepts(state)


@pytest.fixture
def lowerings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The schemas that were lowered, from empty caches on."""
    done: list[Any] = []
    original = constrained.grammars.json_schema.lower_schema

    def counted(schema: Any, options: Any) -> Any:
        done.append(schema)
        return original(schema, options)

    monkeypatch.setattr(constrained.grammars.json_schema, "lower_schema", counted)
    for name in ("_lowered", "_placed"):
        monkeypatch.setattr(shared_rules, name, type(getattr(shared_rules, name))(1000))
    return done


@pytest.mark.parametrize("make", [tag, reply])
def test_only_what_changed_is_lowered(make: Any, lowerings: list[Any]) -> None:
    names = [f"tool{n}" for n in range(8)]
    first = compile(make(names), BYTES)
    assert len(lowerings) == 8
    second_names = [*names[3:], "new", *names[:2]]  # another order, one less, one more
    second = compile(make(second_names), BYTES)
    assert [next(iter(one["properties"])) for one in lowerings[8:]] == ["new"]
    for automaton, known in ((first, names), (second, second_names)):
        for name in {*names, *second_names}:
            assert takes(automaton, call(make, name)) == (name in known), name
        wrong = call(make, known[0]).replace("12", '"12"')
        assert not takes(automaton, wrong)


@pytest.mark.parametrize("make", [tag, reply])
def test_equal_tools_of_two_requests_are_the_same_expressions(make: Any, lowerings: list[Any]) -> None:
    first, second = make(["a", "b", "c"]).grammar.rules, make(["a", "x", "c"]).grammar.rules
    assert sum(second.get(name) is body for name, body in first.items()) >= 2


def test_what_a_document_decides_is_not_kept(lowerings: list[Any]) -> None:
    spans = json_schema({"type": "string", "x-span": True})
    for document in ("one", "two"):
        assert spans.bind(document).shared_key is None
        form = {
            "type": "sequence",
            "elements": [{"type": "json_schema", "json_schema": {"type": "string", "x-span": True}}],
        }
        whole = structural_tag({"type": "structural_tag", "format": form}).bind(document)
        automaton = compile(whole, BYTES)
        assert takes(automaton, f'"{document}"')
        assert not takes(automaton, '"three"')


def test_a_schema_that_is_refused_is_refused_each_time_at_its_place(lowerings: list[Any]) -> None:
    for names in (["a", "b"], ["b", "a"]):
        definition = [{"name": name, "parameters": schema(name)} for name in names]
        definition[1]["parameters"]["properties"]["s"] = {"type": "string", "pattern": "("}
        with pytest.raises(ConstraintError) as caught:
            _ = reply_constraint(definition).grammar
        assert "s" in str(caught.value)


def test_options_are_part_of_what_is_shared(lowerings: list[Any]) -> None:
    bounded, spread = json_schema(schema("a")), json_schema(schema("a"), whitespace="any")
    assert bounded.shared_key != spread.shared_key
    rules: dict[str, Any] = {}
    calls = [shared_rules.import_shared(one, rules, "here") for one in (bounded, spread, bounded)]
    assert len(lowerings) == 2
    assert calls[0].rule != calls[1].rule
