"""Generators for values from one document."""

from __future__ import annotations

import copy
from typing import Any

from constrained.automaton import compile
from constrained.decoding import Generator
from constrained.decoding.speculation import DraftScheduler


def bound_generator(
    generator: Generator[Any], document: str, *, require_grounding: bool = False
) -> Generator[Any]:
    """A generator like another one, with its constraint bound to a document; the same one if nothing is to be bound.

    The document's automaton is not kept in the cache of automata, as another document needs another one. What does not
    depend on the document (terminals, their tokens) is shared through the vocabulary.

    Args:
        generator: of the constraint without a document.
        document: the text.
        require_grounding: see `Constraint.bind`.

    Raises:
        ConstraintError: no value of the document satisfies the constraint.
        ConstraintTooLarge: the document is too long.
    """
    constraint = generator.constraint
    if not constraint.needs_document and not require_grounding:
        return generator
    bound = copy.copy(generator)
    bound.constraint = constraint.bind(document, require_grounding=require_grounding)
    bound.automaton = compile(bound.constraint, generator.model.vocabulary)
    if generator._drafting is not None:
        bound._drafting = DraftScheduler(
            generator._drafting.speculation,
            bound.automaton,
            bound.constraint,
            chains=generator.model.no_trees is not None,
        )
    return bound
