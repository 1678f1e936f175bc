"""Lark grammars: what is read, what the lexer cuts, what is allowed token by token."""

from __future__ import annotations

import contextlib
import itertools
import random
import re
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import lark
import numpy as np
import pytest

import constrained
from constrained.automaton import DEAD, LexerAutomaton, TokenAutomaton, compile
from constrained.errors import (
    ConstraintTooLarge,
    InvalidConstraint,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)
from constrained.vocabulary import Vocabulary
from grammars import ir
from grammars.lexer import LexerGrammar
from grammars.notation.lark import parse
from grammars.regex import parse as parse_regex
from tests.support.lexed_judge import Judge, Terminal
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

BYTES = Vocabulary.from_bytes([bytes((byte,)) for byte in range(256)] + [b""], [256])


class Texts:
    """Whether texts are begun, and whether they are complete."""

    def __init__(self, grammar: str, **settings: object) -> None:
        self.automaton = compile(constrained.lark(grammar, **settings), BYTES)  # type: ignore[arg-type]

    def after(self, text: str) -> int:
        at = self.automaton.start
        for byte in text.encode():
            at = self.automaton.next(at, byte)
        return at

    def begins(self, text: str) -> bool:
        return self.after(text) != DEAD

    def __contains__(self, text: str) -> bool:
        at = self.after(text)
        return at != DEAD and self.automaton.accepts(at)

    def among(self, texts: list[str]) -> list[str]:
        return [text for text in texts if text in self]


# ---------------------------------------------------------------- the notation


def test_everything_that_rules_are_written_with() -> None:
    texts = Texts(
        r"""
        // a comment
        start: pair ("," pair)*            # another
        ?pair.2: NAME "=" [value] -> named
               | "none"i                   // the rule goes on
        !value: DIGIT~2 | DIGIT~4..5 | "a".."c" | (FLAG
            | "'" _x "'") | _twice{FLAG, "+"} \
            | _twice{_twice{"x", "y"}, "z"}
        _x: "q"?
        _twice{item, between}: item between item
        NAME.-1: /[e-g]+/i
        DIGIT: "0".."3" | /[4-9]/x
        FLAG: "\x21" | "?" | "\"" | "\\" | "\u00e9" | "\."
        """
    )
    good = [
        "none",
        "NonE",
        "e=",
        "FgE=12",
        "e=1234",
        "e=12345",
        "e=b",
        "e=!",
        "e='q'",
        "e=''",
        'e=?+"',
        "e=\\",
        "e=é",
    ]
    good += ["e=,none,f=c", "e=xyxzxyx", "e=\\."]
    assert texts.among(good) == good
    assert texts.among(["", "e", "e=123", "e=123456", "e=d", "e=xyx", "none,", "h=", "e=.", "e=a b"]) == []


def test_the_library_has_what_lark_has() -> None:
    library = (files(lark) / "grammars" / "common.lark").read_text()
    names = re.findall(r"^([A-Z_]+)\s*:", library, re.MULTILINE)
    assert len(names) > 20
    samples = [
        "a",
        "Z",
        "7",
        "42",
        "-42",
        "+4.5",
        ".5",
        "1e9",
        "1.5E-3",
        "f",
        "F",
        "_a1",
        "Abc",
        " ",
        "\t ",
        "\n",
    ]
    samples += [
        "\r\n",
        "\r",
        '"x"',
        '"\\""',
        '"\\\\"',
        '"a"b"',
        "# c",
        "// c",
        "/* c */",
        "/* * / **/",
        "/**/ */",
        "-- c",
    ]
    samples += ["/* \n */", '"\n"', "e5", "1.", "--", "", "a b", '"', "x\\"]
    for name in names:
        text = f"start: X\n%import common.{name} -> X"
        if name.startswith("_STRING"):  # empty alone; parts of strings, which have a test of their own
            with pytest.raises((InvalidConstraint, UnsupportedConstraint)):
                Texts(text)
            continue
        theirs = lark.Lark(text, parser="lalr")
        wanted = []
        for sample in samples:
            with contextlib.suppress(lark.exceptions.UnexpectedInput):
                theirs.parse(sample)
                wanted.append(sample)
        assert Texts(text).among(samples) == wanted, name


