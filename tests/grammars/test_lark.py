"""Lark grammars: what is read, what the lexer cuts, what is allowed token by token."""

from __future__ import annotations

import contextlib
import itertools
import random
import re
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

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
from constrained.grammars import ir
from constrained.grammars.lexer import LexerGrammar
from constrained.grammars.notation.lark import LarkSettings, load, parse
from constrained.grammars.regex import parse as parse_regex
from constrained.vocabulary import Vocabulary
from tests.support import paths
from tests.support.examples import examples
from tests.support.lexed_judge import Judge, Terminal
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

BYTES = Vocabulary.from_bytes([bytes((byte,)) for byte in range(256)] + [b""], [256])


KINDS = {
    "invalid": InvalidConstraint,
    "unsupported": UnsupportedConstraint,
    "unsatisfiable": UnsatisfiableConstraint,
    "too_large": ConstraintTooLarge,
}


class Texts:
    """Whether texts are begun, and whether they are complete."""

    def __init__(self, grammar: str | lark.Lark, **settings: object) -> None:
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


def cases(name: str) -> list[Any]:
    rows = tomllib.loads((paths.CASES / "notation" / f"{name}.toml").read_text(encoding="utf-8"))["case"]
    return [pytest.param(row, id=row["note"]) for row in rows]


@pytest.mark.parametrize("case", cases("lark"))
def test_a_case_accepts_and_rejects(case: dict[str, Any]) -> None:
    settings = {name: case[name] for name in ("lexer", "prefer") if name in case}
    sides = {"text": Texts(case["grammar"], **settings)}
    lexer, judge = case.get("lexer", "contextual"), case.get("judge", "lalr")
    if judge != "none":
        chosen = {"parser": judge, "lexer": lexer if judge == "lalr" else "basic"}
        if lexer == "dynamic":
            chosen = {"parser": "earley", "lexer": "dynamic_complete"}
        theirs = lark.Lark(case["grammar"], **chosen)
        sides["parser"] = Texts(theirs, **{"prefer": "longest", **settings})
    for text, wanted in [
        (text, verdict == "accepted") for verdict in ("accepted", "rejected") for text in case[verdict]
    ]:
        for side, texts in sides.items():
            assert (text in texts) == wanted, (side, text)
        if judge != "none":
            assert parsed_by(theirs, text) == wanted, text


