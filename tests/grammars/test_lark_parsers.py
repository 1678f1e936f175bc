"""Parsers that Lark made, values that Lark makes of texts, imports, and grammars that mean harm."""

from __future__ import annotations

import pickle
import random
import re
import time
from pathlib import Path
from typing import Any

import lark
import pytest
from lark.indenter import PythonIndenter
from lark.lexer import BasicLexer

import constrained
from constrained.errors import (
    ConstrainedError,
    ConstraintTooLarge,
    InvalidConstraint,
    RejectedValue,
    UnsupportedConstraint,
)
from constrained.grammars import ir
from constrained.grammars.lexer import LexerGrammar
from constrained.grammars.notation.lark import LarkSettings, parse
from tests.grammars.test_lark import Texts
from tests.grammars.test_lark_differential import GRAMMARS, Pair, changed
from tests.support.examples import examples

SUM = r"""
start: NUMBER ("+" NUMBER)* -> total
NUMBER: /[0-9]+/
%ignore " "
"""


class Total(lark.Transformer):  # type: ignore[type-arg]
    """Adds numbers up."""

    def NUMBER(self, token: lark.Token) -> int:  # noqa: N802
        return int(token)

    def total(self, numbers: list[int]) -> int:
        if 13 in numbers:
            raise ValueError("thirteen")
        return sum(numbers)


# ---------------------------------------------------------------- parsers


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("name", GRAMMARS)
def test_a_parser_means_what_it_parses(name: str, lexer: str) -> None:
    grammar, texts = GRAMMARS[name]
    parser = lark.Lark(grammar, parser="lalr", lexer=lexer)
    ours = Texts(parser)
    rng = random.Random(name)
    letters = "".join(sorted({letter for text in texts for letter in text if letter.isascii()}))
    candidates = [*texts, *(changed(rng.choice(texts), rng, letters) for _ in range(examples(200)))]
    pair = Pair(grammar, lexer, "lark")
    verdicts = {text: pair.lark_accepts(text) for text in candidates}
    assert {text: text in ours for text in candidates} == verdicts
    assert len(set(verdicts.values())) == 2


def test_a_list_of_a_parser_is_a_loop() -> None:
    compiled = parse(lark.Lark(SUM, parser="lalr"))
    assert any(isinstance(body, ir.Loop) for body in compiled.rules.values())


def test_what_earley_parses_is_covered() -> None:
    grammar = 'start: A A\nA: /a+/\n%ignore " "'
    assert Texts(lark.Lark(grammar)).among(["aa", "aaa", "a a"]) == ["a a"]
    every_cut = Texts(lark.Lark(grammar, lexer="dynamic_complete"))
    assert every_cut.among(["aa", "aaa", "a a", "a"]) == ["aa", "aaa", "a a"]
    assert Texts(lark.Lark(grammar), lexer="dynamic").among(["aa", "a"]) == ["aa"]


def test_options_of_a_parser_count() -> None:
    def texts(grammar: str, **options: Any) -> Texts:
        return Texts(lark.Lark(grammar, **options))

    flags = texts('start: A "x"\nA: /a.b/', g_regex_flags=int(re.IGNORECASE | re.DOTALL), parser="lalr")
    assert flags.among(["a-bx", "A\nBX", "ax"]) == ["a-bx", "A\nBX"]
    order = 'start: A "!" | B "?"\nA: /[ab]/\nB.2: /a/'
    assert texts(order, parser="earley", lexer="basic").among(["a!", "a?", "b!"]) == ["a?", "b!"]
    inverted = {"parser": "earley", "lexer": "basic", "priority": "invert"}
    assert texts(order, **inverted).among(["a!", "a?", "b!"]) == ["a!", "b!"]

    def capitals(terminal: Any) -> None:
        terminal.pattern = type(terminal.pattern)(terminal.pattern.value.upper(), terminal.pattern.flags)

    assert texts('start: "a"', parser="lalr", edit_terminals=capitals).among(["a", "A"]) == ["A"]
    several = lark.Lark("one: A\ntwo: A A\nA: /a/", start=["one", "two"], parser="lalr")
    assert Texts(several, start="two").among(["a", "aa"]) == ["aa"]
    for start in (None, "three"):
        with pytest.raises(InvalidConstraint, match="start rule"):
            Texts(several, start=start)


