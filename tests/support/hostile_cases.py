"""Constraints and vocabularies that mean harm, or look as if they did.

`outcome` is what has to become of a case: ``"walked"``, or the name of the error that refuses it.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from constrained.constraint import Constraint, choice, ebnf, gbnf, json_schema, regex, substring_of, tag
from constrained.vocabulary import Vocabulary
from tests.support.finite import byte_vocabulary

WALKED, INVALID, UNSUPPORTED = "walked", "InvalidConstraint", "UnsupportedConstraint"
TOO_LARGE, UNSATISFIABLE = "ConstraintTooLarge", "UnsatisfiableConstraint"


class Case(NamedTuple):
    constraint: Callable[[], Constraint]
    outcome: str
    accepted: tuple[bytes, ...]
    rejected: tuple[bytes, ...]
    vocabulary: Callable[[], Vocabulary]


CASES: dict[str, Case] = {}


@functools.cache
def words() -> Vocabulary:
    """Every byte, and a few hundred tokens of JSON, words and parts of characters."""
    pieces = [
        '"',
        '":',
        '",',
        '{"',
        "[",
        "]",
        "}",
        "]]",
        "[[",
        ", ",
        "  ",
        "\n",
        "the",
        " name",
        "aaa",
        "ab",
        "12",
        "0",
        "é",
        "€",
    ]
    draw = random.Random(1)
    made = dict.fromkeys("".join(draw.choices(pieces, k=draw.randint(1, 3))) for _ in range(400))
    return byte_vocabulary(*pieces, *made, "€".encode()[:2], "😀".encode()[1:], b"a\xe2\x82")


def _odd(*pieces: bytes, more_ends: int = 0) -> Callable[[], Vocabulary]:
    def build() -> Vocabulary:
        tokens = [*(bytes((byte,)) for byte in range(256)), *pieces, *[b""] * (1 + more_ends)]
        return Vocabulary.from_bytes(tokens, range(len(tokens) - 1 - more_ends, len(tokens)))

    return build


def warm_up() -> None:
    """Loads what every case needs, before there are limits."""
    from constrained.automaton import compile

    automaton = compile(json_schema({"type": "object", "properties": {"a": {"pattern": "^a"}}}), words())
    automaton.fill_mask(automaton.start, automaton.new_mask())
    compile(gbnf('root ::= "a"'), words())


def case(
    name: str,
    constraint: Callable[[], Constraint],
    outcome: str = WALKED,
    accepted: tuple[bytes, ...] = (),
    rejected: tuple[bytes, ...] = (),
    vocabulary: Callable[[], Vocabulary] = words,
) -> None:
    assert name not in CASES
    CASES[name] = Case(constraint, outcome, accepted, rejected, vocabulary)


def schema(
    name: str,
    made: Any,
    outcome: str = WALKED,
    accepted: tuple[Any, ...] = (),
    rejected: tuple[Any, ...] = (),
    **more: Any,
) -> None:
    """A JSON Schema, or a function that makes one; the texts as JSON values."""
    case(
        name,
        lambda: json_schema(made() if callable(made) else made),
        outcome,
        tuple(json.dumps(value).encode() for value in accepted),
        tuple(json.dumps(value).encode() for value in rejected),
        **more,
    )


def pattern(
    name: str,
    made: str,
    outcome: str = WALKED,
    accepted: tuple[bytes, ...] = (),
    rejected: tuple[bytes, ...] = (),
    **how: Any,
) -> None:
    case(name, lambda: regex(made, **how), outcome, accepted, rejected)


def _nested(depth: int, around: Callable[[Any], Any], inner: Any = True) -> Any:
    for _ in range(depth):
        inner = around(inner)
    return inner


# ---------------------------------------------------------------- depth


def _arrays(depth: int) -> Any:
    return _nested(
        depth, lambda inner: {"type": "array", "items": inner, "minItems": 1, "maxItems": 2}, {"const": 0}
    )


def _objects(depth: int) -> Any:
    return _nested(
        depth,
        lambda inner: {
            "type": "object",
            "properties": {"a": inner},
            "required": ["a"],
            "additionalProperties": False,
        },
        {"const": 0},
    )


def _text(depth: int, open_: str, close: str, inner: str) -> str:
    return open_ * depth + inner + close * depth


_ARRAY_TEXT = ('{"type":"array","items":', "}")
_DEEP_ARRAY = (b"[" * 500 + b"0" + b"]" * 500,)

schema(
    "arrays 200 deep",
    lambda: _arrays(200),
    accepted=(_nested(200, lambda v: [v], 0),),
    rejected=(_nested(199, lambda v: [v], 0),),
)
schema(
    "arrays 500 deep",
    lambda: _arrays(500),
    accepted=(_nested(500, lambda v: [v], 0),),
    rejected=(_nested(499, lambda v: [v], 0),),
)
case(
    "arrays 500 deep as text",
    lambda: json_schema(json.dumps(_arrays(500))),
    WALKED,
    _DEEP_ARRAY,
    (_DEEP_ARRAY[0][1:],),
)
schema("objects 500 deep", lambda: _objects(500), INVALID)
schema("arrays 5,000 deep", lambda: _arrays(5_000), INVALID)
schema("objects 5,000 deep", lambda: _objects(5_000), INVALID)
case("arrays 5,000 deep as text", lambda: json_schema(_text(5_000, *_ARRAY_TEXT, "true")), INVALID)
case("arrays 100,000 deep as text", lambda: json_schema(_text(100_000, *_ARRAY_TEXT, "true")), INVALID)
case(
    "a const 100,000 deep as text",
    lambda: json_schema('{"const":' + _text(100_000, "[", "]", "") + "}"),
    INVALID,
)
schema(
    "a const 500 deep",
    lambda: {"const": _nested(500, lambda v: [v], 0)},
    accepted=(_nested(500, lambda v: [v], 0),),
    rejected=(_nested(499, lambda v: [v], 0),),
)
schema(
    "not 300 deep",
    lambda: _nested(300, lambda inner: {"not": inner}, {"type": "null"}),
    accepted=(None,),
    rejected=(0, "", []),
)
schema(
    "anyOf 100 deep",
    lambda: _nested(
        100, lambda inner: {"anyOf": [inner, {"type": "null"}]}, {"type": "array", "maxItems": 1}
    ),
    accepted=(None, []),
)
schema(
    "allOf 100 deep",
    lambda: _nested(100, lambda inner: {"allOf": [inner, {"maximum": 9}]}, {"type": "integer"}),
    accepted=(9, -3),
    rejected=(10, "a"),
)
schema(
    "oneOf nested 12 levels, each twice",
    lambda: _nested(
        12,
        lambda inner: {"oneOf": [inner, {"type": "array", "items": inner, "maxItems": 1}]},
        {"type": "null"},
    ),
    TOO_LARGE,
)
schema(
    "oneOf nested 14 levels, told apart",
    lambda: _nested(
        14,
        lambda inner: {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"a": inner},
                    "required": ["a"],
                    "additionalProperties": False,
                },
                {"type": "string"},
            ]
        },
        {"type": "null"},
    ),
    accepted=("a", {"a": "b"}),
    rejected=(None, {"a": None}),
)
case("a schema that holds itself", lambda: json_schema(_circle()), INVALID)


def _circle() -> Any:
    outer: dict[str, Any] = {"type": "array"}
    outer["items"] = outer
    return outer


# ---------------------------------------------------------------- counts

for count in (10**9, 10**30):
    shown = f"1e{len(str(count)) - 1}"
    wide = WALKED if count < 2**31 else TOO_LARGE
    schema(
        f"minItems {shown}",
        {"type": "array", "items": {"type": "null"}, "minItems": count},
        wide,
        rejected=([None],) if wide == WALKED else (),
    )
    schema(f"minItems {shown}, any items", {"type": "array", "minItems": count}, wide)
    schema(
        f"maxItems {shown}",
        {"type": "array", "items": {"type": "null"}, "maxItems": count},
        accepted=([None],),
    )
    schema(
        f"minLength {shown}",
        {"type": "string", "minLength": count},
        wide,
        rejected=("a",) if wide == WALKED else (),
    )
    schema(f"maxLength {shown}", {"type": "string", "maxLength": count}, accepted=("a",))
    schema(
        f"maxLength {shown} and a pattern",
        {"type": "string", "maxLength": count, "pattern": "^(a|bc)*$"},
        accepted=("abc",),
        rejected=("ac c",),
    )
    schema(f"minProperties {shown}", {"type": "object", "minProperties": count}, TOO_LARGE)
    schema(
        f"maxProperties {shown}",
        {"type": "object", "maxProperties": count},
        accepted=({"a": 1},),
    )
    pattern(f"a{{{shown}}}", f"a{{{count}}}", wide, (), (b"aaa",) if wide == WALKED else ())
    pattern(f"(ab?){{2,{shown}}}", f"(ab?){{2,{count}}}", WALKED, (b"aab",), (b"ab",))
    case(f'gbnf "ab"{{{shown}}}', functools.partial(gbnf, f'root ::= "ab"{{{count}}}'), wide)

schema("minItems 100,000 of a const", {"type": "array", "items": {"const": "abc"}, "minItems": 100_000})
schema(
    "prefixItems, 20,000 of them",
    lambda: {"type": "array", "prefixItems": [{"const": i % 7} for i in range(20_000)]},
    accepted=([0, 1, 2],),
    rejected=([1],),
)
schema(
    "minimum 1e400",
    {"type": "integer", "minimum": 10**400},
    accepted=(10**400, 10**401),
    rejected=(10**400 - 1, 5),
)
schema(
    "integers between two of 4,000 digits",
    {"type": "integer", "minimum": 10**4000, "maximum": 10**4000 + 10**20},
    INVALID,
)
case("a bound written 1e400", lambda: json_schema('{"type": "number", "maximum": 1e400}'), INVALID)
case("a bound written -1E+999999999", lambda: json_schema('{"minimum": -1E+999999999}'), INVALID)
schema("an integer of 5,000 digits", {"type": "integer", "minimum": 10**5000}, INVALID)
case("an integer of 100,000 digits", lambda: json_schema('{"minimum": ' + "9" * 100_000 + "}"), INVALID)
schema("a float bound of 1e308", {"type": "number", "maximum": 1e308, "minimum": -1e308}, accepted=(0, 1.5))
schema(
    "the smallest float as a bound",
    {"type": "number", "exclusiveMinimum": 5e-324},
    accepted=(1,),
    rejected=(-1,),
)
schema("multipleOf 1e-300", {"type": "number", "multipleOf": 1e-300}, accepted=(1,))
schema(
    "multipleOf 7 in a wide range",
    {"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 10**30},
    accepted=(0, 7, 7 * 10**29),
    rejected=(-7, 8, 7 * 10**30),
)
schema("multipleOf a number of 60 digits", {"type": "integer", "multipleOf": 10**60 + 7}, TOO_LARGE)
for bad in (-1, 1.5, "3", True, None):
    schema(f"maxItems {bad!r}", {"type": "array", "maxItems": bad}, INVALID)
schema(
    "maxItems 2.0",
    {"type": "array", "maxItems": 2.0, "items": {"type": "null"}},
    accepted=([None],),
    rejected=([None] * 3,),
)
schema("counts in the wrong order", {"type": "array", "minItems": 10**9, "maxItems": 5}, UNSATISFIABLE)

# ---------------------------------------------------------------- references

_DEFS = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
schema(
    "allOf circle through $ref",
    {
        "$ref": "#/$defs/a",
        "$defs": {
            "a": {"allOf": [{"$ref": "#/$defs/b"}, {"type": "object"}]},
            "b": {"allOf": [{"$ref": "#/$defs/a"}]},
        },
    },
    INVALID,
)
schema("a $ref to itself", {"$ref": "#"}, INVALID)
schema("two $refs to each other", {"$ref": "#/$defs/a", "$defs": _DEFS}, INVALID)
schema("anyOf with itself", {"anyOf": [{"type": "null"}, {"$ref": "#"}]}, INVALID)
schema("a dangling $ref", {"$ref": "#/$defs/none"}, INVALID)
schema("a $ref of odd characters", {"$ref": "#/$defs/%ZZ~2\x00"}, INVALID)
schema("a $ref to the network", {"$ref": "http://localhost:1/x"}, UNSUPPORTED)
schema(
    "values that must contain themselves",
    {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    UNSATISFIABLE,
)
schema(
    "2^40 by references",
    lambda: {
        "$ref": "#/$defs/0",
        "$defs": {
            **{
                str(i): {"type": "array", "items": {"$ref": f"#/$defs/{i + 1}"}, "minItems": 2, "maxItems": 2}
                for i in range(40)
            },
            "40": {"type": "null"},
        },
    },
)
schema(
    "5,000 references in a row",
    lambda: {
        "$ref": "#/$defs/0",
        "$defs": {**{str(i): {"$ref": f"#/$defs/{i + 1}"} for i in range(5_000)}, "5000": {"type": "null"}},
    },
    accepted=(None,),
)
schema(
    "allOf of 2,000 references to one",
    {"allOf": [{"$ref": "#/$defs/a"}] * 2_000, "$defs": {"a": {"type": "null"}}},
    accepted=(None,),
)
schema(
    "anyOf under anyOf, 3^12 ways",
    lambda: {
        "allOf": [
            {
                "anyOf": [
                    {"properties": {f"{i}{j}": {"type": "null"}}, "required": [f"{i}{j}"]} for j in range(3)
                ]
            }
            for i in range(12)
        ]
    },
    TOO_LARGE,
)

# ---------------------------------------------------------------- width


def _properties(count: int, required: bool) -> Any:
    names = [f"property{i}" for i in range(count)]
    return {
        "type": "object",
        "properties": {name: {"type": "null"} for name in names},
        "additionalProperties": False,
        "required": names if required else [],
    }


schema(
    "5,000 optional properties",
    lambda: _properties(5_000, False),
    accepted=({}, {"property3": None, "property4999": None}),
    rejected=({"property5000": None}, {"property7": None, "property2": None}),
)
schema(
    "5,000 required properties",
    lambda: _properties(5_000, True),
    accepted=({f"property{i}": None for i in range(5_000)},),
    rejected=({},),
)
schema(
    "5,000 optional properties and others",
    lambda: {"type": "object", "properties": _properties(5_000, False)["properties"]},
    accepted=({"other": 1}, {"property3": None}),
    rejected=({"property3": 1},),
)
schema(
    "2,000 optional properties, 5 to 9 of them",
    lambda: {**_properties(2_000, False), "minProperties": 5, "maxProperties": 9},
    accepted=({f"property{i}": None for i in range(5)},),
    rejected=({"property1": None},),
)
schema(
    "an enum of 100,000 strings",
    lambda: {"enum": [f"value {i}" for i in range(100_000)]},
    accepted=("value 99999",),
    rejected=("value 100000",),
)
schema(
    "an enum of 100,000 numbers",
    lambda: {"enum": list(range(100_000))},
    accepted=(99_999,),
    rejected=(100_000,),
)
schema(
    "an enum of 20,000 objects",
    lambda: {"enum": [{"a": i, "b": [i]} for i in range(20_000)]},
    accepted=({"a": 7, "b": [7]},),
    rejected=({"a": 7, "b": [8]},),
)
schema(
    "a const of 1,000,000 characters",
    lambda: {"const": "x" * 1_000_000},
    accepted=("x" * 1_000_000,),
    rejected=("x" * 999_999,),
)
schema(
    "a key of 100,000 characters",
    lambda: {"type": "object", "properties": {"k" * 100_000: {"type": "null"}}, "required": ["k" * 100_000]},
)
schema("a const of every character", lambda: {"const": "".join(chr(c) for c in range(0x800) if c)})
case(
    "a schema of 1 MB",
    lambda: json_schema(json.dumps(_properties(25_000, False))),
    WALKED,
    (b'{"property77": null}',),
)
case(
    "1 MB of white space around a schema",
    lambda: json_schema(" " * 1_000_000 + '{"type": "null"}'),
    WALKED,
    (b"null",),
)
case("1 MB that is no JSON", lambda: json_schema("[" + "1," * 500_000), INVALID)
schema("1 MB of description", {"type": "null", "description": "x" * 1_000_000}, accepted=(None,))
schema(
    "patternProperties that overlap",
    {
        "type": "object",
        "patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 3}, "c": {"maximum": 9}},
    },
    accepted=({"acb": 5, "z": None},),
    rejected=({"acb": 2}, {"acb": 10}, {"a": None}),
)
schema(
    "12 patternProperties that overlap",
    lambda: {"type": "object", "patternProperties": {chr(97 + i): {"minimum": i} for i in range(12)}},
    TOO_LARGE,
)
schema(
    "100 patternProperties that do not",
    lambda: {
        "type": "object",
        "patternProperties": {f"^k{i}_": {"const": i} for i in range(100)},
        "additionalProperties": False,
    },
    accepted=({"k7_x": 7, "k70_": 70},),
    rejected=({"k7_x": 70}, {"k100_": 100}),
)
schema(
    "dependentRequired in a circle",
    lambda: {"type": "object", "dependentRequired": {str(i): [str((i + 1) % 30)] for i in range(30)}},
    accepted=({}, {str(i): None for i in range(30)}),
    rejected=({"0": None}, {str(i): None for i in range(29)}),
)

# ---------------------------------------------------------------- patterns

pattern(".*a.{24}", ".*a.{24}", WALKED, (b"b" * 9 + b"a" + b"b" * 24,), (b"a" * 24,))
pattern("(.*a.{24})*", "(.*a.{24})*", WALKED, (b"", b"a" * 25), (b"a" * 24,))
schema(
    "a string that ends .*a.{24}",
    {"type": "string", "pattern": "a.{24}$"},
    accepted=("a" * 25,),
    rejected=("b" * 25,),
)
schema(
    "a string without a.{24}",
    {"type": "string", "not": {"pattern": "a.{24}$"}},
    accepted=("", "b" * 25),
    rejected=("a" * 25,),
)
pattern("an intersection by look-ahead", "(?=.*a.{20}$)(?=.*b.{18}$)(?=.*c.{16}$).*", TOO_LARGE)
pattern("look-ahead, and not", "(?!.*a.{24}$).*", WALKED, (b"b" * 25,), (b"a" * 25,))
pattern("look-ahead, and an end", "(?=.*xx$)(?!.*a.{14}).*", WALKED, (b"axx",), (b"a" * 14 + b"xx",))
schema(
    "not a pattern of 20 characters",
    {"type": "string", "not": {"pattern": "a.{20}"}},
    accepted=("a" * 20,),
    rejected=("b" + "a" * 21,),
)
schema(
    "not three patterns",
    {"type": "string", "allOf": [{"not": {"pattern": p}} for p in ("a.{9}b", "b.{8}c", "c.{7}a")]},
    accepted=("abc",),
    rejected=("a123456789b",),
)
pattern("^.{1,200}$", "^.{1,200}$", WALKED, (b"a" * 200,), (b"", b"a" * 201))
schema(
    "^.{1,200}$ in a string",
    {"type": "string", "pattern": "^.{1,200}$"},
    accepted=("a" * 200, "é" * 200),
    rejected=("", "a" * 201),
)
schema(
    r"50 words in 500 characters",
    {"type": "string", "pattern": r"^(\S+\s+){0,49}\S+$", "maxLength": 500},
    accepted=("the name", "a " * 49 + "b"),
    rejected=("a " * 50 + "b", "a" * 501),
)
pattern("nested counters", "((a{1,1000}){1,1000}){1,1000}", WALKED, (b"a" * 3000,), (b"",))
pattern(
    "nested counters with gaps",
    "((a{2,3}b){2,3}c){100,1000}",
    WALKED,
    (b"aabaabc" * 100,),
    (b"aabaabc" * 99,),
)
pattern("nested counters, ambiguous", "((a{1,9}|ab){1,99}b?){1,999}", WALKED, (b"aabab",), (b"b",))
pattern("counters of optional parts", "((a?b?){500}c?){500}", WALKED, (b"", b"abc"), (b"d",))
pattern("(a*)*b", "(a*)*b", WALKED, (b"aaab", b"b"), (b"aaa",))
pattern("(a|aa)*", "(a|aa)*", WALKED, (b"aaa",), (b"ab",))
pattern("(a|a?)+$", "(a|a?)+$", WALKED, (b"aaa",), (b"ab",))
pattern("(x+x+)+y", "(x+x+)+y", WALKED, (b"xxy",), (b"xy",))
pattern("a?{30}a{30}", "(a?){30}a{30}", WALKED, (b"a" * 45,), (b"a" * 29, b"a" * 61))
pattern("20 stars in a row", "a*" * 20 + "b", WALKED, (b"aab",), (b"ba",))
pattern(
    "10,000 alternatives",
    "|".join(f"word{i}" for i in range(10_000)),
    WALKED,
    (b"word9999",),
    (b"word10000",),
)
pattern(
    "10,000 alternatives with a tail",
    "(" + "|".join(f"w{i}x?" for i in range(10_000)) + "){3}",
    WALKED,
    (b"w1w2w3x",),
    (b"w1w2",),
)
pattern("10,000 parentheses", "(" * 10_000 + "a" + ")" * 10_000, WALKED, (b"a",))
pattern("10,000 groups, each optional", "(" * 10_000 + "a" + ")?" * 10_000, WALKED, (b"a", b""))
pattern("1,500 groups, each followed", "(" * 1_500 + "a" + "b*)*" * 1_500, TOO_LARGE)
pattern("20 groups, each followed", "(" * 20 + "a" + "b*)*" * 20, WALKED, (b"ab",))
pattern("10,000 groups, each followed", "(" * 10_000 + "a" + "b)*" * 10_000, TOO_LARGE)
pattern("5,000 open parentheses", "(" * 5_000, INVALID)
pattern("1,000 assertions nested", "(?=" * 1_000 + "a" + ")" * 1_000, TOO_LARGE)
pattern("Unicode classes", r"(\w\W\d\D\s\S){20}", WALKED)
pattern("Unicode properties", r"\p{L}{3}\p{Lu}*\P{N}", WALKED, ("éabA-".encode(),), (b"12",), dialect="ecma")
pattern("every class and its complement", r"[\s\S]*[^\x00-\U0010ffff]?x", WALKED, (b"x",))
pattern(
    "a class of 2,000 ranges",
    "[" + "".join(f"\\u{c:04x}" for c in range(0x100, 0x10A0, 2)) + "]{1,9}",
    WALKED,
    ("Ā".encode(),),
    ("ā".encode(),),
)
pattern("ignore case over Unicode", r"(straße|İ|ﬀ|[à-þ]){1,50}", WALKED, ("STRAßE".encode(),), flags="i")
pattern("a possessive quantifier", "(a*+)b", UNSUPPORTED)
pattern("an atomic group", "(?>a*)b", UNSUPPORTED)
pattern("a back-reference", r"(a)\1", UNSUPPORTED)
pattern("a reversed range", "[z-a]", INVALID)
pattern("a reversed count", "a{3,1}", INVALID)
pattern("a count of 5,000 digits", "a{" + "9" * 5_000 + "}", TOO_LARGE)
pattern("100 KB of letters", "a" * 100_000, WALKED)
pattern("40,000 stars", "a*b*" * 20_000 + "c", TOO_LARGE)
pattern("1,000 stars", "a*b*" * 500 + "c", WALKED, (b"aabbac",), (b"ab",))
pattern("no text at all", r"[^\s\S]", UNSATISFIABLE)
pattern("a contradiction", "(?=a)b", UNSATISFIABLE)
pattern("a null byte", "a\x00b", WALKED, (b"a\x00b",))
pattern("a lone surrogate", "a\ud800", UNSATISFIABLE)  # no UTF-8 text holds one
pattern("an escaped surrogate", r"a\ud800", UNSATISFIABLE)

# ---------------------------------------------------------------- other grammars


def _rules(count: int, backwards: bool) -> str:
    lines = [f'r{i} ::= "a" r{i + 1} | "b"' for i in range(count)]
    return "\n".join(["root ::= r0", *(reversed(lines) if backwards else lines), f'r{count} ::= "c"'])


def grammar(
    name: str,
    text: Any,
    outcome: str = WALKED,
    accepted: tuple[bytes, ...] = (),
    rejected: tuple[bytes, ...] = (),
    read: Any = gbnf,
) -> None:
    case(name, lambda: read(text() if callable(text) else text), outcome, accepted, rejected)


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
grammar("20,000 parentheses", "root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000, WALKED, (b"a",))
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
grammar("a count of 5,000 digits in a grammar", 'root ::= "a"{' + "9" * 5_000 + "}", TOO_LARGE)
grammar(
    "ebnf difference, nested",
    'root ::= ((([a-z]+ - "if") - "do") - ("a" [a-z]*))',
    WALKED,
    (b"bc",),
    (b"if", b"ab"),
    read=ebnf,
)
grammar("ebnf difference of recursion", 'root ::= a - "x"\na ::= "(" a ")" | "x"', UNSUPPORTED, read=ebnf)
grammar("ebnf left recursion", 'root ::= root "a" | "b"', WALKED, (b"baa",), (b"ab",), read=ebnf)

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

# ---------------------------------------------------------------- what is no JSON

schema("a key that is no string", {"properties": {1: True}}, INVALID)
schema("NaN", {"minimum": float("nan")}, INVALID)
schema("infinity", {"const": float("inf")}, INVALID)
schema("bytes", {"const": b"a"}, INVALID)
case("NaN as text", lambda: json_schema('{"minimum": NaN}'), INVALID)
schema(
    "a lone surrogate in a const", {"const": "a\ud800"}, accepted=("a\ud800",)
)  # JSON can write it as \ud800
schema("a lone surrogate in a name", {"type": "object", "properties": {"\udfff": True}})
schema("a lone surrogate in a pattern", {"type": "string", "pattern": "\ud83d"}, UNSATISFIABLE)
schema(
    "a lone surrogate in a description", {"type": "null", "description": "\ud83d"}, WALKED, accepted=(None,)
)
case("a lone surrogate as text", lambda: json_schema('{"const": "\\ud800"}'), WALKED)
schema("null characters", {"const": "a\0b", "title": "\0"}, accepted=("a\0b",))
case("bytes that are no UTF-8", lambda: json_schema(b'{"const": "\xff"}'), INVALID)
case("a key twice", lambda: json_schema('{"type": "null", "type": "string"}'), INVALID)
schema("a type of no name", {"type": "nothing"}, INVALID)
schema("types by the thousand", {"type": ["null", "string"] * 1_000}, INVALID)
schema("properties that are a list", {"properties": []}, INVALID)
schema("an enum of nothing", {"enum": []}, UNSATISFIABLE)
schema("false", False, UNSATISFIABLE)

# ---------------------------------------------------------------- vocabularies

_ANY = {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 4}
schema("tokens without bytes", _ANY, accepted=(["a"],), vocabulary=_odd(b"", b"", b"ab", b""))
schema("the same token ten times", _ANY, accepted=(["a"],), vocabulary=_odd(*[b'["a'] * 10))
schema(
    "tokens that end inside a character",
    _ANY,
    accepted=(["€"],),
    vocabulary=_odd(b'"\xe2', b"\x82", b'\xac"', b"\xf0\x9f", b"\x98\x80\xe2\x82"),
)
schema(
    "tokens that are no UTF-8",
    _ANY,
    accepted=(["€"],),
    vocabulary=_odd(b"\xff\xfe", b"a\xc0\x80", b"\xed\xa0\x80"),
)
schema(
    "a token of 1,000 bytes",
    _ANY,
    accepted=(["aaaa"],),
    vocabulary=_odd(b"[" + b'"aaaa",' * 142, b"a" * 1_000),
)
schema(
    "a token of 100,000 bytes",
    {"type": "string"},
    accepted=("aaaa",),
    vocabulary=_odd(b"a" * 100_000, b'"' + b"a" * 70_000),
)
schema("many ends", _ANY, accepted=([],), vocabulary=_odd(b"[]", more_ends=50))

SLOW = frozenset(
    (
        "prefixItems, 20,000 of them",
        "5,000 required properties",
        "5,000 optional properties and others",
        "2,000 optional properties, 5 to 9 of them",
        "an enum of 100,000 strings",
        "an enum of 100,000 numbers",
        "an enum of 20,000 objects",
        "a const of 1,000,000 characters",
        "a schema of 1 MB",
        "oneOf nested 12 levels, each twice",
        "10,000 alternatives",
        "10,000 alternatives with a tail",
        "Unicode properties",
        "every class and its complement",
        "ignore case over Unicode",
        "100 KB of letters",
        "40,000 stars",
        "look-ahead, and not",
        "5,000 rules backwards",
        "5,000 alternatives",
        "5,000 rules that rename",
        "20,000 parentheses",
        "5,000 optional parentheses",
        "a choice of 100,000",
        "a span of 50,000 characters",
        "a token of 100,000 bytes",
    )
)
"""Cases that take a second or more: correct and bounded, and tested with the slow tests."""
assert CASES.keys() >= SLOW
