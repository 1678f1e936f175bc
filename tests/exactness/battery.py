"""Languages, vocabularies and models over which every sampler is compared with enumeration.

Everything here is decided by brute force: all sequences of at most `limit` tokens are written out, another
implementation than ours judges their texts, and probabilities are products of the model's own numbers. It shares no
code with `constrained.testing` or `constrained.sampling`.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import jsonschema
import numpy as np

import constrained
from tests.exactness.prefix_model import PrefixModel

Tokens = tuple[int, ...]


class TableModel(PrefixModel):
    """A model whose logits after a completion are `table(completion)`."""

    def __init__(
        self, pieces: Sequence[bytes], ends: int, table: Callable[[Tokens], np.ndarray], dtype: Any
    ) -> None:
        super().__init__(pieces, ends)
        self.table, self.dtype = table, dtype

    def logits(self, completion: Tokens) -> np.ndarray:
        return self.table(completion).astype(self.dtype)


@dataclass(frozen=True)
class Truncation:
    """What masking leaves of the allowed ids: the `k` likeliest, of these the likeliest until they have the mass `p`, and
    of these what has at least `m` times the probability of the likeliest.
    """

    k: int | None = None
    p: float | None = None
    m: float | None = None

    def __str__(self) -> str:
        return "".join(f"-{name}{value}" for name, value in self.settings.items())

    @property
    def settings(self) -> dict[str, Any]:
        """As arguments of a draw."""
        named = {"top_k": self.k, "top_p": self.p, "min_p": self.m}
        return {name: value for name, value in named.items() if value is not None}

    def left(self, row: np.ndarray, ids: Sequence[int]) -> set[int]:
        """Which of these ids are left of a row of probabilities; among equals the lowest ids."""
        ranked = sorted(ids, key=lambda token: (-row[token], token))
        if self.k is not None:
            ranked = ranked[: self.k]
        if self.p is not None:
            whole, before, kept = math.fsum(row[token] for token in ranked), 0.0, []
            for token in ranked:
                if kept and before >= self.p * whole:
                    break
                kept.append(token)
                before += row[token]
            ranked = kept
        if self.m is not None:
            ranked = [token for token in ranked if row[token] >= self.m * row[ranked[0]]]
        return set(ranked)


@dataclass(frozen=True)
class Case:
    """A constraint and what it is tried with.

    Attributes:
        constraint: makes it.
        valid: whether a text is in its language, by another implementation.
        pieces: bytes of the tokens; ``b""`` is a token that is no text.
        limit: `max_tokens`.
        ends: number of end ids.
        kind: of logits: ``"smooth"``, ``"spiky"`` (some +30), or ``"impossible"`` (some -inf).
        temperature: of the draws.
        seed: of the logits.
        truncation: of local masking.
        longest: tokens of the longest sequences to enumerate; `limit` if 0.
    """

    name: str
    constraint: Callable[[], Any]
    valid: Callable[[bytes], bool]
    pieces: tuple[bytes, ...]
    limit: int
    ends: int = 1
    kind: str = "smooth"
    dtype: Any = np.float64
    temperature: float = 1.0
    seed: int = 0
    longest: int = 0
    truncation: Truncation = field(default_factory=lambda: Truncation())

    def __str__(self) -> str:
        return (
            f"{self.name}-{self.limit}-{self.kind}-{np.dtype(self.dtype).name}-T{self.temperature}-{self.seed}"
            f"{self.truncation}"
        )

    @property
    def by_function(self) -> bool:
        """Whether a predicate decides: its masks do not look ahead to the limit."""
        return "predicate" in self.name

    @cached_property
    def spellings(self) -> list[Tokens]:
        """All sequences of at most `limit` tokens whose text is valid."""
        return [
            ids
            for ids in _spellings(self.pieces, self.valid, self.longest or self.limit)
            if len(ids) <= self.limit
        ]

    def text(self, ids: Tokens) -> bytes:
        return b"".join(self.pieces[i] for i in ids)

    @cached_property
    def follow(self) -> dict[Tokens, set[int]]:
        """By each prefix of a valid sequence: the tokens after it that lead to one."""
        found: dict[Tokens, set[int]] = {}
        for ids in self.spellings:
            for n in range(len(ids) + 1):
                found.setdefault(ids[:n], set()).update(ids[n : n + 1])
        return found

    def raw(self, prefix: Tokens) -> np.ndarray:
        """Logits after a prefix."""
        random = np.random.default_rng([self.seed, len(prefix), *prefix])
        row = random.normal(size=len(self.pieces) + self.ends) * 1.5
        if self.kind == "spiky" and random.random() < 0.3:
            row[random.integers(len(row))] += 30.0
        if self.kind == "impossible" and len(self.follow.get(prefix, ())) > 1:
            row[min(self.follow[prefix])] = -math.inf
        return row

    @cached_property
    def model(self) -> TableModel:
        return TableModel(self.pieces, self.ends, cache(self.raw), self.dtype)

    def probabilities(self, prefix: Tokens) -> np.ndarray:
        """p of each id after a prefix, at the temperature."""
        scaled = self.raw(prefix).astype(self.dtype).astype(np.float64) / self.temperature
        p = np.exp(scaled - scaled.max())
        return p / p.sum()

    @cached_property
    def exact(self) -> Exact:
        return Exact(self)


@cache
def _spellings(pieces: tuple[bytes, ...], valid: Callable[[bytes], bool], longest: int) -> list[Tokens]:
    judge = cache(valid)
    text_ids = [i for i, piece in enumerate(pieces) if piece]
    return [
        ids
        for n in range(longest + 1)
        for ids in itertools.product(text_ids, repeat=n)
        if judge(b"".join(pieces[i] for i in ids))
    ]


class Exact:
    """P and Q of every valid sequence.

    Attributes:
        p: sequence of tokens -> the model's probability of it and an end.
        q: sequence of tokens -> its probability under local masking.
        left: sequence of tokens -> the model's probability of it and an end, as far as truncation leaves them.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.p: dict[Tokens, float] = {}
        self.q: dict[Tokens, float] = {}
        self.left: dict[Tokens, float] = {}
        finished = set(case.spellings)
        rows = {prefix: case.probabilities(prefix) for prefix in case.follow}
        for ids in case.spellings:
            p = q = left_of_p = 1.0
            for n in range(len(ids) + 1):
                row, prefix = rows[ids[:n]], ids[:n]
                allowed = [*case.follow[prefix], *(case.model.ends if prefix in finished else ())]
                left = {token for token in allowed if row[token] > 0.0}
                # An end that is known to have to come is not truncated; under a predicate only the limit tells.
                if case.follow[prefix] or (case.by_function and n < case.limit):
                    left = case.truncation.left(row, sorted(left))
                drawn = set(case.model.ends if n == len(ids) else [ids[n]])
                p *= math.fsum(row[token] for token in drawn)
                share = math.fsum(row[token] for token in drawn & left)
                left_of_p *= share
                q *= share / math.fsum(row[token] for token in left) if share else 0.0
            if p > 0.0:
                self.p[ids] = p
            if q > 0.0:
                self.q[ids], self.left[ids] = q, left_of_p
        self.mass = math.fsum(self.p.values())

    @property
    def pi(self) -> dict[Tokens, float]:
        """The conditional distribution of sequences."""
        return {ids: p / self.mass for ids, p in self.p.items()}

    def by_text(self, of: dict[Tokens, float]) -> dict[str, float]:
        """Sums over the spellings of each text."""
        found: dict[str, float] = {}
        for ids, share in of.items():
            text = self.case.text(ids).decode()
            found[text] = found.get(text, 0.0) + share
        return found

    def after_moves(self, moves: int) -> dict[Tokens, float]:
        """Distribution of an independence Metropolis-Hastings chain that begins in Q and proposes from Q."""
        ids = list(self.p)
        q = np.array([self.q[i] for i in ids])
        w = np.array([self.p[i] for i in ids]) / q
        kernel = q[None, :] * np.minimum(1.0, w[None, :] / w[:, None])
        kernel[np.arange(len(ids)), np.arange(len(ids))] += 1.0 - kernel.sum(1)
        state = q
        for _ in range(moves):
            state = state @ kernel
        return dict(zip(ids, state.tolist(), strict=True))


