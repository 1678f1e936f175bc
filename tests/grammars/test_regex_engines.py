"""Random patterns mean what the engine of their dialect matches: `re`, Rust's `regex` in pydantic-core, JavaScript in Node, and `regex`."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable

import pytest
import regex
from pydantic_core import SchemaError, SchemaValidator, core_schema

from constrained.grammars.errors import ConstraintError, InvalidConstraint
from constrained.grammars.regex import parse
from tests.support.matching import matches
from tests.support.random_patterns import Dialect, random_pattern, random_texts

Row = tuple[str, str, list[str]]
"""A pattern, its flags, and texts."""
Answer = tuple[list[bool], list[bool]] | None
"""Whether each text matches as a whole, and whether it contains a match; None if the engine refuses the pattern."""

_NODE = r"""
const rows = JSON.parse(require("fs").readFileSync(0));
const compiled = (pattern, flags) => { try { return new RegExp(pattern, flags) } catch { return null } };
console.log(JSON.stringify(rows.map(([pattern, flags, texts]) => {
  const unicode = compiled(pattern, flags + "u");
  const own = /\\[pP]\{|\\u\{/.test(pattern);  // only with the flag u, which folds case by another rule
  const found = own || !flags.includes("i") ? unicode : compiled(pattern, flags);
  if (!found || (own && flags.includes("i"))) return null;
  const whole = new RegExp(`(?<![^])(?:${pattern})(?![^])`, found.flags);
  return [texts.map(text => whole.test(text)), texts.map(text => found.test(text))];
})));
"""


def python_answers(rows: list[Row]) -> list[Answer]:
    flags = {"i": re.I, "s": re.S, "m": re.M, "a": re.A, "x": re.X}
    answers: list[Answer] = []
    for pattern, letters, texts in rows:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of the constructs that are refused here
            try:
                compiled = re.compile(pattern, sum(flags[letter] for letter in letters))
            except (re.error, OverflowError):
                answers.append(None)
                continue
        answers.append(
            ([bool(compiled.fullmatch(t)) for t in texts], [bool(compiled.search(t)) for t in texts])
        )
    return answers


def rust_answers(rows: list[Row]) -> list[Answer]:
    def found(pattern: str, texts: list[str]) -> list[bool]:
        validator = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
        return [validator.isinstance_python(text) for text in texts]

    answers: list[Answer] = []
    for pattern, letters, texts in rows:
        flags = f"(?{letters})" if letters else ""
        try:
            answers.append((found(rf"{flags}\A(?:{pattern})\z", texts), found(flags + pattern, texts)))
        except SchemaError:
            answers.append(None)
    return answers


def ecma_answers(rows: list[Row]) -> list[Answer]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed: it judges ECMA-262 patterns")
    done = subprocess.run(
        [node, "-e", _NODE], input=json.dumps(rows), capture_output=True, text=True, check=True
    )
    answers: list[Answer] = json.loads(done.stdout)
    return answers


def regex_answers(rows: list[Row]) -> list[Answer]:
    """Those of the package `regex`, apart from what it has in another way: dotless i, the marks that are letters, verbose names."""
    answers: list[Answer] = []
    for pattern, letters, texts in rows:
        flags = sum(getattr(regex, letter.upper()) for letter in letters) | regex.V0
        if _ODD.intersection(pattern) or "\\B" in pattern or "x" in letters:
            answers.append(None)
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)
                compiled = regex.compile(pattern, flags)
        except (regex.error, KeyError):
            answers.append(None)
            continue
        answers.append(
            ([bool(compiled.fullmatch(t)) for t in texts], [bool(compiled.search(t)) for t in texts])
        )
    return answers


_ODD = frozenset("ıİſ\u212a\u0345")
ENGINES: dict[str, tuple[Dialect, Callable[[list[Row]], list[Answer]]]] = {
    "re": ("python", python_answers), "regex": ("python", regex_answers), "Rust": ("rust", rust_answers), "Node": ("ecma", ecma_answers),
}  # fmt: skip


@pytest.mark.ci
@pytest.mark.parametrize(
    ("engine", "count"),
    [
        *((engine, 300) for engine in ENGINES),
        *(pytest.param(engine, 20_000, marks=pytest.mark.slow) for engine in ENGINES),
    ],
)
def test_a_random_pattern_is_refused_or_means_what_its_engine_matches(engine: str, count: int) -> None:
    dialect, answers = ENGINES[engine]
    rng = random.Random(count)
    patterns = [random_pattern(rng, dialect) for _ in range(count)]
    odd = _ODD if engine == "regex" else frozenset()
    rows = [
        (pattern, flags, [text for text in random_texts(rng, pattern, 10) if odd.isdisjoint(text)])
        for pattern, flags, _ in patterns
    ]
    seen: Counter[str] = Counter()
    for (pattern, flags, texts), (*_, changed), answer in zip(rows, patterns, answers(rows), strict=True):
        if answer is None:
            continue
        try:
            readings = [
                parse(pattern, dialect=dialect, flags=flags, search=search) for search in (False, True)
            ]
        except ConstraintError as error:
            # What is refused as malformed is malformed; relics that JavaScript reads without the flag u are not looked for.
            seen["malformed" if isinstance(error, InvalidConstraint) and not changed else "refused"] += 1
            continue
        for reading, expected in zip(readings, answer, strict=True):
            assert [matches(reading, text) for text in texts] == expected, (pattern, flags, texts)
        seen["compared"] += 1
    assert seen["compared"] > count / 3, seen
    assert not seen["malformed"], seen


@pytest.mark.skipif(sys.version_info < (3, 11), reason="re has atomic groups from Python 3.11")
@pytest.mark.parametrize(
    "pattern",
    [r"\d++(?:\.\d++)?+", r"(?>a|ab)c", r"(?>\w+\s*)-", r"(?:ab)++c", "(?>a*)a", "a{1,2}+a?", "(?>a{2}|ab?)b", r"(?:[ab]++,)*c"],
)  # fmt: skip
def test_what_gives_nothing_back_means_what_re_matches(pattern: str) -> None:
    reading, compiled = parse(pattern), re.compile(pattern)
    rng = random.Random(pattern)
    for _ in range(300):
        text = "".join(rng.choices("aabbc,-. 1", k=rng.randrange(7)))
        assert matches(reading, text) == bool(compiled.fullmatch(text)), text
