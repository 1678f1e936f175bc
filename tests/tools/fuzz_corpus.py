"""Real schemas as inputs of the native fuzzer.

python -m tests.tools.fuzz_corpus FOLDER                  every twentieth schema of CONSTRAINED_DATA that is short enough
python -m tests.tools.fuzz_corpus FOLDER --every 5

Each file is the grammar of one schema in the bytes that `tests/native/written.hpp` reads, and then bytes that choose the tokens
of some walks; some are random arrays whose items are compared. The files stay where they are written: the schemas are no part of the project.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import warnings
from pathlib import Path
from typing import Any

from constrained.grammars import ir
from constrained.grammars.errors import ConstrainedError
from constrained.grammars.json_schema import lower_schema
from constrained.grammars.regex import analysis
from constrained.grammars.visit import children, fold

LONGEST = 1 << 13
"""As `kLongest` in `tests/native/driver.cpp`."""
WALK = 400
"""Bytes that choose tokens."""
DISTINCT = 64
"""Inputs of `tests/native/distinct.hpp`, arrays whose items are compared, that are written besides: random bytes."""
NONE = 0xFFFF
MOST = 1 << 12
"""Nodes of a grammar."""
REGEX_OPS = (
    ir.Literal,
    ir.Chars,
    ir.Concat,
    ir.Union,
    ir.Intersection,
    ir.Complement,
    ir.Repeat,
    ir.EmptySet,
    ir.DecimalMultiple,
)
EXPR_OPS = (ir.Terminal, ir.Call, ir.Sequence, ir.Choice, ir.Loop, ir.Interleave)


class Unwritten(Exception):
    """The grammar has what the format does not hold: large numbers, marks, substrings of a document."""


class Writer:
    """The bytes of a grammar."""

    def __init__(self, grammar: ir.Grammar) -> None:
        self._rules = {name: number for number, name in enumerate(grammar.rules)}
        regexes: dict[ir.Regex, int] = {}
        exprs: dict[ir.Expr, int] = {}
        made_regexes, made_exprs = (
            [bytearray(b"\0\0\0")],
            list[bytearray](),
        )  # the first one is the empty string
        for body in grammar.rules.values():
            parts: dict[ir.Expr, None] = {}
            fold(body, children, lambda expr, known: None, parts)
            for expr in parts:
                if isinstance(expr, ir.Terminal):
                    nodes: dict[ir.Regex, None] = {}
                    fold(expr.regex, analysis.children, lambda node, known: None, nodes)
                    for node in nodes:
                        if node not in regexes:
                            regexes[node] = len(made_regexes)
                            made_regexes.append(self._regex(node, regexes))
                if expr not in exprs:
                    if not made_exprs:  # the first one is a terminal
                        made_exprs.append(bytearray(b"\0\0\0"))
                    exprs[expr] = len(made_exprs)
                    made_exprs.append(self._expr(expr, regexes, exprs))
        out = bytearray(word(len(made_regexes) - 1, MOST)) + b"".join(made_regexes)
        out += word(len(self._rules) - 1, 256) + word(len(made_exprs) - 1, MOST) + b"".join(made_exprs)
        out += b"".join(word(exprs[body]) for body in grammar.rules.values())
        self.data = bytes(out + word(self._rules[grammar.start]))

    def _regex(self, node: ir.Regex, known: dict[ir.Regex, int]) -> bytearray:
        if type(node) not in REGEX_OPS:
            raise Unwritten(type(node).__name__)
        own = len(known)
        out = bytearray([REGEX_OPS.index(type(node))])
        if isinstance(node, ir.Literal):
            out += word(len(node.data), 256) + node.data
        elif isinstance(node, ir.Chars):
            out += word(len(node.ranges), 64)
            low = 0
            for first, last in node.ranges:
                out += point(first - low) + point(last - first)
                low = last + 1
        elif isinstance(node, ir.DecimalMultiple):
            if node.excluded or node.beyond:
                raise Unwritten("a multiple beside excluded ones, or beyond a place")
            out += node.packed
        elif isinstance(node, (ir.Concat, ir.Union, ir.Intersection)):
            out += word(len(node.parts), 512) + b"".join(word(own - 1 - known[part]) for part in node.parts)
        elif isinstance(node, (ir.Complement, ir.Repeat)):
            out += word(own - 1 - known[node.part])
            if isinstance(node, ir.Repeat):
                out += bounds(node.low, node.high)
        return out

    def _expr(self, expr: ir.Expr, regexes: dict[ir.Regex, int], known: dict[ir.Expr, int]) -> bytearray:
        if type(expr) not in EXPR_OPS:
            raise Unwritten(type(expr).__name__)
        own = known[expr]

        def child(part: ir.Expr) -> bytes:
            return word(own - 1 - known[part])

        out = bytearray([EXPR_OPS.index(type(expr))])
        if isinstance(expr, ir.Terminal):
            out += word(regexes[expr.regex])
        elif isinstance(expr, ir.Call):
            out += word(self._rules[expr.rule])
        elif isinstance(expr, (ir.Sequence, ir.Choice)):
            out += word(len(expr.parts), 512) + b"".join(map(child, expr.parts))
        elif isinstance(expr, ir.Loop):
            out += child(expr.part) + bounds(expr.low, expr.high)
        elif isinstance(expr, ir.Interleave):
            out += bounds(expr.low, expr.high) + word(expr.obligations, 1 << 12) + bytes([expr.ordered])
            out += child(expr.separator) + word(len(expr.entries), 64) + word(len(expr.required), 64)
            for entry in expr.entries:
                slot = NONE if entry.slot is None else entry.slot
                out += child(entry.head) + child(entry.body) + word(slot) + word(entry.discharges, 1 << 12)
                out += bytes([entry.distinct])
            out += b"".join(word(slot, 64) for slot in expr.required)
        return out


def word(number: int, below: int = NONE + 1) -> bytes:
    """Two bytes, the low one first."""
    if not 0 <= number < below:
        raise Unwritten(str(number))
    return number.to_bytes(2, "little")


def point(number: int) -> bytes:
    return number.to_bytes(3, "little")


def bounds(low: int, high: int | None) -> bytes:
    return word(low) + word(NONE if high is None else high - low)


def written(schema: Any, seed: int) -> bytes | None:
    """The input of a schema; None where it is refused, too long or beyond the format."""
    try:
        data = Writer(lower_schema(schema).grammar).data
    except (ConstrainedError, Unwritten):
        return None
    draw = random.Random(seed)
    whole = b"IR1\n" + b"\x05" + data + b"\x05" + draw.randbytes(WALK)
    return whole if len(whole) <= LONGEST else None


def distinct(seed: int) -> bytes:
    """An input that is a grammar of arrays whose items differ."""
    return b"UQ1\n" + random.Random(seed).randbytes(WALK)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=20, help="one in so many schemas [20]")
    options = parser.parse_args()
    data = os.environ.get("CONSTRAINED_DATA")
    if not data:
        print("CONSTRAINED_DATA is not set: the fuzzer begins without real schemas", file=sys.stderr)
        return
    warnings.simplefilter("ignore")
    options.folder.mkdir(parents=True, exist_ok=True)
    count = 0
    with gzip.open(Path(data) / "maskbench-dev.jsonl.gz", "rt") as lines:
        for number, line in enumerate(lines):
            if number % options.every == 0 and (found := written(json.loads(line)["schema"], number)):
                (options.folder / f"schema-{number}").write_bytes(found)
                count += 1
    for number in range(DISTINCT):
        (options.folder / f"distinct-{number}").write_bytes(distinct(number))
    print(f"{count} schemas and {DISTINCT} arrays of compared items written to {options.folder}")


if __name__ == "__main__":
    main()
