"""Structural tags beside XGrammar's own matcher: both accept the same texts, or the reason why not is listed here."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from constrained import InvalidConstraint, compile, structural_tag
from tests.support.reading import accepts
from tests.support.structural_tags import BYTES, RandomTexts
from tests.tools.structural_tags import TOOLS, model_tags

xgrammar = pytest.importorskip("xgrammar")

CLOSED_IN_STRING = re.compile(
    r'[\[{,:]\s*"(?:[^"\\]|\\.)*'
    r"(?:</(?:｜DSML｜ ?)?parameter>|</arg_value>|\]<\]minimax\[>\[|<\|close\|>argument<\|sep\|>)"
    r'(?:[^"\\]|\\.)*"\s*[,\]}:]',
    re.DOTALL,
)
ARGUMENT = re.compile(r' type="(\w+)"<\|sep\|>\s*(.*?)\s*<\|close\|>argument<\|sep\|>', re.DOTALL)
LOOKS = {
    "string": r".*",
    "number": r"-?\d+(\.\d+)?([eE][+-]?\d+)?",
    "integer": r"(?!)",
    "boolean": r"true|false",
    "null": r"null",
    "object": r"\{.*",
    "array": r"\[.*",
}


def wrong_type(text: str) -> bool:
    """Whether the type of an argument is not that of its value."""
    return any(not re.fullmatch(LOOKS[word], value, re.DOTALL) for word, value in ARGUMENT.findall(text))


KNOWN: list[Callable[[str, bool], bool]] = [
    # XGrammar is wrong: -0 is an integer in JSON.
    lambda text, ours: ours and re.search(r"-0\b", text) is not None,
    # Numbers without bounds have at most 24 digits here, and exponents below 200, as in all arguments of tools.
    lambda text, ours: not ours and re.search(r"\d{25}|\d[eE][+-]?(?!1?\d?\d\b)\d", text) is not None,
    # XGrammar is wrong: a reader of the markup ends the value at the closing text, inside a JSON string too.
    lambda text, ours: not ours and CLOSED_IN_STRING.search(text) is not None,
    # XGrammar is wrong: where a value has several types it accepts any word, not the type of the value.
    lambda text, ours: not ours and wrong_type(text),
]


class Theirs:
    """XGrammar's matcher of a tag."""

    def __init__(self) -> None:
        tokens = [bytes([i]) for i in range(256)] + [b"<eos>"]
        kind = xgrammar.VocabType.RAW
        info = xgrammar.TokenizerInfo(tokens, kind, vocab_size=257, stop_token_ids=[256])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def judge(self, definition: dict[str, Any]) -> Callable[[str], bool]:
        """Whether XGrammar accepts a text."""
        compiled = self.compiler.compile_structural_tag(definition)

        def accepted(text: str) -> bool:
            matcher = xgrammar.GrammarMatcher(compiled)
            return bool(matcher.accept_string(text) and matcher.is_completed())

        return accepted


THEIRS = Theirs()


def compare(
    definition: dict[str, Any], chance: random.Random, texts: int, mutants: int = 5, limit: int = 60
) -> int:
    """Compares random and mutated texts; returns how many."""
    automaton = compile(structural_tag(definition), BYTES)
    theirs = THEIRS.judge(definition)
    walks = RandomTexts(definition)
    compared = 0
    for _ in range(texts):
        text = walks.draw(chance, limit)
        if text is None:
            continue
        assert accepts(automaton, text)
        for other in [text, *(walks.mutated(chance, text) for _ in range(mutants))]:
            ours = accepts(automaton, other)
            compared += 1
            if ours != theirs(other) and not any(known(other, ours) for known in KNOWN):
                raise AssertionError((definition, other, f"accepted by {'us' if ours else 'XGrammar'} alone"))
    return compared


MODEL_TAGS = model_tags(TOOLS, max_whitespace_cnt=2)


@pytest.mark.parametrize("name", MODEL_TAGS)
def test_tags_of_model_formats(name: str) -> None:
    compare(MODEL_TAGS[name], random.Random(name), texts=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODEL_TAGS)
def test_tags_of_model_formats_at_length(name: str) -> None:
    assert compare(MODEL_TAGS[name], random.Random(f"{name} again"), texts=60, limit=120) > 100


