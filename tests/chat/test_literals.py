"""Arguments as names and literals (Gemma, LFM 2.5, Olmo 3): what is allowed, and what is read back."""

from __future__ import annotations

import ast
import json
from typing import Any

import jsonschema
import numpy as np
import pytest

import constrained
from constrained import Generator
from constrained.chat.literals import LiteralReader
from constrained.chat.reply import reply_constraint
from constrained.chat.tool_format import ToolFormat
from constrained.chat.tool_format_probe import FORMATS, detect_tool_format
from constrained.chat.tools import Tool
from constrained.errors import UnsupportedConstraint
from constrained.grammars.json_schema import parameter_style
from constrained.vocabulary import Vocabulary
from tests.support.finite import byte_vocabulary
from tests.support.speaking import TAGGED, Speaker

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 6},
        "flag": {"type": ["boolean", "null", "integer"], "maximum": 9, "minimum": 0},
        "where": {
            "type": "object",
            "properties": {
                "tags": {"type": "array", "items": {"enum": ["a'b", '"', 1.5, None, True, {"k": [], "l": {}}]}},
                "any": {},
            },
            "required": ["tags"],
            "additionalProperties": False,
        },
    },
    "required": ["text"],
    "additionalProperties": False,
}  # fmt: skip
STYLES = {name: format for name, format in FORMATS.items() if format.style is not None}
ARGUMENTS: dict[str, list[tuple[str, Any]]] = {
    "gemma4": [
        ("text:<|\"|>a,'}\n<|\"|>", {"text": "a,'}\n"}),
        ('text:<|"|><|"|>,flag:null,where:{tags:[]}', {"text": "", "flag": None, "where": {"tags": []}}),
        ('where:{any:{x:[{},<|"|>1<|"|>]},tags:[1.5,true,{k:[],l:{}}]},text:<|"|>b<|"|>',
         {"where": {"any": {"x": [{}, "1"]}, "tags": [1.5, True, {"k": [], "l": {}}]}, "text": "b"}),
    ],
    "function-gemma": [("flag:3,text:<escape>it's<escape>", {"flag": 3, "text": "it's"})],
    "lfm2": [
        (r"""text='it\'s', flag=True""", {"text": "it's", "flag": True}),
        (r'''text="a\n\"\\", flag=None''', {"text": 'a\n"\\', "flag": None}),
        ('text="", where={"tags": ["a\'b", 1.5, None, {\'k\': [], "l": {}}], \'any\': "x"}',
         {"text": "", "where": {"tags": ["a'b", 1.5, None, {"k": [], "l": {}}], "any": "x"}}),
        ("text='a', flag=true", {"text": "a", "flag": True}),
    ],
}  # fmt: skip
REFUSED = {
    "gemma4": ["", "flag:3", 'text:"a"', 'text:<|"|>a<|"|>,text:<|"|>b<|"|>', 'text:<|"|>abcdefg<|"|>', 'text: <|"|>a<|"|>',
               'text:<|"|>a<|"|>,flag:10', 'text:<|"|>a<|"|>,where:{tags:[2]}'],
    "lfm2": ["", "text=a", "text='a',flag=1", "flag=1, text='a'", "text='it's'", "text='a\\'", r"text='\x41'", "text='a', flag=10"],
}  # fmt: skip


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return byte_vocabulary()


def allowed(text: str, format: ToolFormat, vocabulary: Vocabulary) -> bool:
    """Whether arguments are a text of the constraint, byte by byte."""
    automaton = constrained.compile(Tool("f", SCHEMA).arguments_in(format), vocabulary)
    state = automaton.start
    for byte in text.encode():
        state = automaton.next(state, vocabulary.ids_by_bytes[bytes([byte])])
    return bool(automaton.accepts(state))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_literals_are_allowed_and_read_back_in_pieces(name: str, vocabulary: Vocabulary) -> None:
    format = FORMATS[name]
    constraint = reply_constraint([{"name": "f", "parameters": SCHEMA}], format=format)
    for arguments, value in ARGUMENTS[name]:
        assert allowed(arguments, format, vocabulary), arguments
        text = format.format_calls(("f", arguments), ("f", arguments))
        parser = constraint.parser()
        for char in text:
            parser.feed(char)
        parser.finish()
        assert [call.arguments for call in parser.calls] == [value, value]
        assert parser.reply == constraint.parse(text)


@pytest.mark.parametrize("name", REFUSED)
def test_other_literals_are_not_allowed(name: str, vocabulary: Vocabulary) -> None:
    for arguments in REFUSED[name]:
        assert not allowed(arguments, FORMATS[name], vocabulary), arguments


