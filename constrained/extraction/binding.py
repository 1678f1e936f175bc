"""Generators for values from one document."""

from __future__ import annotations

import copy
from typing import Any

from constrained.automaton import compile
from constrained.constraint import Constraint
from constrained.decoding import Generator
from constrained.decoding.speculation import DraftScheduler
from constrained.errors import Problem, UnsatisfiableConstraint
from constrained.grammars.json_schema.view import target_of


def bound_generator(
    generator: Generator[Any],
    document: str,
    *,
    require_grounding: bool = False,
    name: str | int | None = None,
) -> Generator[Any]:
    """A generator like another one, with its constraint bound to a document; the same one if nothing is to be bound.

    The document's automaton is not kept in the cache of automata, as another document needs another one. What does not
    depend on the document (terminals, their tokens) is shared through the vocabulary.

    Args:
        generator: of the constraint without a document.
        document: the text.
        require_grounding: see `Constraint.bind`.
        name: of the document, for errors.

    Raises:
        ConstraintError: no value of the document satisfies the constraint.
        ConstraintTooLarge: the document is too long.
    """
    constraint = generator.constraint
    if not constraint.needs_document and not require_grounding:
        return generator
    try:
        return compiled_anew(generator, constraint.bind(document, require_grounding=require_grounding))
    except UnsatisfiableConstraint as error:
        if not require_grounding or not error.problems:
            raise
        raise _not_stated(constraint, error.problems[0].place, name) from error


def compiled_anew(generator: Generator[Any], constraint: Constraint) -> Generator[Any]:
    """A generator like another one, of another constraint whose automaton is not kept."""
    made = copy.copy(generator)
    made.constraint = constraint
    made.automaton = compile(constraint, generator.model.vocabulary)
    if generator._drafting is not None:
        made._drafting = DraftScheduler(
            generator._drafting.speculation,
            made.automaton,
            constraint,
            chains=generator.model.no_trees is not None,
        )
    return made


def _not_stated(constraint: Constraint, place: str, name: str | int | None) -> UnsatisfiableConstraint:
    """The error for a value that must be there, and that a document does not state.

    Args:
        constraint: without a document.
        place: of its schema, as errors name it.
        name: of the document.
    """
    pointer = place.partition(" & ")[0].removesuffix("/allOf/0")
    schema = target_of(constraint.local_schema, pointer)
    found = schema if isinstance(schema, dict) else {}
    kind = "number" if found.get("type") in ("integer", "number") else found.get("format", "such text")
    member = "" if pointer == "#" else f" for {pointer.rpartition('/')[2]!r}"
    document = "the document" if name is None else f"document {name!r}"
    return UnsatisfiableConstraint(
        f"{document} states no {kind}{member}",
        Problem(pointer, f"must have a {kind} that stands in the document"),
        action="make it optional (`... | None = None`), or leave require_grounding out",
    )
