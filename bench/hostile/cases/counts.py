"""Counts and bounds that are large or contradict each other."""

from __future__ import annotations

from constrained.bench.hostile.case import (
    INVALID,
    TOO_LARGE,
    UNSATISFIABLE,
    UNSUPPORTED,
    WALKED,
    case,
    grammar,
    pattern,
    schema,
)
from constrained.constraint import json_schema

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
    grammar(f'gbnf "ab"{{{shown}}}', f'root ::= "ab"{{{count}}}', wide)

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
schema("multipleOf a number of 60 digits", {"type": "integer", "multipleOf": 10**60 + 7}, UNSUPPORTED)
for bad in (-1, 1.5, "3", True, None):
    schema(f"maxItems {bad!r}", {"type": "array", "maxItems": bad}, INVALID)
schema(
    "maxItems 2.0",
    {"type": "array", "maxItems": 2.0, "items": {"type": "null"}},
    accepted=([None],),
    rejected=([None] * 3,),
)
schema("counts in the wrong order", {"type": "array", "minItems": 10**9, "maxItems": 5}, UNSATISFIABLE)
schema(
    "minLength 50,000",
    {"type": "string", "minLength": 50_000},
    accepted=("a" * 50_000,),
    rejected=("a",),
)
schema(
    "multipleOf 999999999999999989 from 1e300 on",
    {"type": "integer", "multipleOf": 999_999_999_999_999_989, "minimum": 10**300},
    UNSUPPORTED,
)
schema(
    "multipleOf 7 from 1e300 on",
    {"type": "integer", "multipleOf": 7, "minimum": 10**300},
    accepted=(7 * 10**300,),
    rejected=(7, 7 * 10**300 + 1),
)
schema("a bound of 4,000 digits", {"type": "integer", "minimum": 10**4000}, INVALID)
schema(
    "multipleOf 999999999999999989",
    {"type": "integer", "multipleOf": 999_999_999_999_999_989},
    UNSUPPORTED,
)
schema(
    "multiples of 7, 11, 13, 17, 19 and 23",
    lambda: {"type": "integer", "allOf": [{"multipleOf": n} for n in (7, 11, 13, 17, 19, 23)]},
    UNSUPPORTED,
)