@pytest.mark.parametrize("name", REFUSED)
def test_the_same_literals_are_a_style_of_structural_tags(name: str, vocabulary: Vocabulary) -> None:
    style = FORMATS[name].style.name
    form = {"type": "json_schema", "json_schema": SCHEMA, "style": style}
    automaton = constrained.compile(
        constrained.structural_tag({"type": "structural_tag", "format": form}), vocabulary
    )

    def accepts(text: str) -> bool:
        ids = [vocabulary.ids_by_bytes[bytes([byte])] for byte in text.encode()]
        states = automaton.walk(automaton.start, ids)
        return len(states) == len(ids) and automaton.accepts(states[-1] if states else automaton.start)

    assert all(accepts(text) for text, _ in ARGUMENTS[name])
    assert not any(map(accepts, REFUSED[name]))


class Dice(Speaker):
    """Says anything, from a seed."""

    seed = 0

    def logits(self, prompt: list[int], tokens: list[int]) -> Any:
        return np.random.default_rng((self.seed, len(tokens))).normal(0, 3, self.vocabulary.size)


class _Words(ast.NodeTransformer):
    """JSON's words as Python's."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant({"true": True, "false": False, "null": None}[node.id])


@pytest.mark.parametrize("name", STYLES)
def test_whatever_is_written_is_valid_and_what_python_reads(name: str) -> None:
    """Random calls: jsonschema judges the values; Python's own parser judges what was written as Python writes it."""
    format = STYLES[name]
    model = Dice(TAGGED, special=(*format.special, "<|im_end|>"))
    constraint = reply_constraint([{"name": "f", "parameters": SCHEMA}], tool_choice="f", format=format)
    for model.seed in range(6):
        out = Generator(model, constraint)("x", max_tokens=120)
        (call,) = out.value.calls
        jsonschema.validate(call.arguments, SCHEMA)
        written = out.text.removeprefix(format.begin + format.head.replace("{name}", "f")).removesuffix(
            format.tail
        )
        if format.style.quotes and not set(written) & set("\r\n\0"):
            tree = ast.parse(f"f({written})", mode="eval").body
            assert isinstance(tree, ast.Call)
            read = {one.arg: ast.literal_eval(_Words().visit(one.value)) for one in tree.keywords}
            assert read == call.arguments


def test_a_template_in_the_shape_of_function_gemma() -> None:
    template = TAGGED.replace('<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>', "<start_function_call>call:{{ c.function.name }}{{ '{' }}{% for k, v in c.function.arguments.items() %}{{ k }}:{% if v is string %}<escape>{{ v }}<escape>{% elif v is mapping %}{{ '{' }}{% for a, b in v.items() %}{{ a }}:{{ b }}{% endfor %}{{ '}' }}{% elif v is iterable %}[<escape>{{ v[0] }}<escape>]{% else %}{{ v | tojson }}{% endif %}{% if not loop.last %},{% endif %}{% endfor %}{{ '}' }}<end_function_call>").replace("{{ '\n' }}", "")  # fmt: skip
    special = ("<start_function_call>", "<end_function_call>", "<escape>", "<|im_end|>")
    found, named = detect_tool_format(Speaker(template, special=special)), FORMATS["function-gemma"]
    assert (found.begin, found.head, found.tail) == (named.begin, named.head, named.tail)
    assert found.style == named.style
    assert set(found.special) == set(named.special)
    assert found.call_separator == named.call_separator


def test_names_whose_end_cannot_be_seen_are_refused() -> None:
    """Read back, ``a:b`` would be the parameter ``a``."""
    for name, format in (("a:b", "gemma4"), ("a b", "lfm2"), ("", "pythonic")):
        tool = Tool("f", {"type": "object", "properties": {name: {"type": "string"}}})
        with pytest.raises(UnsupportedConstraint, match="whose end cannot be seen"):
            _ = tool.arguments_in(FORMATS[format]).grammar
    tool = Tool("f", {"type": "object", "properties": {"a>": {"type": "string"}}})
    with pytest.raises(UnsupportedConstraint, match="'a>'"):
        _ = tool.arguments_in(ToolFormat(parameters={"name": "qwen_xml"})).grammar


def test_deep_literals_are_read_without_recursion() -> None:
    style = parameter_style("gemma")
    assert style is not None
    deep = "[" * 5000 + "]" * 5000
    found = LiteralReader(style).read(f"a:{deep}}}")
    assert found is not None
    assert found.text == deep
    assert LiteralReader(style).read("a:1") is None
    assert json.loads(found.text[:2].replace("[[", "[]")) == []
