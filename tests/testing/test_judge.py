"""The judge is judged: by sets of strings, `re`, partial matches of `regex`, interegular's machines, and `json`."""

from __future__ import annotations

import json
import random

import interegular
import pytest
import regex as regex_library
from hypothesis import example, given, settings
from hypothesis import strategies as st

import constrained
from constrained.automaton.bitmask import pack_ids, unpack_ids
from constrained.errors import ConstraintTooLarge
from constrained.grammars import ir
from tests.support import strategies as some
from tests.support.examples import examples
from tests.support.judge import ReferenceRecognizer
from tests.support.masks import brute_force_mask, mask_diff

UNIVERSES = [some.Languages(b"ab", 5), some.Languages("aé".encode(), 4), some.Languages(b"a\xc3\xa9\xa8", 4)]


def judge_of(body: ir.Regex | ir.Expr) -> ReferenceRecognizer:
    return ReferenceRecognizer(ir.Grammar.of(body))


def assert_language(judge: ReferenceRecognizer, universe: some.Languages, language: frozenset[bytes]) -> None:
    """Equal texts, equal prefixes, and shortest completions."""
    prefixes = {text[:cut] for text in language for cut in range(len(text) + 1)}
    for string in universe.universe:
        assert judge.accepts(string) == (string in language), string
        state = judge.after(string)
        assert state is not None or string not in prefixes, string
        if state is None:
            continue
        completion = judge.shortest(state)
        assert len(completion) == state.shortest_length, string
        assert judge.accepts(string + completion), (string, completion)
        listed = [len(text) - len(string) for text in language if text.startswith(string)]
        assert state.shortest_length <= min(listed, default=state.shortest_length), string
        if string + completion in universe.universe:
            assert string + completion in language, (string, completion)
        forced = judge.forced(state)
        assert completion.startswith(forced)
        assert all(text[len(string) :].startswith(forced) for text in language if text.startswith(string))


# ---------------------------------------------------------------- every operator, against sets


@given(some.regexes, st.sampled_from(UNIVERSES))
@settings(max_examples=examples(100))
def test_regexes_are_the_sets_they_denote(regex: ir.Regex, universe: some.Languages) -> None:
    assert_language(judge_of(regex), universe, universe.regex(regex))


@given(some.grammars(left_recursion=True), st.sampled_from(UNIVERSES))
@settings(max_examples=examples(100))
def test_grammars_are_the_sets_they_denote(grammar: ir.Grammar, universe: some.Languages) -> None:
    assert_language(ReferenceRecognizer(grammar), universe, universe.grammar(grammar))


# ---------------------------------------------------------------- text regexes, against other libraries


def pattern_of(regex: ir.Regex) -> str:
    """The same language in the notation that `re` and `regex` read."""
    if isinstance(regex, ir.Literal):
        return regex_library.escape(regex.data.decode())
    if isinstance(regex, ir.Chars):
        return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in regex.ranges) + "]"
    if isinstance(regex, ir.Concat):
        return "".join(f"(?:{pattern_of(part)})" for part in regex.parts)
    if isinstance(regex, ir.Union):
        return "|".join(f"(?:{pattern_of(part)})" for part in regex.parts)
    assert isinstance(regex, ir.Repeat)
    return f"(?:{pattern_of(regex.part)}){{{regex.low},{'' if regex.high is None else regex.high}}}"


@given(some.plain_regexes, st.lists(some.texts, min_size=10, max_size=20))
@settings(max_examples=examples(100))
def test_plain_regexes_agree_with_partial_matches(regex: ir.Regex, texts: list[str]) -> None:
    judge, pattern = judge_of(regex), regex_library.compile(pattern_of(regex))
    for text in texts:
        match = pattern.fullmatch(text, partial=True)
        assert judge.accepts(text.encode()) == (match is not None and not match.partial), text
        assert judge.viable(text.encode()) == (match is not None), text


ascii_regexes = st.recursive(
    st.sampled_from("abc").map(ir.literal) | st.just(ir.chars([(97, 98)])), some._plain, max_leaves=6
)