def test_imports_bring_terminals_under_any_name() -> None:
    texts = Texts('start: A B C\n%import common (INT -> A, WORD -> B)\n%import common.INT -> C\n%ignore " "')
    assert texts.among(["1 a 2", "12ab34", "a1 2"]) == ["1 a 2", "12ab34"]


def test_extended_and_overridden() -> None:
    assert Texts('start: A\nA: "a"\n%extend A: "b"\n%extend start: "c"').among(["a", "b", "c", "d"]) == [
        "a",
        "b",
        "c",
    ]
    assert Texts('start: A\nA: "a"\n%override A: "b"\n').among(["a", "b"]) == ["b"]


REFUSED = {
    "start: x": (InvalidConstraint, "line 1, column 8", "no rule x"),
    "start: X": (InvalidConstraint, "line 1, column 8", "no terminal X"),
    'start: "a': (InvalidConstraint, "line 1, column 8", "never closed"),
    "start: /a": (InvalidConstraint, "line 1, column 8", "never closed"),
    'start: ("a"': (InvalidConstraint, "line 1, column 8", "never closed"),
    'start: ("a"]': (InvalidConstraint, "line 1, column 12", r"\) is open"),
    'start: "a")': (InvalidConstraint, "line 1, column 11", "nothing is open"),
    "start: *": (InvalidConstraint, "line 1, column 8", "nothing stands before"),
    'start: "a"~2..1': (InvalidConstraint, "line 1, column 11", "greater count"),
    'start: "a"~x': (InvalidConstraint, "line 1, column 11", "a count is"),
    'start: "b".."a"': (InvalidConstraint, "line 1, column 8", "ends before it begins"),
    'start: "ab".."c"': (InvalidConstraint, "line 1, column 8", "single characters"),
    'start: ""': (UnsupportedConstraint, "line 1, column 8", "is empty"),
    'start: "a" -> b "c"': (InvalidConstraint, "line 1, column 17", "ends its alternative"),
    'start: "a"\nstart: "b"': (InvalidConstraint, "line 2, column 1", "defined before, at line 1, column 1"),
    'start: A\nA: "a"\nA: "b"': (InvalidConstraint, "line 3, column 1", "defined before"),
    "start: A\nA: B\nB: A": (InvalidConstraint, "line 3, column 4", "made of itself"),
    "start: A\nA: start": (InvalidConstraint, "line 2, column 4", "cannot be made of the rule"),
    "start: A\nA: /a?/": (InvalidConstraint, "line 2, column 1", "matches the empty text"),
    "start: /[/": (InvalidConstraint, "line 1, column 8", "bad regular expression"),
    r"start: /(a)\1/": (UnsupportedConstraint, "line 1, column 8", "bad regular expression"),
    "start: /a(?!b)/": (UnsupportedConstraint, "line 1, column 8", "looks at what stands"),
    "start: /^a/": (UnsupportedConstraint, "line 1, column 8", "looks at what stands"),
    r"start: /a\b/": (UnsupportedConstraint, "line 1, column 8", "looks at what stands"),
    "start: /a/l": (UnsupportedConstraint, "line 1, column 8", "locale"),
    "start: /a+?b*/": (UnsupportedConstraint, "line 1, column 8", "lazy"),
    r'start: /"(\\.|[^"])*?"/': (UnsupportedConstraint, "line 1, column 8", "lazy"),
    "Start: A": (InvalidConstraint, "line 1, column 1", "small letters"),
    "start A": (InvalidConstraint, "line 1, column 7", ": expected"),
    "?A: /a/": (InvalidConstraint, "line 1, column 1", "take no"),
    "start: t{A}\nA: /a/": (InvalidConstraint, "line 1, column 8", "no template t"),
    "start: t{A}\nt{x, y}: x y\nA: /a/": (
        InvalidConstraint,
        "line 1, column 8",
        "takes other arguments: x, y",
    ),
    "start: t\nt{x}: x": (InvalidConstraint, "line 1, column 8", "takes other arguments"),
    "start: t{A\nt{x}: x": (InvalidConstraint, "line 2, column 1", ", or }"),
    'start: t{"a"}\nt{x}: u{t{x}}\nu{x}: t{u{x}}': (ConstraintTooLarge, "line 2", "more than"),
    "start: A\n%import common.NO": (InvalidConstraint, "line 2, column 16", "common has no NO"),
    "start: A\n%import python.NAME -> A": (UnsupportedConstraint, "line 2, column 9", r"only common\.\*"),
    "start: A\n%declare A": (UnsupportedConstraint, "line 2, column 1", "declares"),
    "start: A\n%frobnicate A": (InvalidConstraint, "line 2, column 1", "unknown statement %frobnicate"),
    "%override start: A": (InvalidConstraint, "line 1, column 1", "not defined before"),
    '%llguidance {"allow_invalid_utf8": true}\nstart: "a"': (
        UnsupportedConstraint,
        "line 1",
        "allow_invalid_utf8",
    ),
    'start[capture]: "a"': (UnsupportedConstraint, "line 1, column 6", "attributes"),
    "start: <|end|>": (UnsupportedConstraint, "line 1, column 8", "another engine"),
    "start: %regex {}": (UnsupportedConstraint, "line 1, column 8", "another engine"),
    "start: %json {": (InvalidConstraint, "line 1, column 15", "JSON expected"),
    "start: @person": (InvalidConstraint, "line 1, column 8", "no constraint is passed for @person"),
    'start: "a" start': (UnsatisfiableConstraint, "rule start", "calls itself again"),
    "start: A A\nA: /a+/": (UnsatisfiableConstraint, "A A", "A never begins right after A"),
    'start: WS\nWS: " "\n%ignore WS': (UnsatisfiableConstraint, "rule start", "dropped"),
    "": (InvalidConstraint, "rules", "defined are: none"),
}


