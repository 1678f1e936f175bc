"""The contract of the token automaton, state by state, on vocabularies small enough to see."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import constrained
from constrained import _core
from constrained.automaton import DEAD, TokenAutomaton, compile, fill_masks, mask_ids
from constrained.automaton.bitmask import unpack_ids
from constrained.errors import ConstraintTooLarge, UnsatisfiableConstraint, VocabularyError
from constrained.grammars import ir
from constrained.vocabulary import Vocabulary

BYTES = [bytes([byte]) for byte in range(256)]
EOS = 256
VOCABULARY = Vocabulary.from_bytes(
    [*BYTES, b"", b"ab", b"abc", b"[[", b"]]", b"],", b"12", b"ab"], eos_ids=[EOS]
)
AB, ABC, OPEN2, CLOSE2, CLOSE_COMMA, TWELVE, AB_AGAIN = range(257, 264)

DIGITS = ir.repeat(ir.chars([(48, 57)]), 1)
NESTED = ir.Grammar(
    {
        "value": ir.choice(ir.call("array"), ir.terminal(DIGITS)),
        "array": ir.sequence(
            ir.terminal("["),
            ir.choice(
                ir.EPSILON,
                ir.sequence(ir.call("value"), ir.loop(ir.sequence(ir.terminal(","), ir.call("value")))),
            ),
            ir.terminal("]"),
        ),
    },
    "value",
)


def automaton(
    grammar: ir.Grammar | ir.Regex | ir.Expr, vocabulary: Vocabulary = VOCABULARY
) -> TokenAutomaton:
    return TokenAutomaton(grammar if isinstance(grammar, ir.Grammar) else ir.Grammar.of(grammar), vocabulary)


def allowed(automaton: TokenAutomaton, state: int) -> set[int]:
    row = automaton.new_mask()
    automaton.fill_mask(state, row)
    return set(unpack_ids(row))


def after(automaton: TokenAutomaton, text: bytes) -> int:
    states = automaton.walk(automaton.start, list(text))
    return states[-1] if len(states) == len(text) else DEAD


def test_a_mask_holds_the_tokens_that_can_still_become_a_text():
    arrays = automaton(NESTED)
    digits = set(b"0123456789") | {TWELVE}
    assert allowed(arrays, arrays.start) == digits | {ord("["), OPEN2}
    assert allowed(arrays, after(arrays, b"[[12")) == digits | set(b",]") | {CLOSE2, CLOSE_COMMA}
    assert allowed(arrays, after(arrays, b"[1]")) == {EOS}


def test_tokens_with_the_same_bytes_are_both_allowed():
    assert allowed(automaton(ir.literal("ab")), automaton(ir.literal("ab")).start) == {ord("a"), AB, AB_AGAIN}


def test_end_of_text_is_allowed_exactly_where_the_text_is_complete_and_nothing_follows_it():
    number = automaton(DIGITS)
    assert number.next(number.start, EOS) == DEAD
    complete = number.next(number.start, TWELVE)
    end = number.next(complete, EOS)
    assert number.accepts(complete)
    assert end != DEAD
    assert number.accepts(end)
    assert allowed(number, end) == {EOS}
    assert number.next(end, EOS) == end
    assert number.next(end, ord("1")) == DEAD


def test_a_dead_state_allows_nothing_and_stays_dead():
    number = automaton(DIGITS)
    assert number.next(number.start, ord("x")) == DEAD
    assert allowed(number, DEAD) == set()
    assert number.next(DEAD, ord("1")) == DEAD
    assert not number.accepts(DEAD)
    with pytest.raises(ValueError, match="no completion"):
        number.shortest_completion(DEAD)


def test_a_walk_stops_at_the_first_refusal():
    number = automaton(DIGITS)
    states = number.walk(number.start, [ord("1"), ord("2"), ord("x"), ord("3")])
    assert len(states) == 2
    assert states[-1] == after(number, b"12")


def test_one_call_fills_the_rows_of_many_states():
    arrays = automaton(NESTED)
    states = [arrays.start, after(arrays, b"["), after(arrays, b"[[1"), DEAD]
    rows = arrays.new_mask(len(states))
    arrays.fill_masks(states, rows)
    assert [set(unpack_ids(row)) for row in rows] == [allowed(arrays, state) for state in states]


def test_one_call_fills_the_masks_of_automata_of_both_kinds():
    both = [
        compile(constrained.lark('start: "a"+ B\nB: "b"'), VOCABULARY),
        automaton(ir.literal("ab")),
    ]
    states = [each.start for each in both]
    rows = both[0].new_mask(2)
    fill_masks(both, states, rows)
    assert [set(unpack_ids(row)) for row in rows] == [{ord("a"), AB, AB_AGAIN}] * 2
    assert mask_ids(both, states) == [each.mask_id(each.start) for each in both]
    assert set(both[0].memory) == set(both[1].memory)


def test_forced_bytes_are_cut_at_16_kib_for_automata_of_both_kinds():
    text = "a" + "b" * 17_000
    for constraint in constrained.regex(text), constrained.lark('start: "a" B\nB: "b"~17000'):
        long = compile(constraint, VOCABULARY)
        assert long.forced(long.start) == text[: 1 << 14].encode()


def test_rows_are_known_by_content_across_states_and_automata():
    first, second = automaton(NESTED), automaton(NESTED)
    assert first.mask_id(after(first, b"[1,")) == first.mask_id(after(first, b"[[2],["[:5]))
    assert first.mask_id(first.start) == second.mask_id(second.start)
    rows = first.new_mask(1)
    assert VOCABULARY.masks.copy([first.mask_id(first.start)], rows)
    assert set(unpack_ids(rows[0])) == allowed(first, first.start)


def test_items_of_an_array_share_one_state():
    arrays = automaton(NESTED)
    assert after(arrays, b"[1,2,") == after(arrays, b"[1,2,3,4,5,")


def test_forced_text_is_what_every_completion_starts_with():
    word = automaton(ir.concat(ir.literal("abc"), ir.optional(ir.literal("d")), ir.literal("ef")))
    assert word.forced(word.start) == b"abc"
    assert word.forced(after(word, b"abcd")) == b"ef"
    assert word.forced(after(word, b"abcef")) == b""
    number = automaton(DIGITS)
    assert number.forced(number.start) == b""


def test_the_shortest_completion_counts_tokens_and_some_token_always_lowers_it():
    word = automaton(ir.concat(ir.literal("abcab"), ir.repeat(ir.literal("x"))))
    assert word.shortest_completion(word.start) == 2  # abc, ab
    state = word.start
    while (need := word.shortest_completion(state)) > 0:
        rest = [word.shortest_completion(word.next(state, token)) for token in allowed(word, state)]
        assert min(rest) == need - 1
        state = next(
            after
            for token in sorted(allowed(word, state))
            if word.shortest_completion(after := word.next(state, token)) == need - 1
        )
    assert word.accepts(state)


def test_a_budget_leaves_only_tokens_after_which_the_text_can_be_closed_in_time():
    arrays = automaton(NESTED)

    def within(state: int, budget: int) -> set[int]:
        row = arrays.new_mask()
        arrays.fill_mask_within(state, row, budget)
        return set(unpack_ids(row))

    digits = set(b"0123456789") | {TWELVE}
    assert within(arrays.start, 1) == digits
    assert within(arrays.start, 2) == digits | {ord("["), OPEN2}
    assert within(after(arrays, b"[[1"), 1) == {CLOSE2}
    assert within(after(arrays, b"[[1"), 2) == {CLOSE2, ord("]")} | digits
    assert within(after(arrays, b"[1]"), 0) == {EOS}
    for budget in range(1, 6):
        for token in within(arrays.start, budget):
            assert arrays.shortest_completion(arrays.next(arrays.start, token)) <= budget - 1


def test_bytes_that_no_token_spells_alone_are_left_out_of_every_text():
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"", b"bc", b"aa"], eos_ids=[2])
    text = automaton(ir.repeat(ir.chars([(ord("a"), ord("c"))]), 1), vocabulary)
    assert allowed(text, text.start) == {0, 1, 4}, "bc could be followed, but c is spelled by no token"
    assert set(vocabulary.core.missing_bytes) == set(range(256)) - {ord("a"), ord("b")}
    with pytest.raises(UnsatisfiableConstraint):
        automaton(ir.literal("abc"), vocabulary)


@pytest.mark.parametrize(
    "grammar",
    [
        ir.Grammar.of(ir.EMPTY_SET),
        ir.Grammar.of(ir.intersection(ir.literal("a"), ir.literal("b"))),
        ir.Grammar({"endless": ir.sequence(ir.terminal("a"), ir.call("endless"))}, "endless"),
        ir.Grammar.of(ir.EMPTY_LANGUAGE),
    ],
)
def test_an_empty_language_is_an_error(grammar):
    with pytest.raises(UnsatisfiableConstraint, match="no completion satisfies"):
        automaton(grammar)


def test_branches_without_a_completion_are_not_begun():
    grammar = ir.Grammar(
        {
            "start": ir.choice(ir.terminal("a"), ir.call("endless")),
            "endless": ir.sequence(ir.terminal("b"), ir.call("endless")),
        },
        "start",
    )
    assert allowed(automaton(grammar), automaton(grammar).start) == {ord("a")}


def test_rules_that_only_rename_each_other_are_fine():
    grammar = ir.Grammar({"a": ir.choice(ir.call("b"), ir.terminal("x")), "b": ir.call("a")}, "a")
    assert allowed(automaton(grammar), automaton(grammar).start) == {ord("x")}


def test_a_rule_called_twice_as_often_at_every_level_is_entered_once():
    rules: dict[str, ir.Expr] = {
        f"r{i}": ir.sequence(ir.call(f"r{i + 1}"), ir.call(f"r{i + 1}")) for i in range(200)
    }
    rules["r200"] = ir.choice(ir.EPSILON, ir.terminal("a"))
    doubled = automaton(ir.Grammar(rules, "r0"))
    assert allowed(doubled, doubled.start) == {ord("a"), EOS}
    assert allowed(doubled, after(doubled, b"aaa")) == {ord("a"), EOS}


def test_a_rule_that_does_not_exist_is_an_error():
    with pytest.raises(KeyError):
        automaton(ir.Grammar({"start": ir.call("nowhere")}, "start"))


def test_counts_are_numbers_and_cost_nothing_until_they_are_counted():
    many = automaton(ir.loop(ir.sequence(ir.terminal("a"), ir.terminal(",")), 10**9, 2 * 10**9))
    assert many.shortest_completion(many.start) == 2 * 10**9
    assert many.memory["states"] < 10
    chars = automaton(ir.repeat(ir.ANY_CHAR, 0, 10**9))
    assert after(chars, b"a") == after(chars, "ä".encode()), "counted in characters"
    assert allowed(chars, after(chars, b"a" * 1000)) == allowed(chars, chars.start)


def test_a_character_begun_must_be_finished():
    text = automaton(ir.TEXT)
    begun = after(text, b"\xe2\x82")
    assert begun != DEAD
    assert not text.accepts(begun)
    assert allowed(text, begun) == set(range(0x80, 0xC0))
    assert after(text, b"\xff") == DEAD
    assert after(text, b"\xed\xa0") == DEAD, "surrogates are not characters"


def test_depth_of_nesting_is_bounded_by_memory_alone():
    arrays = automaton(NESTED)
    depth = 50_000
    state = after(arrays, b"[" * depth)
    assert state != DEAD
    assert arrays.shortest_completion(state) == depth // 2
    assert arrays.accepts(after(arrays, b"[" * depth + b"]" * depth))


def tail(first: str, count: int) -> ir.Regex:
    """Texts of two letters with a given one so far from the end: their residuals are the sets of its places."""
    bit = ir.chars([(ord("a"), ord("b"))])
    return ir.concat(ir.repeat(bit), ir.literal(first), ir.repeat(bit, count, count))


def test_emptiness_that_takes_too_long_to_decide_is_an_error_at_compile_time():
    with pytest.raises(ConstraintTooLarge, match="empty"):
        automaton(ir.intersection(tail("a", 20), tail("b", 20)))


def test_a_way_to_the_end_is_found_among_exponentially_many():
    clash = automaton(ir.intersection(tail("a", 20), tail("b", 21), ir.complement(tail("a", 40))))
    assert clash.shortest_completion(clash.start) == 22
    assert clash.accepts(after(clash, b"ba" + b"b" * 20))


def test_wrong_arguments_are_errors_and_not_crashes():
    number = automaton(DIGITS)
    with pytest.raises(IndexError):
        number.next(number.start, VOCABULARY.size)
    with pytest.raises(IndexError):
        number.next(number.start, -1)
    with pytest.raises(IndexError):
        number.next(10**6, 1)
    with pytest.raises(IndexError):
        number.accepts(10**6)
    with pytest.raises(ValueError, match="wrong length"):
        number.fill_mask(number.start, np.zeros(1, dtype=np.int32))
    with pytest.raises(TypeError):
        number.fill_mask(number.start, np.zeros(number.new_mask().size, dtype=np.float32))
    with pytest.raises(TypeError):
        number.next("start", 1)
    with pytest.raises(ValueError, match="offsets"):
        _core.Vocabulary(b"ab", np.array([0, 5], dtype=np.int64), [0])


def test_a_row_is_written_only_where_it_is_one_whatever_arrays_came_before():
    number = automaton(DIGITS)
    rows = number.new_mask(1)
    number.fill_masks([number.start], rows)
    assert rows.any()
    row = number.new_mask()
    for _ in range(
        3
    ):  # once an array is known by its own description, later ones are read without asking NumPy
        row[:] = -1
        number.fill_mask(number.start, row)
        assert (row == rows[0]).all()
    wide = np.full((row.size, 2), 7, dtype=np.int32)
    locked = row.copy()
    locked.setflags(write=False)
    unaligned = np.zeros(row.nbytes + 1, dtype=np.uint8)[1:].view(np.int32)
    for wrong in (
        wide[:, 0],
        row.reshape(1, -1),
        row.view(np.float32),
        row.astype(">i4"),
        row.astype(np.int64),
        locked,
        np.zeros((), dtype=np.int32),
        list(row),
    ):
        with pytest.raises(TypeError):
            number.fill_mask(number.start, wrong)
    assert (wide == 7).all()
    assert (locked == row).all()
    for right in (
        row.copy(),
        row.view(np.dtype("=i4")),
        row.view(_OwnArray),
        memoryview(row.copy()),
        unaligned,
    ):
        np.asarray(right)[:] = 0
        number.fill_mask(number.start, right)
        assert (np.asarray(right) == row).all()
    for wrong in (row[:-1], np.zeros(0, dtype=np.int32), np.zeros(row.size + 1, dtype=np.int32)):
        with pytest.raises(ValueError, match="wrong length"):
            number.fill_mask(number.start, wrong)


class _OwnArray(np.ndarray):
    """A subclass, as users have them."""


def test_threads_share_one_automaton_and_agree():
    texts = [b"[" * (1 + i % 7) + b"1" + b",23" * (i % 5) + b"]" * (1 + i % 7) for i in range(64)]
    alone = automaton(NESTED)
    expected = [[frozenset(allowed(alone, s)) for s in alone.walk(alone.start, list(text))] for text in texts]
    shared = automaton(NESTED)
    found: list[list[list[frozenset[int]]]] = [[] for _ in range(8)]
    barrier = threading.Barrier(8)

    def run(slot: int) -> None:
        barrier.wait()
        for text in texts:
            states = shared.walk(shared.start, list(text))
            found[slot].append([frozenset(allowed(shared, state)) for state in states])

    threads = [threading.Thread(target=run, args=(slot,)) for slot in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one == expected for one in found)


# ---------------------------------------------------------------- reading the grammar


def test_what_was_read_once_is_not_read_again() -> None:
    vocabulary = Vocabulary.from_bytes(BYTES, eos_ids=[0])
    word = ir.repeat(ir.chars([(97, 122)]), 1)
    automaton(ir.concat(word, ir.literal("!")), vocabulary)
    read = vocabulary.core.memory["residuals"]
    assert vocabulary.shard_pool.next_shard().regexes[word] < read
    again = automaton(ir.concat(word, ir.literal("!")), vocabulary)  # a new expression over a known part
    assert vocabulary.core.memory["residuals"] == read
    assert again.accepts(again.walk(again.start, list(b"ab!"))[-1])


def test_a_grammar_may_be_as_deep_as_it_likes() -> None:
    expr: ir.Expr = ir.terminal("x")
    for _ in range(50_000):
        expr = ir.Sequence((ir.EPSILON, expr))
    deep = automaton(expr)
    assert deep.accepts(deep.next(deep.start, ord("x")))


def test_a_rule_that_does_not_exist_is_named() -> None:
    with pytest.raises(KeyError, match="missing"):
        automaton(ir.sequence(ir.terminal("a"), ir.call("missing")))


@pytest.mark.parametrize(
    "node", ["text", ir.Sequence(("text",)), ir.Literal(b"a"), ir.Terminal(ir.Call("start"))]
)  # type: ignore[arg-type, list-item]
def test_what_is_no_expression_is_refused(node: ir.Expr) -> None:
    with pytest.raises(TypeError):
        TokenAutomaton(ir.Grammar({"start": node}, "start"), VOCABULARY)


def test_a_vocabulary_with_bytes_that_are_no_tokens_is_refused():
    vocabulary = Vocabulary.from_bytes([b"a", b"ab", b"bc", b""], [3])
    assert vocabulary.unspelled_bytes == b"bc"
    with pytest.raises(VocabularyError, match="2 bytes occur only inside longer tokens, the first is b'b'"):
        compile(constrained.regex("a"), vocabulary)
