"""Tasks whose distributions can be enumerated: small languages of the kinds that others measure such samplers on.

The kinds are those of the benchmarks in which masking was found to distort models: expressions over bit vectors and
over strings (SyGuS), and bracketed constituency trees; and those of genlm-control's documentation and of the paper on
AWRS (Lipkin et al. 2025): a pattern, objects of a schema, SQL, molecules. Grammars, predicates, texts and prompts are
our own, but for the pattern and the schema of its documentation. Each task has an n-gram model that has read a few texts
of the language: it writes what looks right from near and forgets what was opened, so it leaves the language often. Its
tokens are characters: then every text is one sequence of tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.bench.fidelity.ngrams import NGramModel
from constrained.bench.fidelity.predicates import has_columns, has_valences
from constrained.constraint import Constraint, gbnf, json_schema, lark, predicate, regex
from constrained.errors import InvalidArgument
from constrained.vocabulary import Vocabulary


class RecordingModel(NGramModel):
    """An n-gram model that records what it reads.

    Attributes:
        contexts: completions after which it has computed logits.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.contexts: set[tuple[int, ...]] = set()

    def logits(self, prompt: list[int], said: list[int]) -> NDArray[np.float64]:
        """See `NGramModel.logits`."""
        self.contexts.add(tuple(said))
        return super().logits(prompt, said)


@dataclass(frozen=True)
class FidelityTask:
    """A language, a model and a limit.

    Attributes:
        name: ``family/size``.
        make_constraint: the constraint.
        examples: texts that the model has read, and that the prompt shows; their characters are its tokens.
        limit: tokens of a text at most.
        request: the prompt of a model that reads prompts.
        order: of the n-gram model.
        strays: texts outside of the language that the model has read too.
    """

    name: str
    make_constraint: Callable[[], Constraint]
    examples: tuple[str, ...]
    limit: int
    request: str
    order: int
    strays: tuple[str, ...] = ()

    @cached_property
    def constraint(self) -> Constraint:
        """The language."""
        return self.make_constraint()

    def model(self) -> RecordingModel:
        """Its n-gram model, made afresh."""
        letters = sorted({letter for example in self.examples for letter in example})
        vocabulary = Vocabulary.from_bytes([*(letter.encode() for letter in letters), b""], [len(letters)])
        texts = [[letters.index(letter) for letter in example] for example in (*self.examples, *self.strays)]
        return RecordingModel(vocabulary, texts, order=self.order)

    @property
    def prompt(self) -> str:
        """The request and the examples."""
        return "\n".join([self.request, *self.examples, ""])


_BIT_VECTORS = """
root ::= term
term ::= [xy1] | "(~ " term ")" | "(" [+&] " " term " " term ")"
"""

_STRINGS = """
root ::= text
text ::= [st] | "'-'" | "(++ " text " " text ")" | "(at " text " " number ")"
number ::= [01] | "(# " text ")"
"""

_TREES = """
root ::= "(S" noun verb ")"
noun ::= "(N" [dh] within? ")"
within ::= "(P" noun ")"
verb ::= "(V" [rs] noun? ")"
"""

_RECORD = {
    "type": "object",
    "properties": {
        "a": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2}, "maxItems": 3},
        "b": {"enum": [1, 12, [1], [1, 2]]},
    },
    "required": ["a"],
    "additionalProperties": False,
}

_PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "enum": ["Alice", "Bob", "Charlie"]},
        "age": {"type": "integer", "minimum": 20, "maximum": 80},
    },
    "additionalProperties": False,
}

_SQL = """
start: "SELECT " columns " FROM " table (" WHERE " column "=" digit)?
columns: column ("," column)?
column: "name" | "age" | "size"
table: "cat" | "city"
digit: "1" | "2"
"""

_QUERIES = (
    "SELECT name FROM cat",
    "SELECT age,name FROM cat WHERE age=2",
    "SELECT size FROM city WHERE name=1",
)

MOLECULES = """
root ::= chain
chain ::= unit ("="? unit)*
unit ::= [CNO] "1"? ("(" "="? chain ")")*
"""
"""Syntax of a part of SMILES."""


def _where(grammar: Constraint, holds: Callable[[str, bool], bool]) -> Constraint:
    return grammar & predicate(
        prefix_ok=lambda text: holds(text, False), complete_ok=lambda text: holds(text, True)
    )


