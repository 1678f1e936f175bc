"""Members of an object with obligations, and which of them they discharge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from constrained.grammars import ir


class DeclaredMember(NamedTuple):
    """A declared property.

    Attributes:
        name: its key.
        required: whether it must be present.
        discharges: obligations discharged by its presence (bitmask).
        may_discharge: further obligations that its value may discharge.
        discharges_if_absent: obligations discharged by its absence.
        value_for: the expression of its values that discharge a set of `may_discharge`.
        implied_by_failure: by obligation that a value does not discharge, those that it then discharges.
        implied_by_discharge: by obligation that a value discharges, all that it then discharges.
    """

    name: str
    required: bool
    discharges: int
    may_discharge: int
    discharges_if_absent: int
    value_for: Callable[[int], ir.Expr]
    implied_by_failure: Mapping[int, int]
    implied_by_discharge: Mapping[int, int]


class UndeclaredMember(NamedTuple):
    """A class of undeclared keys.

    Attributes:
        keys: the keys.
        discharges: obligations discharged by every member with such a key.
        may_discharge: further obligations that the last member may discharge; a repeated key would replace its value.
        value_for: the expression of values that discharge a set of `may_discharge`.
        implied_by_failure, implied_by_discharge: as for `DeclaredMember`.
    """

    keys: ir.Regex
    discharges: int
    may_discharge: int
    value_for: Callable[[int], ir.Expr]
    implied_by_failure: Mapping[int, int]
    implied_by_discharge: Mapping[int, int]