@pytest.mark.parametrize("grammar", REFUSED)
def test_what_is_refused_says_where_and_why(grammar: str) -> None:
    kind, place, reason = REFUSED[grammar]
    with pytest.raises(kind, match=reason) as caught:
        Texts(grammar)
    assert place in str(caught.value)


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidConstraint, match="lexer='greedy' is not known"):
        Texts('start: "a"', lexer="greedy")
    with pytest.raises(InvalidConstraint, match="prefer='shortest' is not known"):
        Texts('start: "a"', prefer="shortest")
    with pytest.raises(InvalidConstraint, match="no rule sum"):
        Texts('start: "a"', start="sum")
    with pytest.raises(InvalidConstraint, match="a grammar is a str"):
        constrained.lark(b"start: A")  # type: ignore[arg-type]
    assert "sum" in repr(constrained.lark("sum: A", start="sum"))
    assert constrained.lark("start: A") != constrained.lark("start: A", lexer="basic")


@pytest.mark.parametrize("count", [2_000])
def test_huge_and_deep_grammar_texts_are_read(count: int) -> None:
    assert "a" in Texts("start: " + "(" * count + '"a"' + ")" * count)
    rules = "\n".join(f'r{i}: "a" [r{i + 1}]' for i in range(count))
    assert "aaaa" in Texts(f'start: r0\n{rules}\nr{count}: "a"')


# ---------------------------------------------------------------- the lexer


def test_the_longest_match_wins() -> None:
    texts = Texts('start: (A | B | C)+\nA: "<"\nB: "<="\nC: "="')
    assert texts.among(["<", "<=", "<<=", "==", "<=="]) == ["<", "<=", "<<=", "==", "<=="]
    texts = Texts('start: A C | B\nA: "<"\nB: "<="\nC: "="')
    assert texts.among(["<=", "<=="]) == ["<="]  # never A C
    assert not texts.begins("<==")


def test_a_keyword_is_no_name() -> None:
    grammar = 'start: "if" NAME | NAME "=" NAME\nNAME: /[a-z]+/\n%ignore " "'
    texts = Texts(grammar)
    assert texts.among(["if x", "iffy = a", "x=if", "if if", "ifx"]) == ["if x", "iffy = a", "x=if", "if if"]
    assert not texts.begins("if =")
    assert texts.begins("iff =")
    # Where only a name can stand, `if` is one; with the basic lexer it is nowhere.
    assert Texts(grammar, lexer="basic").among(["if x", "x=if", "if if"]) == ["if x"]
    assert "ifx" in Texts(grammar, lexer="dynamic")


