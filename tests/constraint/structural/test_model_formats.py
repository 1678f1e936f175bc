"""The 72 structural tags that XGrammar 0.2.8 makes for its model formats, judged by texts written by hand."""

from __future__ import annotations

import sys

import pytest

from constrained import compile, structural_tag
from tests.support.reading import accepts
from tests.support.structural_tags import BYTES
from tests.tools.structural_tags import PATH, read_tags

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TAGS = read_tags()
FORMATS = tomllib.loads(PATH.with_suffix(".toml").read_text(encoding="utf-8"))

WRONG = [
    ("weather", "wether"),  # another tool
    ("city", "town"),  # an argument that the tool does not have
    ("days", "city"),  # one argument twice
    ("3", "three"),  # a value of another type
    ("3", "3.5"),
]


def test_there_is_a_call_for_every_format() -> None:
    assert len(TAGS) == 72
    assert {name.split("/")[0] for name in TAGS} == set(FORMATS)


@pytest.mark.parametrize("name", TAGS)
def test_a_tag_of_a_model_format(name: str) -> None:
    model, choice, reasoning = name.split("/")
    cases = FORMATS[model]
    automaton = compile(structural_tag(TAGS[name]), BYTES)
    before = cases["reasoning"] if reasoning == "reasoning" else cases.get("plain", "")
    call = cases.get("required", cases["call"]) if choice == "required" else cases["call"]
    end = cases.get("end", "")
    assert accepts(automaton, before + call + end)
    for old, new in WRONG:
        assert old in call
        assert not accepts(automaton, before + call.replace(old, new) + end), (old, new)
    for cut in (1, 3, len(end) + 5):
        assert not accepts(automaton, (before + call + end)[:-cut])
    if reasoning == "plain":
        assert accepts(automaton, cases.get("answer", "Hello.")) == (choice == "auto")
