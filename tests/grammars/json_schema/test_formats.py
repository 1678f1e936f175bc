"""The formats are what their RFCs say: judged by the format checkers of `jsonschema` and by the official suite."""

from __future__ import annotations

import json
import os
import random
import re
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from constrained import json_schema
from constrained.automaton import compile
from constrained.grammars.json_schema.source.dialects import SCHEMA_DIALECTS
from constrained.grammars.json_schema.text.patterns import FORMATS, format_pattern
from tests.support.finite import byte_vocabulary

_DATA = os.environ.get("CONSTRAINED_DATA")
CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER

# Sound texts that the checkers of jsonschema refuse.
MISJUDGED = {
    "relative-json-pointer": re.compile("[1-9][0-9]*0[0-9]"),  # a zero within the number of levels
    "date-time": re.compile(":60"),  # a leap second
    "time": re.compile(":60"),
}


def sampled(name: str, count: int, seed: int = 0) -> list[str]:
    """Texts of a format: random tokens, closed by a shortest completion."""
    automaton: Any = compile(json_schema({"type": "string", "format": name}), byte_vocabulary())
    draw, found = random.Random(seed), []
    for _ in range(count):
        state, text = automaton.start, bytearray()
        target = draw.randint(2, 60)
        while not automaton.accepts(state):
            options = [b for b in range(256) if automaton.next(state, b)]
            if len(text) >= target:
                options = [
                    min(options, key=lambda b: (automaton.shortest_completion(automaton.next(state, b)), b))
                ]
            byte = draw.choice(options)
            text.append(byte)
            state = automaton.next(state, byte)
        found.append(json.loads(text.decode()))
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_has_the_format(name: str) -> None:
    if name not in CHECKER.checkers:
        pytest.skip("this checker of jsonschema is not installed")
    for text in sampled(name, 40):
        if not (name in MISJUDGED and MISJUDGED[name].search(text)):
            assert CHECKER.conforms(text, name), text


@pytest.mark.parametrize("name", ["date-time", "hostname", "idn-hostname", "regex"])
def test_what_a_format_leaves_out_is_not_called_wrong(name: str) -> None:
    """Texts of unknown validity are neither of the format nor of its negation."""
    pattern = format_pattern(FORMATS[name])
    left_out, wrong = {
        "date-time": ("1998-12-31T23:58:60-00:01", "-"),
        "hostname": ("www.xn--ihqwcrb4cv8a8dqg056pqjye", "-"),
        "regex": ("((((((((((a))))))))))", "*"),
        "idn-hostname": ("\u06f0\u0660", "-"),
    }[name]
    assert not pattern.matches(left_out)
    assert pattern.may_match(left_out)
    assert not pattern.may_match(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "^[a-z0-9-_]+$|^$",
        r"(?:a|b(?=c{2,3}))*?\.\/[^\]\d-]{12,15}x{0,250}",
        r"^\S+@(([A-Z]{2,}){1,9}\u00e9)?$",
    ],
)
def test_a_pattern_that_both_ecma_262_and_python_read(text: str) -> None:
    assert format_pattern(FORMATS["regex"]).matches(text)
    assert re.compile(text)


@pytest.mark.parametrize(
    "text", ["(", ")", "a**", "[z-a]", "x{3,2}", "x{15,12}", "[", "\\", "(?<a", "[]", r"\Z", "^*"]
)
def test_a_pattern_that_one_of_them_does_not_read(text: str) -> None:
    assert not format_pattern(FORMATS["regex"]).matches(text)


def suite() -> list[Any]:
    """Cases of the official suite under optional/format."""
    found = []
    with tarfile.open(Path(_DATA or "") / "json-schema-test-suite.tar.gz") as archive:
        for member in archive.getmembers():
            parts = member.name.split("/")
            if parts[0] == "tests" and parts[2:4] == ["optional", "format"] and member.name.endswith(".json"):
                handle = archive.extractfile(member)
                assert handle is not None
                found += [(parts[1].removeprefix("draft"), case) for case in json.load(handle)]
    return found


# Sound texts of the suite that are left out: labels in Punycode, which are sound if what they decode to is, all but
# the simplest labels of other scripts, and what only one of ECMA-262 and Python reads as a pattern.
LEFT_OUT = {
    "hostname": re.compile("xn--"),
    "idn-hostname": re.compile("xn--|[^a-z.]|.{30}"),
    "regex": re.compile(r"\(\?<|\[\^?\]|\\c"),
}


@pytest.mark.skipif(not _DATA, reason="CONSTRAINED_DATA is not set")
def test_the_official_suite() -> None:
    judged = 0
    for draft, case in suite():
        name = case["schema"].get("format")
        format_ = SCHEMA_DIALECTS[draft].formats.get(name) if draft in SCHEMA_DIALECTS else None
        for test in case["tests"] if format_ else ():
            if not isinstance(test["data"], str):
                continue
            judged += 1
            pattern = format_pattern(format_)
            left_out = LEFT_OUT.get(name) if draft not in ("4", "6") else None
            if test["valid"] and left_out and left_out.search(test["data"]):
                assert pattern.may_match(test["data"])
            else:
                assert pattern.matches(test["data"]) == test["valid"], (draft, name, test)
    assert judged > 1000