# Judges that are not ours.


def by_re(pattern: str) -> Callable[[bytes], bool]:
    compiled = re.compile(pattern.encode())
    return lambda text: compiled.fullmatch(text) is not None


def by_jsonschema(schema: Any) -> Callable[[bytes], bool]:
    validator = jsonschema.Draft202012Validator(schema)

    def valid(text: bytes) -> bool:
        try:
            value = json.loads(text)
        except ValueError:
            return False
        return validator.is_valid(value)

    return valid


def nested(text: bytes) -> bool:
    """Is it a...acb...b, as many a as b?"""
    half = len(text) // 2
    return text == b"a" * half + b"c" + b"b" * half


def gbnf_texts(text: bytes) -> bool:
    """Is it in `root ::= ("a" root "b")+ | "ab"`?"""
    if text == b"ab":
        return True
    depth, start = 0, 0
    parts = []
    for i, byte in enumerate(text):
        depth += 1 if byte == ord("a") else -1
        if depth < 0:
            return False
        if depth == 0:
            parts.append(text[start + 1 : i])
            start = i + 1
    return depth == 0 and bool(parts) and all(gbnf_texts(part) for part in parts)


def parity(text: str) -> bool:
    """Three letters, an even number of them b."""
    return len(text) == 3 and text.count("b") % 2 == 0


