"""GBNF and EBNF texts mean the rules that they spell, whatever becomes a terminal on the way."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.automaton import DEAD, TokenAutomaton
from constrained.errors import UnsatisfiableConstraint
from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, InvalidConstraint, UnsupportedConstraint
from constrained.grammars.notation import Notation, parse, parse_rules
from constrained.grammars.notation.lark import parse as lark_grammar
from constrained.grammars.transform.inline_regular import MAX_TERMINAL_SIZE, inline_regular_rules
from constrained.grammars.visit import postorder, strongly_connected_components
from constrained.vocabulary import Vocabulary
from tests.support import paths
from tests.support import strategies as some
from tests.support.examples import examples
from tests.support.judge import ReferenceRecognizer

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

CASES = paths.CASES / "notation"
BYTES = Vocabulary.from_bytes([bytes((byte,)) for byte in range(256)] + [b""], [256])


class Automaton:
    """Whether texts are accepted, byte by byte."""

    def __init__(self, grammar: ir.Grammar) -> None:
        self.automaton = TokenAutomaton(grammar, BYTES)

    def after(self, text: bytes) -> int:
        at = self.automaton.start
        for byte in text:
            at = self.automaton.next(at, byte)
        return at

    def accepts(self, text: bytes) -> bool:
        at = self.after(text)
        return at != DEAD and self.automaton.accepts(at)


# ---------------------------------------------------------------- random grammars, written and read again

_NAMES = ("root", "second-rule", "third")
_letters = st.sampled_from("ab")
_terminals = st.one_of(
    st.text('ab]"\\', min_size=1, max_size=2).map(ir.literal),
    st.lists(st.sampled_from("ab-]^\\").map(lambda c: (ord(c), ord(c))), min_size=1, max_size=3).map(
        ir.chars
    ),
    st.just(ir.chars([(ord("a"), ord("c"))])),
    st.just(ir.ANY_CHAR),
).map(ir.Terminal)
_leaves = st.one_of(_terminals, _terminals, st.sampled_from(_NAMES).map(ir.call), st.just(ir.EPSILON))
_bounds = st.sampled_from([(0, None), (1, None), (0, 1), (2, 2), (2, None), (1, 3)])


def _wider(inner: st.SearchStrategy[ir.Expr]) -> st.SearchStrategy[ir.Expr]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        several.map(ir.Sequence),
        several.map(ir.Choice),
        st.builds(lambda part, bounds: ir.Loop(part, *bounds), inner, _bounds),
    )


_bodies = st.recursive(_leaves, _wider, max_leaves=6)
random_grammars = st.tuples(_bodies, _bodies, _bodies).map(
    lambda bodies: ir.Grammar(dict(zip(_NAMES, bodies, strict=True)), "root")
)
_COUNTS = {(0, None): "*", (1, None): "+", (0, 1): "?"}


def written(expr: ir.Expr, rng: random.Random) -> str:
    """An expression in either notation, in one of the ways to write it."""
    if isinstance(expr, ir.Call):
        return expr.rule
    if isinstance(expr, ir.Terminal):
        regex = expr.regex
        if regex is ir.ANY_CHAR:
            return "[^]" if rng is EBNF else "."
        if isinstance(regex, ir.Literal):
            return json.dumps(regex.data.decode())
        assert isinstance(regex, ir.Chars)
        return "[" + "".join(f"\\x{low:02x}-\\x{high:02x}" for low, high in regex.ranges) + "]"
    if expr is ir.EPSILON:
        return rng.choice(['""', "()"])
    if isinstance(expr, ir.Loop):
        count = (
            _COUNTS.get((expr.low, expr.high)) or f"{{{expr.low},{'' if expr.high is None else expr.high}}}"
        )
        return f"({written(expr.part, rng)}){rng.choice(['', ' '])}{count}"
    assert isinstance(expr, (ir.Sequence, ir.Choice))
    between = (
        rng.choice([" ", "  # more\n "]) if isinstance(expr, ir.Sequence) else rng.choice(["|", " |\n "])
    )
    return "(" + between.join(written(part, rng) for part in expr.parts) + ")"


EBNF = random.Random(0)
GBNF = random.Random(1)


@pytest.mark.parametrize("notation", ["gbnf", "ebnf"])
@given(made=random_grammars)
@settings(max_examples=examples(60))
def test_what_is_written_is_read(notation: Notation, made: ir.Grammar) -> None:
    rng = EBNF if notation == "ebnf" else GBNF
    text = "\n".join(f"{name} ::= {written(body, rng)}" for name, body in made.rules.items())
    sets = some.Languages(b'ab]"', 4)
    wanted = sets.grammar(made)
    assert sets.grammar(parse_rules(text, notation)) == wanted, text
    try:
        ready = parse(text, notation)
        automaton = Automaton(ready)
    except UnsatisfiableConstraint:
        assert not wanted
        return
    assert sets.grammar(ready) == wanted, text
    assert {string for string in sets.universe if automaton.accepts(string)} == wanted, text


@given(made=random_grammars, limit=st.integers(0, 6))
@settings(max_examples=examples(60))
def test_where_terminals_begin_changes_nothing(made: ir.Grammar, limit: int) -> None:
    sets = some.Languages(b"ab]", 4)
    assert sets.grammar(inline_regular_rules(made, limit=limit)) == sets.grammar(made)


# ---------------------------------------------------------------- cases


def gbnf(text: str) -> ir.Grammar:
    return parse(text, "gbnf")


def cases(name: str) -> list[Any]:
    rows = tomllib.loads((CASES / f"{name}.toml").read_text(encoding="utf-8"))["case"]
    return [pytest.param(row, id=row["note"]) for row in rows]


@pytest.mark.parametrize("case", cases("gbnf") + cases("ebnf"))
def test_a_case_accepts_and_rejects(case: dict[str, Any]) -> None:
    notation, text = case["notation"], case["grammar"]
    judge, automaton = ReferenceRecognizer(parse_rules(text, notation)), Automaton(parse(text, notation))
    for string in case.get("accepted", ()):
        assert judge.accepts(string.encode()), string
        assert automaton.accepts(string.encode()), string
    for string in case.get("rejected", ()):
        assert not judge.accepts(string.encode()), string
        assert not automaton.accepts(string.encode()), string


@pytest.mark.parametrize("case", cases("refused"))
def test_a_case_is_refused_at_its_place(case: dict[str, Any]) -> None:
    kind = {
        "invalid": InvalidConstraint,
        "unsupported": UnsupportedConstraint,
        "empty": UnsatisfiableConstraint,
    }
    with pytest.raises(kind[case["error"]]) as caught:
        parse(case["grammar"], case["notation"])
    problem = caught.value.problems[0]
    assert case["reason"] in f"{caught.value.summary}: {problem.reason}"
    if "line" not in case:
        return
    assert problem.place == f"line {case['line']}, column {case['column']}"
    assert problem.excerpt is not None
    shown, caret = problem.excerpt.split("\n")
    assert shown == case["grammar"].split("\n")[case["line"] - 1]
    assert caret.index("^") == case["column"] - 1


def test_every_undefined_rule_is_named() -> None:
    with pytest.raises(InvalidConstraint) as caught:
        gbnf('root ::= one "x"\n  two\n'.replace("\n  two", " two"))
    assert [problem.place for problem in caught.value.problems] == ["line 1, column 10", "line 1, column 18"]


# ---------------------------------------------------------------- terminals

JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
"""


