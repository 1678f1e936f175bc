"""What people type: a type and a text in, a value out."""

from __future__ import annotations

import enum
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

import pytest

import constrained
from constrained.errors import (
    ConstraintError,
    InvalidArgument,
    InvalidConstraint,
    PromptError,
    PromptTooLong,
)
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary
from tests.support.tiny_models import llama


@dataclass
class City:
    """A place where many people live."""

    name: str
    inhabitants: int


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


SAID: list[str] = []


def listening(text: str) -> ScriptedModel:
    """A model that writes a text, and records its prompts in `SAID`."""

    def script(prompt: str) -> str:
        SAID[:] = [prompt]
        return text

    return ScriptedModel(byte_vocabulary(), script)


def test_extract_reads_a_text_into_an_instance():
    model = listening('{"name": "Łódź", "inhabitants": 655000}')
    city = constrained.extract(model, "Łódź has 655,000 inhabitants.", City)
    assert city == City("Łódź", 655000)
    assert "Łódź has 655000 inhabitants." in SAID[0]  # as JSON writes the number
    assert "inhabitants: integer" in SAID[0]
    assert "A place where many people live." in SAID[0]


def test_generate_writes_a_value_for_a_prompt_and_shows_the_type():
    assert constrained.generate(listening('"bad"'), "How is it?", Mood) is Mood.BAD
    assert SAID[0].startswith("How is it?\n\n")
    assert '"good" | "bad"' in SAID[0]
    assert constrained.generate(listening("[1, 2]"), "Count!", list[int]) == [1, 2]


def test_prompts_are_unchanged_on_request_or_if_they_are_not_a_str():
    constrained.generate(listening("true"), "Is it?", bool, describe=False)
    assert SAID == ["Is it?"]
    constrained.generate(listening("true"), [{"role": "user", "content": "Is it?"}], bool)
    assert SAID == ["Is it?"]
    constrained.generate(listening("true"), list(b"Is it?"), bool)
    assert SAID == ["Is it?"]


def test_text_without_quotes_is_requested_as_such():
    assert constrained.generate(listening("2024-05"), "When?", constrained.regex(r"\d{4}-\d\d")) == "2024-05"
    assert r"\d{4}-\d\d" in SAID[0]
    assert constrained.extract(listening("no"), "It was not.", constrained.choice(["yes", "no"])) == "no"
    assert '"yes" | "no"' in SAID[0]
    assert "It was not." in SAID[0]
    assert constrained.generate(listening("3"), "?", constrained.choice([1, 3])) == 3


def test_a_schema_gives_json_values():
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    assert constrained.extract(listening('{"ok": false}'), "It failed.", schema)["ok"] is False


def test_the_same_type_is_compiled_once():
    model = listening("1")
    first = constrained.Generator(model, list[int])
    assert constrained.Generator(model, list[int]).automaton is first.automaton
    assert constrained.Generator(model, {"type": "integer"}).automaton is not first.automaton


def test_types_with_one_schema_share_an_automaton_and_keep_their_values():
    @dataclass
    class A:
        x: int

    B = dataclass(type("A", (), {"__annotations__": {"x": int}}))  # noqa: N806
    model = listening('{"x": 1}')
    a, b = constrained.Generator(model, A), constrained.Generator(model, B)
    assert type(a("p").value) is A
    assert type(b("p").value) is B


@pytest.mark.parametrize("text", ["", "  \n\t "])
def test_an_empty_text_is_refused_before_anything_is_compiled(text):
    with pytest.raises(PromptError, match="the text is empty"):
        constrained.extract(llama(), text, City)


def test_texts_that_cannot_be_read_are_refused():
    with pytest.raises(PromptError, match="of type bytes"):
        constrained.extract(llama(), b"text", City)
    with pytest.raises(PromptTooLong, match="the model reads 512"):
        constrained.extract(llama(), "enormous " * 5000, City)


def test_constraints_that_are_none_are_refused():
    with pytest.raises(InvalidConstraint, match=r"regex\(pattern\) or choice"):
        constrained.generate(llama(), "p", "[a-z]+")
    with pytest.raises(ConstraintError):
        constrained.generate(llama(), "p", {"type": "strin"})


@pytest.mark.parametrize(
    ("vocabulary", "kind"), [(None, "NoneType"), ([b"a"], "list"), (llama().tokenizer, "Tokenizer")]
)
def test_what_is_no_vocabulary_is_refused(vocabulary, kind):
    with pytest.raises(InvalidArgument, match=f"{kind}.*\n.*from_tokenizer"):
        constrained.compile(bool, vocabulary)


def test_messages_without_a_role_or_a_content_are_refused():
    generator = constrained.Generator(llama(), bool)
    for message, what in (({"role": "user"}, "no content"), ({"content": "Hi"}, "no role")):
        with pytest.raises(PromptError, match=f"message 1 has {what}"):
            generator([{"role": "user", "content": "Hi"}, message])


def test_errors_of_misuse_are_builtins_a_caller_would_catch():
    with pytest.raises(ValueError, match="temperature"):
        constrained.generate(llama(), "p", bool, temperature=-3)
    with pytest.raises(ValueError, match="max_tokens=0"):
        constrained.generate(llama(), "p", bool, max_tokens=0)


def test_a_random_model_gives_valid_values():
    for seed in range(3):
        city = constrained.generate(
            llama(), "A city:", City, temperature=1.0, seed=seed, max_tokens=40, on_limit="close"
        )
        assert isinstance(city, City)
        assert isinstance(city.inhabitants, int)


def test_importing_the_package_loads_no_torch_and_touching_light_names_neither():
    code = (
        "import sys, constrained; heavy = {'torch', 'transformers', 'pydantic', 'tokenizers'} & set(sys.modules);"
        "assert not heavy, heavy; dir(constrained); constrained.Vocabulary; constrained.errors;"
        "constrained.json_schema({'type': 'integer'}); constrained.Generator; constrained.load;"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_can_be_had_and_unknown_ones_are_named():
    for name in constrained.__all__:
        assert getattr(constrained, name) is not None
    assert set(constrained.__all__) <= set(dir(constrained))
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        constrained.lode  # noqa: B018


def test_the_readme_names_of_the_docstring_exist():
    for name in re.findall(r"constrained\.([a-zA-Z_]+)", constrained.__doc__):
        assert hasattr(constrained, name)


# ---------------------------------------------------------------- the bundled model


@cache
def bundled():
    return constrained.load()


def test_the_bundled_model_extracts_offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = bundled()
    city = constrained.extract(
        model, "Brno is a city of 400000 people.", City, max_tokens=60, on_limit="close"
    )
    assert isinstance(city, City)


def test_the_bundled_model_gives_the_same_in_streams_batches_and_alone():
    model = bundled()
    gen = constrained.Generator(model, City)
    prompts = [f"Text {i}: " + "and more " * i for i in range(4)]
    settings = {"temperature": 1.0, "seed": 7, "max_tokens": 30}
    alone = [gen(prompt, **settings).tokens for prompt in prompts]
    assert [out.tokens for out in gen.batch(prompts, **settings)] == alone
    assert [list(gen.stream(prompt, **settings))[-1].output.tokens for prompt in prompts] == alone
