"""Left recursion is removed and no text is lost or won; the oracle lists both languages as sets."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from constrained.automaton import TokenAutomaton
from constrained.errors import UnsatisfiableConstraint, UnsupportedConstraint
from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge
from constrained.grammars.transform.left_recursion import remove_left_recursion
from constrained.grammars.transform.nullable import EpsilonRemover, remove_empty_string, remove_nullable_loops
from constrained.grammars.visit import postorder
from constrained.vocabulary import Vocabulary
from tests.support import strategies as some
from tests.support.examples import examples
from tests.support.judge import ReferenceRecognizer

NAMES = ("start", "second", "third")
ALPHABET = b"ab"
SETS = some.Languages(ALPHABET, 5)
BYTES = Vocabulary.from_bytes([bytes((byte,)) for byte in range(256)] + [b""], [256])

a, b = ir.terminal("a"), ir.terminal("b")
start, second, third = map(ir.call, NAMES)


def grammar(**rules: ir.Expr) -> ir.Grammar:
    return ir.Grammar(rules, "start")


def same(left: ir.Grammar, right: ir.Grammar) -> bool:
    return SETS.grammar(left) == SETS.grammar(right)


# ---------------------------------------------------------------- random grammars, dense with recursion

_calls = st.sampled_from(NAMES).map(ir.call)
_bounds = st.sampled_from([(0, None), (1, None), (0, 1), (0, 2), (2, 3), (2, None)])
_leaves = st.one_of(
    _calls, _calls, st.sampled_from([a, b, ir.EPSILON, ir.terminal(ir.optional(ir.literal("a")))])
)


def _wider(inner: st.SearchStrategy[ir.Expr]) -> st.SearchStrategy[ir.Expr]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        several.map(lambda parts: ir.sequence(*parts)),
        several.map(lambda parts: ir.choice(*parts)),
        st.builds(lambda part, bounds: ir.loop(part, *bounds), inner, _bounds),
    )


_bodies = st.builds(
    ir.choice,
    st.sampled_from([a, b, ir.EPSILON, ir.EMPTY_LANGUAGE]),
    st.recursive(_leaves, _wider, max_leaves=5),
)
recursive = st.tuples(_bodies, _bodies, _bodies).map(
    lambda bodies: ir.Grammar(dict(zip(NAMES, bodies, strict=True)), "start")
)


@given(recursive)
@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.too_slow])
def test_the_language_stays_and_the_recursion_goes(some_grammar: ir.Grammar) -> None:
    without = remove_left_recursion(some_grammar)
    assert same(without, some_grammar), some.show(some_grammar)
    assert remove_left_recursion(without) is without
    try:
        TokenAutomaton(without, BYTES)
    except UnsatisfiableConstraint:
        assert ReferenceRecognizer(some_grammar).start() is None


@given(recursive)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
def test_every_rule_keeps_its_texts(some_grammar: ir.Grammar) -> None:
    without = remove_left_recursion(some_grammar)
    for name in NAMES:
        if name in without.rules:
            assert same(ir.Grammar(without.rules, name), ir.Grammar(some_grammar.rules, name)), name


@given(recursive)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
def test_no_loop_goes_round_for_nothing(some_grammar: ir.Grammar) -> None:
    solid = remove_nullable_loops(some_grammar)
    assert same(solid, some_grammar)
    assert remove_nullable_loops(solid) is solid
    known = EpsilonRemover(solid.rules)
    loops = (e for body in solid.rules.values() for e in postorder(body) if isinstance(e, ir.Loop))
    assert not any(known.nullable(loop.part) for loop in loops)
    assert same(remove_left_recursion(solid), some_grammar)


@given(some.regexes)
@settings(max_examples=examples(100))
def test_a_regex_loses_exactly_its_empty_text(regex: ir.Regex) -> None:
    sets = some.Languages(some.ALPHABET[:4], 3)
    assert sets.regex(remove_empty_string(regex)) == sets.regex(regex) - {b""}


# ---------------------------------------------------------------- kinds of left recursion

KINDS = {
    "direct": grammar(start=ir.choice(ir.sequence(start, a), b)),
    "direct, twice": grammar(start=ir.choice(ir.sequence(start, start), a, b)),
    "indirect": grammar(
        start=ir.choice(ir.sequence(second, a), b), second=ir.choice(ir.sequence(third, b), a), third=start
    ),
    "hidden by an optional terminal": grammar(
        start=ir.choice(ir.sequence(ir.terminal(ir.optional(ir.literal("a"))), start, b), b)
    ),
    "hidden by an empty rule": grammar(
        start=ir.choice(ir.sequence(second, start, b), a), second=ir.choice(ir.EPSILON, a)
    ),
    "hidden by itself": grammar(start=ir.choice(ir.sequence(start, start, a), ir.EPSILON)),
    "hidden by a loop": grammar(start=ir.choice(ir.sequence(ir.loop(second), start, b), a), second=b),
    "in a loop": grammar(start=ir.choice(ir.loop(ir.sequence(start, b), 1, 2), a)),
    "in a loop of itself": grammar(start=ir.choice(ir.loop(start, 2, None), a)),
    "a circle of rules that say the same": grammar(
        start=ir.choice(second, a), second=ir.choice(third, b), third=ir.choice(start, ir.sequence(start, a))
    ),
    "left and right": grammar(start=ir.choice(ir.sequence(start, a, start), b)),
    "mutual, with empty texts": grammar(
        start=ir.choice(ir.sequence(second, a), ir.EPSILON),
        second=ir.choice(ir.sequence(start, b), ir.EPSILON),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_left_recursion(kind: str) -> None:
    before = KINDS[kind]
    with pytest.raises(UnsupportedConstraint):
        TokenAutomaton(before, BYTES)
    after = remove_left_recursion(before)
    assert after is not before
    assert same(after, before)
    automaton = TokenAutomaton(after, BYTES)
    for text in SETS.universe:
        at = automaton.start
        for byte in text:
            at = automaton.next(at, byte)
        assert automaton.accepts(at) == (text in SETS.grammar(before)), text


def test_one_rule_becomes_a_loop() -> None:
    after = remove_left_recursion(KINDS["direct"])
    assert list(after.rules) == ["start"]
    body = after.rules["start"]
    assert isinstance(body, ir.Sequence)
    assert isinstance(body.parts[1], ir.Loop)


@pytest.mark.parametrize(
    "body",
    [
        ir.choice(ir.sequence(a, start), b),  # on the right
        ir.choice(ir.sequence(a, start, b), ir.EPSILON),  # in the middle
        ir.choice(start, a),  # a circle that grows nothing
    ],
)
def test_other_recursion_is_left_alone(body: ir.Expr) -> None:
    before = grammar(start=body)
    assert remove_left_recursion(before) is before


def test_a_long_text_takes_no_deeper_stack() -> None:
    """Item k and item k + 1 of a left-recursive list are the same state."""
    items = grammar(start=ir.choice(ir.sequence(start, ir.terminal(","), second), second), second=a)
    automaton = TokenAutomaton(remove_left_recursion(items), BYTES)
    states = automaton.walk(automaton.start, list(b"a" + b",a" * 50))
    assert len(set(states)) <= 3


def test_deep_expressions_and_long_circles_cost_no_recursion() -> None:
    body = ir.choice(ir.sequence(start, a), b)
    for _ in range(5000):
        body = ir.Sequence((ir.Choice((body,)), ir.EPSILON))
    assert same(remove_left_recursion(grammar(start=body)), KINDS["direct"])
    names = [f"r{index}" for index in range(60)]
    chain = {name: ir.call(after) for name, after in zip(names, [*names[1:], names[0]], strict=True)}
    chain[names[-1]] = ir.choice(ir.sequence(ir.call(names[0]), a), b)
    chain = {"start": ir.call("r0"), **chain}
    assert same(remove_left_recursion(ir.Grammar(chain, "start")), KINDS["direct"])


@pytest.mark.ci
def test_too_many_rules_that_begin_with_one_another_are_refused() -> None:
    names = [f"r{index}" for index in range(80)]
    rules = {
        name: ir.choice(a, *(ir.sequence(ir.call(other), ir.terminal(name)) for other in names))
        for name in names
    }
    with pytest.raises(ConstraintTooLarge, match="80 rules"):
        remove_left_recursion(ir.Grammar(rules, "r0"))


def test_names_that_are_taken_are_not_taken_again() -> None:
    rules = {
        "start": ir.choice(ir.sequence(second, a), ir.call("start after second")),
        "second": ir.choice(ir.sequence(start, b), ir.EPSILON),
        "start after second": b,
        "start (not empty)": a,
        "second (not empty)": ir.sequence(a, ir.call("start (not empty)"), ir.call("second (not empty)")),
    }
    before = ir.Grammar(rules, "start")
    assert same(remove_left_recursion(before), before)