def parity_prefix(text: str) -> bool:
    return len(text) <= 3 and (len(text) < 3 or parity(text))


PATTERN = "(a|b)(c(a|b)d?|d(ab)?)?"
ARRAY = {"type": "array", "items": {"enum": [1, 2, 12]}, "minItems": 1, "maxItems": 2}
OBJECT = {
    "type": "object",
    "properties": {"a": {"enum": [1, [1]]}},
    "additionalProperties": False,
}
LETTERS = (b"a", b"b", b"c", b"d")
SPELLINGS = (b"a", b"b", b"c", b"d", b"ab", b"ca", b"ab", b"")
"""Ambiguous: `ab` is a b, or one of two equal tokens; one token is no text."""

CASES = [
    Case("regex", lambda: constrained.regex(PATTERN), by_re(PATTERN), LETTERS, 4),
    Case("regex-spellings", lambda: constrained.regex(PATTERN), by_re(PATTERN), SPELLINGS, 4, ends=2),
    Case("regex-open", lambda: constrained.regex("a*b?"), by_re("a*b?"), (b"a", b"b", b"aa", b"ab"), 4),
    Case(
        "choice", lambda: constrained.choice(["ab", "abab", "cab", "d"]),
        {b"ab", b"abab", b"cab", b"d"}.__contains__, SPELLINGS, 4, ends=2,
    ),
    Case(
        "schema-array", lambda: constrained.json_schema(ARRAY), by_jsonschema(ARRAY),
        (b"[", b"]", b"1", b"2", b",", b"12", b"[1", b",1"), 5,
    ),
    Case(
        "schema-object", lambda: constrained.json_schema(OBJECT), by_jsonschema(OBJECT),
        (b"{", b"}", b'"', b"a", b":", b"1", b"[", b"]", b'{"a":'), 5,
    ),
    Case(
        "lark", lambda: constrained.lark('start: "a" start "b" | "c"'), nested,
        (b"a", b"b", b"c", b"aa", b"cb", b"ab"), 5,
    ),
    Case(
        "lark-lexed", lambda: constrained.lark("start: X Y\nX: /a+/\nY: /b+c/"), by_re("a+b+c"),
        (b"a", b"b", b"c", b"ab", b"abc", b"aa"), 4,
    ),
    Case(
        "gbnf", lambda: constrained.gbnf('root ::= ("a" root "b")+ | "ab"'), gbnf_texts,
        (b"a", b"b", b"ab", b"ba"), 6,
    ),
    Case(
        "predicate", lambda: constrained.predicate(prefix_ok=parity_prefix, complete_ok=parity),
        lambda text: parity(text.decode()), (b"a", b"b", b"ab", b"ba"), 3, ends=2,
    ),
    Case(
        "predicate-and-grammar",
        lambda: constrained.regex("[ab]{2,3}") & constrained.predicate(prefix_ok=parity_prefix, complete_ok=parity),
        lambda text: b"c" not in text and parity(text.decode()), (b"a", b"b", b"ab", b"c"), 3,
    ),
]  # fmt: skip


def variants(case: Case) -> list[Case]:
    """A case at every limit that has a valid text, with every kind of logits, temperature and dtype in turn."""
    kinds = itertools.cycle(
        [("smooth", np.float64, 1.0), ("spiky", np.float64, 1.0), ("impossible", np.float64, 0.7),
         ("smooth", np.float32, 2.0)]
    )  # fmt: skip
    found = []
    for limit in range(1, case.limit + 1):
        if case.by_function and limit < case.limit:
            continue
        at_limit = replace(case, limit=limit, longest=case.limit)
        if len(at_limit.spellings) < 2:
            continue
        for _ in range(2 if limit < case.limit else 4):
            kind, dtype, temperature = next(kinds)
            found.append(
                replace(at_limit, kind=kind, dtype=dtype, temperature=temperature, seed=len(found) + 1)
            )
    return found


ALL = [variant for case in CASES for variant in variants(case)]
