"""Regular expressions."""

from __future__ import annotations

from constrained.bench.hostile.case import (
    INVALID,
    TOO_LARGE,
    UNSATISFIABLE,
    UNSUPPORTED,
    WALKED,
    pattern,
    schema,
)

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
schema(
    "counts within counts, and a letter excluded",
    {
        "type": "string",
        "pattern": "((b([^\\n][ab][ab])*|(([^\\n][ab][ab]|b[ab].){4}){3,5}){0,4}){4}",
        "not": {"pattern": "c"},
    },
    TOO_LARGE,
)
pattern("counts of one part in a loop", "((ab){5,6}|(ab){1,3})*", WALKED, (b"", b"ab" * 4), (b"a",))
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
pattern("a possessive quantifier", "(a*+)b", WALKED, (b"aab",), (b"a",))
pattern("an atomic group", "(?>a|ab)+c", UNSUPPORTED)
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
schema(
    "^.{1,1000000}$ in a string",
    {"type": "string", "pattern": "^.{1,1000000}$"},
    accepted=("a",),
    rejected=("",),
)
schema(
    "^(ab|a){1,5000}$ in a string",
    {"type": "string", "pattern": "^(ab|a){1,5000}$"},
    accepted=("aab",),
    rejected=("b",),
)
for _count in (20, 60, 200):
    schema(
        f"[ab]*a[ab]{{{_count}}} in a string",
        {"type": "string", "pattern": f"^[ab]*a[ab]{{{_count}}}$"},
        accepted=("a" + "b" * _count,),
        rejected=("b" * (_count + 1),),
    )
schema(
    "(.*a){25} in a string",
    {"type": "string", "pattern": "^(.*a){25}$"},
    accepted=("ba" * 25,),
    rejected=("a" * 24,),
)
schema("(a+)+$ in a string", {"type": "string", "pattern": "^(a+)+$"}, accepted=("aaa",), rejected=("aab",))
schema(
    "two patterns of which each has many states",
    {"type": "string", "allOf": [{"pattern": "^[ab]*a[ab]{12}$"}, {"pattern": "^[ab]*b[ab]{9}$"}]},
    accepted=("a" * 4 + "b" * 10,),
    rejected=("a" * 14,),
)
schema(
    "not .*a.{12}.* in a string",
    {"type": "string", "not": {"pattern": ".*a.{12}.*"}},
    accepted=("a" * 12,),
    rejected=("a" * 13,),
)
schema(
    "a word of up to 3,000 letters in a string",
    {"type": "string", "pattern": r"^\w{1,3000}$"},
    accepted=("a" * 3000,),
    rejected=("", "-"),
)
pattern("(a|a)* 500 times", "((a|a)*){500}", WALKED, (b"", b"aaa"), (b"b",))
pattern("[ab]*a[ab]{60}", "[ab]*a[ab]{60}", WALKED, (b"a" + b"b" * 60,), (b"b" * 61,))
pattern(r"\w{1,3000}", r"\w{1,3000}", WALKED, (b"a" * 3000,), (b"",))
pattern("counts of what is counted, read in several ways", "((ab?c?){5,50}d?){50,}", TOO_LARGE)
pattern(
    "an atomic group of 1,500 alternatives", f"(?>{'|'.join(f'a{i}b*' for i in range(1500))})c", TOO_LARGE
)
pattern(
    "possessive loops one after the other", "(?:ab{1,200}c)++d" * 300, WALKED, (b"abcd" * 300,), (b"abc",)
)
