"""Constraints by a user's Python function, alone or in conjunction with a grammar."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from constrained.constraint.base import Constraint, digest
from constrained.constraint.coerce import as_constraint
from constrained.constraint.text import regex
from constrained.errors import InvalidConstraint, Problem, UnsupportedConstraint
from constrained.predicates import CheckKind, Predicate

if TYPE_CHECKING:
    from constrained.grammars.ir import Grammar
    from constrained.grammars.json_schema import KeywordReport
    from constrained.grammars.notation.lark.captures import CaptureGrammar


@dataclass(frozen=True, eq=False, repr=False)
class PredicateConstraint(Constraint):
    """The completions of another constraint that all predicates accept.

    Attributes:
        inner: defines the grammar and the values.
        predicates: the predicates; all of them have to accept.
    """

    inner: Constraint
    predicates: tuple[Predicate, ...]

    @property
    def is_json(self) -> bool:  # type: ignore[override]
        """See `Constraint`; taken from `inner`."""
        return self.inner.is_json

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """See `Constraint`; taken from `inner`."""
        return self.inner.special_tokens

    @property
    def capture_grammar(self) -> CaptureGrammar | None:
        """See `Constraint`; taken from `inner`."""
        return self.inner.capture_grammar

    @property
    def needs_document(self) -> bool:
        """See `Constraint`; taken from `inner`."""
        return self.inner.needs_document

    def bind(self, document: str, *, require_grounding: bool = False) -> PredicateConstraint:
        """See `Constraint`; binds `inner`."""
        return replace(self, inner=self.inner.bind(document, require_grounding=require_grounding))

    def without_document(self) -> PredicateConstraint:
        """See `Constraint`; of `inner`."""
        return replace(self, inner=self.inner.without_document())

    @cached_property
    def key(self) -> str:
        """Digest of the inner key and the key of each predicate, which is unique to it."""
        return digest("predicate", self.inner.key, *(predicate.key for predicate in self.predicates))

    @property
    def schema(self) -> Any:
        """See `Constraint`; taken from `inner`."""
        return self.inner.schema

    @property
    def grammar(self) -> Grammar:
        """Not available: a predicate cannot be expressed as a grammar.

        Raises:
            UnsupportedConstraint: always.
        """
        # Returning the inner grammar would silently drop the predicates.
        raise UnsupportedConstraint(
            "predicates cannot be nested inside another constraint",
            [Problem(predicate.name, "is a predicate") for predicate in self.predicates],
            action="apply it to the whole constraint: tag(...) & predicate(...)",
        )

    @property
    def report(self) -> KeywordReport:
        """See `Constraint`; taken from `inner`."""
        return self.inner.report

    def parse(self, text: str) -> Any:
        """Parses with `inner`."""
        return self.inner.parse(text)

    def render(self) -> str:
        """The inner constraint and the names of the predicates."""
        return f"{self.inner.render()}, checked by {' and '.join(p.name for p in self.predicates)}"

    def __and__(self, other: Any) -> PredicateConstraint:
        """The conjunction with another constraint, or with anything that `as_constraint` takes.

        Raises:
            UnsupportedConstraint: both contain a grammar.
            ConstraintError: `as_constraint` refuses `other`.
        """
        return intersect_constraints(self, as_constraint(other))

    __rand__ = __and__  # a grammar or type on the left does not define `&`

    def __repr__(self) -> str:
        return " & ".join([repr(self.inner), *(f"predicate({p.name})" for p in self.predicates)])


def predicate(
    fn: Callable[[Any], Any] | None = None,
    *,
    prefix_ok: Callable[[Any], Any] | None = None,
    complete_ok: Callable[[Any], Any] | None = None,
    on: type[str] | type[bytes] = str,
    batch: bool = False,
    workers: int = 0,
    timeout: float | None = None,
    memory_limit: int = 64 << 20,
) -> PredicateConstraint:
    """Constrains completions by a Python function, such as a parser, a type checker or a chemistry toolkit.

    ``&`` joins it with a grammar or with other predicates: ``json_schema(schema) & predicate(f)``. The grammar is checked
    first and defines the value. Alone, a predicate allows any text that it accepts, and the text is the value.

    With samplers that need no masks (``"awrs"``, the default here) a function is called for each chosen token that the
    grammar allows, not for the whole vocabulary. Results are cached, so a function must be deterministic.

    Args:
        fn: takes the completion so far and returns whether it is acceptable, both as a prefix and as a whole.
        prefix_ok: takes a prefix and returns whether it can be completed. True for a dead end costs backtracking; False is
            final. Without it every prefix is accepted.
        complete_ok: takes a whole completion and returns whether it is acceptable. Without it `prefix_ok` decides.
        on: argument type of the functions: `str` (an incomplete character is held back) or `bytes`.
        batch: the functions take a list and return a list of results.
        workers: number of worker processes, which need picklable functions; 0 calls them in this process.
        timeout: seconds that a call may take before its worker is killed and replaced. Starts one worker if
            `workers` is 0.
        memory_limit: bytes of cached results.

    Raises:
        InvalidConstraint: no function was passed, an argument is not a function, a function for workers cannot be
            pickled, or a setting is out of range.
    """
    arguments = {"fn": fn, "prefix_ok": prefix_ok, "complete_ok": complete_ok}
    functions = {name: function for name, function in arguments.items() if function is not None}
    if not functions or (fn is not None and len(functions) > 1):
        raise InvalidConstraint(
            f"a predicate needs one function or prefix_ok and complete_ok, not {' and '.join(functions) or 'no function'}",
            action="pass one function, or prefix_ok and complete_ok",
        )
    for name, function in functions.items():
        if not callable(function):
            raise InvalidConstraint(
                f"{name} of a predicate is a {type(function).__name__}", action="pass a function"
            )
    if on not in (str, bytes):
        raise InvalidConstraint(f"a predicate cannot take {on!r}", action="pass on=str or on=bytes")
    for name, number, least in (("workers", workers, 0), ("memory_limit", memory_limit, 0)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise InvalidConstraint(
                f"{name} of a predicate is {number!r}", action=f"pass a whole number >= {least}"
            )
    if timeout is not None and not (
        isinstance(timeout, int | float) and math.isfinite(timeout) and timeout > 0
    ):
        raise InvalidConstraint(
            f"timeout of a predicate is {timeout!r}", action="pass seconds above 0, or None"
        )
    if timeout is not None:
        workers = max(workers, 1)
    if workers:
        for name, function in functions.items():
            _check_picklable(name, function)
    answering: dict[CheckKind, Callable[[Any], Any]] = {}
    if (beginnings := fn or prefix_ok) is not None:
        answering["prefix"] = beginnings
    if complete_ok is not None:
        answering["complete"] = complete_ok
    box = Predicate(
        name=" and ".join(_name(function) for function in functions.values()),
        functions=answering,
        on=on,
        batch=bool(batch),
        workers=workers,
        timeout=timeout,
        memory_limit=memory_limit,
    )
    return PredicateConstraint(_ANY_TEXT, (box,))


def intersect_constraints(one: PredicateConstraint, other: Constraint) -> PredicateConstraint:
    """The conjunction ``one & other``; equal predicates are kept once.

    Raises:
        UnsupportedConstraint: both contain a grammar.
    """
    parts: list[Constraint] = [one, other]
    predicates = tuple(p for part in parts if isinstance(part, PredicateConstraint) for p in part.predicates)
    inner = [part.inner if isinstance(part, PredicateConstraint) else part for part in parts]
    grammars = [part for part in inner if part is not _ANY_TEXT] or [_ANY_TEXT]
    if len(grammars) > 1:
        raise UnsupportedConstraint(
            "two grammars cannot be intersected",
            [Problem(part.render(), "is a grammar") for part in grammars],
            action="write one grammar, or check one of them with a predicate",
        )
    distinct = {predicate.key: predicate for predicate in predicates}
    return PredicateConstraint(grammars[0], tuple(distinct.values()))


_ANY_TEXT = regex(r"(?s:.*)")


def _name(function: Callable[[Any], Any]) -> str:
    name = getattr(function, "__qualname__", None) or getattr(type(function), "__qualname__", "a function")
    return str(name).replace("<locals>.", "")


def _check_picklable(name: str, function: Callable[[Any], Any]) -> None:
    try:
        pickle.dumps(function)
    except Exception as error:  # whatever the function's own __reduce__ raises, too
        raise InvalidConstraint(
            f"{name} of a predicate cannot be sent to a worker",
            Problem(_name(function), f"cannot be pickled: {error}"),
            action="define it at the top of a module, or call it in this process: workers=0 without a timeout",
        ) from error
