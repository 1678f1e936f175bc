"""What llguidance adds to Lark's notation: the same texts as a plain definition says, and as llguidance itself accepts."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import constrained
from constrained.automaton import DEAD, compile
from constrained.errors import ConstraintTooLarge, InvalidConstraint, UnsupportedConstraint
from constrained.vocabulary import Vocabulary

BYTES = Vocabulary.from_bytes([bytes((byte,)) for byte in range(256)] + [b""], [256])


@dataclass(frozen=True)
class Case:
    """A grammar, and when a text is one of its texts.

    Attributes:
        letters: texts are made of these.
        means: says when; None: only llguidance does.
        length: of the longest, in letters.
    """

    grammar: str
    letters: tuple[str, ...]
    means: Callable[[str], Any] | None
    length: int = 5

    def texts(self) -> list[str]:
        words = (itertools.product(self.letters, repeat=n) for n in range(self.length + 1))
        return list(dict.fromkeys("".join(word) for words_of in words for word in words_of))


def permutation(text: str, letters: str) -> bool:
    return sorted(text) == sorted(letters)


def read_calls(text: str) -> bool:
    """Free text in which ``<f`` begins a call, by hand."""
    while "<f" in text:
        text = text[text.index("<f") + 2 :]
        if (call := re.match("=a>!|=b>[01]!", text)) is None:
            return False
        text = text[call.end() :]
    return True


def joined(chunks: list[str]) -> Callable[[str], Any]:
    """Whether a text is some consecutive chunks and a mark."""
    found = {"".join(chunks[i:j]) + "!" for i in range(len(chunks) + 1) for j in range(i, len(chunks) + 1)}
    return found.__contains__


CASES = {
    "lazy": Case('start: x "b"\nx[lazy]: /[ab<>]*<>/', ("a", "b", "<>", "<"), re.compile("(?:(?!<>)[ab<>])*<>b").fullmatch),
    "lazy, made of terminals": Case('start: x "!"\nx[lazy]: A+ B\nA: "a" | "b"\nB: "b"', ("a", "b", "!"), re.compile("[ab]a*b!").fullmatch),
    "suffix": Case('start: x "b"\nx[suffix="<>"]: /[ab<>]*/', ("a", "b", "<>", "<"), re.compile("(?:(?!<>)[ab<>])*<>b").fullmatch),
    "suffix, a regular expression": Case('start: x "!"\nx[suffix=/[0-9]+/]: /.*/', ("a", "1", "!"), re.compile("[^0-9]*[0-9]!").fullmatch),
    "suffix, a terminal": Case('start: x "!"\nx[suffix=END]: /[^!]*/\nEND: "aa"i', ("a", "A", "!", "b"), re.compile("(?:(?!aa)[aAb])*aa!", re.IGNORECASE).fullmatch),
    "stop": Case('start: x "b"\nx[stop="<>"]: /[ab<>]*/', ("a", "b", "<>"), re.compile("(?:(?!<>)[ab<>])*<>b").fullmatch),
    "the earlier ending wins": Case(
        'start: x "1" | y "2"\nx[suffix="<a>"]: /[^12]*/\ny[suffix="<b>"]: /[^12]*/', ("<a>", "<b>", "1", "2"), re.compile("<a>1|<b>2").fullmatch, 4
    ),
    "an early ending wins over a longer match": Case('start: (x "1" | Y "2")\nx[lazy]: /a*b/\nY: /[ab]+/', ("a", "b", "1", "2"), re.compile("a*b1|a+2").fullmatch),
    "free text with calls": Case(
        '%llguidance {}\nstart: (f | g)* TEXT\nTEXT: /(.|\\n)*/\nf_head[lazy]: TEXT "<f"\nf: f_head "=a>!"\n'
        'g_head[lazy]: TEXT "<f"\ng: g_head "=b>" /[01]/ "!"',
        ("<f", "=a>", "=b>", "!", "0"), read_calls,
    ),
    "and": Case("start: A\nA: /[ab]*/ & /b*a?/ & /..*/", ("a", "b"), re.compile("(?=.)b*a?").fullmatch),
    "and before or": Case('start: A\nA: "a" /b*/ & /[ab]{2,3}/ | "b"', ("a", "b"), re.compile("abb?|b").fullmatch),
    "not": Case("start: A\nA: /[a-c]+/ & ~/(?s:.*)ab(?s:.*)/", ("a", "b", "c"), re.compile("(?:(?!ab)[a-c])+").fullmatch),
    "not before a count": Case('start: A\nA: "a" ~"b"+ & /[ab]{2,4}/', ("a", "b"), re.compile("a(?!b$)[ab]{1,3}").fullmatch),
    "not of a group": Case('start: A\nA: ~("a" | "b" "b"*) & /[ab]*/', ("a", "b"), re.compile("(?!a$|b+$)[ab]*").fullmatch),
    "not of not": Case('start: A "!"\nA: ~(~"ab") & /[ab]*/', ("a", "b", "!"), re.compile("ab!").fullmatch),
    "counts": Case('start: "a"{2} "b"{1,2} "c"{,2} "d"{1,}', ("a", "b", "c", "d"), re.compile("aab{1,2}c{0,2}d+").fullmatch, 7),
    "an empty literal": Case('%llguidance {}\nstart: "a" ("" | "b")', ("a", "b"), re.compile("ab?").fullmatch),
    "permutations": Case(
        'start: perm::0x0\nperm::_: "" %if is_ones([0:3])\n | "a" perm::set_bit(0) %if bit_clear(0)\n'
        ' | "b" perm::set_bit(1) %if bit_clear(1)\n | "c" perm::set_bit(2) %if bit_clear(2)',
        ("a", "b", "c"), lambda text: permutation(text, "abc"),
    ),
    "each at least once": Case(
        'start: each::0\neach::_: "" %if is_ones([0:2])\n | "a" each::set_bit(0)\n | "b" each::set_bit(1)',
        ("a", "b"), lambda text: set(text) == {"a", "b"}, 7,
    ),
    "counted together": Case(
        'start: aa::0\naa::_: "b" aa::incr(_) %if lt(_, 4)\n | bb::_\nbb::_: "a" bb::incr(_) %if lt(_, 4)\n | ""',
        ("a", "b"), re.compile("(?=.{0,4}$)b*a*").fullmatch, 6,
    ),
    "one to three of five": Case(
        'start: some::0\nsome::_: "" %if bit_count_ge(_, 1)\n'
        + "\n".join(
            f' | "{letter}" some::set_bit({bit}) %if and(bit_clear({bit}), bit_count_lt(_, 3))' for bit, letter in enumerate("abcde")
        ),
        tuple("abcde"), lambda text: 1 <= len(text) <= 3 and len({*text}) == len(text), 4,
    ),
    "chunks": Case('start: A "!"\nA: %regex {"substring_chunks": ["ab", "c", "", "ab"]}', ("ab", "c", "a", "b", "!"), joined(["ab", "c", "ab"])),
    "words": Case('start: A "!"\nA: %regex {"substring_words": "foo bar.. "}', ("foo", " ", "bar", ".", "..", "!", "f"), joined(["foo", " ", "bar", "..", " "])),
    "words of many scripts": Case(
        """start: A "!"\nA: %regex {"substring_words": "a-b'c_d é1 \\n中½z\\u0301"}""",
        ("a", "-", "'c_d", "c", "_", "é1", "é", "1", " ", "\n", "中½z", "中", "½", "z", "\u0301", "!"),
        joined(["a", "-", "b", "'", "c_d", " ", "é1", " \n", "中½z", "\u0301"]), 3,
    ),
    "characters": Case('start: A "!"\nA: %regex {"substring_chars": "abca"}', ("a", "b", "c", "!"), joined([*"abca"])),
    "an empty document": Case('start: A "!"\nA: %regex {"substring_words": ""} | "b"', ("a", "b", "!"), re.compile("b?!").fullmatch),
    "a document and a pattern": Case('start: A "!"\nA: %regex {"substring_chars": "aabb"} & /a*b+/', ("a", "b", "!"), re.compile("(a|aa)?bb?!").fullmatch),
    "a document in a rule": Case('start: ("[" %regex {"substring_words": "a b"} "]")+', ("a", "b", " ", "[", "]"), re.compile(r"(\[(a( b?)?| b?|b)?\])+").fullmatch),
    "a document in a lazy rule": Case('start: x "!"\nx[lazy]: %regex {"substring_words": "a b a"} "b"', ("a", "b", " ", "!"), re.compile("(a?| | a|a )b!").fullmatch),
    "other functions": Case(
        'start: down::3\ndown::_: "a" down::decr([0:2]) %if not(is_zeros([0:2]))\n'
        ' | "b" down::bit_and(1) %if or(eq([0:4], 2), eq(_, 3))\n | "c" down::bit_or(0x4) %if and(lt(_, 4), bit_clear(2))\n'
        ' | "d" end::clear_bit(2) %if ge(_, 4)\nend::_: "" %if le(_, 1)\n | "e" %if and(gt(_, 1), and(ne(_, 3), true))',
        tuple("abcde"), None,  # by llguidance alone
        5,
    ),
}  # fmt: skip


def ours(grammar: str) -> Callable[[str], bool]:
    automaton = compile(constrained.lark(grammar), BYTES)

    def accepts(text: str) -> bool:
        state = automaton.start
        for byte in text.encode():
            state = automaton.next(state, byte)
        return state != DEAD and automaton.accepts(state)

    return accepts


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.means])
def test_the_texts_are_those_of_a_plain_definition(name: str) -> None:
    case = CASES[name]
    accepts = ours(case.grammar)
    texts = case.texts()
    assert case.means is not None
    assert [text for text in texts if accepts(text)] == [text for text in texts if case.means(text)]


def llguidance_bytes(llguidance: Any) -> Any:
    """Its tokenizer with a token a byte, and an end."""

    class Tokens:
        eos_token_id, bos_token_id, special_token_ids = 256, None, [256]
        tokens = [bytes((byte,)) for byte in range(256)] + [b"<eos>"]

        def __call__(self, text: str | bytes) -> list[int]:
            return list(text.encode() if isinstance(text, str) else text)

    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokens()))


@pytest.mark.parametrize("name", CASES)
def test_llguidance_accepts_the_same_texts(name: str) -> None:
    llguidance = pytest.importorskip("llguidance")
    case = CASES[name]
    first = llguidance.LLMatcher(llguidance_bytes(llguidance), case.grammar, log_level=0)
    assert not first.is_error(), first.get_error()
    accepts = ours(case.grammar)
    texts = case.texts()[:1500]

    def theirs(text: str) -> bool:
        matcher = first.deep_copy()
        read = matcher.try_consume_tokens(list(text.encode()))
        return bool(read == len(text.encode()) and matcher.is_accepting())

    found = [text for text in texts if theirs(text)]
    assert found
    assert [text for text in texts if accepts(text)] == found


def test_a_stop_that_is_written_again_is_read_once() -> None:
    # llguidance 1.9.1 panics here; its documentation says that the text is "foo<>".
    accepts = ours('start: x "<>" "b"\nx[stop="<>"]: /[ab<>]*/')
    assert accepts("ab<>b")
    assert not accepts("ab<><>b")


def test_a_complement_holds_whole_characters() -> None:
    # llguidance's holds invalid UTF-8 too.
    automaton = compile(constrained.lark('start: A\nA: ~"b"'), BYTES)
    assert automaton.next(automaton.start, 0xFF) == DEAD
    assert automaton.next(automaton.start, "é".encode()[0]) != DEAD


REFUSED = [
    ('start: x\nx[temperature=0.5]: /a*/', UnsupportedConstraint, "line 2, column 3", "temperature changes how tokens are drawn, by how a lexer has cut the text so far"),
    ('start: x\nx[stop="", lazy]: /a*/', UnsupportedConstraint, "line 2, column 8", "an empty ending"),
    ('start: x\nx[eager]: /a*/', InvalidConstraint, "line 2, column 3", "unknown attribute eager"),
    ('start: x\nx[lazy, lazy]: /a/', InvalidConstraint, "line 2, column 9", "an attribute before"),
    ('start: x\nx[suffix]: /a/', InvalidConstraint, "line 2, column 9", "= and a terminal expected"),
    ('start: x\nx[lazy: /a/', InvalidConstraint, "line 2, column 7", ", or ] expected"),
    ('start: x\nx[lazy]: y\ny: "a"', InvalidConstraint, "line 2, column 10", "a terminal cannot be made of the rule y"),
    ('start: x\nx[lazy]: /a*/', InvalidConstraint, "line 2, column 1", "the terminal x matches the empty string"),
    ('start: "a" & "b"', InvalidConstraint, "line 1, column 12", "& joins terminals, not rules"),
    ('start: A\nA: & "b"', InvalidConstraint, "line 2, column 4", "nothing stands before the &"),
    ('start: A\nA: "b" ~', InvalidConstraint, "line 2, column 8", "~ of nothing"),
    ('start: A\nA: /a*?b/ & /.*/', UnsupportedConstraint, "line 2, column 1", "a lazy loop beside & or ~"),
    ('start: %regex', InvalidConstraint, "line 1, column 14", "JSON expected after %regex"),
    ('start: %regex 3', InvalidConstraint, "line 1, column 8", "%regex takes an object"),
    ('start: A\nA: %regex {}', InvalidConstraint, "line 2, column 4", "%regex with 0 keys"),
    ('start: %regex {"type": "number"}', InvalidConstraint, "line 1, column 8", "unknown key 'type' of %regex"),
    ('start: %regex {"substring_words": ["a"]}', InvalidConstraint, "line 1, column 8", "substring_words takes a string"),
    ('start: %regex {"substring_chunks": ["a", 1]}', InvalidConstraint, "line 1, column 8", "substring_chunks takes a list of strings"),
    ('start: %regex {"substring_chars": "a\\ud800"}', InvalidConstraint, "line 1, column 8", "half of a surrogate pair: character 1"),
    ('start: p::2\np::_: "a" p::set_bit(64) %if true', InvalidConstraint, "line 2, column 22", "bits are numbered"),
    ('start: p::2\np::_: "a" %if maybe(_)', InvalidConstraint, "line 2, column 15", "a condition expected"),
    ('start: p::_\np::_: "a"', InvalidConstraint, "line 1, column 8", "the rule start has no number"),
    ('start: p\np::_: "a"', InvalidConstraint, "line 1, column 8", "p takes a number"),
    ('start: p::0\np: "a"', InvalidConstraint, "line 1, column 8", "p takes no number"),
    ('start: p::0\np::_: "a" p::incr(_) | "b"', ConstraintTooLarge, "line 2, column 11", "parameters become more than"),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "error", "place", "reason"), REFUSED)
def test_what_cannot_be_enforced_is_refused_at_its_place(
    grammar: str, error: type[Exception], place: str, reason: str
) -> None:
    with pytest.raises(error) as caught:
        ours(grammar)
    problem = caught.value.problems[0]  # type: ignore[attr-defined]
    assert (problem.place, reason in problem.reason) == (place, True), problem


def test_deep_and_large_grammars_are_refused_in_time() -> None:
    deep = "start: A0\n" + "\n".join(f'A{i}: ~A{i + 1} & "b"' for i in range(400)) + '\nA400: "a"'
    with pytest.raises(ConstraintTooLarge, match="deep"):
        ours(deep)
    nested = "not(" * 500 + "true" + ")" * 500
    with pytest.raises(InvalidConstraint, match="nested too deeply"):
        ours(f'start: p::0\np::_: "a" %if {nested}')


def test_a_tree_of_such_a_grammar_is_refused() -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        constrained.lark("start: x\nx[lazy]: /a*b/", value="tree")
    assert caught.value.problems[0].place == "x[lazy]"


TEMPERATURES = [
    ("start: c a\na[temperature=0.7]: /[a-z]+/\nc: /[0-9]+/", "3ab", [0, 0, 0.7]),
    ("start: a | b\na[temperature=0.7]: /x[a-z]*/\nb[temperature=0.2]: /y[a-z]*/", "yab", [0.7] * 3),
    ('start: a "!?" c\na[temperature=0.7]: /[a-z]+/\nc: /[0-9]+/', "ab!?12", [0.7] * 6),
    ("start: a b\na[temperature=0.7]: /[a-z]*/\nb[temperature=0.2]: /[0-9]+/", "ab12", [0.2] * 4),
    ('start: b a "!"\na[temperature=0]: /[a-z]+/\nb[temperature=0.7]: /[0-9]/', "3ab!", [0.7] * 4),
]


@pytest.mark.parametrize(("grammar", "text", "temperatures"), TEMPERATURES)
def test_temperatures_of_rules_follow_llguidances_lexer(
    grammar: str, text: str, temperatures: list[float]
) -> None:
    """The table of docs/constraints.md: why they are refused here."""
    with pytest.raises(UnsupportedConstraint, match="temperature"):
        compile(constrained.lark(grammar), BYTES)
    llguidance = pytest.importorskip("llguidance")
    interpreter = llguidance.LLInterpreter(
        llguidance_bytes(llguidance),
        json.dumps({"grammars": [{"lark_grammar": grammar}]}),
        enable_backtrack=False,
        enable_ff_tokens=False,
        log_level=0,
    )
    interpreter.start_without_prompt()
    found = []
    for byte in text.encode():
        _, told = interpreter.compute_mask()
        found.append(json.loads(told)["temperature"])
        interpreter.commit_token(byte)
    assert found == pytest.approx(temperatures)