@given(
    ascii_regexes,
    ascii_regexes,
    ascii_regexes,
    st.lists(st.text("abcd", max_size=7), min_size=20, max_size=30),
)
@settings(max_examples=examples(100))
def test_intersections_and_complements_agree_with_machines(
    one: ir.Regex, two: ir.Regex, without: ir.Regex, texts: list[str]
) -> None:
    """``one|two & ~without``, states from which nothing is accepted included."""
    one_machine, two_machine, without_machine = (
        interegular.parse_pattern(pattern_of(regex).replace(r"\U000000", r"\x")).to_fsm()
        for regex in (one, two, without)
    )
    wanted = ir.difference(ir.union(one, two), without)
    machine = (one_machine | two_machine).difference(without_machine)
    both = (ir.intersection(one, two), one_machine & two_machine)
    for regex, fsm in ((wanted, machine), both):
        judge = judge_of(regex)
        for text in texts:
            state: int | None = fsm.initial
            for character in text:
                symbol = fsm.alphabet[character]
                state = fsm.map.get(state, {}).get(symbol)
            assert judge.viable(text.encode()) == (state is not None and fsm.islive(state)), text
            assert judge.accepts(text.encode()) == fsm.accepts(text), text


# ---------------------------------------------------------------- behaviour worth naming


def test_a_character_may_be_cut_only_where_it_can_be_completed() -> None:
    judge = judge_of(ir.chars([(0xE8, 0xE9), (0x20AC, 0x20AC)]))
    assert judge.viable(b"\xc3")
    assert judge.viable(b"\xe2\x82")
    assert judge.accepts("é".encode())
    assert not judge.viable(b"\xc4")
    assert not judge.viable(b"\xe2\x81")
    assert not judge.viable("ê".encode())


@pytest.mark.parametrize(
    "data",
    [
        b"\xc0\x80",
        b"\xe0\x80\x80",
        b"\xed\xa0\x80",
        b"\xf0\x80\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\xff",
        b"\x80",
    ],
)
def test_text_is_strict_utf8(data: bytes) -> None:
    """Overlong forms, surrogates, code points that do not exist, and stray bytes are no text."""
    assert not judge_of(ir.TEXT).accepts(data)


def test_every_character_is_text() -> None:
    judge = judge_of(ir.ANY_CHAR)
    for point in [*range(0, 0x3000, 7), *range(0xD000, 0xD800, 5), *range(0xE000, 0x110000, 997), 0x10FFFF]:
        assert judge.accepts(chr(point).encode()), hex(point)


def test_a_prefix_without_completion_is_refused_however_long_it_looked_good() -> None:
    """``(ab)*`` and ``(ab)*a`` share every prefix and no text."""
    pairs = ir.repeat(ir.literal("ab"))
    judge = judge_of(ir.intersection(pairs, ir.concat(pairs, ir.literal("a"))))
    assert judge.start() is None
    assert not judge.viable(b"")


def test_left_recursion_and_ambiguity() -> None:
    """``e: e + e | x`` reads every sum, in as many states for the thousandth term as for the second."""
    e = ir.call("e")
    judge = ReferenceRecognizer(
        ir.Grammar({"e": ir.choice(ir.sequence(e, ir.terminal("+"), e), ir.terminal("x"))}, "e")
    )
    assert judge.accepts(b"x" + b"+x" * 20)
    assert not judge.accepts(b"x+")
    assert judge.viable(b"x+")


def test_counts_are_counted_not_written_out() -> None:
    many = 10**9
    judge = judge_of(
        ir.sequence(
            ir.terminal("["), ir.loop(ir.terminal("a,"), many), ir.terminal(ir.repeat(ir.ANY_CHAR, many))
        )
    )
    state = judge.after(b"[a,a,")
    assert state is not None
    assert state.shortest_length == 2 * (many - 2) + many
    with pytest.raises(ValueError, match="shortest completion takes"):
        judge.shortest(state)


def test_a_copy_may_be_empty_so_that_counts_from_below_are_met() -> None:
    for body in (
        ir.repeat(ir.optional(ir.literal("a")), 2, 3),
        ir.loop(ir.terminal(ir.optional(ir.literal("a"))), 2, 3),
        ir.loop(ir.choice(ir.EPSILON, ir.terminal("a")), 2, 3),
    ):
        assert [judge_of(body).accepts(b"a" * count) for count in range(5)] == [True, True, True, True, False]


def test_a_rule_that_calls_only_itself_allows_nothing() -> None:
    assert (
        ReferenceRecognizer(
            ir.Grammar({"start": ir.sequence(ir.terminal("a"), ir.call("start"))}, "start")
        ).start()
        is None
    )
    assert ReferenceRecognizer(ir.Grammar({"start": ir.call("start")}, "start")).start() is None


def test_a_missing_rule_is_an_error() -> None:
    with pytest.raises(KeyError, match="missing"):
        ReferenceRecognizer(ir.Grammar({"start": ir.call("missing")}, "start"))


# ---------------------------------------------------------------- JSON, against `json`


