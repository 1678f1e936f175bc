"""``name[max_tokens=...]`` in Lark grammars, against a judge that tries every way to cut a text into parts."""

from __future__ import annotations

from typing import Any

import pytest

import constrained
from constrained import ConstraintTooLarge, InvalidConstraint, UnsatisfiableConstraint, UnsupportedConstraint
from constrained.automaton import compile
from constrained.automaton.bitmask import unpack_ids
from constrained.automaton.counted import CountedAutomaton
from constrained.vocabulary import Vocabulary
from tests.support.counted_texts import VOCABULARY, Part, check_limits, check_masks

BYTES = Vocabulary.from_bytes([bytes((byte,)) for byte in range(256)] + [b""], [256])
OPEN, CLOSE = Part(b"<"), Part(b">")
SKIPPED = Part(pattern="/*")


def some(pattern: str, most: int | None = None) -> Part:
    return Part(most=most, pattern=pattern)


CASES: dict[str, tuple[str, list[tuple[Part, ...]]]] = {
    "one": ('start: "<" b ">"\nb[max_tokens=2]: /[a\\/]+/', [(OPEN, some("[a/]+", 2), CLOSE)]),
    "may be empty": ('start: "<" b ">"\nb[max_tokens=2]: /[a\\/]*/', [(OPEN, some("[a/]*", 2), CLOSE)]),
    "may be spelled by what is around it": (
        'start: "<" b ">"\nb[max_tokens=2]: /[a>é]*/',
        [(OPEN, some("[a>é]*", 2), CLOSE)],
    ),
    "alone": ('start[max_tokens=2]: /[a<]+/', [(some("[a<]+", 2),)]),
    "pairs": ('start: "<" b ">"\nb[max_tokens=2]: /([a<][a\\/])+/', [(OPEN, some("([a<][a/])+", 2), CLOSE)]),
    "two tokens at least": ('start: "/" b ">"\nb[max_tokens=3]: /<aa?</', [(Part(b"/"), some("<aa?<", 3), CLOSE)]),
    "many texts, of which the shortest takes four tokens": (
        'start: "<" b ">"\nb[max_tokens=2]: /.{4}/',
        [(OPEN, some(".{4}", 2), CLOSE)],
    ),
    "suffix": (
        'start: "<" b /a*/\nb[max_tokens=2, suffix="/>"]: /[a>]*/',
        [(OPEN, some("[a>]*/>", 2), some("a*"))],
    ),
    "lazy": ('start: "<" b b\nb[lazy, max_tokens=2]: /a*[>\\/]/', [(OPEN, *[some("a*[>/]", 2)] * 2)]),
    "many": ('start: (b ">")*\nb[max_tokens=1]: /a+/', [(some("a+", 1), CLOSE) * count for count in range(7)]),
    "many without an end": (
        'start: "<" b* ">"\nb[max_tokens=1]: /[a\\/]*/',
        [(OPEN, *[some("[a/]*", 1)] * count, CLOSE) for count in range(5)],
    ),
    "side by side": (
        'start: b c\nb[max_tokens=2]: /a+/\nc[max_tokens=1]: /[a<]+/',
        [(some("a+", 2), some("[a<]+", 1))],
    ),
    "two ways": (
        'start: "<" (b ">" | c "/")\nb[max_tokens=1]: /[a\\/]+/\nc[max_tokens=2]: /a+/',
        [(OPEN, some("[a/]+", 1), CLOSE), (OPEN, some("a+", 2), Part(b"/"))],
    ),
    "after a terminal": ('start: A b\nA: /a+/\nb[max_tokens=2]: /[a>]+/', [(some("a+"), some("[a>]+", 2))]),
    "terminals": (
        'start: "<" b ">"\nb[max_tokens=3]: A ("/" A)*\nA: /a+/',
        [(OPEN, some("a+(/a+)*", 3), CLOSE)],
    ),
    "terminals or nothing": (
        'start: "<" b ">"\nb[max_tokens=2]: (A | "é")?\nA: /a+/',
        [(OPEN, some("a+|é|", 2), CLOSE)],
    ),
    "rules": (
        'start: "<" b\nb[max_tokens=3]: c\nc: "/" c ">" | A\nA: /a+/',
        [(OPEN, some("a+|/a+>|//a+>>", 3))],
    ),
    "a rule inside and outside": (
        'start: c b\nb[max_tokens=2]: c "<"\nc: A ">"\nA: /a+/',
        [(some("a+"), CLOSE, some("a+><", 2))],
    ),
    "ignored": (
        'start: "<" b ">"\nb[max_tokens=2]: A\nA: /a+/\n%ignore "/"',
        [(SKIPPED, OPEN, SKIPPED, some("a+", 2), SKIPPED, CLOSE, SKIPPED)],
    ),
    "ignored inside": (
        'start: "<" b ">"\nb[max_tokens=2]: A "é"?\nA: /a/\n%ignore "/"',
        [(SKIPPED, OPEN, SKIPPED, some("a(/*é)?", 2), SKIPPED, CLOSE, SKIPPED)],
    ),
    "with numbers": (
        'start: p::0\np::_[max_tokens=2]: "<" "a"{1,3} ">" %if bit_clear(0) | "/"',
        [(some("<a{1,3}>|/", 2),)],
    ),
}  # fmt: skip
NESTED = 'start: "<" start ">" | b\nb[max_tokens=2]: /[a\\/]*/'


