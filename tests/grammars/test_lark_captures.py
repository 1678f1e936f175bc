"""What rules with `[capture]` have read: against llguidance, Lark's trees, and a naive search of all readings."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from lark import Lark, Tree

import constrained
from constrained.automaton import compile
from constrained.automaton.captures import captures, scanner, token_captures
from constrained.decoding import Generator
from constrained.errors import ConstraintTooLarge, InvalidArgument, InvalidConstraint, UnsupportedConstraint
from constrained.testing import ScriptedModel
from constrained.vocabulary import Vocabulary

Pairs = list[tuple[str, str]]

CASES: list[tuple[str, str, Pairs]] = [  # a grammar, a text that it derives in one way, and what llguidance 1.9.1 captures
    ('start: a "," b\na[capture]: /[a-z]+/\nb[capture="bee"]: /[0-9]+/', "abc,12", [("a", "abc"), ("bee", "12")]),
    ('start: (a ",")*\na[capture]: b b\nb[capture]: /[a-z]/', "ab,cd,", [("b", "a"), ("b", "b"), ("a", "ab"), ("b", "c"), ("b", "d"), ("a", "cd")]),
    ('start[capture]: a "x"\na[capture]: c?\nc[capture]:"c"', "x", [("a", ""), ("start", "x")]),
    ('start: e\ne[capture]: e "+" t | t\nt[capture]: /[0-9]/', "1+2+3", [("t", "1"), ("e", "1"), ("t", "2"), ("e", "1+2"), ("t", "3"), ("e", "1+2+3")]),
    ('start: t\nt[capture]: "(" t? ")"', "((()))", [("t", "()"), ("t", "(())"), ("t", "((()))")]),
    ('start: x y\nx[capture="n"]: "é"\ny[capture="n"]: "b"', "éb", [("n", "é"), ("n", "b")]),
    ('start: a*\na[capture]: "a" | "aa"', "aaa", [("a", "aa"), ("a", "a")]),
    ("start: x y\nx[capture]: A\ny[capture]: A?\nA: /a+/", "aaa", [("x", "aaa"), ("y", "")]),
    ('start: x | y\nx[capture]: "a" "b"\ny[capture]: "ab"', "ab", [("y", "ab")]),
    ('start: x "b"\nx[capture,suffix="<>"]: /[ab<>]*/', "ab<>b", [("x", "ab")]),
    ('start[capture]: x "b"\nx[capture,suffix=/<+>/,stop_capture="end"]: /[ab]*/', "ab<<>b", [("end", "<<>"), ("x", "ab"), ("start", "ab<<>b")]),
    ('start[capture]: x "b"\nx[capture,lazy]: /[ab<>]*<>/', "ab<>b", [("x", "ab<>"), ("start", "ab<>b")]),
    ('start: x "b"\nx[suffix=END,stop_capture="end"]: /[ab]*/\nEND: "<" | ">"', "ab>b", [("end", ">")]),
    ('start: TEXT x\nTEXT: /[^{]*/\nx[capture]: %json {"type":"object"}', 'hi {"a": {"b": 1}}', [("x", '{"a": {"b": 1}}')]),
    ('?start: x\n?x[capture]: "a"', "a", [("x", "a")]),
]  # fmt: skip
OURS: list[tuple[str, str, Pairs]] = [  # llguidance also gives readings that lead nowhere, and ignored text in front of a part
    ('?start: x\n!x.2[capture]: "a"', "a", [("x", "a")]),
    ('start: x "!"\nx[capture]: %regex {"substring_words": "foo bar"}', "foo bar!", [("x", "foo bar")]),
    ('start: a b\na[capture]: "a"*\nb[capture]: "a"*', "aaa", [("a", "aaa"), ("b", "")]),
    ('start: a? b\na[capture]: "a"\nb[capture]: "a"*', "aaa", [("a", "a"), ("b", "aa")]),
    ('start: x\nx[capture]: y | z\ny[capture]: "a" | "b"\nz[capture]: "a"', "a", [("y", "a"), ("x", "a")]),
    ('start: x\nx[capture]: z | y\ny[capture]: "a" | "b"\nz[capture]: "a"', "a", [("z", "a"), ("x", "a")]),
    ('start: a "b" | "a" c\na[capture]: "a"\nc[capture]: "b"', "ab", [("a", "a")]),
    ('start: a ";" b\na[capture]: ID ID\nb[capture]: ID\nID: /[a-z]/\n%ignore " "', " a  b ;  c ", [("a", "a  b"), ("b", "c")]),
    ('start[capture]: x "b"\nx[capture,stop="<>",stop_capture="end"]: /[ab<>]*/', "ab<>b", [("end", "<>"), ("x", "ab"), ("start", "ab<>b")]),
    ('start: p::0\np::_[capture]: "a" p::incr(_) %if lt(_, 2) | ""', "aa", [("p", ""), ("p", "a"), ("p", "aa")]),
    ('start: a\na[capture]: a | "x"', "x", [("a", "x")]),
    ('start: a\na[capture]: b | "x"\nb[capture]: a | "xx" |', "x", [("a", "x")]),
    ('start: a{2,3} "."\na[capture]: "b"?', "bb.", [("a", "b"), ("a", "b")]),
    ('start: a ~ 2 "."\na[capture]: "b"?', "b.", [("a", "b"), ("a", "")]),
    ('start: t x "."\nt[capture]: TEXT\nTEXT: /(.|\\n)*/\nx[capture]: %json {"type":"object"}', 'he{llo {"a": {"b": 1}}.', [("t", "he{llo "), ("x", '{"a": {"b": 1}}')]),
    ('start: (f "=" x ";")*\nf[capture]: /[a-z]+/\nx[capture]: %json {"type":"integer"}\n%ignore " "', "ab =12; c= 4 ;", [("f", "ab"), ("x", "12"), ("f", "c"), ("x", "4")]),
]  # fmt: skip


def found(grammar: str, text: str, **settings: Any) -> Pairs:
    """Names and texts, in the order in which the parts end; inner parts first."""
    parts = [
        (part.end, -part.start, number, name, part.text)
        for name, listed in captures(constrained.lark(grammar, **settings), text).items()
        for number, part in enumerate(listed)
        if part.text == text[part.start : part.end]
    ]
    return [(name, part) for *_, name, part in sorted(parts, key=lambda one: one[:3])]


@pytest.mark.parametrize(("grammar", "text", "expected"), [*CASES, *OURS])
def test_parts_of_a_text(grammar: str, text: str, expected: Pairs) -> None:
    assert sorted(found(grammar, text)) == sorted(expected)
    names = {name for name, _ in expected}
    listed = captures(constrained.lark(grammar), text)
    assert {name: [part.text for part in parts] for name, parts in listed.items()} == {
        name: [part for one, part in expected if one == name] for name in names
    }


@pytest.mark.parametrize(("grammar", "text", "expected"), CASES)
def test_llguidance_captures_the_same(grammar: str, text: str, expected: Pairs) -> None:
    llguidance = pytest.importorskip("llguidance")

    class Tokens:
        def __init__(self) -> None:
            self.eos_token_id, self.bos_token_id, self.special_token_ids = 256, None, [256]
            self.tokens = [*(bytes((byte,)) for byte in range(256)), b"<eos>"]

        def __call__(self, text: str | bytes) -> list[int]:
            return list(text.encode() if isinstance(text, str) else text)

    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokens()))
    matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    assert matcher.try_consume_tokens(list(text.encode())) == len(text.encode())
    matcher.consume_token(256)
    assert [(name, part.decode()) for name, part in matcher.get_captures()] == expected


LARK_GRAMMARS = [
    (
        """
        start: statement*
        statement@: NAME "=" sum ";" | "print" "(" [sum ("," sum)*] ")" ";"
        sum@: product | sum "+" product | sum "-" product
        product@: atom | product "*" atom
        atom@: NUMBER | NAME | "-" atom | "(" sum ")" | call
        call@: NAME "(" sum? ")"
        NAME: /[a-z]+/
        NUMBER: /[0-9]+/
        %ignore /[ \\n]+/
        """,
        ["a = 1 ;", "x=1+2*(3 - y) ;\nprint( x,-f(2), g() );", " print();  b = f(1*2)*3-4;", ""],
    ),
    (
        """
        start: value
        value@: object | array | STRING | NUMBER | "true"
        object@: "{" [pair ("," pair)*] "}"
        pair@: STRING ":" value
        array@: "[" [value ("," value)*] "]"
        STRING: /"[^"]*"/
        NUMBER: /-?[0-9]+/
        %ignore " "
        """,
        ['{"a": [1, 2, {"b" :true}], "é" : {} }', "[ ]", " [[1],[[-2 ]]] "],
    ),
]


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("number", range(len(LARK_GRAMMARS)))
def test_parts_are_the_subtrees_of_larks_tree(number: int, lexer: Any) -> None:
    written, texts = LARK_GRAMMARS[number]
    parser = Lark(
        written.replace("@", ""),
        parser="lalr",
        lexer=lexer,
        propagate_positions=True,
        maybe_placeholders=False,
    )
    # Lark knows nothing of rules that begin with white space before their colon.
    grammar = "\n".join(line.strip() for line in written.replace("@", "[capture]").splitlines())
    for text in texts:
        expected = [
            (str(tree.data), tree.meta.start_pos, tree.meta.end_pos)
            for tree in parser.parse(text).iter_subtrees()
            if isinstance(tree, Tree) and tree.data != "start" and not tree.meta.empty
        ]
        listed = captures(constrained.lark(grammar, lexer=lexer), text)
        mine = [(name, part.start, part.end) for name, parts in listed.items() for part in parts]
        assert sorted(mine) == sorted(expected), text
        assert all(text[part.start : part.end] == part.text for parts in listed.values() for part in parts)


# ------------------------------------------------------------ a naive search of all readings

Node = tuple[
    Any, ...
]  # ("text", text), ("all", nodes), ("one of", nodes), ("times", node, low, high), ("rule", index)


def random_node(rng: random.Random, rule: int, rules: int, depth: int) -> Node:
    """An expression that calls later rules only."""
    kind = rng.choice(["text", "rule"] if depth == 0 else ["text", "all", "one of", "times", "rule", "rule"])
    if kind == "rule" and rule + 1 < rules:
        return ("rule", rng.randrange(rule + 1, rules))
    if kind in ("all", "one of"):
        return (kind, tuple(random_node(rng, rule, rules, depth - 1) for _ in range(rng.randrange(1, 4))))
    if kind == "times":
        low = rng.randrange(3)
        return (kind, random_node(rng, rule, rules, depth - 1), low, rng.choice([low, low + 1, 3, 3]))
    return ("text", rng.choice(["a", "b", "ab", "ba", "aa"]))


def written(node: Node) -> str:
    if node[0] == "text":
        return json.dumps(node[1])
    if node[0] == "rule":
        return f"r{node[1]}"
    if node[0] == "times":
        return f"({written(node[1])}) ~ {node[2]}..{node[3]}"
    return f"({(' ' if node[0] == 'all' else ' | ').join(map(written, node[1]))})"


class Judge:
    """The reading that is taken, by its definition: no chart, every place is tried."""

    def __init__(self, rules: list[Node], text: str) -> None:
        self.rules = rules
        self.text = text
        self.reads = cache(self._reads)

    def _reads(self, node: Node, start: int, end: int) -> bool:
        if node[0] == "text":
            return self.text[start:end] == node[1]
        if node[0] == "rule":
            return self.reads(self.rules[node[1]], start, end)
        if node[0] == "one of":
            return any(self.reads(part, start, end) for part in node[1])
        if node[0] == "all":
            first, *rest = node[1]
            if not rest:
                return self.reads(first, start, end)
            return any(
                self.reads(first, start, at) and self.reads(("all", tuple(rest)), at, end)
                for at in range(start, end + 1)
            )
        _, part, low, high = node
        if low <= 0 and start == end:
            return True
        return high > 0 and any(
            self.reads(part, start, at) and self.reads(("times", part, low - 1, high - 1), at, end)
            for at in range(start, end + 1)
        )

    def parts(self, node: Node, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        if node[0] == "rule":
            yield from self.parts(self.rules[node[1]], start, end)
            yield f"r{node[1]}", start, end
        elif node[0] == "one of":
            part = next(part for part in node[1] if self.reads(part, start, end))
            yield from self.parts(part, start, end)
        elif node[0] in ("all", "times"):
            if node[0] == "all":
                (part, *others), rest = node[1], None
                rest = ("all", tuple(others)) if others else None
            else:
                if start == end and node[2] <= 0:
                    return
                part, rest = node[1], ("times", node[1], node[2] - 1, node[3] - 1)
            for at in range(end, start - 1, -1):
                last = rest is None and at == end
                if self.reads(part, start, at) and (last or (rest and self.reads(rest, at, end))):
                    yield from self.parts(part, start, at)
                    if rest:
                        yield from self.parts(rest, at, end)
                    return


@pytest.mark.parametrize("seed", range(60))
def test_of_several_readings_one_is_taken(seed: int) -> None:
    rng = random.Random(seed)
    texts = ["".join(letters) for size in range(8) for letters in itertools.product("ab", repeat=size)]
    judges: list[Judge] = []
    while not judges:
        rules = [random_node(rng, rule, 4, 2) for rule in range(4)]
        judges = [judge for text in texts if (judge := Judge(rules, text)).reads(("rule", 0), 0, len(text))]
    grammar = "\n".join(f"r{rule}[capture]: {written(node)}" for rule, node in enumerate(rules))
    constraint = constrained.lark(grammar, start="r0", lexer="dynamic")
    for judge in judges:
        text = judge.text
        listed = captures(constraint, text)
        expected: dict[str, list[tuple[int, int]]] = {}
        for name, start, end in judge.parts(("rule", 0), 0, len(text)):
            expected.setdefault(name, []).append((start, end))
        assert {
            name: [(part.start, part.end) for part in parts] for name, parts in listed.items()
        } == expected, (
            grammar,
            text,
        )


# ------------------------------------------------------------ tokens, outputs, errors

SPECIAL = {"<eos>": 256, "<think>": 257, "</think>": 258, "[X]": 259}
VOCABULARY = Vocabulary(
    [*(bytes((byte,)) for byte in range(256)), b"", b"", b"", b""], [256], special=SPECIAL
)


def test_special_tokens_in_parts() -> None:
    constraint = constrained.lark("start: t x\nt[capture]: <think> /[^<]*/ </think>\nx[capture]: /.+/")
    text = "<think>héy</think>a<b"
    listed = captures(constraint, text)
    assert [(part.text, part.start, part.end) for part in listed["t"]] == [("<think>héy</think>", 0, 18)]
    assert [(part.text, part.start, part.end) for part in listed["x"]] == [("a<b", 18, 21)]
    automaton = compile(constraint, VOCABULARY)
    assert token_captures(automaton, [257, *"héy".encode(), 258, *b"a<b"]) == listed


def test_tokens_by_number_are_found_by_their_tokens() -> None:
    constraint = constrained.lark("start: t /a/\nt[capture]: <[258-259]>")
    automaton = compile(constraint, VOCABULARY)
    assert [part.text for part in token_captures(automaton, [259, 97])["t"]] == ["[X]"]
    with pytest.raises(UnsupportedConstraint, match=r"<\[258-259\]>"):
        captures(constraint, "[X]a")


def test_parts_of_an_output() -> None:
    constraint = constrained.lark('start: key "=" value\nkey[capture]: /[a-z]+/\nvalue[capture]: /[0-9]+/')
    output = Generator(ScriptedModel(VOCABULARY, "ab=12"), constraint)("p")
    assert {name: [part.text for part in parts] for name, parts in output.captures.items()} == {
        "key": ["ab"],
        "value": ["12"],
    }


def test_constraints_without_captures_have_none() -> None:
    assert captures(constrained.regex("a*"), "aa") == {}
    assert captures(constrained.lark('start: "a"'), "a") == {}
    assert captures(constrained.lark("start: x?\nx[capture]: /a/"), "") == {}


def test_predicates_keep_the_captures() -> None:
    constraint = constrained.lark("start: x\nx[capture]: /a+/") & constrained.predicate(lambda text: True)
    assert [part.text for part in captures(constraint, "aa")["x"]] == ["aa"]


REFUSED = [
    ('start[capture=a]: "x"', "line 1, column 15", "the name of a capture expected"),
    ('start[capture=""]: "x"', "line 1, column 15", "the name of a capture expected"),
    ('start[capture, capture="b"]: "x"', "line 1, column 16", "an attribute before"),
    ('start: x\nx[lazy, stop_capture="e"]: /a/', "line 2, column 9", "stop_capture without suffix or stop"),
    ('start: x\nx[suffix="b", stop_capture]: /a/', "line 2, column 27", "= and a name expected after stop_capture"),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "place", "reason"), REFUSED)
def test_malformed_captures(grammar: str, place: str, reason: str) -> None:
    with pytest.raises(InvalidConstraint) as caught:
        captures(constrained.lark(grammar), "x")
    problem = caught.value.problems[0]
    assert (problem.place, reason in problem.reason) == (place, True), problem


def test_a_text_that_is_not_allowed_is_an_error() -> None:
    with pytest.raises(InvalidArgument, match="does not allow the text"):
        captures(constrained.lark("start: x\nx[capture]: /a+/"), "ab")


def test_a_tree_has_no_captures() -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        constrained.lark("start: x\nx[capture]: /a+/", value="tree")
    assert caught.value.problems[0].place == "x[capture]"


@pytest.mark.ci
def test_long_texts_are_read_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = captures(
        constrained.lark('start: (e ";")*\ne[capture]: e "+" t | t\nt: /[0-9]/'), "1+2+3;" * 2_000
    )
    assert len(listed["e"]) == 6_000
    monkeypatch.setattr(scanner, "MAX_STEPS", 100_000)
    deep = constrained.lark("start: s\ns[capture]: s s | /a/", lexer="dynamic")
    with pytest.raises(ConstraintTooLarge, match="too long to find"):
        captures(deep, "a" * 1_000)