def json_grammar() -> ir.Grammar:
    digit = ir.chars([(48, 57)])
    integer = ir.union(ir.literal("0"), ir.concat(ir.chars([(49, 57)]), ir.repeat(digit)))
    number = ir.concat(
        ir.optional(ir.literal("-")), integer, ir.optional(ir.concat(ir.literal("."), ir.repeat(digit, 1)))
    )
    plain = ir.chars([(0x20, 0x21), (0x23, 0x5B), (0x5D, ir.MAX_CODE_POINT)])
    string = ir.concat(ir.literal('"'), ir.repeat(ir.union(plain, ir.literal("\\n"))), ir.literal('"'))

    def separated(part: ir.Expr) -> ir.Expr:
        more = ir.loop(ir.sequence(ir.terminal(","), part))
        return ir.choice(ir.EPSILON, ir.sequence(part, more))

    return ir.Grammar(
        {
            "value": ir.choice(ir.terminal(string), ir.terminal(number), ir.call("array"), ir.call("object")),
            "array": ir.sequence(ir.terminal("["), separated(ir.call("value")), ir.terminal("]")),
            "object": ir.sequence(ir.terminal("{"), separated(ir.call("member")), ir.terminal("}")),
            "member": ir.sequence(ir.terminal(string), ir.terminal(":"), ir.call("value")),
        },
        "value",
    )


def test_samples_are_json_and_so_are_all_closed_prefixes() -> None:
    judge, rng = ReferenceRecognizer(json_grammar()), random.Random(1)
    for _ in range(30):
        sample = judge.sample(rng, 30)
        json.loads(sample)
        cut = judge.after(sample[: rng.randrange(len(sample) + 1)])
        assert cut is not None
        json.loads(sample[:0] + judge.sample(rng, 5))


def test_equal_contexts_are_one_state() -> None:
    """The next item of an array is the item before it: what is remembered of one serves the other."""
    judge = ReferenceRecognizer(json_grammar())
    assert judge.after(b'["a","bcd",') is judge.after(b'["a","b","\xc3\xa9",')


@pytest.mark.ci
def test_nesting_is_limited_by_memory_only() -> None:
    judge = ReferenceRecognizer(json_grammar())
    state = judge.after(b"[" * 2000)
    assert state is not None
    assert state.shortest_length == 2000
    assert judge.accepts(b"[" * 500 + b"1" + b"]" * 500)


# ---------------------------------------------------------------- masks


class Tokens:
    """A bare vocabulary: token 0 ends the text, token 1 is a control token."""

    eos_ids = (0,)

    def __init__(self, *texts: bytes) -> None:
        self.tokens = (b"</s>", b"", *texts)


@given(
    some.grammars(left_recursion=True),
    some.byte_strings,
    st.lists(some.byte_strings.filter(bool), max_size=40),
)
@settings(max_examples=examples(100))
@example(ir.Grammar.of(ir.repeat(ir.literal(b"\xff"))), b"", [b"\xff", b"\xff\xff", b"\xfe", b"\xffa", b"a"])
@example(ir.Grammar.of(ir.literal(b"a")), b"", [b"a\xff", b"a\xff\xff", b"\xff\xff", b"\xffa", b"a", b"b"])
def test_a_brute_force_mask_asks_the_judge_about_every_token(
    grammar: ir.Grammar, prefix: bytes, texts: list[bytes]
) -> None:
    judge, vocabulary = ReferenceRecognizer(grammar), Tokens(*texts)
    expected = [i for i, text in enumerate(vocabulary.tokens) if i > 1 and judge.viable(prefix + text)]
    expected += [0] if judge.accepts(prefix) else []
    row = brute_force_mask(judge, prefix, vocabulary)
    assert row.dtype.name == "int32"
    assert row.shape == (-(-len(vocabulary.tokens) // 32),)
    assert sorted(expected) == unpack_ids(row).tolist()


def test_mask_diff_names_the_tokens_of_one_side() -> None:
    first, second = pack_ids([0, 31, 64], 70), pack_ids([31, 63], 70)
    difference = mask_diff(first, second)
    assert difference
    assert difference.only_first == (0, 64)
    assert difference.only_second == (63,)
    assert not mask_diff(first, first.copy())
    with pytest.raises(ValueError, match="shapes"):
        mask_diff(first, second[:1])


def test_counts_that_the_judge_would_unfold_are_refused_in_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.support.derivatives.MOST_RESIDUALS", 2_000)
    grammar = constrained.regex(r"1{1000000000}|\S++(\w){1000000000}").grammar
    with pytest.raises(ConstraintTooLarge, match="more than 2,000 derivatives"):
        ReferenceRecognizer(grammar)
