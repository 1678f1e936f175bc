"""Which terminals of a Lark grammar match the same text."""

from __future__ import annotations

import re
from typing import Literal

import lark
import pytest

import constrained
from constrained.grammars import ir
from constrained.grammars.notation.lark import LarkSettings, OverlapReport, overlaps, terminal_overlaps
from constrained.grammars.regex import parse as parse_regex


def pairs(report: OverlapReport) -> set[frozenset[str]]:
    return {frozenset((one.first, one.second)) for one in report.overlaps}


def test_an_overlap_has_an_example_that_both_match() -> None:
    patterns = {
        "NAME": r"[a-z_]+",
        "WORD": r"[a-z][0-9]+|(ab)*c",
        "DATE": r"\d{4}-\d\d",
        "DIGITS": r"[-0-9]{5,9}",
    }
    grammar = f"start: ({' | '.join(patterns)})+\n" + "\n".join(
        f"{name}: /{pattern}/" for name, pattern in patterns.items()
    )
    report = terminal_overlaps(grammar)
    assert report.not_compared == ()
    assert pairs(report) == {frozenset(("NAME", "WORD")), frozenset(("DATE", "DIGITS"))}
    for one in report.overlaps:
        assert re.fullmatch(patterns[one.first], one.example)
        assert re.fullmatch(patterns[one.second], one.example)
    with pytest.raises(lark.exceptions.LexError, match="Collision"):
        lark.Lark(grammar, parser="lalr", lexer="basic", strict=True)


def test_a_machine_that_returns_to_its_start_overlaps() -> None:
    patterns = "(ab)*c", "((ab)*)(ab)*c"
    (one,) = terminal_overlaps(f"start: A | B\nA: /{patterns[0]}/\nB: /{patterns[1]}/").overlaps
    assert all(re.fullmatch(pattern, one.example) for pattern in patterns)


@pytest.mark.parametrize(
    "grammar",
    [
        "start: (NAME | INT)+\nNAME: /[a-z]+/\nINT: /[0-9]+/",
        'start: (NAME | "if" | "else"i)+\nNAME: /[a-z]+/',
        'start: (NAME | IF)+\nNAME: /[a-z]+/\nIF: "if"',
        "start: (NAME | WORD)+\nNAME.2: /[a-z]+/\nWORD: /[a-z]+/",
        "start: NAME+\nNAME: /[a-z]+/\nUNUSED: /[a-z]+/",
    ],
    ids=["disjoint", "literals", "named literal", "priority", "unused"],
)
def test_no_overlap(grammar: str) -> None:
    assert terminal_overlaps(grammar) == OverlapReport()
    lark.Lark(grammar, parser="lalr", strict=True)  # agrees


def test_ignored_terminals_and_parsers_count() -> None:
    grammar = "start: LINE+\nLINE: /[a-z ]+/\n%ignore /\\s+/"
    (one,) = terminal_overlaps(grammar).overlaps
    assert one.example == " "
    assert len(terminal_overlaps(lark.Lark(grammar, parser="lalr")).overlaps) == 1
    assert terminal_overlaps(grammar, LarkSettings(lexer="dynamic")) == OverlapReport()


def test_flags_count() -> None:
    grammar = "start: A | B\nA: /abc/i\nB: /[A-Z]+/"
    (one,) = terminal_overlaps(grammar).overlaps
    assert one.example == "ABC"


def test_a_lazy_loop_is_not_read_as_a_greedy_one() -> None:
    report = terminal_overlaps('start: A | B\nA: /"[ab"]*?"/\nB: /"a"b"/')
    assert report.overlaps == ()
    assert [reason for _, reason in report.not_compared] == ["no text was confirmed that B matches, too"]


def test_a_pattern_that_cannot_be_read_is_named() -> None:
    grammar = r"""
        start: (A | B | C | D)+
        A: /a(?<=a)b/
        B: /a(?#comment)b/
        C: /[a-z]+/
        D: /a+(?=b)b/
    """
    report = terminal_overlaps(grammar)
    assert {"A", "B"} <= {name for name, _ in report.not_compared}
    assert all("cannot read" in reason for _, reason in report.not_compared)


@pytest.mark.parametrize("pattern", ["a{0,4000}", "(b{2,}){51}", "x" * 501])
def test_large_patterns_are_named_and_not_compared(pattern: str) -> None:
    report = terminal_overlaps(f"start: A | B | C\nA: /{pattern}b/\nB: /[a-c]+/\nC: /c/")
    assert [name for name, _ in report.not_compared] == ["A"]
    assert pairs(report) == {frozenset("BC")}


def compared(name: str, pattern: str) -> overlaps.ComparedTerminal:
    regex = parse_regex(pattern, search=False)
    return overlaps.ComparedTerminal(name, pattern, ir.Concat((regex,)), 0)


@pytest.mark.ci
def test_an_exponential_pattern_ends_in_time() -> None:
    terminals = [compared("A", "(a|b)*a(a|b){40}c"), compared("B", "[a-c]+"), compared("C", "c+")]
    report = overlaps.find_overlaps(terminals, time_limit=1)
    assert [name for name, _ in report.not_compared] == ["A"]
    assert pairs(report) == {frozenset("BC")}


def test_many_terminals_are_bounded() -> None:
    terminals = [compared(f"T{index}", f"[a-z]0{index}") for index in range(10)]
    several = [compared(f"N{index}", f"[a-z]+{index}?") for index in range(20)]
    report = overlaps.find_overlaps([*terminals[1:], *several])
    assert len(report.overlaps) == overlaps.MAX_OVERLAPS
    assert report.not_compared


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
def test_a_parser_for_trees_is_made_without_larks_own_comparison(
    lexer: Literal["contextual", "basic"], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(*_: object) -> None:
        raise AssertionError("Lark compares terminals without limits")

    monkeypatch.setattr("lark.lexer._check_regex_collisions", compare)
    monkeypatch.setattr("interegular.Comparator.from_regexes", compare)
    grammar = "start: (A | B)+\nA: /(a|b)*a(a|b){40}/\nB: /b+c/"
    with pytest.raises(AssertionError):
        lark.Lark(grammar, parser="lalr", lexer=lexer)
    made = constrained.lark(grammar, value="tree", lexer=lexer)
    assert made.parse("bbcbc").children == ["bbc", "bc"]