def test_case_insensitive_keywords() -> None:
    texts = Texts('start: "select"i NAME\nNAME: /[a-z]+/i\n%ignore " "')
    assert texts.among(["SELECT a", "sElEcT b", "a"]) == ["SELECT a", "sElEcT b"]
    # Where only the keyword can stand, it needs no border; the basic lexer sees a name.
    assert "selecta" in texts
    basic = Texts('start: "select"i NAME\nNAME: /[a-z]+/i\n%ignore " "', lexer="basic")
    assert basic.among(["SELECT a", "selecta", "select select"]) == ["SELECT a"]


def test_numbers_and_their_points() -> None:
    texts = Texts('start: (INT | FLOAT | "." | "..")+\nINT: /[0-9]+/\nFLOAT: /[0-9]+\\.[0-9]*/')
    assert "1..2" in texts
    texts = Texts('start: INT ".." INT | FLOAT\nINT: /[0-9]+/\nFLOAT: /[0-9]+\\.[0-9]*/')
    assert texts.among(["1..2", "1.", "1.5", "1"]) == [
        "1.",
        "1.5",
    ]  # 1. is the longer match, so 1..2 is 1. .2
    texts = Texts('start: INT ".." INT | FLOAT\nINT: /[0-9]+/\nFLOAT: /[0-9]+\\.[0-9]+/')
    assert texts.among(["1..2", "1.", "1.5", "1"]) == ["1..2", "1.5"]


def test_priority_beats_length() -> None:
    texts = Texts('start: A B | C\nA.1: "a"\nB: "b"\nC: "abc"')
    assert texts.among(["ab", "abc"]) == ["ab"]
    texts = Texts('start: A B | C\nA: "a"\nB: "b"\nC: "abc"')
    assert texts.among(["ab", "abc"]) == ["ab", "abc"]
    texts = Texts('start: A | B "!"\nA: /[ab]+/\nB.-1: /a[ab]*/')  # B matches only where A does
    assert texts.among(["ab", "ab!"]) == ["ab"]


def test_ties_go_to_strings_then_wide_then_long_patterns() -> None:
    texts = Texts('start: A "1" | B "2" | "ab" "3" | D "4"\nA: /[a-c]b/\nB: /[a-b]+/\nD: /[ab]b?/')
    assert texts.among([f"{text}{digit}" for text in ("ab", "cb", "b", "bb") for digit in "1234"]) == [
        "ab3",
        "cb1",
        "b2",
        "bb2",
    ]


def test_ignored_terminals_come_anywhere_between_tokens() -> None:
    texts = Texts('start: "a"+ "b"?\n%ignore /[ \\n]+/\n%ignore /#[^\\n]*/')
    good = ["a", " a", "a ", "\n a a# b\n a b # x", "aab", "#\na"]
    assert texts.among([*good, "", " ", "#a", "a#\nc"]) == good
    assert "x y" not in Texts('start: /[a-z]+/\n%ignore " "')


def test_what_runs_together_is_kept_apart_by_what_is_ignored() -> None:
    texts = Texts('start: A A\nA: /a+/\n%ignore " "')
    assert texts.among(["a a", "aaa aa ", "aa"]) == ["a a", "aaa aa "]
    assert texts.automaton.shortest_completion(texts.after("a")) == 2  # a space, an a


def test_a_match_that_is_only_begun_is_no_match() -> None:
    texts = Texts("start: (A | B)+\nA: /a/\nB: /a+b/")
    assert texts.among(["a", "aa", "aab", "aaba", "aabb"]) == ["a", "aa", "aab", "aaba"]
    texts = Texts('start: A A A | B "!"\nA: /a/\nB: /a+b/')
    assert texts.among(["aaa", "aab!", "aab"]) == ["aaa", "aab!"]


def test_strings_end_at_the_first_quote_that_is_not_escaped() -> None:
    for string in (
        r"""_STRING: "'" _STRING_ESC_INNER "'"
%import common._STRING_ESC_INNER""",
        r"""_STRING: /'.*?(?<!\\)(\\\\)*?'/""",
        r"""_STRING: /'([^'\\\n]|\\.)*'/""",
    ):
        texts = Texts(f"start: _STRING+\n{string}")
        assert texts.among([r"'a'", r"''", r"'\''", r"'a''b'", r"'\\'", r"'\\''", r"'", r"'\'"]) == [
            r"'a'",
            r"''",
            r"'\''",
            r"'a''b'",
            r"'\\'",
        ]