def test_a_grammar_of_characters_becomes_one_of_tokens() -> None:
    grammar = gbnf(JSON)
    assert list(grammar.rules) == ["root", "value", "object", "array"]
    steps = [e for body in grammar.rules.values() for e in postorder(body) if isinstance(e, ir.Terminal)]
    assert len(steps) == 8  # a scalar; {" and key, comma and key, }; [, comma, ]; ...
    keys = Automaton(ir.Grammar.of(ir.terminal('{"a": ')))
    assert keys.after(b'{"a": ') != DEAD


def test_a_large_rule_stays_a_rule() -> None:
    word = " | ".join(f'[a-z] "{index}" [0-9]' for index in range(MAX_TERMINAL_SIZE // 3 + 1))
    grammar = gbnf(f'root ::= "(" word ")"\nword ::= {word}')
    assert list(grammar.rules) == ["root", "word"]
    assert Automaton(grammar).accepts(b"(q70)")


def test_many_words_are_one_terminal() -> None:
    words = " | ".join(f'"word{index}"' for index in range(5000))
    grammar = gbnf(f"root ::= ({words})+")
    (body,) = grammar.rules.values()
    assert isinstance(body, ir.Terminal)


def test_rules_that_double_do_not_explode() -> None:
    rules = [f"r{index} ::= r{index + 1} r{index + 1}" for index in range(200)]
    grammar = gbnf("\n".join(["root ::= r0", *rules, 'r200 ::= "" | "a"']))
    assert len(grammar.rules) > 150


@pytest.mark.ci
@pytest.mark.parametrize("notation", ["gbnf", "ebnf"])
def test_depth_costs_no_recursion(notation: Notation) -> None:
    grammar = parse("root ::= " + "(" * 5_000 + '"a"' + ")?" * 5_000, notation)
    assert Automaton(grammar).accepts(b"a")
    assert Automaton(grammar).accepts(b"")


@pytest.mark.parametrize(
    ("notation", "text", "place"),
    [
        ("gbnf", 'root ::= "((" (\n' + "(" * 90_000 + '"a"' + ")" * 90_001, "line 2, column 5000"),
        ("ebnf", "root ::= '((' (\n" + "(" * 90_000 + '"a"' + ")" * 90_001, "line 2, column 5000"),
        ("lark", 'start: "((" /\\/[(\\/]/ b\nb: [ // ((\n' + "(" * 90_000 + '"a"' + ")" * 90_001 + "]", "line 3, column 5000"),
    ],
)  # fmt: skip
def test_too_deep_grammars_are_refused_before_they_are_parsed(notation: Any, text: str, place: str) -> None:
    with pytest.raises(ConstraintTooLarge, match="nested more than 5,000 deep") as refused:
        lark_grammar(text) if notation == "lark" else parse(text, notation)
    assert refused.value.problems[0].place == place


@pytest.mark.ci
def test_brackets_side_by_side_are_not_deep() -> None:
    beside = "start: " + '("(" [/[[]/]) ' * 1_500
    assert lark_grammar(beside).rules
    assert gbnf("root ::= " + '("(" [(]) ' * 1_500).rules


def test_a_count_beyond_any_text_is_refused() -> None:
    with pytest.raises(ConstraintTooLarge):
        gbnf('root ::= "a"{99999999999999999999999}')
    assert Automaton(gbnf('root ::= "a"{2,99999999999999999999999}')).accepts(b"aaa")


def test_free_rounds_are_free() -> None:
    """A thousand rounds of what may be empty are no thousand steps."""
    grammar = gbnf('root ::= x{0,1000} "."\nx ::= ("(" x ")")?')
    automaton = Automaton(grammar)
    assert automaton.accepts(b"(())().")
    assert automaton.automaton.memory["states"] < 50


# ---------------------------------------------------------------- the judge on texts of its own


@pytest.mark.parametrize("case", cases("gbnf") + cases("ebnf"))
def test_the_automaton_agrees_with_the_judge_on_random_texts(case: dict[str, Any]) -> None:
    notation, text = case["notation"], case["grammar"]
    judge, automaton = ReferenceRecognizer(parse_rules(text, notation)), Automaton(parse(text, notation))
    rng = random.Random(case["note"])
    for _ in range(5):
        string = judge.sample(rng, 12)
        assert automaton.accepts(string), string
        at = rng.randrange(len(string) + 1)
        changed = string[:at] + bytes([rng.choice(b"a01(){}[],. \x80")]) + string[at:]
        assert automaton.accepts(changed) == judge.accepts(changed), changed
        assert (automaton.after(changed) != DEAD) == judge.viable(changed), changed


def test_components_come_with_what_they_point_at_first() -> None:
    edges = {"a": ["b"], "b": ["c", "a"], "c": ["d"], "d": ["d", "e"], "e": [], "f": ["a"]}
    assert [set(component) for component in strongly_connected_components(edges)] == [
        {"e"},
        {"d"},
        {"c"},
        {"a", "b"},
        {"f"},
    ]