class _OwnLexer(BasicLexer):
    pass


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("postlex", {"postlex": PythonIndenter()}),
        ("lexer", {"lexer": _OwnLexer}),
        ("lexer_callbacks", {"lexer_callbacks": {"NUMBER": lambda token: token}}),
        ("use_bytes", {"use_bytes": True}),
        ("g_regex_flags", {"g_regex_flags": int(re.ASCII)}),
    ],
)
def test_parsers_that_depend_on_more_than_rules_are_refused(name: str, options: dict[str, Any]) -> None:
    grammar = SUM if name != "postlex" else SUM + "%declare _INDENT _DEDENT\n_NEWLINE: /\\n/"
    with pytest.raises(UnsupportedConstraint) as caught:
        _ = constrained.lark(lark.Lark(grammar, parser="lalr", **options)).grammar
    assert [problem.place for problem in caught.value.problems] == [name]


def test_callbacks_on_what_is_ignored_change_nothing() -> None:
    seen: list[Any] = []
    grammar = 'start: "a"+\nSPACE: " "\n%ignore SPACE'
    parser = lark.Lark(grammar, parser="lalr", lexer_callbacks={"SPACE": seen.append})
    assert Texts(parser).among(["a a", " "]) == ["a a"]


# ---------------------------------------------------------------- values


def test_the_value_is_the_text_the_tree_or_what_is_made_of_it() -> None:
    assert constrained.lark(SUM).parse("1 + 2") == "1 + 2"
    tree = constrained.lark(SUM, value="tree").parse("1 + 2")
    assert tree == lark.Lark(SUM, parser="lalr").parse("1 + 2")
    assert constrained.lark(SUM, transformer=Total()).parse("1 + 2") == 3
    assert constrained.lark(lark.Lark(SUM), transformer=Total()).parse("1+2") == 3
    assert constrained.lark(lark.Lark(SUM, parser="lalr", transformer=Total()), value="tree").parse("4") == 4
    assert constrained.lark(lark.Lark(SUM)).parse("1+2") == "1+2"
    both_cuts = constrained.lark("start: A A\nA: /a+/", lexer="dynamic", value="tree").parse("aa")
    assert both_cuts.children == ["a", "a"]


def test_a_generated_text_has_its_tree() -> None:
    pair = Pair(GRAMMARS["sql"][0], prefer="lark")
    constraint = constrained.lark(GRAMMARS["sql"][0], value="tree")
    rng = random.Random(5)
    for _ in range(30):
        text = pair.some_text(rng, b"select from,.;'ab1=<>() ")
        assert constraint.parse(text) == pair.theirs.parse(text)


def test_a_transformer_may_refuse() -> None:
    with pytest.raises(RejectedValue, match="thirteen") as caught:
        constrained.lark(SUM, transformer=Total()).parse("13")
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(RejectedValue, match="does not parse"):
        constrained.lark(SUM, value="tree").parse("1 1")


def test_values_that_cannot_be_had_are_refused() -> None:
    with pytest.raises(UnsupportedConstraint, match="%json"):
        constrained.lark("start: %json {}", value="tree")
    with pytest.raises(UnsupportedConstraint, match="@x"):
        constrained.lark("start: @x", transformer=Total(), embed={"x": int})
    with pytest.raises(InvalidConstraint, match="value='json'"):
        constrained.lark(SUM, value="json")  # type: ignore[arg-type]
    two_ways = 'start: a | b\na: "x"\nb: "x"'
    with pytest.raises(UnsupportedConstraint, match="has no tree"):
        _ = constrained.lark(two_ways, value="tree").grammar
    assert isinstance(constrained.lark(two_ways).grammar, LexerGrammar)


@pytest.mark.parametrize("options", [{"parser": "lalr"}, {}, {"parser": "cyk"}])
def test_constraints_travel(options: dict[str, Any]) -> None:
    for constraint in (
        constrained.lark(lark.Lark(SUM, **options), transformer=Total()),
        constrained.lark(SUM, value="tree"),
    ):
        _ = constraint.grammar
        other = pickle.loads(pickle.dumps(constraint))
        assert other.key == constraint.key
        assert other.parse("1+2") == constraint.parse("1+2")
        assert [token.name for token in other.grammar.tokens] == [
            token.name for token in constraint.grammar.tokens
        ]


def test_keys_tell_grammars_apart_and_values_do_not_change_them() -> None:
    parsers = [lark.Lark(SUM, parser="lalr"), lark.Lark(SUM + "\n// again", parser="lalr")]
    assert constrained.lark(parsers[0]) == constrained.lark(parsers[1])
    assert constrained.lark(parsers[0]).key != constrained.lark(lark.Lark(SUM.replace("9", "8"))).key
    text, tree = constrained.lark(SUM, prefer="lark"), constrained.lark(SUM, value="tree")
    assert text.key == tree.key
    assert text != tree
    assert tree != constrained.lark(SUM, transformer=Total())