def test_all_kinds_of_recursion() -> None:
    for rule in (
        'list: list "," A | A',
        'list: A "," list | A',
        'list: list "," list | A',
        'list: [list ","] A nothing\nnothing:',
    ):
        texts = Texts(f'start: list\n{rule}\nA: "a"\n%ignore " "')
        assert texts.among(["a", "a,a", "a , a,a ", "", ",", "a,", "aa"]) == ["a", "a,a", "a , a,a "], rule


def test_ten_thousand_brackets() -> None:
    texts = Texts(
        'start: value\nvalue: "[" [value ("," value)*] "]" | NUMBER\nNUMBER: /[0-9]+/\n%ignore /\\s+/'
    )
    depth = 10_000
    open_brackets = "[" * depth + "1"
    assert texts.automaton.shortest_completion(texts.after(open_brackets)) == depth
    assert open_brackets + "]" * depth in texts
    assert not texts.begins(open_brackets + "]" * (depth + 1))


def test_dynamic_means_every_cut() -> None:
    texts = Texts('start: A A\nA: /a+/\n%ignore " "', lexer="dynamic")
    assert isinstance(texts.automaton, TokenAutomaton)
    assert texts.among(["a", "aa", "aaa", "a a"]) == ["aa", "aaa", "a a"]


def test_embedded_constraints() -> None:
    texts = Texts(
        """%llguidance {}
        start: "call" NAME "(" (%json {"type": "integer"} | @word | @pair) ")"
        NAME: /[a-z]+/
        %ignore " "
        """,
        embed={"word": constrained.regex("a*b"), "pair": constrained.gbnf('root ::= "<" root ">" | "x"')},
    )
    assert texts.among(["call f(1)", "callf( -12 )", "call call(aab )", "call f(<<x>>)", "call f (b)"]) == [
        "call f(1)",
        "callf( -12 )",
        "call call(aab )",
        "call f(<<x>>)",
        "call f (b)",
    ]
    assert not texts.begins("call f(a a")


def test_no_match_reaches_into_what_is_embedded() -> None:
    texts = Texts("start: NAME @rest\nNAME: /[a-z]+/", embed={"rest": constrained.regex("b+")})
    assert texts.among(["ab", "abb", "bb", "a"]) == ["ab", "abb", "bb"]


def test_a_lexer_cannot_stand_inside_something_else() -> None:
    inner = constrained.lark('start: "a"+')
    for whole in (
        constrained.after("</think>", inner),
        constrained.tag("<a>", inner, "</a>"),
        constrained.lark("start: @inner", embed={"inner": inner}),
    ):
        with pytest.raises(UnsupportedConstraint, match="lexer"):
            compile(whole, BYTES)
    dynamic = constrained.lark('start: "a"+', lexer="dynamic")
    assert compile(constrained.after("!", dynamic), BYTES).start != DEAD
    with pytest.raises(UnsupportedConstraint, match="LexerAutomaton"):
        TokenAutomaton(inner.grammar, BYTES)


# ---------------------------------------------------------------- random grammars, and the judge

_POOL = [
    ('"a"', 1, 1),
    ('"b"', 1, 1),
    ('"ab"', 2, 2),
    ('"ba"', 2, 2),
    ('"c"', 1, 1),
    ('"abc"', 3, 3),
    ('"A"i', 1, 1),
    ("/a+/", None, 2),
    ("/[ab]/", 1, 4),
    ("/[ab]+/", None, 5),
    ("/ab*/", None, 3),
    ("/b+a/", None, 3),
    ("/a?b/", 2, 3),
    ("/a|bb/", 2, 4),
    ("/c+/", None, 2),
    ("/(ab)+/", None, 5),
    ("/c?[ab]c/", 3, 8),
    ("/a[abc]*b/", None, 9),
]
_IGNORED = [("/ +/", None, 2), ('" "', 1, 1), ("/c+/", None, 2), ("/ |cc/", 2, 5)]
_EMBEDDED = ["a*b", "[ab]+", "a|ab", "c a?", "(ab)+| a"]
_LETTERS = "ab c"


