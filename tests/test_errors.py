"""The exception tree: what each error is, says and carries."""

from __future__ import annotations

import contextlib
import copy
import pickle
import re
import sys

import pytest

import constrained
from constrained import errors
from constrained.grammars.errors import ConstrainedError, Problem

EVERY = [getattr(errors, name) for name in errors.__all__ if name != "Problem"]


def example(kind: type[ConstrainedError]) -> ConstrainedError:
    facts = {
        "DoesNotFit": {"needed": 9, "limit": 3},
        "Truncated": {"text": '{"a', "value": {}},
        "RejectedValue": {"text": '{"a": 1}', "value": {"a": 1}},
        "BudgetExhausted": {"diagnostics": {"draws": 5}},
    }
    return kind(
        "it is wrong", Problem("#/a", "for a reason", 1), action="repair it", **facts.get(kind.__name__, {})
    )


@pytest.mark.parametrize("kind", EVERY)
def test_every_error_has_summary_place_reason_and_next_step(kind: type[ConstrainedError]) -> None:
    assert str(example(kind)) == "it is wrong\n  #/a: 1     for a reason\n  -> repair it"


@pytest.mark.parametrize("kind", EVERY)
def test_every_error_survives_pickling_with_what_it_carries(kind: type[ConstrainedError]) -> None:
    error = example(kind)
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is kind
        assert str(copied) == str(error)
        assert vars(copied) == vars(error)


def test_a_problem_without_a_value_has_none_after_pickling() -> None:
    problem = pickle.loads(pickle.dumps(Problem("#/a", "for a reason")))
    assert (problem, str(problem)) == (Problem("#/a", "for a reason"), "#/a     for a reason")


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert errors.__doc__ is not None
    drawn = re.findall(r"^([ │├└─]*)(\w+)(?: \((\w+)\))?  +\S", errors.__doc__, re.MULTILINE)
    assert {name for _, name, _ in drawn} == {kind.__name__ for kind in EVERY}
    parents: list[type] = []
    for indent, name, builtin in drawn:
        depth = (len(indent) - 4) // 4
        kind = getattr(errors, name)
        assert issubclass(
            kind, {"ValueError": ValueError, "RuntimeError": RuntimeError}.get(builtin, Exception)
        )
        del parents[depth:]
        if parents:
            assert parents[-1] in kind.__mro__[1:]
        parents.append(kind)


@pytest.mark.parametrize("kind", EVERY)
def test_the_public_base_class_catches_every_error(kind: type[ConstrainedError]) -> None:
    assert hasattr(constrained, kind.__name__)
    with pytest.raises(constrained.ConstrainedError, match="it is wrong"):
        raise example(kind)


def test_constraint_errors_are_those_of_grammars() -> None:
    import constrained.grammars.errors

    for name in ("ConstraintError", "UnsupportedConstraint", "InvalidConstraint", "ConstraintTooLarge"):
        assert getattr(errors, name) is getattr(constrained.grammars.errors, name)


def test_a_long_value_is_shortened() -> None:
    line = str(Problem("#/enum", "too many", list(range(1000))))
    assert len(line) < 120
    assert "..." in line


@pytest.mark.parametrize(
    ("enabled", "asked", "refused"), [(False, "0", True), (False, None, False), (True, "0", False)]
)
def test_python_without_a_gil_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, enabled: bool, asked: str | None, refused: bool
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: enabled, raising=False)
    monkeypatch.setattr(sys, "_xoptions", {} if asked is None else {"gil": asked})
    monkeypatch.delenv("PYTHON_GIL", raising=False)
    with pytest.raises(ImportError, match="PYTHON_GIL=0") if refused else contextlib.nullcontext():
        constrained._require_gil()
