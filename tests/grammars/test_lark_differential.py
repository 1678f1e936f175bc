"""Whole texts of real grammars: python-lark itself is the judge of what is cut and parsed how."""

from __future__ import annotations

import itertools
import random

import lark
import pytest

from constrained.automaton import DEAD, LexerAutomaton
from constrained.errors import UnsatisfiableConstraint
from constrained.grammars import ir
from constrained.grammars.lexer import LexerGrammar
from constrained.grammars.notation.lark import LarkSettings, parse
from constrained.grammars.visit import children
from constrained.vocabulary import Vocabulary
from tests.support.examples import examples

BYTES = Vocabulary.from_bytes([bytes((byte,)) for byte in range(256)] + [b""], [256])

ARITHMETIC = (
    r"""
    start: sum
    ?sum: product | sum "+" product -> add | sum "-" product -> sub
    ?product: power | product "*" power | product "/" power | product "//" power
    ?power: atom | atom "**" power
    ?atom: NUMBER | "-" atom | NAME | "(" sum ")"
    %import common.CNAME -> NAME
    %import common.NUMBER
    %import common.WS_INLINE
    %ignore WS_INLINE
    """,
    [
        "1+2",
        " 1 - -2",
        "a**b//c",
        "1.",
        "1.e5",
        ".5+x1",
        "1e",
        "2(3)",
        "((1))",
        "1 2",
        "a b",
        "3*/4",
        "1.5.2",
        "--1",
    ],
)
JSON = (
    r"""
    ?start: value
    ?value: object | array | string | SIGNED_NUMBER -> number | "true" | "false" | "null"
    array: "[" [value ("," value)*] "]"
    object: "{" [pair ("," pair)*] "}"
    pair: string ":" value
    string: ESCAPED_STRING
    %import common.ESCAPED_STRING
    %import common.SIGNED_NUMBER
    %import common.WS
    %ignore WS
    """,
    [
        '{"a": [1, -2.5e3, true]}',
        '["\\"", "b"]',
        '"a',
        "[1,]",
        "[]",
        " { } ",
        '{"a" 1}',
        "nul",
        '"\\\\"',
        '"\\\\""',
        "[1 2]",
    ],
)
SQL = (
    r"""
    start: select (";" select)* ";"?
    select: "select"i [DISTINCT] columns "from"i NAME ["where"i condition] ["order"i "by"i NAME ("," NAME)*]
    columns: "*" | column ("," column)*
    column: value ["as"i NAME]
    ?condition: condition "or"i conjunct | conjunct
    ?conjunct: conjunct "and"i test | test
    ?test: "not"i test | value COMPARE value | value "is"i ["not"i] "null"i | "(" condition ")"
    value: NAME | NAME "." NAME | INT | FLOAT | STRING | NAME "(" [value ("," value)*] ")"
    COMPARE: "=" | "<" | "<=" | ">" | ">=" | "<>"
    DISTINCT.2: "distinct"i
    NAME: /[a-z_][a-z_0-9]*/i
    FLOAT: INT "." INT
    STRING: "'" /([^']|'')*/ "'"
    %import common (INT, WS, SQL_COMMENT)
    %ignore WS
    %ignore SQL_COMMENT
    """,
    [
        "select a from b",
        "SELECT * FROM t WHERE x<=1 AND y<>'it''s' -- end",
        "select distinct a from b",
        "select distincta from b",
        "select a, b.c as d, f(1, 2.5) from t;",
        "select from from t",
        "selecta from b",
        "select 1.5.2 from t",
        "select a from t where x is not null or (y<1)",
        "select a from t where not x = 1 order by a, b",
        "select orx from andy where nota=1",
        "select a from t where x<= =1",
    ],
)
CONFIG = (
    r"""
    start: _NL? (line _NL)*
    ?line: section | entry
    section: "[" NAME ("." NAME)* "]"
    entry: NAME "=" value
    ?value: BOOL | INT | FLOAT | STRING | "[" _list{value} "]" | DATE
    _list{x}: x ("," x)* ","?
    BOOL.1: "true" | "false"
    DATE.1: /\d{4}-\d{2}-\d{2}/
    NAME: /[A-Za-z][A-Za-z0-9_-]*/
    INT: /[+-]?\d+/
    FLOAT: /[+-]?\d+\.\d+/
    STRING: /"[^"\n]*?"/
    _NL: /(\r?\n[ \t]*)+/
    COMMENT: /#[^\n]*/
    %import common.WS_INLINE
    %ignore WS_INLINE
    %ignore COMMENT
    """,
    [
        '[a.b]\nx = 1\ny = 2.5 # why\n[c]\nd = [1, true, "s",]\n',
        "# c\n[a]\nx=2024-01-02",
        "[a]\ntrue=1",
        "[a]\ntruex=1",
        "[a] x=1",
        "[a]\nx=1 y=2",
        '[a]\nx="b#c" #d',
        '[a]\nx="b',
        "[a]\nx=1.\n",
        "[a-b]\n\n\nx=-3\n\n",
        "",
        "\n",
    ],
)
PYTHON = (
    r"""
    start: statement*
    ?statement: assignment ";" | "if" test block ("elif" test block)* ["else" block] | "while" test block
        | "def" NAME "(" [NAME ("," NAME)*] ")" block | "return" [test] ";" | "pass" ";" | test ";"
    assignment: NAME ("=" | "+=" | "-=" | "**=") test
    block: "{" statement* "}"
    ?test: or_test | or_test "if" or_test "else" test | "lambda" [NAME ("," NAME)*] ":" test
    ?or_test: and_test ("or" and_test)*
    ?and_test: not_test ("and" not_test)*
    ?not_test: "not" not_test | comparison
    ?comparison: sum (("<" | ">" | "==" | ">=" | "<=" | "!=" | "in" | "not" "in" | "is" | "is" "not") sum)*
    ?sum: term (("+" | "-") term)*
    ?term: factor (("*" | "/" | "//" | "%") factor)*
    ?factor: ("+" | "-" | "~") factor | power
    ?power: primary ["**" factor]
    ?primary: primary "." NAME | primary "[" test "]" | primary "(" [test ("," test)*] ")" | atom
    ?atom: NAME | DEC_NUMBER | FLOAT_NUMBER | STRING+ | "True" | "False" | "None" | "(" test ")" | "[" [test ("," test)*] "]"
    NAME: /[^\W\d]\w*/
    STRING: /"[^"\n]*"|'[^'\n]*'/
    DEC_NUMBER: /0|[1-9]\d*/
    FLOAT_NUMBER.2: /((\d+\.\d*|\.\d+)(e[-+]?\d+)?|\d+(e[-+]?\d+))/i
    %import common (WS, SH_COMMENT)
    %ignore WS
    %ignore SH_COMMENT
    """,
    [
        "x = 1; if x >= 2 { return x ** 2; } else { pass; }",
        "def f(a, b) { return a.b[c](1, 2.5e3, .5) if not a in b else lambda x: x; }",
        "notx = 1;",
        "not x;",
        "x = not in;",
        "a is not b; a isnot b;",
        "a not in b;",
        "x **= 2; x ** = 2;",
        "x = 'a' 'b'\"c\";  # text",
        "passx;",
        "return;",
        "returnx;",
        "x = 01;",
        "x = 1.e5;",
        "ifx{}",
        "if x{}",
        "if(x){}",
        "été = 1;",
        "while True { x += 1; }",
    ],
)
GRAMMARS = {"arithmetic": ARITHMETIC, "json": JSON, "sql": SQL, "config": CONFIG, "python": PYTHON}