# ---------------------------------------------------------------- imports


def test_files_are_imported(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "units.lark").write_text('length: NUMBER unit\nunit: "m" | "km"\n%import common.NUMBER\n')
    (tmp_path / "deep" / "more.lark").write_text('twice{x}: x "," x\nB: "b"\n')
    grammar = (
        "start: units_length | twice{B}\n%import units.length -> units_length\n%import deep.more (twice, B)\n"
    )
    texts = Texts(grammar, import_paths=[tmp_path])
    assert texts.among(["3km", "1.5m", "b,b", "3", "km", "b"]) == ["3km", "1.5m", "b,b"]
    ours = constrained.lark(grammar, import_paths=[tmp_path])
    before = ours.key
    (tmp_path / "units.lark").write_text('length: NUMBER "in"\n%import common.NUMBER\n')
    changed_file = constrained.lark(grammar, import_paths=[tmp_path])
    assert changed_file.key != before
    relative = Texts("start: length\n%import .units.length", import_paths=[str(tmp_path)])
    assert relative.among(["3in", "3km"]) == ["3in"]


def test_mistakes_in_imported_files_point_at_the_import(tmp_path: Path) -> None:
    for content, reason in [
        ("x: (", "bad"),
        ("x: Y", "terminal bad__Y is undefined"),
        ("x: " + "(" * 3000 + '"a"' + ")" * 3000, "nested too deeply"),
    ]:
        (tmp_path / "bad.lark").write_text(content)
        with pytest.raises(ConstrainedError) as caught:
            parse("start: x\n%import bad.x", LarkSettings(import_paths=[tmp_path]))
        assert caught.value.problems[0].place.startswith("line 2")
        assert reason in caught.value.problems[0].reason


# ---------------------------------------------------------------- harm

HARMFUL = {
    "terminals that double": "\n".join(
        ["start: T0", *(f"T{index}: T{index + 1} T{index + 1}" for index in range(60)), 'T60: "a"']
    ),
    "a long chain of terminals": "\n".join(
        ["start: T0", *(f'T{index}: "a" T{index + 1}' for index in range(3000)), 'T3000: "a"', ")"]
    ),
    "backslashes in an open regular expression": "start: /" + "\\" * 5001,
    "backslashes in an open string": 'start: "' + "\\" * 5001,
    "empty lines": 'start: "a"' + "\n" * 200_000 + ")",
    "empty lines between comments": 'start: "a"' + "\n//x" * 20_000 + "\n)",
    "brackets that are never closed": "start: " + "(" * 20_000,
    "deep brackets in a terminal": "start: A\nA: " + "(" * 3_000 + '"a"' + ")" * 3_000 + "+)",
    "templates that grow": 'start: t{"a"}\nt{x}: u{t{x}}\nu{x}: t{u{x}}',
    "templates that double": "\n".join(
        [
            "start: t0{A}",
            *(f"t{i}{{x}}: t{i + 1}{{d{{x}}}}" for i in range(40)),
            "t40{x}: x",
            "d{x}: x x",
            'A: "a"',
            ")",
        ]
    ),
    "a million characters": 'start: "' + "a" * 1_000_000 + '"',
    "nested JSON": "start: %json " + "[" * 100_000,
    "a priority of many digits": "A." + "9" * 5_000 + ': "a"\nstart: A',
    "a count of many digits": 'start: "a"~' + "9" * 5_000,
    "a literal of escapes": 'start: "' + "\\x" * 10_000 + '"',
    "a wide alternation that is not closed": "start: (" + " | ".join(f'"{i}"' for i in range(3_000)),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.ci) if name == "templates that grow" else name for name in HARMFUL],
)
def test_harmful_grammars_are_refused_in_time(name: str) -> None:
    began = time.process_time()
    with pytest.raises((InvalidConstraint, ConstraintTooLarge)):
        parse(HARMFUL[name])
    assert time.process_time() - began < 8


def test_deep_grammars_are_read() -> None:
    assert "a" in Texts("start: " + "([" * 2_000 + '"a"' + "])" * 2_000)
    assert "aaa" in Texts("start: A\nA: " + "(" * 50 + '"a"' + ")+" * 50)
