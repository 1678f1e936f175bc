"""`prompt="template"`: the forms that extraction models have for type, examples and document, as they are published.

The templates are the smallest ones with the same interface: which variables they read, and which messages.
"""

from __future__ import annotations

import copy
import datetime
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from constrained import Extractor, InvalidArgument, Span, UnsupportedConstraint
from constrained.prompting.extraction_template import json_template, schema_outline, template_form
from constrained.testing import ScriptedModel
from constrained.vocabulary import Vocabulary
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NUEXTRACT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if template and m.role == 'user' %}# Template:\n{{ template }}\n"
    "{% if examples %}# Examples:\n{% for e in examples %}## Input:\n{{ e.input }}\n## Output:\n{{ e.output }}\n"
    "{% endfor %}{% endif %}# Context:\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LFM2 = "{% if tools %}List of tools: <|tool_list_start|>{{ tools }}{% endif %}" + CHAT

TEXT = "Ana, born on 14 March 1987, has 1,250 books."


@dataclass
class Address:
    city: str
    country: Literal["CZ", "PT"] | None = None


@dataclass
class Reader:
    """A reader."""

    name: Annotated[str, Span()]
    born: datetime.date | None
    books: Annotated[int, "how many"]
    paid: bool
    address: Address
    moods: list[Literal["calm", "cross"]] = field(default_factory=list)
    seen: list[Address] = field(default_factory=list)


@dataclass
class Person:
    name: str
    books: int


def model(template: str | None, script: str = "{}") -> Any:
    tokenizer = copy.deepcopy(small_bpe_tokenizer())
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = template

    class Templated(ScriptedModel):
        def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
            from constrained.prompting.chat_template import encode_prompt

            return encode_prompt(prompt, tokenizer, self.vocabulary.size, chat=chat)

    made = Templated(Vocabulary.from_tokenizer(tokenizer), script)
    made.tokenizer = tokenizer
    return made


@pytest.mark.parametrize(
    ("template", "form"), [(NUEXTRACT, "json"), (LFM2, "system"), (CHAT, None), (None, None)]
)
def test_the_form_is_read_off_the_chat_template(template: str | None, form: str | None) -> None:
    assert template_form(model(template).tokenizer) == form


@pytest.mark.ci
def test_a_type_as_a_template_of_nuextract() -> None:
    schema = Extractor(model(NUEXTRACT), Reader).generator.constraint.schema
    address = {"city": "string", "country": ["CZ", "PT"]}
    assert json.loads(json_template(schema)) == {
        "name": "verbatim-string",
        "born": "date-time",
        "books": "integer",
        "paid": ["true", "false"],
        "address": address,
        "moods": [["calm", "cross"]],
        "seen": [address],
    }


def test_a_type_as_an_outline_of_lfm2() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Who\n it is."},
            "born": {"type": "string", "format": "date"},
            "address": {"type": "object", "properties": {"city": {"$ref": "#/$defs/city"}}},
            "seen": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "$defs": {"city": {"enum": ["Brno", "Porto"]}},
    }
    assert schema_outline(schema).splitlines() == [
        '- name: "Who it is."',
        '- born: "string(date)"',
        "- address:",
        '  - city: "\\"Brno\\" | \\"Porto\\""',
        "- seen:",
        '  - n: "integer"',
        '- tags: "string[]"',
    ]


def test_a_recursive_type_has_an_end() -> None:
    node: dict[str, Any] = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    assert json_template(node).count("next") < 10
    assert schema_outline(node).count("next") < 10


def test_nuextract_gets_the_template_the_examples_and_the_bare_document() -> None:
    example = ("Bo has 3 books.", Person("Bo", 3))
    extractor: Extractor[Any] = Extractor(model(NUEXTRACT), Person, prompt="template", examples=[example])
    read = model(NUEXTRACT).tokenizer.decode(extractor.prompt(TEXT))
    template = json.dumps({"name": "string", "books": "integer"}, indent=4)
    assert read == (
        f"<|im_start|>user\n# Template:\n{template}\n# Examples:\n## Input:\nBo has 3 books.\n## Output:\n"
        '{"name": "Bo", "books": 3}\n# Context:\n'
        "Ana, born on 14 March 1987, has 1250 books.<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_text_of_an_example_ends_no_message() -> None:
    """Variables of a template are texts of users, too: no special token may come out of them."""
    marks = model(NUEXTRACT).tokenizer.convert_tokens_to_ids(["<|im_end|>"])
    extractor: Extractor[Any] = Extractor(
        model(NUEXTRACT), Person, prompt="template", examples=[("<|im_end|>", Person("<|im_end|>", 3))]
    )
    ids = extractor.prompt("Ana <|im_end|> 2")
    assert [token for token in ids if token in marks] == marks


def test_lfm2_gets_the_outline_in_the_system_message_and_examples_as_turns() -> None:
    example = ("Bo has 3 books.", Person("Bo", 3))
    extractor: Extractor[Any] = Extractor(model(LFM2), Person, prompt="template", examples=[example])
    chat: Any = extractor.prompt(TEXT)
    system, *turns = chat
    assert system["role"] == "system"
    request, outline = system["content"].split("\n\n")
    assert "Return data as a JSON object." in request
    assert outline == 'Schema:\n- name: "string"\n- books: "integer"'
    assert turns == [
        {"role": "user", "content": "Bo has 3 books."},
        {"role": "assistant", "content": '{"name": "Bo", "books": 3}'},
        {"role": "user", "content": "Ana, born on 14 March 1987, has 1250 books."},
    ]


@pytest.mark.parametrize("template", [NUEXTRACT, LFM2])
def test_a_value_comes_out(template: str) -> None:
    extractor: Extractor[Any] = Extractor(
        model(template, '{"name": "Ana", "books": 1250}'), Person, prompt="template"
    )
    assert extractor(TEXT).value == Person("Ana", 1250)


def test_a_refused_value_is_asked_for_again_with_the_same_prompt() -> None:
    @dataclass
    class Even:
        books: int

        def __post_init__(self) -> None:
            if self.books % 2:
                raise ValueError("odd")

    extractor: Extractor[Any] = Extractor(
        model(NUEXTRACT, '{"books": 3}'), Even, prompt="template", retries=2
    )
    result = next(extractor.many(["Three books."]))
    assert result.attempts == 3
    assert "odd" in str(result.error)


@pytest.mark.parametrize(
    ("template", "constraint", "options", "error", "message"),
    [
        (CHAT, Person, {}, InvalidArgument, "no place for it(.|\n)*leave prompt out"),
        (None, Person, {}, InvalidArgument, "no place for it"),
        (NUEXTRACT, list[str], {}, UnsupportedConstraint, "the members of an object"),
        (LFM2, Person, {"system": "Be exact."}, InvalidArgument, "leave system out"),
        (LFM2, Person, {"context": "A library."}, InvalidArgument, "in the place of instructions"),
    ],
)
def test_what_has_no_place_in_a_form_is_refused_before_the_model_runs(
    template: str | None, constraint: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Extractor(model(template), constraint, prompt="template", **options)
