"""The native core refuses arrays that are no grammar, and bounds what a question may cost."""

from __future__ import annotations

import pytest

from constrained.automaton import TokenAutomaton, compile, trial
from constrained.constraint import regex
from constrained.errors import ConstraintTooLarge
from constrained.grammars import ir
from tests.support.finite import byte_vocabulary

_A = ir.literal("a")
_TERMINAL = ir.Terminal(_A)


class _Stranger(ir.Regex):
    __slots__ = ()


def _bag(*, slot: int = 0, required: int = 0, obligations: int = 1) -> ir.Interleave:
    entry = ir.InterleaveEntry(_TERMINAL, ir.EPSILON, slot, obligations)
    return ir.Interleave((entry,), (required,), obligations, 1, None, ir.terminal(","), False)


def _both(inner: ir.Regex, one: ir.Regex, other: ir.Regex, levels: int) -> ir.Regex:
    """An expression with two ways through each level, which share all that is below."""
    for _ in range(levels):
        inner = ir.Union((ir.Concat((inner, one)), ir.Concat((inner, other))))
    return inner


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(_Stranger(), id="a class of its own"),
        pytest.param(_TERMINAL, id="an expression"),
        pytest.param(None, id="None"),
        pytest.param(ir.Literal("text"), id="str for bytes"),  # type: ignore[arg-type]
        pytest.param(ir.Chars([(97, 98)]), id="a list for a tuple"),  # type: ignore[arg-type]
        pytest.param(ir.Chars(((97,),)), id="half a range"),  # type: ignore[arg-type]
        pytest.param(ir.Chars(((98, 97),)), id="a range turned round"),
        pytest.param(ir.Chars(((-5, 97),)), id="a negative character"),
        pytest.param(ir.Chars(((97, 0x110000),)), id="beyond Unicode"),
        pytest.param(ir.Chars(((97, 98), (98, 99))), id="ranges that overlap"),
        pytest.param(ir.Chars(((98, 99), (96, 97))), id="ranges out of order"),
        pytest.param(ir.Concat([_A]), id="a list of parts"),  # type: ignore[arg-type]
        pytest.param(ir.Concat((_A, _TERMINAL)), id="an expression as a part"),  # type: ignore[arg-type]
        pytest.param(ir.Repeat(_A, -1, 4), id="fewer than none"),
        pytest.param(ir.Repeat(_A, 4, 3), id="at least four, at most three"),
        pytest.param(ir.Repeat(_A, 2**31, None), id="more than can be counted"),
        pytest.param(ir.Repeat(_A, 0, 2**70), id="far more than can be counted"),
        pytest.param(ir.Repeat(_A, 0.5, None), id="half a copy"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_regular_expression(node: ir.Regex) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        TokenAutomaton(ir.Grammar({"start": ir.Terminal(node)}, "start"), byte_vocabulary())


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(_A, id="a regular expression"),
        pytest.param(None, id="None"),
        pytest.param(ir.Call("nobody"), id="a rule that is not there"),
        pytest.param(ir.Sequence([_TERMINAL]), id="a list of parts"),  # type: ignore[arg-type]
        pytest.param(ir.Choice((_TERMINAL, _A)), id="a regular expression as a part"),  # type: ignore[arg-type]
        pytest.param(ir.Loop(_TERMINAL, 3, 1), id="at least three, at most one"),
        pytest.param(ir.Loop(_TERMINAL, -1, None), id="fewer than none"),
        pytest.param(_bag(slot=2**31 - 1), id="a slot beyond all counts"),
        pytest.param(_bag(slot=-2), id="a negative slot"),
        pytest.param(_bag(required=2**31 - 1), id="a required slot beyond all counts"),
        pytest.param(_bag(required=-1), id="a required slot that is none"),
        pytest.param(_bag(obligations=1 << 30), id="a set of obligations that no table holds"),
        pytest.param(_bag(obligations=-1), id="negative obligations"),
    ],
)
def test_what_is_no_rule(body: ir.Expr) -> None:
    with pytest.raises((TypeError, ValueError, KeyError)):
        TokenAutomaton(ir.Grammar({"start": body}, "start"), byte_vocabulary())


