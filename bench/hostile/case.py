"""A hostile case: a constraint, where other engines can read it too its source, and what has to become of it.

The modules of `constrained.bench.hostile.cases` fill the table `CASES` when they are imported.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from constrained.constraint import Constraint, ebnf, gbnf, json_schema, regex
from constrained.vocabulary import Vocabulary

WALKED, INVALID, UNSUPPORTED = "walked", "InvalidConstraint", "UnsupportedConstraint"
TOO_LARGE, UNSATISFIABLE = "ConstraintTooLarge", "UnsatisfiableConstraint"

Notation = Literal["json_schema", "regex", "gbnf"]
"""Notations that several engines read."""


class Case(NamedTuple):
    """A hostile constraint, with a vocabulary that may be hostile too.

    Attributes:
        constraint: makes it; may raise.
        outcome: ``"walked"``, or the name of the error that refuses it.
        accepted, rejected: texts that the constraint allows, and that it does not.
        vocabulary: small, for tests.
        notation: of `source`; None: only this library reads it.
        source: makes the schema, the pattern or the grammar.
    """

    constraint: Callable[[], Constraint]
    outcome: str
    accepted: tuple[bytes, ...]
    rejected: tuple[bytes, ...]
    vocabulary: Callable[[], Vocabulary]
    notation: Notation | None = None
    source: Callable[[], Any] = lambda: None


CASES: dict[str, Case] = {}
"""By name."""


@functools.cache
def words() -> Vocabulary:
    """Every byte, and a few hundred tokens of JSON, words and parts of characters."""
    pieces = ['"', '":', '",', '{"', "[", "]", "}", "]]", "[[", ", ", "  ", "\n"]
    pieces += ["the", " name", "aaa", "ab", "12", "0", "é", "€"]
    draw = random.Random(1)
    made = dict.fromkeys("".join(draw.choices(pieces, k=draw.randint(1, 3))) for _ in range(400))
    texts = [piece.encode() for piece in (*pieces, *made)]
    return byte_vocabulary(*texts, "€".encode()[:2], "😀".encode()[1:], b"a\xe2\x82")()


def byte_vocabulary(*pieces: bytes, ends: int = 1) -> Callable[[], Vocabulary]:
    """All single bytes, then these pieces, then ends of sequence."""

    def build() -> Vocabulary:
        tokens = [*(bytes((byte,)) for byte in range(256)), *pieces, *[b""] * ends]
        return Vocabulary.from_bytes(tokens, range(len(tokens) - ends, len(tokens)))

    return build


def case(
    name: str,
    constraint: Callable[[], Constraint],
    outcome: str = WALKED,
    accepted: tuple[bytes, ...] = (),
    rejected: tuple[bytes, ...] = (),
    vocabulary: Callable[[], Vocabulary] = words,
    **source: Any,
) -> None:
    """Adds a case; see `Case`."""
    assert name not in CASES, name
    CASES[name] = Case(constraint, outcome, accepted, rejected, vocabulary, **source)


def schema_case(made: Any) -> Case:
    """A JSON Schema of which nothing is expected."""
    return Case(lambda: json_schema(made), WALKED, (), (), words, "json_schema", lambda: made)


def schema(
    name: str,
    made: Any,
    outcome: str = WALKED,
    accepted: tuple[Any, ...] = (),
    rejected: tuple[Any, ...] = (),
    **more: Any,
) -> None:
    """Adds a JSON Schema, or a function that makes one; the texts as JSON values."""
    make = made if callable(made) else lambda: made
    case(
        name,
        lambda: json_schema(make()),
        outcome,
        tuple(json.dumps(value).encode() for value in accepted),
        tuple(json.dumps(value).encode() for value in rejected),
        notation="json_schema",
        source=make,
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
    """Adds a regular expression."""
    case(
        name,
        lambda: regex(made, **how),
        outcome,
        accepted,
        rejected,
        notation=None if how else "regex",
        source=lambda: made,
    )


def grammar(
    name: str,
    text: str | Callable[[], str],
    outcome: str = WALKED,
    accepted: tuple[bytes, ...] = (),
    rejected: tuple[bytes, ...] = (),
    *,
    is_ebnf: bool = False,
) -> None:
    """Adds a grammar in GBNF, or in EBNF."""
    make = text if callable(text) else lambda: text
    read = ebnf if is_ebnf else gbnf
    case(
        name,
        lambda: read(make()),
        outcome,
        accepted,
        rejected,
        notation=None if is_ebnf else "gbnf",
        source=make,
    )


def nested(depth: int, around: Callable[[Any], Any], inner: Any = True) -> Any:
    """`inner`, wrapped `depth` times."""
    for _ in range(depth):
        inner = around(inner)
    return inner
