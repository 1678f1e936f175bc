"""Random large schemas, each compiled and followed in a process of its own: what exceeds the goals of the bench of hostile cases.

python -m tests.tools.large_schemas --seconds 600 --seed 1 --keep folder

The fuzzer of the native core never sees the Python in front of it, and random schemas that two validators judge are small. These
have lists of a thousand objects, patterns with many states, large counts, and alternatives in alternatives. Prints a line for each
that is stopped, raises after its first token, or exceeds a goal of `constrained bench hostile`; then how all of them ended. With `--keep` the schemas of these lines are written there, by seed.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from constrained.bench.hostile.case import schema_case
from constrained.bench.hostile.measure import REFUSED, Limits, measure
from constrained.bench.hostile.run import exceeds
from constrained.bench.masks.engines import load_engine
from constrained.bench.masks.workload import load_bench_vocabulary

ENGINES = ("constrained", "constrained-any-order")
MOST_SCHEMAS = 1_500
"""Subschemas after which only leaves are drawn."""
PATTERNS = [
    ".*a.{12}.*", "^[ab]*a[ab]{20}$", "(.*a){25}", "^(a+)+$", "^(ab|a){1,5000}$", "^.{1,100000}$", r"\w{1,3000}", "a", "b",
    "^[a-z]+$", "[0-9]{3}", r"^(?:[a-z]{1,63}\.){1,20}[a-z]{2,}$", "x.*y.*z", "^.*(foo|bar|baz).*$", "^(?!a)", "^[^a]*$",
    "(a|b|ab)*c", "^a{1000}$", "^(aa|aaa){300}$", r"\d+\w+\d+\w+\d+",
]  # fmt: skip
FORMATS = [
    "idn-hostname", "uri", "date-time", "email", "ipv6", "uuid", "regex", "hostname", "duration", "json-pointer", "uri-template",
    "iri", "idn-email", "time", "date",
]  # fmt: skip
FEW, MANY = (1, 2, 3, 5), (2, 5, 12, 20, 40, 100, 300, 1_000, 5_000, 50_000)


class LargeSchemas:
    """Draws one schema of random size.

    Args:
        draw: where random numbers come from.
    """

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._left = MOST_SCHEMAS
        self._names = 30

    def schema(self, depth: int) -> Any:
        """A schema with so many levels, at most."""
        self._left -= 1
        if depth <= 0 or self._left < 0:
            return self._leaf()
        return self._one(self._object, self._object, self._object, self._array, self._array, self._combined)(
            depth
        )

    def _one(self, *options: Any) -> Any:
        return self._draw.choice(options)

    def _if(self, probability: float) -> bool:
        return self._draw.random() < probability

    def _several(self, make: Callable[[], Any], *counts: int) -> list[Any]:
        return [make() for _ in range(self._one(*counts))]

    def _name(self) -> str:
        return f"p{self._draw.randrange(self._names)}" if self._if(0.7) else self._one(*"abcdefgh")

    def _names_of(self, *counts: int) -> list[str]:
        return sorted(set(self._several(self._name, *counts)))

    def _leaf(self) -> Any:
        plain = (
            True,
            {"type": "null"},
            {"type": "boolean"},
            {"type": ["string", "null", "integer"]},
            {"const": self._name()},
        )
        return self._one(self._string(), self._string(), self._number(), self._enum(), *plain)

    def _string(self) -> dict[str, Any]:
        def pattern() -> dict[str, str]:
            return {"pattern": self._one(*PATTERNS)}

        made: dict[str, Any] = {"type": "string"}
        made |= pattern() if self._if(0.4) else {}
        made |= {"minLength": self._one(*MANY)} if self._if(0.3) else {}
        made |= {"maxLength": self._one(*MANY) * self._one(1, 1, 10)} if self._if(0.3) else {}
        made |= {"format": self._one(*FORMATS)} if self._if(0.2) else {}
        made |= {"not": pattern()} if self._if(0.2) else {}
        for keyword in ("allOf", "anyOf", "oneOf"):
            made |= {keyword: self._several(pattern, *FEW)} if self._if(0.1) else {}
        return made

    def _number(self) -> dict[str, Any]:
        made: dict[str, Any] = {"type": self._one("integer", "number")}
        made |= {"minimum": self._one(0, -1000, 0.5, 10**20, 1e-9)} if self._if(0.3) else {}
        made |= {"maximum": self._one(7, 1e10, 10**30, 99.25)} if self._if(0.3) else {}
        made |= {"multipleOf": self._one(7, 0.01, 1e-5, 97, 4_093, 2.5, 13)} if self._if(0.4) else {}
        return made

    def _enum(self) -> dict[str, Any]:
        count = self._one(2, 10, 100, 1_000)
        words, objects = (
            [f"v{i}" for i in range(count)],
            [{self._name(): i, "k": f"v{i % 7}"} for i in range(count)],
        )
        return {"enum": self._one(words, words, objects, [*range(count)])}

    def _part(self, depth: int) -> Any:
        """An alternative of an object."""
        members = {name: self._leaf() for name in self._names_of(1, 2, 4)}
        return self._one(
            {"required": self._names_of(1, 1, 2, 3)},
            {"properties": members, "required": [*members][: self._one(0, 1, 2)]},
            {"properties": members, "required": [*members], "additionalProperties": False},
            {"minProperties": self._one(1, 2, 5, 20)},
            self.schema(depth - 2),
        )

    def _object(self, depth: int) -> dict[str, Any]:
        self._names = self._one(5, 12, 12, 40, 200)

        def part() -> Any:
            return self._part(depth)

        def below() -> Any:
            return self.schema(depth - 2)

        made: dict[str, Any] = {"type": "object"} if self._if(0.85) else {}
        if self._if(0.7):
            names = self._names_of(1, 3, 8, 12, 20, 50, 200)
            made["properties"] = {name: below() if self._if(0.2) else self._leaf() for name in names}
        made |= {"required": self._names_of(1, 2, 5, 12, 100)} if self._if(0.4) else {}
        if self._if(0.25):
            made["patternProperties"] = {self._one(*PATTERNS): below() for _ in range(self._one(1, 2, 3, 6))}
        made |= {"additionalProperties": self._one(False, False, below())} if self._if(0.4) else {}
        made |= {"propertyNames": self._string()} if self._if(0.15) else {}
        made |= {"minProperties": self._one(1, 2, 5, 10, 20, 50, 200, 1_000)} if self._if(0.25) else {}
        made |= {"maxProperties": self._one(0, 1, 2, 5, 10, 50, 1_000)} if self._if(0.2) else {}
        if self._if(0.2):
            made["dependentRequired"] = {
                name: self._names_of(1, 2, 3) for name in self._names_of(1, 2, 4, 8, 12)
            }
        if self._if(0.15):
            made["dependentSchemas"] = {name: part() for name in self._names_of(1, 2, 4, 8, 12)}
        made |= {"unevaluatedProperties": self._one(False, {"type": "string"})} if self._if(0.1) else {}
        if self._if(0.2):
            made[self._one("anyOf", "oneOf", "allOf")] = self._several(part, 2, 2, 3, 5, 8, 14, 50, 200)
        made |= {"not": part()} if self._if(0.1) else {}
        made |= {"if": part(), "then": part(), "else": part()} if self._if(0.15) else {}
        return made

    def _array(self, depth: int) -> dict[str, Any]:
        def below() -> Any:
            return self.schema(depth - 1)

        made: dict[str, Any] = {"type": "array"} if self._if(0.85) else {}
        made |= {"items": below()} if self._if(0.7) else {}
        made |= {"prefixItems": self._several(below, 1, 2, 5, 20, 100)} if self._if(0.2) else {}
        made |= {"minItems": self._one(1, 2, 5, 10, 20, 100, 1_000, 10_000)} if self._if(0.4) else {}
        made |= {"maxItems": self._one(1, 2, 5, 10, 20, 100, 1_000, 10_000)} if self._if(0.3) else {}
        made |= {"uniqueItems": True} if self._if(0.35) else {}
        if self._if(0.25):
            made["contains"] = below()
            made |= {"minContains": self._one(1, 2, 3, 10, 50)} if self._if(0.5) else {}
            made |= {"maxContains": self._one(1, 2, 3, 10, 50)} if self._if(0.3) else {}
        made |= {"unevaluatedItems": False} if self._if(0.1) else {}
        made |= (
            {"allOf": self._several(lambda: {"contains": below()}, 1, 2, 3, 5, 12)} if self._if(0.15) else {}
        )
        made |= {"not": {"uniqueItems": True}} if self._if(0.05) else {}
        return made

    def _combined(self, depth: int) -> dict[str, Any]:
        keyword = self._one("anyOf", "oneOf", "allOf")
        return {keyword: self._several(lambda: self.schema(depth - 1), 2, 2, 3, 5, 10, 40)}


def main() -> None:
    """Draws until the time is up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    _, tokens = load_bench_vocabulary("tekken")
    engines = {name: load_engine(name)(tokens, 1) for name in ENGINES}
    outcomes: Counter[tuple[str, str, str]] = Counter()
    seed, end = options.seed, time.monotonic() + options.seconds
    while time.monotonic() < end:
        seed += 1
        draw = random.Random(seed)
        made = LargeSchemas(draw).schema(draw.choice((1, 2, 2, 3, 3, 4)))
        for name, engine in engines.items():
            found = measure(schema_case(made), engine, tokens.tokens, Limits(steps=30), seed)
            outcomes[
                name, found.outcome, found.detail.partition(":")[0] if found.outcome == REFUSED else ""
            ] += 1
            if exceeds(found):
                print(seed, name, found, flush=True)
                if options.keep is not None:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{seed}.json").write_text(json.dumps(made))
    for (name, outcome, reason), count in sorted(outcomes.items()):
        print(f"{count:8,} {name}: {outcome} {reason}".rstrip())


if __name__ == "__main__":
    main()