TASKS = (
    FidelityTask(
        "bit-vectors/small",
        lambda: gbnf(_BIT_VECTORS),
        ("(+ x y)", "(~ x)", "(& (~ x) y)", "(~ (+ x 1))", "x"),
        13,
        "Expressions over two bit vectors, one a line:",
        order=2,
    ),
    FidelityTask(
        "bit-vectors/large",
        lambda: gbnf(_BIT_VECTORS),
        ("(& (~ x) (~ y))", "(+ (& x 1) y)", "(~ (+ x (~ y)))"),
        15,
        "Nested expressions over two bit vectors, one a line:",
        order=3,
    ),
    FidelityTask(
        "strings/small",
        lambda: gbnf(_STRINGS),
        ("(++ s '-')", "(at s 0)", "(++ (at s 1) t)", "(at t (# s))", "s"),
        16,
        "Expressions over two strings, one a line:",
        order=2,
    ),
    FidelityTask(
        "strings/large",
        lambda: gbnf(_STRINGS),
        ("(at s (# '-'))", "(++ (at t 0) (++ '-' s))", "(at (++ s t) 1)"),
        24,
        "Nested expressions over two strings, one a line:",
        order=3,
    ),
    FidelityTask(
        "trees/small",
        lambda: gbnf(_TREES),
        ("(S(Nd)(Vs))", "(S(Nd)(Vr(Nh)))", "(S(Nh(P(Nd)))(Vs))"),
        22,
        "Sentences as bracketed trees, one a line:",
        order=2,
    ),
    FidelityTask(
        "trees/large",
        lambda: gbnf(_TREES),
        ("(S(Nh(P(Nd)))(Vr(Nh)))", "(S(Nd(P(Nh(P(Nd)))))(Vs))"),
        32,
        "Sentences with nested phrases as bracketed trees, one a line:",
        order=3,
    ),
    FidelityTask(
        "json/small",
        lambda: json_schema(_RECORD, whitespace="none"),
        ('{"a":[1]}', '{"a":[1,2],"b":12}', '{"a":[],"b":[1,2]}', '{"a":[0]}'),
        22,
        "Records as JSON, one a line:",
        order=3,
    ),
    FidelityTask(
        "json/person",
        lambda: json_schema(_PERSON, whitespace="none"),
        ('{"name":"Alice","age":30}', '{"name":"Bob"}', '{"age":42}', '{"name":"Charlie","age":25}'),
        28,
        "Persons as JSON, one a line:",
        order=3,
    ),
    FidelityTask(
        "patterns/opinion",
        lambda: regex(r" SMC is (!!|%%|##) with LMs"),
        (" SMC is !! with LMs", " SMC is %% with LMs", " SMC is ## with LMs"),
        20,
        "Opinions, one a line:",
        order=3,
        strays=(" SMC is ! with LMs",) * 9,
    ),
    FidelityTask(
        "sql/grammar",
        lambda: lark(_SQL),
        _QUERIES,
        38,
        "Queries, one a line:",
        order=3,
    ),
    FidelityTask(
        "sql/columns",
        lambda: _where(lark(_SQL), has_columns),
        _QUERIES,
        38,
        "Queries, one a line. The table cat has columns name and age, the table city has name and size:",
        order=3,
    ),
    FidelityTask(
        "molecules/small",
        lambda: _where(gbnf(MOLECULES), has_valences),
        ("C(O)N", "C1CC1", "CN=CO", "CC=O"),
        5,
        "Molecules as SMILES, one a line:",
        order=2,
    ),
)
"""All of them, in the order of the tables."""


def select_tasks(names: tuple[str, ...]) -> tuple[FidelityTask, ...]:
    """The tasks of these names, or families; all where none are named.

    Raises:
        InvalidArgument: there is no such task.
    """
    found: list[FidelityTask] = []
    for name in names:
        fitting = [task for task in TASKS if name in (task.name, task.name.split("/")[0])]
        if not fitting:
            raise InvalidArgument(
                f"there is no task {name!r}", action=f"name some of: {', '.join(task.name for task in TASKS)}"
            )
        found += [task for task in fitting if task not in found]
    return tuple(found) or TASKS
