"""Which terminals of a Lark grammar match the same text."""

from __future__ import annotations

import re
from typing import Literal

import lark
import pytest

import constrained
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
    assert terminal_overlaps('start: A | B\nA: /"[ab"]*?"/\nB: /"a"b"/') == OverlapReport()


def test_assertions_combined_patterns_and_large_counts_are_compared() -> None:
    grammar = r"""
        start: (A | B | C | D | E | F)+
        A: /0a(?<=a)b/
        B: /0[a-z](?=b)b/
        C: /1a{0,4000}b/
        D: /1[a-c]{300}b/
        E: /2[a-c]+/ & ~/2b+/
        F: /2bb+/
    """
    report = terminal_overlaps(grammar)
    assert report.not_compared == ()
    assert pairs(report) == {frozenset("AB"), frozenset("CD")}


def test_a_part_of_a_document_is_named_and_not_compared() -> None:
    report = terminal_overlaps('start: A | B\nA: /[a-z]+/\nB: %regex {"substring_words": "an old ant"}')
    assert "parts of documents" in report.not_compared[0][1]


def compared(name: str, pattern: str) -> overlaps.ComparedTerminal:
    return overlaps.ComparedTerminal(name, parse_regex(pattern, search=False), 0)


def test_an_exponential_pattern_is_given_up_after_so_many_steps() -> None:
    terminals = [compared("A", "(a|b)*a(a|b){40}c"), compared("B", "[a-c]+"), compared("C", "c+")]
    report = overlaps.find_overlaps(terminals)
    ((name, reason),) = report.not_compared
    assert name == "A"
    assert "50,000 steps" in reason
    assert pairs(report) == {frozenset("BC")}


def test_many_terminals_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    terminals = [compared(f"T{index}", f"[a-z]0{index}") for index in range(10)]
    several = [compared(f"N{index}", f"[a-z]+{index}?") for index in range(20)]
    report = overlaps.find_overlaps([*terminals[1:], *several])
    assert len(report.overlaps) == overlaps.MAX_OVERLAPS
    assert "listed already" in report.not_compared[0][1]
    monkeypatch.setattr(overlaps, "MAX_STEPS", 100)
    assert "100 steps" in overlaps.find_overlaps(terminals).not_compared[-1][1]


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
def test_a_parser_for_trees_is_made_without_larks_own_comparison(
    lexer: Literal["contextual", "basic"], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(*_: object) -> None:
        raise AssertionError("Lark compares terminals without limits")

    monkeypatch.setattr("lark.lexer._check_regex_collisions", compare)
    grammar = "start: (A | B)+\nA: /(a|b)*a(a|b){40}/\nB: /b+c/"
    with pytest.raises(AssertionError):
        lark.Lark(grammar, parser="lalr", lexer=lexer)
    made = constrained.lark(grammar, value="tree", lexer=lexer)
    assert made.parse("bbcbc").children == ["bbc", "bc"]
