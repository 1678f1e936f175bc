"""Constraints: the set of completions that a user allows, and the Python value of a completion.

A constraint knows the grammar of its completions and parses a completion into a value. It must not know vocabularies,
models or samplers. The constructors check their arguments; whether a schema or pattern can be enforced is decided when
`grammar` is first used, at the latest by `compile`.

    base.py              the base class
    json.py              JSON Schemas and Python types
    text.py              a regular expression, one of several strings, a substring of a document, GBNF and EBNF grammars
    lark_grammar.py      Lark grammars
    free_text.py         free text around structured parts
    structural/          structural tags, as XGrammar, vLLM and SGLang pass them
    predicate.py         a Python function that accepts or rejects, alone or with one of the others
    coerce.py            `as_constraint`: types, schemas and patterns as constraints
    generated.py         the constraint of what a model writes for a type or a schema
    post_validation.py   validators of keywords that no grammar enforces
    json_text.py         parsing JSON without losing digits or duplicate names
"""

from __future__ import annotations

from constrained.constraint.base import Constraint
from constrained.constraint.coerce import as_constraint
from constrained.constraint.free_text import Section, ThinkingResult, after, tag, tags
from constrained.constraint.generated import fields
from constrained.constraint.json import json_schema, python_type
from constrained.constraint.lark_grammar import lark
from constrained.constraint.predicate import PredicateConstraint, predicate
from constrained.constraint.structural import structural_tag
from constrained.constraint.text import choice, ebnf, gbnf, regex, substring_of
from constrained.grammars.json_schema.text.punctuation import Whitespace
from constrained.grammars.types.contents import Span

__all__ = [
    "Constraint",
    "PredicateConstraint",
    "Section",
    "Span",
    "ThinkingResult",
    "Whitespace",
    "after",
    "as_constraint",
    "choice",
    "ebnf",
    "fields",
    "gbnf",
    "json_schema",
    "lark",
    "predicate",
    "python_type",
    "regex",
    "structural_tag",
    "substring_of",
    "tag",
    "tags",
]
