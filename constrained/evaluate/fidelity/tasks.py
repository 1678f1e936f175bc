"""Tasks whose distributions can be enumerated: small grammars of the three kinds of grammar-aligned decoding, and JSON.

The kinds are those of the benchmarks in which masking was found to distort models: expressions over bit vectors and
over strings (SyGuS), and bracketed constituency trees. Grammars, texts and prompts are our own. Each task has an
n-gram model that has read a few texts of the language: it writes what looks right from near and forgets what was
opened, so it leaves the language often. Its tokens are characters: then every text is one sequence of tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from constrained.constraint import Constraint, gbnf, json_schema
from constrained.errors import InvalidArgument
from constrained.testing.ngrams import NGramModel
from constrained.vocabulary import Vocabulary


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
    """

    name: str
    make_constraint: Callable[[], Constraint]
    examples: tuple[str, ...]
    limit: int
    request: str
    order: int

    @cached_property
    def constraint(self) -> Constraint:
        """The language."""
        return self.make_constraint()

    def model(self) -> NGramModel:
        """Its n-gram model, made afresh."""
        letters = sorted({letter for example in self.examples for letter in example})
        vocabulary = Vocabulary.from_bytes([*(letter.encode() for letter in letters), b""], [len(letters)])
        texts = [[letters.index(letter) for letter in example] for example in self.examples]
        return NGramModel(vocabulary, texts, order=self.order)

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
