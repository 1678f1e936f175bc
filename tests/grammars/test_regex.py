"""The language of a pattern is the one that Python's own engine matches; other dialects have cases of their own."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, InvalidConstraint, UnsupportedConstraint
from constrained.grammars.regex import parse
from tests.support import paths
from tests.support.examples import examples
from tests.support.judge import ReferenceRecognizer
from tests.support.matching import matches

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

CASES = paths.CASES / "regex"


def cases(name: str) -> list[Any]:
    rows = tomllib.loads((CASES / name).read_text(encoding="utf-8"))["case"]
    return [pytest.param(row, id=f"{row.get('dialect', 'python')} {row['pattern']}") for row in rows]


# ---------------------------------------------------------------- against Python's re

_singles = st.sampled_from(
    [
        "a",
        "b",
        "-",
        "é",
        ".",
        r"\d",
        r"\w",
        r"\s",
        r"\W",
        r"\n",
        "[ab]",
        "[^a]",
        "[a-c_]",
        r"[^\w]",
        r"\.",
        "",
        "()",
    ]
)
_anchors = st.sampled_from(["^", "$", r"\b", r"\B", r"\A", r"\Z", "(?m:^)", "(?m:$)"])
_counts = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?", "{,2}"])
_behind = st.sampled_from(["a", "[ab]", r"\w", "^", "a|b", "ab"])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join).map("(?:{})".format),
        st.builds("(?:{}){}".format, inner, _counts),
        inner.map("({})".format),
        inner.map("(?i:{})".format),
        inner.map("(?s:{})".format),
    )


def _looking(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _grown(inner),
        st.builds("(?{}{})".format, st.sampled_from("=!"), inner),
        st.builds("(?<{}{})".format, st.sampled_from("=!"), _behind),
    )


plain = st.recursive(_singles, _grown, max_leaves=6)
asserting = st.recursive(st.one_of(_singles, _anchors), _looking, max_leaves=6)
texts = st.text("abcABé-_ .\n0", max_size=6)


def agrees(pattern: str, strings: list[str]) -> None:
    compiled = re.compile(pattern)
    full, within = parse(pattern), parse(pattern, search=True)
    for text in strings:
        assert matches(full, text) == (compiled.fullmatch(text) is not None), text
        assert matches(within, text) == (compiled.search(text) is not None), text


@given(plain, st.lists(texts, min_size=8, max_size=8))
@settings(max_examples=examples(80))
def test_a_pattern_without_assertions_means_what_re_matches(pattern: str, strings: list[str]) -> None:
    agrees(pattern, strings)


@given(asserting, st.lists(texts, min_size=8, max_size=8))
@settings(max_examples=examples(80))
def test_assertions_mean_what_re_matches_or_are_refused(pattern: str, strings: list[str]) -> None:
    try:
        parse(pattern)
        parse(pattern, search=True)
    except UnsupportedConstraint as error:
        assert "position" in str(error)  # noqa: PT017
        return
    agrees(pattern, strings)


@given(plain, st.lists(texts, min_size=4, max_size=4))
@settings(max_examples=examples(40))
def test_membership_agrees_with_the_judge(pattern: str, strings: list[str]) -> None:
    regex = parse(pattern)
    judge = ReferenceRecognizer(ir.Grammar.of(regex))
    for text in strings:
        assert matches(regex, text) == judge.accepts(text.encode())


# ---------------------------------------------------------------- cases


@pytest.mark.parametrize("case", cases("matches.toml"))
def test_a_case_accepts_and_rejects(case: dict[str, Any]) -> None:
    regex = parse(
        case["pattern"],
        dialect=case.get("dialect", "python"),
        flags=case.get("flags", ""),
        search=case.get("search", False),
    )
    for text in case.get("accepted", ()):
        assert matches(regex, text), text
    for text in case.get("rejected", ()):
        assert not matches(regex, text), text


@pytest.mark.parametrize("case", cases("refused.toml"))
def test_a_case_is_refused_at_its_place(case: dict[str, Any]) -> None:
    kind = {"invalid": InvalidConstraint, "unsupported": UnsupportedConstraint}[case["error"]]
    with pytest.raises(kind) as caught:
        parse(case["pattern"], dialect=case.get("dialect", "python"), flags=case.get("flags", ""))
    (problem,) = caught.value.problems
    assert problem.place == f"position {case['at']}"
    assert case["reason"] in problem.reason
    assert problem.excerpt is not None
    shown, caret = problem.excerpt.split("\n")
    assert case["at"] == len(case["pattern"]) or shown[caret.index("^")] == case["pattern"][case["at"]]


def test_counts_stay_unexpanded() -> None:
    regex = parse("((a{1,1000}){1,1000}){1,1000}")
    depth = 0
    while isinstance(regex, ir.Repeat):
        assert (regex.low, regex.high) == (1, 1000)
        regex, depth = regex.part, depth + 1
    assert depth == 3


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:ab|cde)-(?:ab|cde)(?:ab|cde){2}",  # a group that stands there again is the same
        "(?i:(?:abc|[a-c]{4})x)(?:abc|[a-c]{4})x",  # but not under other flags
        "(?:abc(?:abc)?(?:abc)+)(?:abc(?:abc)?(?:abc)*)",
        "[a-c]x[a-c]*[^a-c]|[a-c]",
    ],
)
@pytest.mark.parametrize(
    "text", ["ab-cdeabab", "ab-cdeab", "ABCXabcx", "abcxABCx", "abcaX", "abcabcabc", "axbd", "c"]
)
def test_parts_that_stand_in_a_pattern_again(pattern: str, text: str) -> None:
    assert matches(parse(pattern), text) == bool(re.fullmatch(pattern, text))


def test_a_count_beyond_any_text_is_refused() -> None:
    with pytest.raises(ConstraintTooLarge):
        parse("a{99999999999}")
    regex = parse("a{2,99999999999}")
    assert isinstance(regex, ir.Repeat)
    assert regex.high is None


@pytest.mark.parametrize("inner", ["a", "^a$"])
def test_deep_groups_cost_no_recursion(inner: str) -> None:
    regex = parse("(" * 5000 + inner + ")" * 5000)
    assert matches(regex, "a")
    assert not matches(regex, "b")


def test_deep_assertions_are_refused() -> None:
    with pytest.raises(ConstraintTooLarge, match="position"):
        parse("(?:a^|" * 5000 + "a" + ")" * 5000)


def test_unknown_dialects_and_flags_are_errors() -> None:
    with pytest.raises(ValueError, match="dialect"):
        parse("a", dialect="perl")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="flags"):
        parse("a", flags="q")


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        r"\d", r"\w", r"\s", "(?i)[k-s]", "(?i)[^i]", "(?i)[\0-\x7f]", "(?i)[a-\xff\u0400-\u04ff]", r"\W",
        "[^a]", ".",
    ],
)  # fmt: skip
def test_classes_hold_the_code_points_that_python_says(pattern: str) -> None:
    regex = parse(pattern)
    assert isinstance(regex, ir.Chars)
    compiled = re.compile(pattern)
    held = {code for low, high in regex.ranges for code in range(low, high + 1)}
    every = (code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)
    assert held == {code for code in every if compiled.fullmatch(chr(code))}