@dataclass
class Made:
    """A random grammar, as text and for the judge."""

    rules: dict[str, tuple[tuple[str, ...], ...]]
    terminals: dict[
        str, tuple[str, int | None, int, int]
    ]  # pattern as written, greatest width, its length, priority
    ignored: list[str] = field(default_factory=list)
    embedded: dict[str, str] = field(default_factory=dict)
    basic: bool = False

    @classmethod
    def random(cls, rng: random.Random) -> Made:
        priorities = [0, 0, 0, 1, -1]
        terminals = {
            f"T{index}": (*found, rng.choice(priorities))
            for index, found in enumerate(rng.sample(_POOL, rng.randint(1, 4)))
        }
        ignored = {"WS": 0.6, "WT": 0.15}
        dropped = {
            name: (*rng.choice(_IGNORED), rng.choice([0, 0, 1]))
            for name, p in ignored.items()
            if rng.random() < p
        }
        embedded = {"e": rng.choice(_EMBEDDED)} if rng.random() < 0.25 else {}
        names = ["start", "x", "y"][: rng.randint(1, 3)]
        symbols = [
            *terminals,
            *terminals,
            *names[1:],
            *names[1:],
            "start",
            *(f"@{name}" for name in embedded),
        ]
        rules = {
            name: tuple(
                tuple(rng.choices(symbols, k=rng.choice([0, 1, 1, 2, 2, 3])))
                for _ in range(rng.randint(1, 3))
            )
            for name in names
        }
        return cls(rules, terminals | dropped, list(dropped), embedded, rng.random() < 0.25)

    @property
    def text(self) -> str:
        lines = [f"{name}: {' | '.join(map(' '.join, bodies))}" for name, bodies in self.rules.items()]
        lines += [
            f"{name}{f'.{priority}' if priority else ''}: {pattern}"
            for name, (pattern, _, _, priority) in self.terminals.items()
        ]
        return "\n".join([*lines, *(f"%ignore {name}" for name in self.ignored)])

    def grammar(self) -> LexerGrammar:
        embedded = {name: ir.Grammar.of(parse_regex(pattern)) for name, pattern in self.embedded.items()}
        made = parse(self.text, lexer="basic" if self.basic else "contextual", embedded=embedded)
        assert isinstance(made, LexerGrammar)
        return made

    def judge(self) -> Judge:
        used = set(self.ignored)  # terminals that no rule uses do not compete
        seen = ["start"]
        for name in seen:
            for symbol in itertools.chain(*self.rules[name]):
                if symbol in self.rules and symbol not in seen:
                    seen.append(symbol)
                used.add(symbol)
        terminals = {name: terminal(name, *self.terminals[name]) for name in self.terminals if name in used}
        return Judge(
            productive(self.rules),
            terminals,
            frozenset(self.ignored),
            {f"@{name}": pattern for name, pattern in self.embedded.items()},
            self.basic,
        )