VALUES: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "null"},
    {"enum": ["C", "F"]},
    {"const": "x"},
    {"const": 3},
    {"type": ["string", "null"]},
    {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
    {
        "type": "object",
        "properties": {"p": {"type": "string"}, "q": {"type": "boolean"}},
        "required": ["p"],
        "additionalProperties": False,
    },
    {"type": "integer", "minimum": 0, "maximum": 20},
    {"enum": ["a", 1, None]},
    {"$ref": "#/$defs/s"},
]
STYLES = (
    "json",
    "qwen_xml",
    "minimax_xml",
    "minimax_m3_xml",
    "deepseek_xml",
    "deepseek_v4_1_xml",
    "glm_xml",
    "cohere_xml",
    "kimi_k3_xml",
)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))]
)
def test_arguments_in_every_style(style: str, seed: int) -> None:
    chance = random.Random(f"{style} {seed}")
    for _ in range(6):
        values = chance.sample(VALUES, chance.randint(1, 3))
        names = ["a", "bc", "d_e"][: len(values)]
        schema = {
            "type": "object",
            "properties": dict(zip(names, values, strict=True)),
            "required": [name for name in names if chance.random() < 0.6],
            "additionalProperties": False,
            "$defs": {"s": {"type": "string"}},
        }
        form = {"type": "json_schema", "json_schema": schema, "style": style, "max_whitespace_cnt": 2}
        if style not in ("cohere_xml", "minimax_m3_xml") and chance.random() < 0.3:
            form["excludes"] = ["Br", "ab"]
        compare({"type": "structural_tag", "format": form}, chance, texts=3, limit=40)


BEGINS, ENDS = ["<a>", "<b>", "<a", "|", "b>", "<<"], ["</a>", "|", ">", "ab", "</b>"]


def random_format(chance: random.Random, depth: int) -> dict[str, Any]:
    """A format of up to `depth` levels; markers overlap with texts and with each other."""

    def below() -> dict[str, Any]:
        return random_format(chance, depth - 1)

    def tag() -> dict[str, Any]:
        end: Any = chance.choice((chance.choice(ENDS), chance.sample(ENDS, 2)))
        return {"type": "tag", "begin": chance.choice(BEGINS), "content": below(), "end": end}

    def excluded() -> list[str]:
        return chance.choice(([], [], [chance.choice(BEGINS + ENDS)], ["z", "ab"]))

    leaves = ["const_string", "any_text", "regex", "json_schema"]
    inner = [
        "sequence",
        "or",
        "optional",
        "star",
        "plus",
        "repeat",
        "tag",
        "triggered_tags",
        "tags_with_separator",
        "dispatch",
    ]
    kind = chance.choice(leaves if depth == 0 else leaves + inner + inner[-4:])
    form: dict[str, Any] = {"type": kind}
    match kind:
        case "const_string":
            form["value"] = chance.choice(("a", "ab", "x<a>", "</a>", "|"))
        case "any_text":
            form |= {"excludes": excluded(), "max_chars": chance.choice((None, None, 0, 3))}
        case "regex":
            form["pattern"] = chance.choice(("a+", "[ab]{1,3}", r"\d+", "(a|<b>)+", "[^<]*"))
        case "json_schema":
            schemas: list[Any] = [
                {"type": "integer", "minimum": 1},
                {"type": "string"},
                {"enum": ["a", True]},
            ]
            form["json_schema"] = chance.choice(schemas)
        case "sequence" | "or":
            form["elements"] = [below() for _ in range(chance.randint(1, 3))]
        case "repeat":
            low = chance.randint(0, 2)
            form |= {"min": low, "max": chance.choice((-1, low, low + 2)), "content": below()}
        case "tag":
            form = tag()
        case "triggered_tags":
            tags = [tag() for _ in range(chance.randint(1, 3))]
            form |= {
                "tags": tags,
                "triggers": list(dict.fromkeys(one["begin"] for one in tags)),
                "excludes": excluded(),
            }
        case "tags_with_separator":
            tags = [tag() for _ in range(chance.randint(1, 2))]
            form |= {"tags": tags, "separator": chance.choice(("", ",", "\n", "|"))}
        case "dispatch":
            patterns = chance.sample(["<a>", "<b>", "|", "<<"], chance.randint(1, 2))
            form |= {"rules": [[one, below()] for one in patterns], "excludes": excluded()}
            form["loop"] = chance.random() < 0.6
        case _:
            form["content"] = below()
    if kind in ("triggered_tags", "tags_with_separator"):
        form |= {"at_least_one": chance.random() < 0.4, "stop_after_first": chance.random() < 0.3}
    return form


def overlapping(form: Any) -> bool:
    """Whether a trigger or pattern contains another one, which is refused: which of the two is meant is not clear."""
    if isinstance(form, list):
        return any(map(overlapping, form))
    if not isinstance(form, dict):
        return False
    markers = form.get("triggers", []) + [one[0] for one in form.get("rules", [])]
    return any(a in b for a in markers for b in markers if a != b) or any(map(overlapping, form.values()))


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 40))]
)
def test_random_formats(seed: int) -> None:
    chance = random.Random(seed)
    compared = 0
    for _ in range(12):
        definition = {"type": "structural_tag", "format": random_format(chance, 3)}
        if overlapping(definition["format"]):
            with pytest.raises(InvalidConstraint):
                structural_tag(definition)
            continue
        compared += compare(definition, chance, texts=4, limit=25)
    assert compared > 50
