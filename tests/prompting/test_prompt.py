"""The prompt shows a type and a text: schemas read as compact types, chats become the tokens a model continues."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained.extraction.prompt import answer_request, extraction_prompt
from constrained.prompting.chat_template import encode_chat, render_chat
from constrained.prompting.schema_text import (
    _Renderer,
    schema_to_text,
)
from tools.tiny_model.corpus import draw_example


def obj(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }


STRING, INTEGER = {"type": "string"}, {"type": "integer"}

NOTATION: list[tuple[Any, str]] = [
    (True, "any"),
    ({}, "any"),
    (False, "never"),
    (STRING, "string"),
    ({"type": ["string", "null"]}, "string | null"),
    (obj(name=STRING, age=INTEGER), "{name: string, age: integer}"),
    (obj(["name"], name=STRING, age=INTEGER), "{name: string, age?: integer}"),
    (obj(**{"first name": STRING, "größe": INTEGER}), '{"first name": string, größe: integer}'),
    ({"type": "object"}, "object"),
    ({"type": "object", "additionalProperties": False}, "{}"),
    ({"type": "object", "additionalProperties": INTEGER}, "{[key: string]: integer}"),
    ({**obj([]), "required": ["id"]}, "{id: any}"),
    ({"type": "array", "items": STRING}, "string[]"),
    ({"type": "array"}, "any[]"),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
    ({"type": "array", "items": obj(x=INTEGER)}, "{x: integer}[]"),
    ({"prefixItems": [STRING, INTEGER], "type": "array", "items": False}, "[string, integer]"),
    ({"prefixItems": [STRING], "type": "array", "items": INTEGER}, "[string, ...integer[]]"),
    ({"type": "array", "items": [STRING], "additionalItems": INTEGER}, "[string, ...integer[]]"),
    ({"enum": ["open", 3, None]}, '"open" | 3 | null'),
    ({"const": {"a": [1]}}, '{"a": [1]}'),
    ({"anyOf": [STRING, INTEGER, STRING]}, "string | integer"),
    ({"allOf": [obj(a=STRING), obj(b=STRING)]}, "{a: string} & {b: string}"),
    ({"type": "string", "format": "date"}, "string(date)"),
    ({"type": ["string", "null"], "format": "date"}, "string(date) | null"),
    ({"type": "integer", "minimum": 0, "maximum": 120}, "integer(0..120)"),
    ({"type": "integer", "minimum": 0}, "integer(>= 0)"),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "number(> 0, < 1)"),
    ({"type": "string", "minLength": 2, "maxLength": 4}, "string(2..4 chars)"),
    ({"type": "string", "pattern": "^[A-Z]+$"}, "string(/^[A-Z]+$/)"),
    (
        {"type": "array", "items": INTEGER, "minItems": 1, "uniqueItems": True},
        "integer[](>= 1 items, uniqueItems true)",
    ),
    ({"type": "integer", "multipleOf": 5}, "integer(multipleOf 5)"),
    ({"not": {"type": "null"}}, 'any(not {"type": "null"})'),
    (
        obj(a={"type": "string", "description": "the  first\nletter */"}),
        "{a: string /* the first letter * / */}",
    ),
    (
        {"title": "Person", "description": "Somebody.", **obj(a=STRING)},
        "/* Person: Somebody. */\n{a: string}",
    ),
]


@pytest.mark.parametrize(("schema", "text"), NOTATION, ids=[text[:40] for _, text in NOTATION])
def test_schemas_read_as_types(schema: Any, text: str) -> None:
    assert schema_to_text(schema) == text


def test_a_definition_used_once_stands_in_its_place() -> None:
    schema = {**obj(home={"$ref": "#/$defs/Address"}), "$defs": {"Address": obj(city=STRING)}}
    assert schema_to_text(schema) == "{home: {city: string}}"


def test_a_definition_used_twice_gets_a_name() -> None:
    address = {"$ref": "#/$defs/Address"}
    schema = {**obj(home=address, work=address), "$defs": {"Address": obj(city=STRING)}}
    assert schema_to_text(schema) == "type Address = {city: string}\n{home: Address, work: Address}"


def test_recursive_types_are_named() -> None:
    node = obj(value=STRING, children={"type": "array", "items": {"$ref": "#/$defs/Node"}})
    schema = {"$ref": "#/$defs/Node", "$defs": {"Node": node}}
    assert schema_to_text(schema) == "type Node = {value: string, children: Node[]}\nNode"
    whole = obj(["value"], value=STRING, next={"$ref": "#"})
    assert schema_to_text(whole) == "type Root = {value: string, next?: Root}\nRoot"


@pytest.mark.parametrize("pointer", ["#/$defs/Missing", "other.json#/x", "#/$defs/A/0/b"])
def test_references_that_lead_nowhere_are_shown_by_name(pointer: str) -> None:
    assert pointer.rsplit("/", 1)[-1] in schema_to_text(obj(a={"$ref": pointer}))


def test_doubling_references_do_not_double_the_text() -> None:
    """Thirty definitions, each using the next twice: written in place this would be a billion types."""
    chain = {
        f"T{i}": obj(a={"$ref": f"#/$defs/T{i + 1}"}, b={"$ref": f"#/$defs/T{i + 1}"}) for i in range(30)
    }
    schema = {"$ref": "#/$defs/T0", "$defs": {**chain, "T30": STRING}}
    assert schema_to_text(schema).count("\n") == 30


def test_huge_schemas_lose_comments_first_and_stay_in_the_budget() -> None:
    commented = obj(**{f"field{i}": {"type": "string", "description": "x" * 100} for i in range(100)})
    assert schema_to_text(commented) == schema_to_text(obj(**{f"field{i}": STRING for i in range(100)}))
    wide = obj(**{f"field{i}": {"enum": [f"value{k}" for k in range(50)]} for i in range(1000)})
    assert len(schema_to_text(wide)) <= 8000
    assert len(schema_to_text(wide, max_chars=100)) <= 100
    deep: Any = True
    for _ in range(5000):
        deep = {"type": "array", "items": deep}
    assert "..." in schema_to_text(deep)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=4), part, max_size=3),
    max_leaves=8,
)
KEYWORDS = st.one_of(
    st.sampled_from(
        ["type", "properties", "required", "additionalProperties", "items", "prefixItems", "$ref", "$defs"]
    ),
    st.sampled_from(["enum", "const", "anyOf", "oneOf", "allOf", "not", "if"]),
    st.sampled_from(["minimum", "maximum", "format", "pattern", "title", "description", "x-own"]),
)
SCHEMAS = st.recursive(
    st.booleans()
    | st.dictionaries(KEYWORDS, JSON | st.sampled_from(["object", "string", "#", "#/$defs/a"]), max_size=4),
    lambda part: st.dictionaries(
        KEYWORDS,
        part | st.lists(part, max_size=3) | st.dictionaries(st.sampled_from("abc"), part, max_size=3),
        max_size=4,
    ),
    max_leaves=10,
)


@given(SCHEMAS)
def test_anything_that_looks_like_a_schema_is_shown(schema: Any) -> None:
    """Even malformed ones: what is wrong with a schema is for the compiler to say."""
    shown = schema_to_text(schema)
    assert shown
    assert shown == schema_to_text(json.loads(json.dumps(schema)))


def test_descriptions_of_types_and_examples_are_shown() -> None:
    """At the member that uses a type, or on the line of a type with a name."""
    address = {
        **obj(city={**STRING, "examples": ["Berlin", "Köln", "Ulm", "Jena"]}),
        "description": "In Germany.",
    }
    defs = {"$defs": {"Address": address, "Mood": {"enum": ["good"], "description": "How it feels."}}}
    home, mood = {"$ref": "#/$defs/Address"}, {"$ref": "#/$defs/Mood"}
    city = '{city: string /* e.g. "Berlin", "Köln", "Ulm" */}'
    for schema, text in (
        (obj(home=home), f"{{home: {city} /* In Germany. */}}"),
        (obj(home={**home, "description": "Now."}), f"{{home: {city} /* Now.; In Germany. */}}"),
        (obj(homes={"type": "array", "items": home}), f"{{homes: {city}[] /* In Germany. */}}"),
        (obj(mood={"anyOf": [mood, {"type": "null"}]}), '{mood: "good" | null /* How it feels. */}'),
        (obj(a=home, b=home), f"type Address = {city} /* In Germany. */\n{{a: Address, b: Address}}"),
        ({"type": "array", "items": home}, f"/* In Germany. */\n{city}[]"),
        ({**STRING, "title": "T", "examples": ["*/"]}, '/* T; e.g. "* /" */\nstring'),
    ):
        assert schema_to_text({**schema, **defs}) == text


def test_what_the_bundled_model_is_trained_on_reads_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its schemas have neither descriptions of types nor examples: without the rules for these the text is the same."""
    schemas = [draw_example(seed, split).schema for split in ("train", "heldout") for seed in range(60)]
    texts = [schema_to_text(schema) for schema in schemas]
    assert any("/*" in text for text in texts)
    monkeypatch.setattr(_Renderer, "inner_description", lambda self, schema: "")
    monkeypatch.setattr("constrained.prompting.schema_text._MAX_EXAMPLES", 0)
    assert [schema_to_text(schema) for schema in schemas] == texts