class Pair:
    """One grammar in both worlds."""

    def __init__(self, text: str, lexer: str = "contextual", prefer: str = "longest") -> None:
        self.theirs = lark.Lark(text, parser="lalr", lexer=lexer)
        grammar = parse(text, LarkSettings(lexer=lexer, prefer=prefer))  # type: ignore[arg-type]
        assert isinstance(grammar, LexerGrammar)
        try:
            self.ours: LexerAutomaton | None = LexerAutomaton(grammar, BYTES)
        except UnsatisfiableConstraint:
            self.ours = None

    def lark_accepts(self, text: str) -> bool:
        try:
            self.theirs.parse(text)
        except lark.exceptions.LarkError:
            return False
        return True

    def accepts(self, text: str) -> bool:
        if self.ours is None:
            return False
        states = self.ours.walk(self.ours.start, list(text.encode()))
        if len(states) < len(text.encode()):
            return False
        return self.ours.accepts(states[-1] if states else self.ours.start)

    def some_text(self, rng: random.Random, alphabet: bytes) -> str:
        """A text of the automaton: at random for a while, then to the end."""
        assert self.ours is not None
        text = bytearray()
        at = self.ours.start
        for _ in range(rng.randint(0, 40)):
            choices = [byte for byte in alphabet if self.ours.next(at, byte) != DEAD]
            if not choices:
                break
            text.append(rng.choice(choices))
            at = self.ours.next(at, text[-1])
        while not self.ours.accepts(at):
            left = self.ours.shortest_completion(at)
            text.append(
                next(
                    byte
                    for byte in range(256)
                    if (after := self.ours.next(at, byte)) != DEAD
                    and self.ours.shortest_completion(after) == left - 1
                )
            )
            at = self.ours.next(at, text[-1])
        return text.decode()


def changed(text: str, rng: random.Random, letters: str) -> str:
    """A text with a character or two put in, left out or replaced."""
    for _ in range(rng.randint(1, 2)):
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice([*letters, ""]) + text[at + rng.randint(0, 1) :]
    return text


@pytest.mark.parametrize("prefer", ["longest", "lark"])
@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("name", GRAMMARS)
def test_python_lark_accepts_the_same_texts(name: str, lexer: str, prefer: str) -> None:
    grammar, texts = GRAMMARS[name]
    pair = Pair(grammar, lexer, prefer)
    rng = random.Random(name)
    letters = "".join(sorted({letter for text in texts for letter in text if letter.isascii()}))
    made = [pair.some_text(rng, letters.encode()) for _ in range(examples(60))]
    candidates = [*texts, *made]
    candidates += [changed(rng.choice(candidates), rng, letters) for _ in range(examples(250))]
    verdicts = {text: pair.lark_accepts(text) for text in candidates}
    assert {text: pair.accepts(text) for text in candidates} == verdicts
    assert all(verdicts[text] for text in made)
    assert len(set(verdicts.values())) == 2, "the texts tell nothing apart"