def automaton_of(grammar: str, vocabulary: Vocabulary = VOCABULARY, **settings: Any) -> CountedAutomaton:
    automaton = compile(constrained.lark(grammar, **settings), vocabulary)
    assert isinstance(automaton, CountedAutomaton)
    return automaton


@pytest.mark.ci
@pytest.mark.parametrize(
    ("case", "lexer"),
    [
        *((case, "contextual") for case in [*CASES][::3]),
        *(pytest.param(case, "contextual", marks=pytest.mark.ci) for case in [*CASES][1::3] + [*CASES][2::3]),
        *(pytest.param(case, "dynamic", marks=pytest.mark.ci) for case in CASES),
        ("terminals", "basic"),
    ],
)
def test_masks_are_those_of_the_judge(case: str, lexer: str) -> None:
    grammar, ways = CASES[case]
    check_masks(
        automaton_of(grammar, lexer=lexer), ways, case, length=4 if case == "many without an end" else 6
    )


@pytest.mark.parametrize("case", CASES)
def test_within_a_limit_of_the_whole_text_some_token_leads_to_the_end(case: str) -> None:
    check_limits(automaton_of(CASES[case][0]), case)


def test_a_rule_around_itself() -> None:
    ways = [(*[OPEN] * depth, some("[a/]*", 2), *[CLOSE] * depth) for depth in range(7)]
    check_masks(automaton_of(NESTED), ways, "nested")


def test_what_the_body_is_made_of() -> None:
    part = some("a{1,3}<", 2)
    for grammar, settings in (
        ("start: b\nb[max_tokens=2]: @it", {"embed": {"it": constrained.regex("a{1,3}<")}}),
        ('start: b\nb[max_tokens=2]: ("a"{1,3}) "<"', {}),
        ('%llguidance {}\nstart: b\nb[max_tokens=2]: C\nC: A & B\nA: /a+<?/\nB: /a{0,3}</ & ~"<"', {}),
    ):
        check_masks(automaton_of(grammar, **settings), [(part,)], grammar)


def texts(automaton: Any, vocabulary: Vocabulary, most: int) -> set[str]:
    """All texts of at most so many tokens."""
    found, states = set(), {automaton.start: {b""}}
    mask = automaton.new_mask()
    for _ in range(most + 1):
        after: dict[int, set[bytes]] = {}
        for state, read in states.items():
            automaton.fill_mask(state, mask)
            for token in unpack_ids(mask).tolist():
                if token in vocabulary.eos_ids:
                    found |= {data.decode() for data in read}
                else:
                    following = after.setdefault(automaton.next(state, token), set())
                    following |= {data + vocabulary.tokens[token] for data in read}
        states = after
    return found