def test_a_start_that_is_no_rule() -> None:
    with pytest.raises(KeyError):
        TokenAutomaton(ir.Grammar({"start": _TERMINAL}, "begin"), byte_vocabulary())


def test_a_refused_terminal_leaves_no_limit_behind() -> None:
    """A limit that stayed would fail other grammars of the vocabulary later, in the middle of a text."""
    vocabulary = byte_vocabulary()
    with pytest.raises(ConstraintTooLarge):
        compile(regex("(?=.*a.{20}$)(?=.*b.{18}$)(?=.*c.{16}$).*"), vocabulary)
    automaton = compile(regex("(?!.*ab).{0,40}(?<!c)"), vocabulary)
    state = automaton.start
    for byte in b"acbacb" * 6:
        state = automaton.next(state, byte)
        automaton.fill_mask(state, automaton.new_mask())
    assert automaton.accepts(state)


def test_what_is_forced_is_cut_where_it_gets_long() -> None:
    automaton = TokenAutomaton(ir.Grammar.of(ir.repeat(ir.literal("ab"), 10**9, 10**9)), byte_vocabulary())
    forced = automaton.forced(automaton.start)
    assert 10_000 < len(forced) < 100_000
    assert forced == (b"ab" * len(forced))[: len(forced)]
    assert automaton.shortest_completion(automaton.start) == 2 * 10**9


def test_a_long_way_to_the_end_is_followed_to_the_end() -> None:
    automaton = TokenAutomaton(ir.Grammar.of(ir.literal("ab" * 5_000)), byte_vocabulary("ab", "abab"))
    state, left = automaton.start, automaton.shortest_completion(automaton.start)
    assert left == 2_500
    abab = automaton.vocabulary.ids_by_bytes[b"abab"]
    while left:
        state = automaton.next(state, abab)
        assert automaton.shortest_completion(state) == left - 1
        left -= 1


def test_exponentially_many_derivatives_do_not_stop_a_text() -> None:
    """Not one of the last 40 characters but one may be an a: each letter doubles what could come to be."""
    automaton = compile(regex("(?!.*a.{40}$).*"), byte_vocabulary())
    state = automaton.start
    for byte in b"a" * 41 + b"b" * 41:
        state = automaton.next(state, byte)
        assert state != 0
        assert (automaton.shortest_completion(state) == 0) == automaton.accepts(state)
    assert automaton.accepts(state)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("(" * 3_000 + "a" + "b)*" * 3_000, "too deep"), ("a*b*" * 2_000 + "c", "may be empty")],
)
def test_patterns_that_would_cost_too_much_a_byte_are_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ConstraintTooLarge, match=reason):
        compile(regex(pattern), byte_vocabulary())


def test_sequences_that_share_their_parts_are_not_written_out_without_end() -> None:
    body: ir.Expr = ir.Sequence((_TERMINAL, ir.Call("other")))
    for _ in range(60):
        body = ir.Sequence((body, body))
    grammar = ir.Grammar(
        {"start": body, "other": ir.Choice((_TERMINAL, ir.Terminal(ir.literal("bc"))))}, "start"
    )
    with pytest.raises(ConstraintTooLarge, match="sequences have too many parts"):
        TokenAutomaton(grammar, byte_vocabulary())


def test_a_sequence_may_stand_twice_in_another_one() -> None:
    body: ir.Expr = ir.Sequence((_TERMINAL, ir.Terminal(ir.literal("b"))))
    for _ in range(10):
        body = ir.Sequence((body, body))
    automaton = TokenAutomaton(ir.Grammar({"start": body}, "start"), byte_vocabulary())
    assert automaton.shortest_completion(automaton.start) == 2 * 2**10


@pytest.mark.ci
def test_ways_through_a_rule_that_double_at_each_level_are_refused_when_it_is_read() -> None:
    body: ir.Expr = _TERMINAL
    for _ in range(40):
        body = ir.Choice((ir.Sequence((body, ir.terminal("x"))), ir.Sequence((body, ir.terminal("y")))))
    with pytest.raises(ConstraintTooLarge, match="reading its rules takes too many steps"):
        TokenAutomaton(ir.Grammar({"start": body}, "start"), byte_vocabulary())