def parsed_by(parser: lark.Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.UnexpectedInput:
        return False
    return True


@pytest.mark.parametrize("case", cases("lark_refused"))
def test_a_case_is_refused_at_its_place(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("constrained.grammars.notation.lark.rules.MAX_RULES", 500)
    with pytest.raises(KINDS[case["error"]]) as caught:
        Texts(case["grammar"])
    problem = caught.value.problems[0]
    assert case["reason"] in problem.reason
    if "line" not in case:
        assert problem.place == case["place"]
        return
    assert problem.place == f"line {case['line']}, column {case['column']}"
    assert problem.excerpt is not None
    shown, caret = problem.excerpt.split("\n")
    assert shown == case["grammar"].split("\n")[case["line"] - 1]
    assert caret.index("^") == case["column"] - 1


# What no text can be generated for, in the grammars that come with python-lark.
OWN = {
    "common": None,
    "lark": "the terminal OP looks at what stands before or after it",
    "python": "the terminal DEC_NUMBER looks at what stands before or after it",
    "unicode": None,
}


def test_python_larks_own_grammars_are_read_or_refused_by_name() -> None:
    own = files(lark) / "grammars"
    assert {path.name for path in own.iterdir() if path.name.endswith(".lark")} == {
        f"{name}.lark" for name in OWN
    }
    for name, refusal in OWN.items():
        text = (own / f"{name}.lark").read_text()
        definitions = load(text)
        assert definitions.terminals
        if refusal is None:
            continue
        start = "start" if "start" in definitions.rules else "file_input"
        with pytest.raises(UnsupportedConstraint) as caught:
            parse(text, LarkSettings(start=start))
        assert caught.value.problems[0].reason == refusal
    python = (own / "python.lark").read_text()
    assert isinstance(parse(python, LarkSettings(start="comp_op")), LexerGrammar)


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


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidConstraint, match="lexer='greedy' is not known"):
        Texts('start: "a"', lexer="greedy")
    with pytest.raises(InvalidConstraint, match="prefer='shortest' is not known"):
        Texts('start: "a"', prefer="shortest")
    with pytest.raises(InvalidConstraint, match="no rule sum"):
        Texts('start: "a"', start="sum")
    with pytest.raises(InvalidConstraint, match="a grammar is a str or a lark"):
        constrained.lark(b"start: A")  # type: ignore[arg-type]
    assert "sum" in repr(constrained.lark("sum: A", start="sum"))
    assert constrained.lark("start: A") != constrained.lark("start: A", lexer="basic")


@pytest.mark.ci
@pytest.mark.parametrize("count", [2_000])
def test_huge_and_deep_grammar_texts_are_read(count: int) -> None:
    assert "a" in Texts("start: " + "(" * count + '"a"' + ")" * count)
    rules = "\n".join(f'r{i}: "a" [r{i + 1}]' for i in range(count))
    assert "aaaa" in Texts(f'start: r0\n{rules}\nr{count}: "a"')


# ---------------------------------------------------------------- the lexer


def test_a_keyword_is_no_name() -> None:
    grammar = 'start: "if" NAME | NAME "=" NAME\nNAME: /[a-z]+/\n%ignore " "'
    texts = Texts(grammar)
    assert texts.among(["if x", "iffy = a", "x=if", "if if", "ifx"]) == ["if x", "iffy = a", "x=if", "if if"]
    assert not texts.begins("if =")
    assert texts.begins("iff =")
    # Where only a name can stand, `if` is one; with the basic lexer it is nowhere.
    assert Texts(grammar, lexer="basic").among(["if x", "x=if", "if if"]) == ["if x"]
    assert "ifx" in Texts(grammar, lexer="dynamic")


def test_what_runs_together_is_kept_apart_by_what_is_ignored() -> None:
    texts = Texts('start: A A\nA: /a+/\n%ignore " "')
    assert texts.among(["a a", "aaa aa ", "aa"]) == ["a a", "aaa aa "]
    assert texts.automaton.shortest_completion(texts.after("a")) == 2  # a space, an a


def test_ten_thousand_brackets() -> None:
    texts = Texts(
        'start: value\nvalue: "[" [value ("," value)*] "]" | NUMBER\nNUMBER: /[0-9]+/\n%ignore /\\s+/'
    )
    depth = 10_000
    open_brackets = "[" * depth + "1"
    assert texts.automaton.shortest_completion(texts.after(open_brackets)) == depth
    assert open_brackets + "]" * depth in texts
    assert not texts.begins(open_brackets + "]" * (depth + 1))


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
    ('"a"', 1, 1), ('"b"', 1, 1), ('"ab"', 2, 2), ('"ba"', 2, 2), ('"c"', 1, 1), ('"abc"', 3, 3),
    ('"A"i', 1, 1), ("/a+/", None, 2), ("/[ab]/", 1, 4), ("/[ab]+/", None, 5), ("/ab*/", None, 3),
    ("/b+a/", None, 3), ("/a?b/", 2, 3), ("/a|bb/", 2, 4), ("/c+/", None, 2), ("/(ab)+/", None, 5),
    ("/c?[ab]c/", 3, 8), ("/a[abc]*b/", None, 9),
]  # fmt: skip
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
        made = parse(
            self.text, LarkSettings(lexer="basic" if self.basic else "contextual", embedded=embedded)
        )
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


@pytest.mark.parametrize("block", range(4))
def test_random_grammars_mean_what_the_judge_says(block: int) -> None:
    count = examples(40)
    assert sum(compare(seed) for seed in range(block * count, block * count + count)) > 5 * count


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_more_random_grammars(block: int) -> None:
    seeds = range(1000 + block * 25, 1025 + block * 25)
    assert sum(compare(seed, longest=5, deepest=3) for seed in seeds) > 500