def test_a_limit_without_effect_changes_no_text() -> None:
    for body in ("/[ab]{1,3}/", "A B?\nA: /a+/\nB: /[ab]/", '%json {"enum": ["a", 3]}'):
        grammar = 'start: ">" b ","?\nb{}: ' + body
        plain = texts(compile(constrained.lark(grammar.replace("{}", "")), BYTES), BYTES, 7)
        assert texts(automaton_of(grammar.replace("{}", "[max_tokens=30]"), BYTES), BYTES, 7) == plain


def test_the_lexer_cuts_inside_by_itself() -> None:
    grammar = 'start: "<" b ">"\nb[max_tokens=6]: (IF | NAME)+ \nIF: "if"\nNAME.2: /[a-z]{3}/\n%ignore " "'
    assert "<if abc>" in texts_of(grammar, ["<if abc>", "<ifabc>"])
    assert "<ifabc>" not in texts_of(grammar, ["<if abc>", "<ifabc>"])  # NAME has priority: ifa bc


def texts_of(grammar: str, candidates: list[str]) -> list[str]:
    automaton = automaton_of(grammar, BYTES)
    return [text for text in candidates if ends(automaton, text)]


def ends(automaton: Any, text: str) -> bool:
    states = automaton.walk(automaton.start, list(text.encode()))
    return len(states) == len(text) and automaton.accepts(states[-1])


def test_a_special_token_counts_as_one() -> None:
    texts_of_tokens = [*(bytes((byte,)) for byte in range(256)), b"", b""]
    vocabulary = Vocabulary(texts_of_tokens, [256], special={"<eos>": 256, "<|x|>": 257})
    automaton = compile(constrained.lark('start: "<" b\nb[max_tokens=3]: (/a/ | <|x|>)+ "!"'), vocabulary)
    tokens = [ord("<"), ord("a"), 257]
    states = automaton.walk(automaton.start, tokens)
    assert len(states) == 3
    mask = automaton.new_mask()
    automaton.fill_mask(states[-1], mask)
    assert unpack_ids(mask).tolist() == [ord("!")]


def test_captures_of_rules_with_a_limit() -> None:
    constraint = constrained.lark(
        'start: "<" b ">"\nb[capture, max_tokens=9]: name ("," name)*\nname[capture]: /[a-z]+/\n%ignore " "'
    )
    found = constrained.captures(constraint, "< ab, c >")
    assert {name: [part.text for part in parts] for name, parts in found.items()} == {
        "b": ["ab, c"],
        "name": ["ab", "c"],
    }
    constraint = constrained.lark(
        'start: b "!"\nb[capture, max_tokens=9, suffix="x", stop_capture="end"]: /[a-z]*/'
    )
    found = constrained.captures(constraint, "abx!")
    assert {name: [part.text for part in parts] for name, parts in found.items()} == {
        "b": ["ab"],
        "end": ["x"],
    }


REFUSED = [
    ("x[max_tokens=2]: y\ny[max_tokens=1]: /a/", UnsupportedConstraint, "line 3, column 3", "would count in both"),
    ("x[max_tokens=2]: /a/ x?", UnsupportedConstraint, "line 2, column 3", "would count in both"),
    ("x[max_tokens=0]: /a*/", InvalidConstraint, "line 2, column 14", "at least 1"),
    ("x[max_tokens]: /a*/", InvalidConstraint, "line 2, column 13", "a number of tokens expected"),
    ("x[max_tokens=1, max_tokens=2]: /a*/", InvalidConstraint, "line 2, column 17", "an attribute before"),
    ("x[max_tokens=2]: /a{3}/", UnsatisfiableConstraint, "line 2, column 3", "each text has at least 3 tokens, and the limit is 2"),
    ('x[max_tokens=1]: %json {"type": "object", "required": ["é"]}', UnsatisfiableConstraint, "line 2, column 3", "the texts are too many to count"),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "error", "place", "reason"), REFUSED)