def test_ways_through_an_expression_that_double_at_each_level_are_gone_through_once() -> None:
    letters = ir.repeat(ir.chars([(97, 99)]))
    tail = letters
    for _ in range(40):
        tail = ir.Union((ir.Concat((ir.literal("ab"), tail)), ir.Concat((ir.literal("ac"), tail))))
    both = ir.Intersection((ir.Concat((letters, tail)), ir.Concat((letters, ir.literal("b"), letters))))
    automaton = TokenAutomaton(ir.Grammar({"start": ir.Terminal(both)}, "start"), byte_vocabulary())
    automaton.fill_mask(automaton.start, automaton.new_mask())
    assert automaton.shortest_completion(automaton.start) == 80


def test_an_expression_whose_derivatives_double_is_tried_first() -> None:
    shared = _both(
        ir.concat(ir.repeat(ir.chars([(97, 99)])), ir.literal("x")), ir.literal("p"), ir.literal("q"), 24
    )
    automaton = TokenAutomaton(ir.Grammar({"start": ir.Terminal(shared)}, "start"), byte_vocabulary())
    assert automaton.needs_trial
    with pytest.raises(ConstraintTooLarge):
        trial.try_out(automaton)


def test_a_long_rest_that_each_byte_writes_again_is_work() -> None:
    rest: ir.Regex = ir.Concat((ir.chars([(97, 98)]), ir.chars([(99, 100)])))
    for _ in range(14):
        rest = ir.Concat((rest, rest))
    heads = ir.Union(tuple(ir.Concat((ir.literal(bytes([i, 97])), rest)) for i in range(33, 97)))
    automaton = TokenAutomaton(
        ir.Grammar({"start": ir.Terminal(ir.repeat(heads))}, "start"), byte_vocabulary()
    )
    automaton.fill_mask(automaton.start, automaton.new_mask())
    assert automaton.last_work > 64 * 2**14


@pytest.mark.parametrize("part", ["a*b*", "a?b*", "[ab]?"])
def test_optional_parts_in_a_row_leave_one_rest(part: str) -> None:
    """Each rest has those behind it: their union is the first one, and not hundreds of parts in every state."""
    automaton = compile(regex(part * 300 + "c"), byte_vocabulary())
    assert isinstance(automaton, TokenAutomaton)
    mask, state = automaton.new_mask(), automaton.start
    for byte in b"abbaab":
        automaton.fill_mask(state, mask)
        assert automaton.last_work < 50_000
        state = automaton.next(state, byte)
    assert automaton.accepts(automaton.next(state, ord("c")))


def test_the_shortest_entries_beside_many_obligations_are_work() -> None:
    bits, extra = 9, 40
    entries = tuple(
        ir.InterleaveEntry(ir.terminal(f"{i:02d}"), ir.terminal("b"), i, 1 << i % bits) for i in range(12)
    )
    other = ir.InterleaveEntry(ir.terminal("z"), ir.terminal("b"))
    bag = ir.Interleave((*entries, other), (), (1 << bits) - 1, extra, None, ir.terminal(","), False)
    automaton = TokenAutomaton(ir.Grammar({"start": bag}, "start"), byte_vocabulary())
    assert automaton.shortest_completion(automaton.start) == bits * 4 + (extra - bits) * 3 - 1
    automaton.next(automaton.start, ord("z"))
    assert automaton.last_work > 3_000


@pytest.mark.ci
@pytest.mark.parametrize("backwards", [False, True])
def test_a_long_chain_of_rules_is_measured_once(backwards: bool) -> None:
    count = 20_000
    rules = {"r0": ir.terminal("a")} | {
        f"r{i}": ir.sequence(ir.terminal("b"), ir.call(f"r{i - 1}")) for i in range(1, count)
    }
    if backwards:
        rules = dict(reversed(rules.items()))
    automaton = TokenAutomaton(ir.Grammar(rules, f"r{count - 1}"), byte_vocabulary())
    assert automaton.last_work < 10 * count
    assert automaton.shortest_completion(automaton.start) == count