@pytest.mark.parametrize("describe", [answer_request, lambda it: extraction_prompt("Ada.", it)[0]["content"]])
def test_after_a_marker_json_is_asked_for_and_the_marker_named(describe: Any) -> None:
    asked = describe(constrained.after("</think>", obj(name=STRING)))
    assert "write </think>" in asked
    assert "JSON only" in asked
    assert "{name: string}" in asked
    assert "without quotes" not in asked
    assert "without quotes" in describe(constrained.after("</think>", constrained.choice(["a", "b"])))


class Templated:
    """A tokenizer with a chat template, which records its arguments."""

    chat_template = "yes"

    def apply_chat_template(self, messages: list[dict[str, str]], **options: Any) -> str:
        off = {"enable_thinking": False, "thinking": False}
        assert options == {"tokenize": False, "add_generation_prompt": True, **off}
        return "".join(f"<{m['role']}>{m['content']}" for m in messages) + "<assistant>"

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [0] * add_special_tokens + list(text.encode())}


class Plain(Templated):
    chat_template = None  # type: ignore[assignment]


def test_a_chat_template_writes_the_special_tokens_itself() -> None:
    messages = [{"role": "user", "content": "hé"}]
    assert render_chat(messages, Templated()) == "<user>hé<assistant>"
    assert encode_chat(messages, Templated()) == list("<user>hé<assistant>".encode())


def test_without_a_template_the_tokenizer_adds_its_own() -> None:
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    assert encode_chat(messages, Plain()) == [0, *b"a\n\nb\n\nJSON:\n"]