def test_where_lark_does_not_take_the_longest_match() -> None:
    text = 'start: INT | DATE "!"\nINT: /[0-9]+/\nDATE: /[0-9]{4}-[0-9]{2}/'
    longest, ordered = Pair(text), Pair(text, prefer="lark")
    assert [pair.accepts("2024-01!") for pair in (longest, ordered)] == [True, False]
    assert not ordered.lark_accepts("2024-01!")


_POOL = [
    '"a"', '"b"', '"ab"', '"ba"', '"c"', '"abc"', '"A"i', '"aB"i', "/a+/", "/[ab]/", "/[ab]+/", "/ab*/", "/b+a/",
    "/a?b/", "/bb|a/", "/c+/", "/(ab)+/", "/c?[ab]c/", "/a[abc]*b/", "/[aA]b?/", "/A[ab]*/", "/ab?c?/i",
]  # fmt: skip


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("block", range(2))
def test_the_order_of_lark_is_kept_whatever_the_terminals(lexer: str, block: int) -> None:
    told_apart = 0
    count = examples(20)
    for seed in range(block * count, block * count + count):
        rng = random.Random(seed)
        names = [f"T{index}" for index in range(rng.randint(2, 5))]
        lines = [
            f"{name}{rng.choice(['', '', '', '.1', '.-1'])}: {pattern}"
            for name, pattern in zip(names, rng.sample(_POOL, len(names)), strict=True)
        ]
        rng.shuffle(names)
        bodies = [" ".join(names[at : at + rng.randint(1, 2)]) for at in range(0, len(names), 2)]
        text = "\n".join([f"start: ({' | '.join(bodies)})+", *lines, *rng.choice([[], ['%ignore " "']])])
        pair = Pair(text, lexer, "lark")
        words = [
            "".join(letters) for size in range(1, 4) for letters in itertools.product("abcAB ", repeat=size)
        ]
        words += ["".join(rng.choices("abcAB ", k=rng.randint(4, 6))) for _ in range(examples(1000))]
        theirs = [word for word in words if pair.lark_accepts(word)]
        assert [word for word in words if pair.accepts(word)] == theirs, text
        told_apart += 0 < len(theirs) < len(words)
    assert told_apart > count // 3


# ---------------------------------------------------------------- comments

_COMMENTS = ['// either "x" | or that', "# | b", '// "', "# (", "//", "  # -> a", "// NAME: /x/", "# ] | ["]


def rules_of(text: str) -> tuple[object, ...]:
    """What a grammar reads as: its rules and tokens, without the identity of objects."""

    def regex(node: ir.Regex) -> object:
        fields = (getattr(node, name) for name in type(node).__slots__)
        return type(node).__name__, *(
            regex(value)
            if isinstance(value, ir.Regex)
            else tuple(regex(part) if isinstance(part, ir.Regex) else part for part in value)
            if isinstance(value, tuple)
            else value
            for value in fields
        )

    def expr(node: ir.Expr) -> object:
        if isinstance(node, ir.Terminal):
            return regex(node.regex)
        if isinstance(node, ir.Call):
            return node.rule
        bounds = (node.low, node.high) if isinstance(node, ir.Loop) else ()
        return type(node).__name__, *bounds, *map(expr, children(node))

    grammar = parse(text)
    assert isinstance(grammar, LexerGrammar)
    tokens = [
        (token.name, regex(token.regex), token.rank, token.inherits_rank_from) for token in grammar.tokens
    ]
    return grammar.start, {name: expr(body) for name, body in grammar.rules.items()}, tokens


@pytest.mark.ci
@pytest.mark.parametrize("name", GRAMMARS)
def test_comments_say_nothing(name: str) -> None:
    grammar, _ = GRAMMARS[name]
    wanted = rules_of(grammar)
    rng = random.Random(name)
    for _ in range(examples(16)):
        lines = grammar.split("\n")
        for _ in range(rng.randint(1, 3)):
            lines.insert(rng.randint(0, len(lines)), rng.choice(["", "    "]) + rng.choice(_COMMENTS))
        text = "\n".join(lines)
        lark.Lark(text, parser="lalr")  # it is a grammar
        assert rules_of(text) == wanted, text


@pytest.mark.parametrize("comment", ['// | "b"', '# | "b"', '// "b" | "c"', "  // |"])
def test_an_alternative_in_a_comment_is_none(comment: str) -> None:
    text = f'start: "a"\n{comment}\n| "c"\n{comment}\n'
    pair = Pair(text)
    assert [pair.accepts(word) for word in "abc"] == [pair.lark_accepts(word) for word in "abc"]
    assert [pair.accepts(word) for word in "abc"] == [True, False, True]
