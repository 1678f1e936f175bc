"""Rules, choices, spans and tags."""

from __future__ import annotations

from constrained.bench.hostile.case import (
    INVALID,
    TOO_LARGE,
    UNSATISFIABLE,
    UNSUPPORTED,
    WALKED,
    case,
    grammar,
)
from constrained.constraint import choice, lark, structural_tag, substring_of, tag


def _rules(count: int, backwards: bool) -> str:
    lines = [f'r{i} ::= "a" r{i + 1} | "b"' for i in range(count)]
    return "\n".join(["root ::= r0", *(reversed(lines) if backwards else lines), f'r{count} ::= "c"'])


grammar(
    "rules that may be empty, in a circle",
    'root ::= a\na ::= b | "x"\nb ::= a | ""',
    WALKED,
    (b"", b"x"),
    (b"xx",),
)
grammar("a rule of itself alone", "root ::= root", UNSATISFIABLE)
grammar(
    "empty rules in sequence, in a circle",
    'root ::= a a "x"\na ::= b b\nb ::= a? "y"?',
    WALKED,
    (b"x", b"yx"),
    (b"y",),
)
grammar("(a*)* as rules", 'root ::= a* "b"\na ::= ("x"*)*', WALKED, (b"xxb", b"b"), (b"x",))
grammar(
    "2^40 by doubling",
    lambda: "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(40)) + '\nr40 ::= "a"',
)
grammar(
    "2^40 nothing by doubling",
    lambda: (
        'root ::= r0 "b"\n' + "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(40)) + '\nr40 ::= "a"?'
    ),
    WALKED,
    (b"b", b"aaab"),
)
grammar("5,000 rules in order", lambda: _rules(5_000, False), WALKED, (b"b", b"aaab"), (b"a",))
grammar("5,000 rules backwards", lambda: _rules(5_000, True), WALKED, (b"b", b"aaab"), (b"a",))
grammar(
    "5,000 alternatives",
    lambda: "root ::= " + " | ".join(f'"w{i}" root?' for i in range(5_000)),
    WALKED,
    (b"w1w2",),
    (b"x",),
)
grammar(
    "5,000 rules that rename",
    lambda: "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1}" for i in range(5_000)) + '\nr5000 ::= "a"',
    WALKED,
    (b"a",),
)
grammar("5,000 parentheses", "root ::= " + "(" * 5_000 + '"a"' + ")" * 5_000, WALKED, (b"a",))
grammar("20,000 parentheses", "root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000, TOO_LARGE)
grammar(
    "5,000 optional parentheses",
    "root ::= " + "(" * 5_000 + '"a"' + ' "b")?' * 5_000,
    WALKED,
    (b"", b"bb"),
    (b"ba",),
)
grammar(
    "40 repeated parentheses",
    "root ::= " + "(" * 40 + '"a"' + ' "b")*' * 40,
    WALKED,
    (b"", b"bb"),
    (b"ba",),
)
grammar("left recursion", 'root ::= root "+" root | "1"', WALKED, (b"1+1+1",), (b"1+",))
grammar(
    "left recursion through 40 rules",
    lambda: "root ::= r0\n" + "\n".join(f'r{i} ::= r{(i + 1) % 40} "{i % 10}" | "x"' for i in range(40)),
    WALKED,
    (b"x", b"x10"),
    (b"x9", b"0"),
)
grammar("hidden left recursion", 'root ::= a? root "b" | "c"\na ::= "a"?', WALKED, (b"c", b"acb"), (b"b",))
grammar("ambiguity without end", 'root ::= root root | "a" | ""', WALKED, (b"", b"aaa"), (b"b",))
grammar("ambiguity by threes", 'root ::= x\nx ::= x x x | "a"', WALKED, (b"a", b"aaa"), (b"", b"aa", b"b"))
grammar(
    "ambiguity by twos and fives",
    'root ::= x\nx ::= x x x x x | x x | "a" | "b"',
    WALKED,
    (b"a", b"ab" * 50),
    (b"", b"c"),
)
_DEAR = """
root ::= s
s ::= "a" s x | "a" y x | "b" | "b" y y
x ::= s "a" x x | "a"
y ::= s x | "a" | "a" y y | "b" x
"""
_LOOSE = """
root ::= part | part* | [a-z] | ""
part ::= root | "😀" | ([\\n-] | . | root "\\n" part "+"){10,20} | ""
"""
grammar("characters that go on in many ways", _LOOSE, TOO_LARGE)
case(
    "a grammar of many ways behind free text",
    lambda: structural_tag(
        {
            "type": "structural_tag",
            "format": {
                "type": "triggered_tags",
                "triggers": ["<tool>"],
                "tags": [
                    {"begin": "<tool>", "content": {"type": "grammar", "grammar": _DEAR}, "end": "</tool>"}
                ],
            },
        }
    ),
    TOO_LARGE,
)
grammar(
    "a hundred ambiguous parts",
    'root ::= y{100}\ny ::= "a" y | "a" y "b" | "a"',
    WALKED,
    (b"a" * 100, b"a" * 101 + b"b"),
    (b"a" * 99, b"b"),
)
grammar("an undefined rule", "root ::= missing", INVALID)
grammar("no rules", "", INVALID)
grammar("no start", 'a ::= "b"', INVALID)
grammar("null bytes", 'root ::= "\x00" "\\x00"', WALKED, (b"\x00\x00",))
grammar("a lone surrogate in a literal", 'root ::= "\ud800"', INVALID)
grammar("a code point beyond Unicode", 'root ::= "\\U00110000"', INVALID)
grammar("a class of every character", "root ::= [\\x00-\\U0010FFFF]{1,500}", WALKED, (b"abc",))
grammar("nested counts", 'root ::= ((("a"{1,1000}){1,1000}){1,1000})', WALKED, (b"a" * 1000,), (b"",))
case(
    "500 nested counts of terminals",
    lambda: lark("start: " + "(" * 500 + '"a"' + ")~1..2" * 500),
    TOO_LARGE,
)
grammar("a count of 5,000 digits in a grammar", 'root ::= "a"{' + "9" * 5_000 + "}", TOO_LARGE)
grammar(
    "ebnf difference, nested",
    'root ::= ((([a-z]+ - "if") - "do") - ("a" [a-z]*))',
    WALKED,
    (b"bc",),
    (b"if", b"ab"),
    is_ebnf=True,
)
grammar("ebnf difference of recursion", 'root ::= a - "x"\na ::= "(" a ")" | "x"', UNSUPPORTED, is_ebnf=True)
grammar("ebnf left recursion", 'root ::= root "a" | "b"', WALKED, (b"baa",), (b"ab",), is_ebnf=True)

case("a choice of 100,000", lambda: choice([f"v{i}" for i in range(100_000)]), WALKED, (b"v99999",), (b"v",))
case("a choice of a lone surrogate", lambda: choice(["a\udc00"]), INVALID)
case(
    "a span of 50,000 characters",
    lambda: substring_of("ab€" * 16_000 + "xyz"),
    WALKED,
    ("b€ab".encode(),),
    (b"zz",),
)
case("a span of 10,000,000 characters", lambda: substring_of("ab" * 5_000_000), TOO_LARGE)
case(
    "tags whose marker comes back",
    lambda: tag("aab", {"type": "null"}, "<"),
    WALKED,
    (b"aaabnull<aa",),
    (b"aab",),
)
grammar(
    "palindromes",
    'root ::= "a" root "a" | "b" root "b" | "a" | "b" | ""',
    WALKED,
    (b"", b"abba", b"bab"),
    (b"ab",),
)