def productive(rules: dict[str, tuple[tuple[str, ...], ...]]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The rules without alternatives that can never be completed: the parser cannot take their terminals."""
    alive: set[str] = set()
    for _ in rules:
        alive |= {
            name
            for name, bodies in rules.items()
            if any(all(symbol in alive or symbol not in rules for symbol in body) for body in bodies)
        }
    return {
        name: tuple(body for body in bodies if all(symbol in alive or symbol not in rules for symbol in body))
        for name, bodies in rules.items()
    }


def terminal(name: str, written: str, width: int | None, size: int, priority: int) -> Terminal:
    """A terminal for the judge."""
    literal = written.startswith('"')
    body = written[1 : written.rindex(written[0])]
    pattern = re.escape(body) if literal else body
    if written.endswith("i"):
        pattern = f"(?i:{pattern})"
    return Terminal(name, pattern, literal, float("inf") if width is None else width, priority, size)


@cache
def vocabularies() -> tuple[tuple[Vocabulary, dict[int, int], list[tuple[int, str]]], ...]:
    """Vocabularies, each with the tokens of single bytes, and the tokens that a text can hold at all."""
    tiny = [
        b"a",
        b"b",
        b" ",
        b"c",
        b"A",
        b"B",
        b"C",
        b"ab",
        b"ba",
        b"a ",
        b" b",
        b"aab",
        b"bb",
        b"c ",
        b"abc",
        b"  ",
        b"aA",
        b"cab",
    ]
    found = []
    for vocabulary in (BYTES, Vocabulary.from_bytes([*tiny, b""], [len(tiny)]), small_bpe_vocabulary()):
        single = {token[0]: index for index, token in enumerate(vocabulary.tokens) if len(token) == 1}
        possible = [
            (index, token.decode())
            for index, token in enumerate(vocabulary.tokens)
            if token and set(token) <= set(b"ab cAB")
        ]
        found.append((vocabulary, single, possible))
    return tuple(found)


class Trial:
    """A random grammar on trial: every answer of the automata against the judge's."""

    def __init__(self, made: Made, longest: int) -> None:
        self.made = made
        self.judge = made.judge()
        words = (
            "".join(letters)
            for size in range(longest + 1)
            for letters in itertools.product(_LETTERS, repeat=size)
        )
        self.accepted = {word for word in words if self.judge.accepts(word)}
        self.begun = {word[:end] for word in self.accepted for end in range(len(word) + 1)}
        self.known: dict[str, bool] = {}

    def compile(self) -> bool:
        """Whether there is an automaton; if not, the judge must know no text."""
        try:
            grammar = self.made.grammar()
            self.automata = [LexerAutomaton(grammar, vocabulary) for vocabulary, _, _ in vocabularies()]
        except (UnsatisfiableConstraint, ConstraintTooLarge):
            assert not self.accepted
            return False
        return True

    def live(self, text: str) -> bool:
        """Whether a text can be completed. What the judge has not seen completed, the automaton must complete."""
        if text not in self.known:
            automaton = self.automata[0]
            states = automaton.walk(automaton.start, list(text.encode()))
            live = len(states) == len(text.encode())
            if text in self.begun:
                assert live, text
            elif live:
                assert self.judge.accepts(text + self.rest(states[-1] if states else automaton.start)), text
            self.known[text] = live
        return self.known[text]

    def rest(self, at: int) -> str:
        """The completion that `shortest_completion` counts."""
        automaton = self.automata[0]
        text = bytearray()
        while left := automaton.shortest_completion(at):
            for byte in range(256):
                after = automaton.next(at, byte)
                if after != DEAD and automaton.shortest_completion(after) == left - 1:
                    break
            text.append(byte)
            at = after
        assert automaton.accepts(at)
        return text.decode()

    def check(self, text: str) -> int:
        """Masks after a text under every vocabulary; how many were compared."""
        for automaton, (vocabulary, single, possible) in zip(self.automata, vocabularies(), strict=True):
            at = automaton.start
            for byte in text.encode():
                at = automaton.next(at, single[byte])
            assert automaton.accepts(at) == self.judge.accepts(text)
            row = automaton.new_mask()
            automaton.fill_mask(at, row)
            allowed = np.unpackbits(row.view(np.uint8), bitorder="little")[: vocabulary.size].astype(bool)
            wanted = np.zeros(vocabulary.size, dtype=bool)
            wanted[list(vocabulary.eos_ids)] = self.judge.accepts(text)
            for token, spelled in possible:
                wanted[token] = self.live(text + spelled)
            assert (allowed == wanted).all(), [
                vocabulary.tokens[i] for i in np.flatnonzero(allowed != wanted)
            ]
        return len(self.automata)


def compare(seed: int, *, longest: int = 4, deepest: int = 2) -> int:
    """Compares one random grammar with the judge; the number of (grammar, prefix, vocabulary) compared."""
    made = Made.random(random.Random(seed))
    trial = Trial(made, longest)
    if not trial.compile():
        return 0
    texts = (
        "".join(letters)
        for size in range(deepest + 1)
        for letters in itertools.product(_LETTERS, repeat=size)
    )
    return sum(trial.check(text) for text in texts if trial.live(text))


@pytest.mark.parametrize("block", range(8))
def test_random_grammars_mean_what_the_judge_says(block: int) -> None:
    assert sum(compare(seed) for seed in range(block * 20, block * 20 + 20)) > 100


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_more_random_grammars(block: int) -> None:
    seeds = range(1000 + block * 25, 1025 + block * 25)
    assert sum(compare(seed, longest=5, deepest=3) for seed in seeds) > 500