def test_what_cannot_be_is_refused_at_its_place(
    rules: str, error: type[Exception], place: str, reason: str
) -> None:
    with pytest.raises(error) as caught:
        compile(constrained.lark("start: x\n" + rules), BYTES)
    problem = caught.value.problems[0]  # type: ignore[attr-defined]
    assert (problem.place, reason in problem.reason) == (place, True), problem


def test_only_so_many_limits_can_be_told_apart() -> None:
    rules = "\n".join(f"x{number}[max_tokens=2]: /a/" for number in range(14))
    grammar = "start: " + " ".join(f"x{number}" for number in range(14)) + "\n" + rules
    with pytest.raises(ConstraintTooLarge, match="at most 13 rules"):
        compile(constrained.lark(grammar), BYTES)


def test_a_rule_whose_only_text_is_empty_needs_no_count() -> None:
    automaton = compile(constrained.lark('start: "<" x ">"\nx[max_tokens=3]: ""'), BYTES)
    assert texts(automaton, BYTES, 3) == {"<>"}


def test_where_llguidance_differs() -> None:
    """It counts the token in front of the text too, and cuts a text where the limit is reached."""
    llguidance = pytest.importorskip("llguidance")

    class Tokens:
        eos_token_id, bos_token_id, special_token_ids = 256, None, [256]
        tokens = [bytes((byte,)) for byte in range(256)] + [b"<eos>"]

        def __call__(self, text: str | bytes) -> list[int]:
            return list(text.encode() if isinstance(text, str) else text)

    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokens()))

    def theirs(grammar: str, text: str) -> bool:
        matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
        for byte in text.encode():
            if not matcher.compute_bitmask()[byte // 8] >> byte % 8 & 1:
                return False
            matcher.consume_token(byte)
        return bool(matcher.is_accepting())

    def ours(grammar: str, text: str) -> bool:
        return ends(automaton_of(grammar, BYTES), text)

    body = "b[max_tokens=3]: /[a-z]+/"
    for text, expected in (("abc>", (True, True)), ("abcd>", (False, False))):
        assert (ours(f'start: b ">"\n{body}', text), theirs(f'start: b ">"\n{body}', text)) == expected
    for text, expected in (("<ab>", (True, True)), ("<abc>", (True, False)), ("<abcd>", (False, False))):
        grammar = f'start: "<" b ">"\n{body}'
        assert (ours(grammar, text), theirs(grammar, text)) == expected
    cut = 'start: "<" b ">"\nb[max_tokens=2]: %json {"type": "string"}'
    assert (ours(cut, '<"">'), theirs(cut, '<"">')) == (True, True)
    assert (ours(cut, '<"a>'), theirs(cut, '<"a>')) == (False, True)


def test_a_long_text_of_few_tokens() -> None:
    vocabulary = Vocabulary.from_bytes(
        [*(bytes((byte,)) for byte in range(256)), b"a" * 40, b"b" * 30, b"c" * 20, b"d" * 31, b""], [260]
    )
    automaton = automaton_of('start: "<" b ">"\nb[max_tokens=3]: /.{100}/', vocabulary)
    state, length = automaton.next(automaton.start, ord("<")), 0
    texts = set()
    for first in allowed(automaton, state):
        one = automaton.next(state, first)
        for second in allowed(automaton, one):
            two = automaton.next(one, second)
            for third in allowed(automaton, two):
                texts.add(tuple(sorted((first, second, third))))
                length = sum(len(vocabulary.tokens[token]) for token in (first, second, third))
                assert length == 100
                end = automaton.next(two, third)
                assert allowed(automaton, end) == [ord(">")]
    assert texts == {(256, 256, 258), (256, 257, 257)}
    with pytest.raises(UnsatisfiableConstraint, match="each text has at least 3 tokens"):
        automaton_of('start: "<" b ">"\nb[max_tokens=2]: /.{100}/', vocabulary)


def allowed(automaton: CountedAutomaton, state: int) -> list[int]:
    mask = automaton.new_mask()
    automaton.fill_mask(state, mask)
    return [int(token) for token in unpack_ids(mask)]
